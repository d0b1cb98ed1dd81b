"""What a very small model and no model at all reach under the same constraints. Seeds of BFCL and
desk.

Claim: half of the seeds reach a ground truth that runs, whoever answers. Anchor: random instances
of the same schemas. Command: `python -m bench.llm_yield`.

SmolLM2-135M-Instruct behind a real vLLM on this machine's CPU writes plans, values, words and
verdicts, held to the author's schemas; beside it a policy that draws random instances of the same
schemas. What both reach is owed to constraints and rules; the difference is the model's own share.
Printed besides the figures: what failed at which stage.

Then seeds of BFCL alone, with the default pipeline and the preset's ("rods-paper") side by side: a
stand-in that plays every role by rule, and takes the values that a prompt shows as examples,
answers both.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from bench.fixtures.llm_server import LlmServer, missing
from bench.fixtures.llm_server.server import NAME
from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.synthesis import as_preset, bfcl_seeds, make_run, seeds, synthesise
from bench.yields import yield_table

RUNS = Path(__file__).parent.parent / "runs"
SECONDS = 2400.0  # for 60 seeds
# a weak model does not get better by being asked more often
PIPELINE = {"attempts": 1, "answer_tries": 2}


def measure(quick: bool) -> list[Figure]:
    """Share of the seeds that reached a verified executable ground truth, and that became a
    variant."""
    count = 8 if quick else 60
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        sided = _side_by_side(Path(folder), count)
        with Stub(Script(answer="bench.fixtures.llm_stub.random_answers:answer")) as stub:
            figures = _measured(
                "random answers",
                Path(folder) / "random",
                count,
                {"model": "stub", "urls": [stub.url]},
            )
        if reason := "it takes minutes" if quick else missing():
            print(f"not measured: {NAME} ({reason})", file=sys.stderr)
            return figures + sided
        with LlmServer(Path(folder) / "server.log") as server:
            endpoint = {"model": NAME, "urls": [server.url], "concurrency": 32}
            return (
                _measured(NAME, Path(folder) / "model", count, {**endpoint, "read_seconds": 600.0})
                + figures
                + sided
            )


def _side_by_side(folder: Path, count: int) -> list[Figure]:
    """The default pipeline and the preset's, over the same seeds of BFCL and the same stand-in."""
    yields = {}
    with Stub(Script(answer="bench.fixtures.llm_stub.roles:answer")) as stub:
        endpoint = {"model": "stub", "urls": [stub.url]}
        for name, (told, sections) in {
            "default": (endpoint, {}),
            "preset": as_preset(endpoint),
        }.items():
            run = make_run(folder / name, bfcl_seeds(count), [told], **sections)
            yields[name] = asyncio.run(synthesise(run, SECONDS)).as_json()
    print("", *yield_table(yields), sep="\n", file=sys.stderr)
    accepted, calls = (yields["preset"][key] for key in ("accepted", "calls_per_variant"))
    return [
        Figure(
            "preset: seeds of BFCL that became a variant", 100 * accepted / count, "%", reach=60
        ),
        Figure("preset: calls a variant", calls or float("inf"), "calls", reach=30, higher=False),
        Figure(
            "default: seeds of BFCL that became a variant",
            100 * yields["default"]["accepted"] / count,
            "%",
        ),
        Figure(
            "default: calls a variant",
            yields["default"]["calls_per_variant"] or float("inf"),
            "calls",
        ),
    ]


def _measured(who: str, path: Path, count: int, endpoint: dict[str, Any]) -> list[Figure]:
    ended = asyncio.run(
        synthesise(make_run(path, seeds(count), [endpoint], pipeline=PIPELINE), SECONDS)
    )
    print("", *yield_table({who: ended.as_json()}), sep="\n", file=sys.stderr)
    executable = 100 * len(ended.executable()) / count
    return [
        Figure(f"{who}: seeds with a ground truth that runs", executable, "%", reach=50),
        Figure(f"{who}: seeds that became a variant", 100 * len(ended.variants) / count, "%"),
        Figure(
            f"{who}: minutes for {count} seeds",
            ended.seconds / 60,
            "min",
            reach=SECONDS / 60,
            higher=False,
        ),
    ]


if __name__ == "__main__":
    run(measure)
