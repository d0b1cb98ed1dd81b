"""Python's syntax is read whatever other threads read."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from rods.calls import Call, parse_python_call
from rods.syntax import TRIES, parse


def test_what_another_thread_has_disturbed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ast.parse
    left = [3]

    def disturbed(*given: Any, **named: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise SystemError("AST constructor recursion depth mismatch (before=60, after=73)")
        return read(*given, **named)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert parse_python_call("move(a=[1, 2], b='x')", {}) == Call("move", {"a": [1, 2], "b": "x"})
    left[0] = TRIES + 1
    with pytest.raises(SystemError):
        parse("1", mode="eval")
    with pytest.raises(SyntaxError):
        parse("1 +", mode="eval")
