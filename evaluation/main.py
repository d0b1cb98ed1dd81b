"""`rods-eval`: a policy on BFCL's multi-turn tasks, with the official protocol and the official verdict; or on any
environment's.

    rods-eval run FOLDER --url http://host:8000/v1 --model NAME      the policy behind an endpoint
    rods-eval run FOLDER --weights MODEL | --run RUN [--step N]      local weights, or a run's checkpoint
    rods-eval run FOLDER --recorded RESULTS                          outputs that exist: BFCL's results, our traces
    rods-eval run FOLDER --tasks FILE …                              tasks of any environment
    rods-eval compare BEFORE AFTER                                   two policies on the same tasks, in pairs
    rods-eval report FOLDER                                          the scores of what is there
    rods-eval check FOLDER [--wheel FILE]                            BFCL's own scorer over the same outputs

Exit codes are those of `rods.errors`: 0 done, 1 a check found a difference (or recorded outputs lack tasks), 2 bad
input, 3 refused (other settings, other data), 5 incomplete: a budget, an endpoint or a signal stopped it, and the same
command goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import App, Parameter

from evaluation import report, running
from evaluation.sources import Options
from rods import commands
from rods.commands import Json
from rods.errors import EXIT_FAILED, EXIT_OK, plain
from rods.signals import Interrupted, ignore

Folder = Annotated[Path, Parameter(help="the evaluation's folder")]
DEFAULTS = Options()


def main() -> None:
    """The console script, behind evaluation/__main__.py. Exits with the code of rods.errors."""
    code = run(sys.argv[1:])
    ignore()
    raise SystemExit(code)


def run(arguments: list[str]) -> int:
    """One verb; returns the exit code (rods.commands.run). Without arguments: the help."""
    return commands.run(application(), arguments or ["--help"], _interrupted)


def application() -> App:
    app = commands.application("rods-eval", "A policy on BFCL's multi-turn tasks, or on any environment's.")
    app.command(_run, name="run", help="Run or go on with an evaluation, and print its scores.")
    app.command(_report, name="report", help="Print the scores of what is recorded.")
    app.command(_compare, name="compare", help="Pair two evaluations of the same tasks, task by task.")
    app.command(_check, name="check", help="Compare with the verdicts of BFCL's own scorer, in a process of its own.")
    return app


def _interrupted(stopped: Interrupted) -> tuple[str, int]:
    return "interrupted; the same command goes on with the episodes that are left", 128 + stopped.number


def _run(
    folder: Folder, /, *, options: Annotated[Options, Parameter(name="*")] = DEFAULTS, as_json: Json = False
) -> int:
    code = running.run(folder, options)
    _print(report.report(folder), as_json)
    return code


def _report(folder: Folder, /, *, as_json: Json = False) -> None:
    report.write_results(folder)
    _print(report.report(folder), as_json)


def _compare(
    before: Annotated[Path, Parameter(help="an evaluation's folder")],
    after: Annotated[Path, Parameter(help="another's, of the same tasks")],
    /,
    *,
    as_json: Json = False,
) -> None:
    found = report.compare(before, after)
    print(orjson.dumps(found).decode() if as_json else "\n".join(report.compared_lines(found)))


def _print(found: dict[str, Any], as_json: bool) -> None:
    print(orjson.dumps(found).decode() if as_json else plain("\n".join(report.lines(found))), flush=True)


def _check(
    folder: Folder,
    /,
    *,
    wheel: Annotated[Path | None, Parameter(help="the wheel of BFCL to ask; default: the pinned")] = None,
    as_json: Json = False,
) -> int:
    found = report.check(folder, wheel)
    if as_json:
        print(orjson.dumps(found).decode())
    else:
        print(
            f"{found['equal']} of {found['episodes']} verdicts are those of the scorer of {found['data']['package']} "
            f"{found['data']['version']} ({found['valid']} valid)"
        )
        for name, sample, ours in found["different"]:
            print(f"  DIFFERS {name} (sample {sample}): ours says {'valid' if ours else 'invalid'}")
    return EXIT_OK if found["equal"] == found["episodes"] else EXIT_FAILED
