"""The other papers of the family, a folder each behind the contract of rods/extension.py. Nothing imports this package:
the core loads what it finds here, by name (docs/extending.md). A folder can be taken out."""
