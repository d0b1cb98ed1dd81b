"""Stands in for a language model, by rule: `python -m bench.stand_ins` (bench.stand_ins.model)."""
