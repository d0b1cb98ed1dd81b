"""Variants of drawn tasks: by the generator, and by a model behind the stub, with habits that are
refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.composing.records import ComposeError
from rods.config import parse_config
from rods.daemon.authors.base import Assignment, WholeAuthor
from rods.daemon.candidates import Rejection
from rods.daemon.pipeline import Pipeline
from rods.environments.base import reference
from rods.episode.drivers import Job
from rods.errors import UserError
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.generating import draw_task, levels_of, open_task
from rods.family.simulation.repository import shipped
from rods.family.simulation.variants import (
    DrawnKind,
    ModelDrawer,
    Playing,
    ProceduralDrawer,
    shape_of,
)
from rods.family.simulation.world import as_repository
from rods.gates.similarity import SimilarityIndex
from rods.llm import BudgetSpent, Usage
from rods.tasks import OpenTask
from tests.daemon.authors.llm.world import asker_at
from tests.daemon.pipelines import THREADS
from tests.environments import load
from tests.family.simulation.test_gates import playing

WORLD = load("repository")
LEVELS = Levels(tools=4, calls=2, turns=0, system=2, persona=1, ambiguity=1, criteria=2)
HABITS = "tests.family.simulation.drawing_habits:{}"
ERRANDS = "bench.fixtures.llm_stub.roles:answer"


def seed(slot: int = 0) -> OpenTask:
    return open_task(draw_task(shipped(), LEVELS, 3, 1, slot), reference(WORLD))


def assignment(attempt: int = 1, **changes: Any) -> Assignment[OpenTask]:
    given = Assignment("1-x", 0, seed(), seed(), 1, attempt)
    return replace(given, **changes)


async def test_the_generator_draws_other_tools_of_the_same_categories() -> None:
    who = ProceduralDrawer(THREADS)
    made, again, other = [await who.write(WORLD, assignment(attempt)) for attempt in (1, 1, 2)]
    assert made == again != other and levels_of(made) == LEVELS
    assert shape_of(WORLD.tools(), made) == shape_of(WORLD.tools(), seed()) and set(
        made.tools
    ).isdisjoint(seed().tools)
    same = await who.write(WORLD, assignment(same=True))
    assert same.tools == seed().tools and same.goal_calls != seed().goal_calls


async def test_tools_that_cannot_be_called_so_often_are_an_error_of_the_plan() -> None:
    one = replace(LEVELS, tools=1, calls=1)
    lonely = open_task(draw_task(shipped(), one, 3, 1, 0), reference(WORLD))
    often = replace(lonely, goal=replace(lonely.goal, calls=lonely.goal_calls * 99), id="")
    with pytest.raises(
        ComposeError, match="func_sample_failed: the tools drawn cannot be called 99 times"
    ):
        await ProceduralDrawer(THREADS).write(WORLD, assignment(seed=often))


def test_any_environment_s_tools_are_documents() -> None:
    assert as_repository(WORLD).repository is shipped()
    assert set(as_repository(load("desk")).repository.tools) == set(load("desk").tools())


async def test_a_model_is_asked_for_the_whole_task(stub: Stub) -> None:
    stub.use(Script(answer=ERRANDS))
    async with asker_at(stub) as asker:
        who = ModelDrawer(asker)
        made = await who.write(WORLD, assignment())
    assert who.name == "stub" and list(who.hashes) == ["simulated_task"]
    assert levels_of(made) == LEVELS and set(made.tools).isdisjoint(seed().tools)
    assert shape_of(WORLD.tools(), made) == shape_of(WORLD.tools(), seed())


@pytest.mark.parametrize(
    ("habit", "why"),
    [
        ("foreign", "there is no tool 'time_travel'"),
        ("secretive", "which is neither said nor known"),
    ],
)
async def test_a_task_that_cannot_be_read_as_one_is_asked_for_again_and_given_up(
    stub: Stub, habit: str, why: str
) -> None:
    stub.use(Script(answer=HABITS.format(habit)))
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls) as asker:
        with pytest.raises(
            ComposeError, match=f"conversation_construct_failed: simulated_task: .*{why}"
        ):
            await ModelDrawer(asker).write(WORLD, assignment())
    assert len(calls) == asker.tries == 3


async def written(
    who: WholeAuthor,
    admit: Callable[[OpenTask], list[str]] = lambda _: [],
    play: Playing = playing,
    **sections: Any,
) -> tuple[OpenTask | str, list[Rejection]]:
    rejections: list[Rejection] = []
    pipeline = Pipeline(
        parse_config(sections, where="test"), SimilarityIndex(), THREADS, [DrawnKind(play)]
    )
    job = Assignment("1-x", 0, seed(), seed(), 1)
    return await pipeline.write(job, who, WORLD, admit, rejections.append), rejections


async def test_what_gates_refuse_is_told_to_the_model_unless_it_is_blind(stub: Stub) -> None:
    stub.use(Script(answer=HABITS.format("blabbing")))
    async with asker_at(stub) as asker:
        found, rejections = await written(ModelDrawer(asker), pipeline={"attempts": 2})
        assert isinstance(found, OpenTask) and found.provenance["attempts"] == 2
        assert [(one.stage, one.error) for one in rejections] == [("judge", "leaks")]
        assert (
            found.provenance["model"] == "stub" and "simulated_task" in found.provenance["prompts"]
        )
        blind, rejections = await written(
            ModelDrawer(asker), pipeline={"attempts": 2, "feedback": False}
        )
        assert blind == "leaks" and len(rejections) == 2


async def test_a_model_that_expects_too_little_is_refused_by_the_profile(stub: Stub) -> None:
    stub.use(Script(answer=HABITS.format("idle")))
    async with asker_at(stub) as asker:
        found, rejections = await written(ModelDrawer(asker), pipeline={"attempts": 1})
    assert found == "profile" and "calls: 1 instead of 2" in str(rejections[0].evidence)


async def test_a_near_duplicate_is_refused_at_admission_and_drawn_anew() -> None:
    asked: list[OpenTask] = []

    def admit(task: OpenTask) -> list[str]:
        asked.append(task)
        return ["it was there"] if len(asked) == 1 else []

    found, rejections = await written(ProceduralDrawer(THREADS), admit)
    assert isinstance(found, OpenTask) and found.id == asked[1].id != asked[0].id
    assert [(one.stage, one.error) for one in rejections] == [("admission", "duplicates")]
    unasked, _ = await written(
        ProceduralDrawer(THREADS), lambda _: ["never"], gates={"duplicates": False}
    )
    assert isinstance(unasked, OpenTask)


async def test_a_spent_budget_of_those_who_play_ends_the_variant() -> None:
    def broke(task: OpenTask) -> Job:
        raise UserError("the budget is spent", where="operation.player_budgets") from BudgetSpent(
            "spent"
        )

    found, rejections = await written(ProceduralDrawer(THREADS), play=broke)
    assert found == "budget_spent" and [(one.stage, one.error) for one in rejections] == [
        ("judge", "budget_spent")
    ]
