"""The procedural author computes on a cluster of Ray (docs/scale.md)."""
