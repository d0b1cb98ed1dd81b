"""Whole variants from the language-model author, for both environments and all types, from a stub
that plays all roles: on a good day, on a very bad one, and with each of the author's switches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.synthesis import ALL, Ended, make_run, seeds, synthesise
from bench.llm_faults import FAULTS

ROLES = "bench.fixtures.llm_stub.roles:answer"


async def written(path: Path, script: Script, count: int, **sections: Any) -> Ended:
    with Stub(script) as stub:
        endpoint = {"model": "stub", "urls": [stub.url], "read_seconds": 1.0}
        return await synthesise(make_run(path, seeds(count), [endpoint], **sections))


@pytest.mark.slow
@pytest.mark.needs("bfcl")
@pytest.mark.parametrize("calls", ["batched", pytest.param("per_turn", marks=pytest.mark.sweep)])
async def test_most_seeds_of_all_types_become_variants(tmp_path: Path, calls: str) -> None:
    ended = await written(tmp_path / "run", Script(answer=ROLES), 32, pipeline={"calls": calls})
    ended.check(32)
    variants = ended.variants
    made = Counter((task.environment.name, task.type) for task in variants)
    assert all(made[name, type] for name in ("desk", "bfcl") for type in ALL), (made, ended.whys())
    assert len(variants) > 20, ended.whys()
    assert ended.executable() >= {record["pick"] for record in ended.finished if record["accepted"]}
    for task in variants:
        assert task.provenance["model"] == "stub" and "rewrite_turns" in task.provenance["prompts"]
    planned = ["planner" in task.provenance["prompts"] for task in variants]
    # what leaves no choice is asked of nobody
    assert sum(planned) > len(planned) / 2
    assert sum(bool(task.provenance["narrative"]) for task in variants) > len(variants) / 2


@pytest.mark.slow
async def test_every_fault_at_once_loses_and_doubles_nothing(tmp_path: Path) -> None:
    script = Script(answer=ROLES, faults=FAULTS, latency=(0.0, 0.1))
    ended = await written(tmp_path / "run", script, 18)
    ended.check(18)
    broken = [r["evidence"] for r in ended.rejected if r["error"] == "pipeline_exception"]
    assert not broken, broken[0]
    assert sum(call["retries"] for call in ended.calls) > 15, "the faults must have happened"
    assert len(ended.variants) > 6, ended.whys()


@pytest.mark.slow
async def test_ablations_of_the_pipeline_change_what_is_asked(tmp_path: Path) -> None:
    off = {"narrative": False, "rewrite": False, "judge": False, "feedback": False}
    ended = await written(tmp_path / "run", Script(answer=ROLES), 16, pipeline=off)
    ended.check(16)
    asked = Counter(call["stage"] for call in ended.calls)
    assert asked["query"] and asked["verification"], "turn by turn instead of a rewrite"
    assert not asked["rewrite"] and not asked["judge"] and not asked["patch"]
    assert ended.variants and all(task.provenance["narrative"] == {} for task in ended.variants)
