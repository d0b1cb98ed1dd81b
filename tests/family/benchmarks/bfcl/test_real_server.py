"""`rods-eval` against a real vLLM with a real, small model. `make llm-smoke` runs this; `make test` does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.config import Endpoint
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.runs import evaluate


@pytest.mark.timeout(1_500)
def test_a_real_model_s_outputs_are_judged_as_officially(served: Endpoint, bfcl: Bfcl, tmp_path: Path) -> None:
    arguments = (
        "--types",
        "base",
        "--types",
        "miss_param",
        "--tasks-per-type",
        1,
        "--documents",
        "signatures",
        "--max-tokens",
        64,
    )
    found = evaluate("run", tmp_path / "e", "--url", served.urls[0], "--model", served.model, *arguments)
    assert found["complete"] and found["episodes"] == 2
    assert set(found["scores"]["held-out"]) == {"base", "miss_param", "all"}
    assert evaluate("check", tmp_path / "e")["equal"] == 2
