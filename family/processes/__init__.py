"""The procedural author computes in processes beside the daemon (docs/scale.md)."""
