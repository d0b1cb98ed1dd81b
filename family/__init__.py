"""Features behind the contract of rods/extension.py, a folder each: the other papers of the family,
and verbs. Nothing imports this package: the core loads what it finds here, by name
(docs/extending.md). A folder can be taken out."""

if __name__ != "rods.family":
    raise ImportError(f"{__name__} is rods.family: import it and its modules by that name")
