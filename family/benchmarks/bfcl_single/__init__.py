"""BFCL's single turns: one question, documents of functions, and the calls that answer it, compared
as text."""
