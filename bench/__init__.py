"""Measurements: one script a claim, `python -m bench.NAME [--quick] [--json]`; `python -m bench`
runs them all."""
