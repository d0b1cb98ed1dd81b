"""Python's syntax, read in any thread."""

import ast
from typing import Any

TRIES = 50


def parse(text: str, name: str = "<unknown>", mode: str = "exec") -> Any:
    """`ast.parse(text, name, mode)`, and raises as that does. CPython 3.11 counts how deep a tree
    is in one place for all threads, and ends in a SystemError where another thread has made one
    meanwhile: such a text is read again."""
    for _ in range(TRIES):
        try:
            return ast.parse(text, name, mode)
        except SystemError:
            continue
    return ast.parse(text, name, mode)
