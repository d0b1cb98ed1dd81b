"""The author whose stages are language models behind an endpoint (004 §3.3, Appendices C–G; docs/agents.md)."""
