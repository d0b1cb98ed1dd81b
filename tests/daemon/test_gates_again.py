"""Stage V breaks a conversation on purpose, so the gates are asked again about what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rods.canonical import Texts
from rods.composing.records import Draft
from rods.daemon.authors.base import Assignment, StagedAuthor
from rods.tasks import Task, TaskType
from tests.daemon.pipelines import Bench, listening, seed, settings, steady


def blabbing(who: StagedAuthor) -> Any:
    """An author whose turn in vain gives away what the next turn is to supply."""

    async def form(given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        task = await who.form(given, draft, texts, type)
        if type != "miss_param":
            return task
        turn = task.provenance["missing"][0]["turn"]
        script = list(task.script)
        script[turn] = f"{script[turn]} {script[turn + 1]}"
        return replace(task, id="", script=tuple(script))

    return listening(who, form=form)


async def test_what_stage_five_gives_away_is_refused_by_the_gates() -> None:
    root = seed("miss_param")
    who = await steady(root)
    bench = Bench(settings(pipeline={"attempts": 1}))
    assert await bench.write(root, blabbing(who)) == "missing"
    assert bench.failures() == [("adversarial", "missing")]
    careless = Bench(settings(pipeline={"attempts": 1, "judge": False}, gates={"missing": False}))
    assert isinstance(await careless.write(root, blabbing(who)), Task)
