"""A pipeline on desk, without a run: seeds of every type, authors that never fail or fail on
demand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from rods.canonical import Texts
from rods.composing.records import BoundCall, ComposeError, Draft, Plan
from rods.config import Config, parse_config
from rods.daemon.authors.base import Assignment, Judgement, Rejection, StagedAuthor
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.environments.base import Results
from rods.faults import Defect, Reason
from rods.gates.similarity import SimilarityIndex
from rods.tasks import Task, TaskType
from rods.worlds import desk
from tests.environments import load

THREADS = ThreadPoolExecutor(2)


@lru_cache(maxsize=1)
def tasks() -> tuple[Task, ...]:
    return tuple(desk.generate(7, 16, 4))


def seed(type: TaskType = "base", number: int = 0) -> Task:
    return [task for task in tasks() if task.type == type and task.split == "train"][number]


def settings(**sections: Mapping[str, Any]) -> Config:
    return parse_config({name: dict(values) for name, values in sections.items()}, where="test")


def author() -> StagedAuthor:
    return ProceduralAuthor.of(load("desk"), THREADS)


class Bench:
    """Runs jobs and keeps what was rejected."""

    def __init__(
        self, config: Config | None = None, held_out: SimilarityIndex | None = None
    ) -> None:
        self.rejections: list[Rejection] = []
        self.pipeline = Pipeline(config or settings(), held_out or SimilarityIndex(), THREADS)

    async def write(
        self,
        task: Task,
        who: StagedAuthor | None = None,
        *,
        pick: str = "1-seed",
        index: int = 0,
        admit: Callable[[Task], list[str]] = lambda _: [],
    ) -> Task | str:
        first = Assignment(pick, index, task, task, 1)
        return await self.pipeline.write(
            first, who or author(), load(task.environment.name), admit, self.rejections.append
        )

    async def variant(self, task: Task, who: StagedAuthor | None = None, **options: Any) -> Task:
        outcome = await self.write(task, who, **options)
        assert isinstance(outcome, Task), (outcome, self.rejections)
        return outcome

    def failures(self) -> list[tuple[str, str]]:
        return [(rejection.stage, rejection.error) for rejection in self.rejections]


class Recorded:
    """An author who repeats one job that went well at once: whatever fails now was made to fail."""

    name = "recorded"
    hashes: Mapping[str, str] = {}

    def __init__(self, who: StagedAuthor, given: Assignment, draft: Draft) -> None:
        self.who = who
        self.given = given
        self.draft = draft

    async def plan(self, given: Assignment) -> Plan:
        return self.draft.plan

    async def initial_state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        return dict(self.draft.state)

    async def execute(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft:
        return replace(self.draft, state=state)

    async def patch(
        self, given: Assignment, plan: Plan | None, state: Mapping[str, Any], error: ComposeError
    ) -> Any:
        return {**state, "today": "monday" if state["today"] != "monday" else "friday"}

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        return await self.who.queries(self.given, draft)

    async def rewrite(self, given: Assignment, draft: Draft) -> Texts:
        return await self.who.rewrite(self.given, draft)

    async def reword(self, given: Assignment, draft: Draft, texts: Texts, defect: Defect) -> Texts:
        return await self.who.reword(self.given, draft, texts, defect)

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        return await self.who.form(self.given, draft, texts, type)

    async def judge(
        self,
        given: Assignment,
        draft: Draft,
        task: Task,
        results: Results | None = None,
        doubts: Sequence[Reason] = (),
    ) -> Judgement:
        return Judgement("fine")


def tells(draft: Draft, values: int = 1, calls: int = 100) -> bool:
    """Whether the user says so many values of his own in a turn of at most so many calls that
    serves a request made in vain, or in any turn."""
    served = [turn for before, turn in pairwise(draft.turns) if not before] or draft.turns
    tools = load("desk").tools()

    def free(bound: BoundCall) -> int:
        schemas = {
            parameter.name: parameter.schema for parameter in tools[bound.call.name].parameters
        }
        return sum(
            flow.source == "user" and "enum" not in schemas[name]
            for name, flow in bound.flows.items()
        )

    return any(sum(map(free, turn)) >= values for turn in served if len(turn) <= calls)


async def steady(task: Task) -> Recorded:
    """An author whose candidates for `task` always pass, and who has the user say what stands in no
    tool's document. Raises LookupError for a task of which forty jobs give none."""
    for pick in range(40):
        who = listening(author())
        bench = Bench()
        outcome = await bench.write(task, who, pick=f"{pick}-steady")
        if isinstance(outcome, Task) and not bench.rejections:
            given, draft, _, _ = list(who.arguments("form"))[-1]
            if tells(draft):
                return Recorded(who, given, draft)
    raise LookupError("no job of forty went well at once")


class Listening:
    """An author who does as `who` does, save for the methods in `instead`, and first raises the
    `errors` of a method. `calls` keeps method and arguments of every call."""

    def __init__(
        self,
        who: StagedAuthor,
        errors: Mapping[str, Sequence[Exception]],
        instead: Mapping[str, Any],
    ) -> None:
        self.name = who.name
        self.hashes = who.hashes
        self.calls = list[tuple[str, tuple[Any, ...]]]()
        self._who = who
        self._instead = instead
        self._errors = {method: iter(made) for method, made in errors.items()}

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        does = self._instead.get(method) or getattr(self._who, method)

        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((method, arguments))
            for error in self._errors.get(method, ()):
                raise error
            return await does(*arguments, **options)

        return call

    def methods(self) -> list[str]:
        return [method for method, _ in self.calls]

    def arguments(self, method: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == method]


def listening(
    who: StagedAuthor, errors: Mapping[str, Sequence[Exception]] | None = None, **instead: Any
) -> Any:
    """`who`, its calls on record. Typed loosely: it has every method of an author."""
    return Listening(who, errors or {}, instead)


def failure(type: Any, function: str | None = None) -> ComposeError:
    return ComposeError(type, "made to fail", function=function, turn=0)


def spoil(who: StagedAuthor, method: str, *errors: Exception) -> Any:
    """`who`, with one method that fails first."""
    return listening(who, {method: errors})
