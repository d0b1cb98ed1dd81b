"""τ²-bench: a policy serves customers whom a model plays, by a domain's policy and tools."""
