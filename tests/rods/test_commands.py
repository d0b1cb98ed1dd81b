"""What the four command lines share: exit codes, and one line on standard error for every
mistake."""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel
from pydantic_core import SchemaError

from rods import commands
from rods.errors import DeadlineError, RefusedError, UserError
from rods.signals import Interrupted


def answer(error: BaseException | None, *arguments: str) -> int:
    """Runs a program of one command that raises `error`."""
    app = commands.application("program", "A program.")

    def command(run: Path, /, *, steps: int = 0) -> int:
        if error is not None:
            raise error
        return steps

    app.default(command)
    return commands.run(app, arguments or ("runs/x",))


def test_a_command_s_own_code_is_the_program_s() -> None:
    assert answer(None) == 0
    assert answer(None, "runs/x", "--steps", "5") == 5


def test_of_an_option_given_twice_the_last_counts() -> None:
    assert answer(None, "runs/x", "--steps", "5", "--steps", "4") == 4


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("is wrong", where="a.toml", remedy="mend it"), 2, "a.toml: is wrong → mend it"),
        (RefusedError("is owned", where="runs/x"), 3, "runs/x: is owned"),
        (DeadlineError("too late"), 4, "too late"),
        (
            OSError(errno.ENOSPC, "No space left on device", "log.jsonl"),
            2,
            "log.jsonl: the disk is full",
        ),
        (OSError(errno.EIO, "Input/output error"), 1, "runs/x: Input/output error"),
        (
            ExceptionGroup("tasks", [ExceptionGroup("inner", [RefusedError("is owned")])]),
            3,
            "is owned",
        ),
        (Interrupted(2), 130, "interrupted"),
    ],
)
def test_what_goes_wrong_is_one_line_and_its_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(error) == code
    line = capsys.readouterr().err
    assert line.startswith(f"program: {said}") and line.count("\n") == 1


class Field:
    def __set_name__(self, owner: type, name: str) -> None:
        raise Interrupted(15)


class Value(Enum):
    ONE = 1

    def __repr__(self) -> str:
        raise Interrupted(15)


def make_class() -> None:
    class Made:
        field = Field()


def make_model() -> None:
    class Made(BaseModel):
        field: Literal[Value.ONE]


@pytest.mark.parametrize("make", [make_class, make_model])
def test_a_signal_while_a_class_or_a_model_is_made_is_a_signal(
    make: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((RuntimeError, SchemaError)):
        make()
    app = commands.application("program", "A program.")
    app.default(make)
    assert commands.run(app, ()) == 143
    assert capsys.readouterr().err == "program: interrupted\n"
    with pytest.raises(RuntimeError, match="a bug"):
        answer(RuntimeError("a bug"))


@pytest.mark.parametrize("arguments", [["--loud"], ["a", "b"], ["a", "--steps", "many"]])
def test_a_wrong_command_line_names_the_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(None, *arguments) == 2
    line = capsys.readouterr().err
    assert line.startswith("program: ") and "`program --help`" in line and line.count("\n") == 1


def test_a_bug_is_no_message() -> None:
    with pytest.raises(ZeroDivisionError):
        answer(ZeroDivisionError())
    with pytest.raises(ExceptionGroup):
        answer(ExceptionGroup("tasks", [ZeroDivisionError()]))
