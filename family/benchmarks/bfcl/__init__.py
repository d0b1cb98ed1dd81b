"""BFCL's multi-turn benchmark with its own protocol and verdict: what `rods-eval` runs, records and
scores."""
