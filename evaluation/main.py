"""`rods-eval`: a policy on BFCL's multi-turn tasks, with the official protocol and the official verdict.

    rods-eval run FOLDER --url http://host:8000/v1 --model NAME      the policy behind an endpoint
    rods-eval run FOLDER --weights MODEL | --run RUN [--step N]      local weights, or a run's checkpoint
    rods-eval run FOLDER --recorded RESULTS                          outputs that exist: BFCL's results, our traces
    rods-eval report FOLDER                                          the scores of what is there
    rods-eval check FOLDER [--wheel FILE]                            BFCL's own scorer over the same outputs

Exit codes are those of `rods.errors`: 0 done, 1 a check found a difference (or recorded outputs lack tasks), 2 bad
input, 3 refused (other settings, other data), 5 incomplete: a budget, an endpoint or a signal stopped it, and the same
command goes on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, get_args

import orjson

from evaluation import checking, report, running
from evaluation.bfcl.decoding import Form
from evaluation.bfcl.dialects import Documents
from evaluation.settings import COLDEST, PARTS, Protocol
from rods.errors import EXIT_FAILED, EXIT_OK, RodsError, complain
from rods.signals import Interrupted, ignore
from rods.tasks import TASK_TYPES


def main() -> None:
    """The console script, behind evaluation/__main__.py. Exits with the code of rods.errors."""
    code = run(sys.argv[1:])
    ignore()
    raise SystemExit(code)


def run(arguments: list[str]) -> int:
    """One verb; returns the exit code. A person's mistake is one line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        if options.verb == "run":
            code = running.run(options.folder, options)
            _print(report.report(options.folder), options.as_json)
            return code
        if options.verb == "report":
            report.write_results(options.folder)
            _print(report.report(options.folder), options.as_json)
            return EXIT_OK
        return _check(options)
    except RodsError as error:
        complain("rods-eval", str(error))
        return error.exit_code
    except (KeyboardInterrupt, Interrupted):
        complain("rods-eval", "interrupted; the same command goes on with the episodes that are left")
        return 130


def _print(found: dict[str, Any], as_json: bool) -> None:
    print(orjson.dumps(found).decode() if as_json else "\n".join(report.lines(found)), flush=True)


def _check(options: argparse.Namespace) -> int:
    found = checking.check(options.folder, options.wheel)
    if options.as_json:
        print(orjson.dumps(found).decode())
    else:
        print(
            f"{found['equal']} of {found['episodes']} verdicts are those of the scorer of {found['data']['package']} "
            f"{found['data']['version']} ({found['valid']} valid)"
        )
        for name, sample, ours in found["different"]:
            print(f"  DIFFERS {name} (sample {sample}): ours says {'valid' if ours else 'invalid'}")
    return EXIT_OK if found["equal"] == found["episodes"] else EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rods-eval", description="A policy on BFCL's multi-turn tasks.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, text in (
        ("run", "Run or go on with an evaluation, and print its scores."),
        ("report", "Print the scores of what is recorded."),
        ("check", "Compare with the verdicts of BFCL's own scorer, in a process of its own."),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.add_argument("folder", type=Path, metavar="FOLDER", help="the evaluation's folder")
        verb.add_argument("--json", action="store_true", dest="as_json", help="one JSON object instead of text")
        if name == "check":
            verb.add_argument(
                "--wheel", type=Path, metavar="FILE", help="the wheel of BFCL to ask; default: the pinned"
            )
        if name == "run":
            _add_run(verb)
    return parser


def _add_run(verb: argparse.ArgumentParser) -> None:
    policy = verb.add_argument_group("the policy, one of these")
    policy.add_argument("--url", action="append", default=[], help="an OpenAI-compatible endpoint; several: replicas")
    policy.add_argument(
        "--config", type=Path, metavar="FILE", help="a configuration: its [operation] endpoint, budgets"
    )
    policy.add_argument("--weights", type=Path, metavar="MODEL", help="a folder with weights and tokenizer")
    policy.add_argument("--run", type=Path, metavar="RUN", help="a run's newest checkpoint, or that of --step")
    policy.add_argument("--recorded", type=Path, metavar="PATH", help="BFCL result files, or a trainer's traces")
    about = verb.add_argument_group("about the policy")
    about.add_argument("--model", default="", help="the model as the endpoint calls it")
    about.add_argument("--name", default="", help="what reports and BFCL's result folder call the policy")
    about.add_argument("--key-env", default="", help="the environment variable that holds the endpoint's key")
    about.add_argument("--step", type=int, help="with --run: the checkpoint's step")
    tasks = verb.add_argument_group("tasks")
    tasks.add_argument("--split", choices=list(PARTS), default="held-out", dest="part", help="default: held-out")
    tasks.add_argument("--types", nargs="+", choices=TASK_TYPES, default=list(TASK_TYPES), help="default: all four")
    tasks.add_argument("--tasks-per-type", type=int, default=0, help="at most so many of a type, by a fixed draw")
    tasks.add_argument("--samples", type=int, default=1, help="episodes a task")
    protocol = verb.add_argument_group("protocol")
    protocol.add_argument("--protocol", choices=get_args(Protocol), default=None, help="default: official")
    protocol.add_argument("--calls", choices=get_args(Form), default="prompt", dest="form", help="default: prompt")
    protocol.add_argument(
        "--documents",
        choices=get_args(Documents),
        default="full",
        help="signatures: one line a tool instead of BFCL's documents, for contexts that these do not fit",
    )
    protocol.add_argument("--system-prompt", choices=("plain", "resourceful"), help="of the tags dialect")
    protocol.add_argument("--temperature", type=float, default=COLDEST, help="default: 0.001, as BFCL")
    protocol.add_argument("--top-p", type=float, default=1.0)
    protocol.add_argument("--max-tokens", type=int, default=4096, help="of one output; default 4096")
    protocol.add_argument("--max-context", type=int, default=32_768, help="tokens of an episode (local weights)")
    limits = verb.add_argument_group("limits")
    limits.add_argument("--in-flight", type=int, default=64, help="episodes at a time; default 64")
    limits.add_argument("--precision", choices=("auto", "float32", "bf16"), help="local weights; default: the run's")
    limits.add_argument("--threads", type=int, help="torch threads of local weights; default: the run's")
    limits.add_argument("--patience", type=float, default=600.0, help="seconds to wait for an endpoint that is gone")
    limits.add_argument("--budget-tokens", type=int, default=0, help="prompt and answer tokens in all; 0: no limit")
    limits.add_argument("--budget-requests", type=int, default=0, help="requests in all; 0: no limit")
