"""House rules: desk behind rules that no document tells."""
