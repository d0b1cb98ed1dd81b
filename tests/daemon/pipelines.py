"""A pipeline on desk, without a run: seeds of every type, authors that never fail, stages that fail on demand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

from daemon.authors.base import Assignment, Author, Fault, Judgement, Texts
from daemon.authors.procedural import procedural_author
from daemon.candidates import Rejection, VariantJob
from daemon.pipeline import Pipeline
from rods.composing.records import ComposeError, Draft, Plan
from rods.config import Config, parse_config
from rods.environments import load
from rods.environments.base import Results
from rods.gates import SimilarityIndex
from rods.tasks import Task, TaskType
from worlds import desk

THREADS = ThreadPoolExecutor(2)


@lru_cache(maxsize=1)
def tasks() -> tuple[Task, ...]:
    return tuple(desk.generate(7, 16, 4))


def seed(type: TaskType = "base") -> Task:
    return next(task for task in tasks() if task.type == type and task.split == "train")


def settings(**sections: Mapping[str, Any]) -> Config:
    return parse_config({name: dict(values) for name, values in sections.items()}, where="test")


def author() -> Author:
    return procedural_author("desk", THREADS)


class Bench:
    """Runs jobs and keeps what was rejected."""

    def __init__(self, config: Config | None = None, held_out: SimilarityIndex | None = None) -> None:
        self.rejections: list[Rejection] = []
        self.pipeline = Pipeline(config or settings(), held_out or SimilarityIndex(), THREADS)

    async def write(
        self,
        task: Task,
        who: Author | None = None,
        *,
        pick: str = "1-seed",
        index: int = 0,
        admit: Callable[[Task], list[str]] = lambda _: [],
    ) -> Task | str:
        job = VariantJob(pick, index, task, task, 1)
        return await self.pipeline.write(
            job, who or author(), load(task.environment.name), admit, self.rejections.append
        )

    async def variant(self, task: Task, who: Author | None = None, **options: Any) -> Task:
        outcome = await self.write(task, who, **options)
        assert isinstance(outcome, Task), (outcome, self.rejections)
        return outcome

    def failures(self) -> list[tuple[str, str]]:
        return [(rejection.stage, rejection.error) for rejection in self.rejections]


class Recorded:
    """An author's stages replayed from one job that went well at once: whatever fails now was made to fail."""

    def __init__(self, task: Task, who: Author, given: Assignment, draft: Draft) -> None:
        self.task, self.who, self.given, self.draft = task, who, given, draft

    async def plan(self, given: Assignment, *, narrative: bool, functions: str) -> Plan:
        return self.draft.plan

    async def state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        return dict(self.draft.state)

    async def realise(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft:
        return replace(self.draft, state=state)

    async def mend(self, given: Assignment, plan: Plan, state: Mapping[str, Any], error: ComposeError) -> Any:
        return {**state, "today": "monday"}

    async def rewrite(self, given: Assignment, draft: Draft) -> Texts:
        return await self.who.rewriter.rewrite(self.given, draft)

    async def reword(self, given: Assignment, draft: Draft, texts: Texts, fault: Fault) -> Texts:
        return await self.who.rewriter.reword(self.given, draft, texts, fault)

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        return await self.who.executor.queries(self.given, draft)

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        return await self.who.former.form(self.given, draft, texts, type)

    async def judge(self, given: Assignment, draft: Draft, task: Task, results: Results | None = None) -> Judgement:
        return Judgement("fine")


async def steady(task: Task) -> Author:
    """An author whose candidates for `task` always pass."""
    for pick in range(40):
        who = author()
        former = Spoiled(who.former)
        bench = Bench()
        outcome = await bench.write(task, replace(who, former=former), pick=f"{pick}-steady")
        if isinstance(outcome, Task) and not bench.rejections:
            given, draft, _, _ = former.calls[-1][1]
            stages: Any = Recorded(task, who, given, draft)
            return Author("recorded", {}, stages, stages, stages, stages, stages, stages)
    raise AssertionError("no job of forty went well at once")


class Spoiled:
    """A stage of an author whose method `spoiled` first raises the given errors, then works. `calls` keeps the
    arguments of every call of any method."""

    def __init__(self, stage: Any, spoiled: str = "", errors: list[Exception] | None = None) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._stage, self._spoiled, self._errors = stage, spoiled, iter(errors or [])

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments, options))
            if name == self._spoiled:
                for error in self._errors:
                    raise error
            return await getattr(self._stage, name)(*arguments, **options)

        return call

    def given(self, name: str) -> Iterator[Any]:
        """The assignments that the calls of `name` were made with."""
        return (arguments[0] for called, arguments, _ in self.calls if called == name)


def failure(type: Any, function: str | None = None) -> ComposeError:
    return ComposeError(type, "made to fail", function=function, turn=0)


def spoil(who: Author, part: str, method: str, *errors: Exception) -> Any:
    """`who` with one method of one part that fails first. Typed loosely, so that tests may read `.calls`."""
    return replace(who, **{part: Spoiled(getattr(who, part), method, list(errors))})  # type: ignore[arg-type]
