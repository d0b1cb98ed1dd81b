"""Stands in for a language model, by rule: `python -m rods.daemon.stand_ins`
(rods.daemon.stand_ins.model)."""

NAME = "stub-no-model"  # stands in the records of a run as what wrote its variants
