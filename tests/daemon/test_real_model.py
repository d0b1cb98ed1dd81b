"""The whole pipeline on a real vLLM with a real, small model. `make llm-smoke` runs this; `make
test` does not.

A model of 135M parameters writes poor plans: what is tested is that nothing breaks, that every seed
ends with a reason, and that constrained decoding carries seeds of both environments to a ground
truth that runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.fixtures.synthesis import make_run, seeds, synthesise
from rods.config import Endpoint

COUNT = 2  # one of each environment
SECONDS = 1_200.0  # about 120 on two idle cores


@pytest.mark.timeout(1_500)
async def test_a_small_model_carries_seeds_to_a_ground_truth_that_runs(
    served: Endpoint, tmp_path: Path
) -> None:
    frugal = {"attempts": 1, "planner_retries": 3, "answer_tries": 3}
    budgets = {"operation": {"budgets": {"variant_calls": 14}}}
    run = make_run(
        tmp_path / "run", seeds(COUNT), [served.model_dump(mode="json")], pipeline=frugal, **budgets
    )
    ended = await synthesise(run, SECONDS)
    ended.check(COUNT)
    assert not [record for record in ended.rejected if record["error"] == "pipeline_exception"]
    # An answer that was cut is asked for with room for thoughts, which may be more than this
    # model's window.
    assert {call["outcome"] for call in ended.calls} <= {"stop", "length", "empty", "context"}
    assert any(call["constrained"] for call in ended.calls)
    assert len(ended.executable()) >= 1, ended.whys()
