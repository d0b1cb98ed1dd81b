"""What docs/prompts/ shows is what would be sent: every role of a seed, without an endpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from docs.generate.rehearsal import Rehearsal, rehearse, when
from rods.composing.records import ComposeError
from rods.config import parse_config
from rods.daemon.authors.llm import LLMAuthor
from rods.daemon.stand_ins.author import STORY
from rods.tasks import TASK_TYPES, Task, TaskType
from rods.worlds import desk
from tests.daemon.authors.catalogue_free import bare_environment
from tests.daemon.authors.llm.world import asker_at, assignment, playing
from tests.daemon.pipelines import THREADS, seed
from tests.environments import load

ALWAYS = {"plan", "parameters", "rewrite", "judge", "refine", "patch"}
PER_TURN = ALWAYS | {"query", "verification", "classify"}


async def rehearsed(
    task: Task, *, structured: bool = True, roles: Any = None, **pipeline: Any
) -> Rehearsal:
    values = {"pipeline": {"author": "llm", **pipeline}, "roles": roles or {}}
    environment = load(task.environment.name)
    return await rehearse(
        parse_config(values, where="test"), environment, task, task, structured=structured
    )


@pytest.mark.slow
@pytest.mark.parametrize("type", TASK_TYPES)
@pytest.mark.parametrize("calls", ["batched", "per_turn"])
async def test_every_role_of_a_seed_is_asked(type: TaskType, calls: str) -> None:
    for task in (task for task in desk.generate(7, 160, 0) if task.type == type):
        found = await rehearsed(task, calls=calls)
        if type != "miss_func" or any(asked.stage == "adversarial" for asked in found.questions):
            break  # where only one function can be taken away, nobody is asked which
    assert found.missing == ()
    stages = [asked.stage for asked in found.questions]
    adversarial = {"adversarial"} if type.startswith("miss") else set()
    verified = {"adversarial_verification"} if adversarial and calls == "per_turn" else set()
    assert set(stages) == (PER_TURN if calls == "per_turn" else ALWAYS) | adversarial | verified
    assert stages.count("judge") == (2 if adversarial else 1), (
        "the plain form and the adversarial one"
    )
    assert all(STORY in str(asked.messages) for asked in found.questions if asked.stage == "judge")


@pytest.mark.slow
async def test_an_environment_of_tools_alone_is_rehearsed_too() -> None:
    found = await rehearsed(bare_environment.moved(seed("base")))
    assert {asked.stage for asked in found.questions} == ALWAYS | {"state"} and found.missing == ()


async def test_what_is_shown_is_what_would_be_sent(tmp_path: Path) -> None:
    roles = {"plan": {"temperature": 0.25, "thinking": "on", "tokens": 999}}
    for structured in (True, False):
        shown = (await rehearsed(seed(), structured=structured, roles=roles)).questions[0]
        bodies = tmp_path / f"{structured}"
        with Stub(playing("obedient"), bodies=bodies) as stub:
            async with asker_at(stub, structured=structured) as asker:
                asker.roles = parse_config({"roles": roles}, where="test").roles
                given = replace(assignment(), key=(0, "rehearsal", 0, 1))
                author = LLMAuthor(
                    load("desk"), asker, parse_config({}, where="test").pipeline, THREADS
                )
                with pytest.raises(ComposeError, match="planner"):
                    await author.plan(given)
        body = json.loads(bodies.read_text().splitlines()[0])
        assert body["messages"] == list(shown.messages)
        assert (
            (body["temperature"], body["max_tokens"])
            == (shown.temperature, shown.max_tokens)
            == (0.25, 999 + 8192)
        )
        assert ("response_format" in body) == structured == (shown.schema is not None)


async def test_what_is_switched_off_is_not_asked() -> None:
    found = await rehearsed(seed(), rewrite=False, judge=False, refine_cycles=0, feedback=False)
    assert {asked.stage for asked in found.questions} == {
        "plan",
        "parameters",
        "query",
        "verification",
    }
    ways = await rehearsed(seed(), calls="per_turn")
    assert {asked.stage for asked in ways.questions if when(asked)} == {
        "patch",
        "classify",
        "refine",
    }
