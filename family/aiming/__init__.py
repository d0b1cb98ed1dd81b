"""Aimed synthesis: a pick says whether its variants are harder than their seed, easier, or like it
(docs/aiming.md)."""
