"""What a variant costs in calls of language models: all turns in one call, and a call for each step
of each turn.

Claim: no more calls on a variant's own path than the paper. Anchor: the paper's 9 to 15 calls for a
base variant of three turns, without parameter generation (004 Appendix N). Command: `python -m
bench.llm_cost`.

The stub plays all roles, so that what a model does badly costs nothing here; tokens are a quarter
of the characters. Printed besides the figures: the table of `rods inspect --cost` for both forms.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from bench.figures import Figure, run
from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.synthesis import make_run, seeds, synthesise
from rods.buffers.usage import Costs, costs
from rods.family.page.inspect import cost_lines

RUNS = Path(__file__).parent.parent / "runs"
PAPER = 9.0  # calls, at least


def measure(quick: bool) -> list[Figure]:
    """Calls and tokens for an accepted variant, with what failed on the way to it, in both
    forms."""
    count = 24 if quick else 120
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        joint, apart = (
            _costs(Path(folder) / form, form, count) for form in ("batched", "per_turn")
        )
    return [
        *_figures("all turns at once", joint, PAPER),
        *_figures("a call for each step", apart, None),
    ]


def _costs(path: Path, form: str, count: int) -> Costs:
    with Stub(Script(answer="bench.fixtures.llm_stub.roles:answer")) as stub:
        endpoint = {"model": "stub", "urls": [stub.url]}
        asyncio.run(synthesise(make_run(path, seeds(count), [endpoint], pipeline={"calls": form})))
    found = costs(path)
    print(f"\n{form}, {count} seeds", *cost_lines(found), sep="\n", file=sys.stderr)
    return found


def _figures(form: str, found: Costs, reach: float | None) -> list[Figure]:
    summary = found.as_json()
    tokens = sum(spent.tokens_in + spent.tokens_out for spent in found.stages.values()) / max(
        1, found.accepted
    )
    on_path = summary["calls_on_the_path"] or float("nan")
    return [
        Figure(
            f"{form}: calls on a variant's own path",
            on_path,
            "calls",
            "the paper",
            PAPER,
            reach,
            False,
        ),
        Figure(
            f"{form}: calls, failures included",
            summary["calls_per_accepted"] or float("nan"),
            "calls",
        ),
        Figure(f"{form}: tokens, failures included", tokens, "tokens"),
    ]


if __name__ == "__main__":
    run(measure)
