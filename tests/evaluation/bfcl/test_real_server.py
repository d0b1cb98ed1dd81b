"""`rods-eval` against a real vLLM with a real, small model. `make llm-smoke` runs this; `make test` does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.fixtures.llm_server import LlmServer
from bench.fixtures.llm_server.server import NAME
from tests.evaluation.bfcl.runs import evaluate
from worlds.bfcl.world import Bfcl

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RODS_LLM_SMOKE"), reason="needs a model server: make llm-smoke"),
    pytest.mark.timeout(900),
]


def test_a_real_model_s_outputs_are_judged_as_officially(bfcl: Bfcl, tmp_path: Path) -> None:
    arguments = ("--tasks-per-type", 2, "--documents", "signatures", "--max-tokens", 64)
    with LlmServer(tmp_path / "server.log") as server:
        found = evaluate("run", tmp_path / "e", "--url", server.url, "--model", NAME, *arguments)
    assert found["complete"] and found["episodes"] == 8
    assert set(found["scores"]["held-out"]) == {"base", "long_context", "miss_func", "miss_param", "all"}
    assert evaluate("check", tmp_path / "e")["equal"] == 8
