"""What the four command lines share: parsing by cyclopts, one line a mistake, and the exit codes of
`rods.errors`. A program builds its `App` with `application`, registers its commands and answers
with `run`."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import App, CycloptsError, Parameter
from cyclopts.types import UInt16

import rods
from rods.errors import EXIT_OK, EXIT_REQUEUE, EXIT_USER, RodsError, UserError, complain, disk_error
from rods.signals import Interrupted

Json = Annotated[bool, Parameter(name="--json", help="Print one JSON object instead of text.")]
Port = Annotated[UInt16, Parameter(help="The port; 0 takes a free one.")]

# Of every option: of one given twice the last counts, so that a script can add to what it was
# given; lists grow; none has a negative form. Verbs are registered with it, since docs and
# completion ask them alone.
USUAL = Parameter(allow_repeating=True, negative=())
LIBRARIES = ("torch", "trl", "transformers", "accelerate")  # that train weights
CHECKOUT = Path(__file__).resolve().parents[1]  # where this is one
BROKEN_PIPE = 141  # 128 + SIGPIPE, as shells have it
_Error = TypeVar("_Error", bound=BaseException)


def application(name: str, text: str) -> App:
    """The command line of the program `name`, called so or as `rods NAME` hands over; `text` begins
    its help."""
    called = sys.argv[0] if sys.argv[0] == name.replace("-", " ") else name
    app = App(
        name=called,
        help=text,
        help_format="plaintext",
        version=rods.__version__,
        default_parameter=USUAL,
    )
    app.register_install_completion_command(
        help="Install tab completion for the shell in use, in its startup file."
    )
    for flag in ("--help", "--version", "--install-completion"):
        app[flag].group = ("Options",)
    return app


def run(
    app: App, arguments: Sequence[str], interrupted: str = "interrupted", requeue: bool = False
) -> int:
    """Parses `arguments`, calls the command that they name, and returns the exit code. A wrong
    command line, a RodsError and an OSError, alone or in an exception group, are one line on
    standard error each; so is Interrupted, `interrupted` and the signal's code, or (`requeue`)
    EXIT_REQUEUE. Anything else is a bug and passes."""
    program = app.name[0]
    code = EXIT_OK
    try:
        _check_names(arguments)
        result = _called(app, list(arguments))
        sys.stdout.flush()
        code = result if isinstance(result, int) else EXIT_OK
    except* CycloptsError as group:
        text = " ".join(str(_first(group)).split())
        remedy = f"`{program} --help` lists verbs and options"
        if "--dry-run" in arguments:
            remedy = "`rods plan CONFIG` says what a run would do, and starts nothing"
        code = _said(program, f"{text} → {remedy}", EXIT_USER)
    except* RodsError as group:
        error = _first(group)
        code = _said(program, str(error), error.exit_code)
    except* Interrupted as group:
        stopped = _first(group)
        code = _said(
            program,
            stopped.why or interrupted,
            EXIT_REQUEUE if requeue or stopped.why else 128 + stopped.number,
        )
    except* BrokenPipeError:  # the reader of our output has left (`rods status … | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = BROKEN_PIPE
    except* OSError as group:
        refused = _first(group)
        fault = disk_error(refused, Path(refused.filename or " ".join(arguments) or "."))
        code = _said(program, str(fault), fault.exit_code)
    return code


def _called(app: App, arguments: list[str]) -> object:
    """What the command returns that `arguments` name. A signal stays one where it was turned into
    another error, as Python 3.11 and pydantic do with what interrupts the making of a class."""
    Interrupted.latest = None
    try:
        return app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    # these are told, also when a signal came before them
    except (CycloptsError, RodsError, OSError, ExceptionGroup):
        raise
    except Exception:
        if Interrupted.latest is not None:
            raise Interrupted.latest from None
        raise


def _check_names(arguments: Sequence[str]) -> None:
    """Raises UserError where an argument or the working folder is not UTF-8, as files and folders
    may be."""
    for name in (*arguments, str(Path.cwd())):
        try:
            name.encode()
        except UnicodeEncodeError as error:
            remedy = "give the file or folder a name in UTF-8 (`mv` does it)"
            raise UserError(
                "the name is not UTF-8", where=ascii(os.fsencode(name)), remedy=remedy
            ) from error


def _first(group: BaseExceptionGroup[_Error]) -> _Error:
    error: _Error | BaseExceptionGroup[_Error] = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _said(program: str, text: str, code: int) -> int:
    complain(program, text)
    return code


def installing() -> str:
    """The command that installs `LIBRARIES`: a checkout has its own, an installed package asks
    pip."""
    return (
        "make demo" if (CHECKOUT / "Makefile").exists() else "pip install '.[train]' in the clone"
    )


def check_libraries(kind: str) -> None:
    """Raises UserError where what trains a policy of this kind is not installed, or is another
    program."""
    if kind == "external":
        remedy = (
            "start it, and `rods-daemon RUN` beside it (rods.open_training, or `rods trainer "
            "observe`: docs/api.md)"
        )
        raise UserError(
            "another program trains the policy of this run", where="policy.kind", remedy=remedy
        )
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing and kind != "simulated":
        what = f'"{kind}" has weights, and {missing[0]}, which trains them, is not installed'
        raise UserError(
            what,
            where="policy.kind",
            remedy=f'`{installing()}` sets it up, or take kind = "simulated"',
        )
