"""The procedural author: recipes and a phrase book instead of a model (rods/composing). Deterministic and without I/O.

Every stage is a pure function under a generator of its own. It takes milliseconds, so it runs in a thread and the
service stays responsive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Literal

from daemon.authors.base import Assignment, Defect, Judgement, T, Texts, in_thread
from rods.composing import bind, planning, states, task_types, wording
from rods.composing.catalogue import Catalogue, catalogue_for
from rods.composing.records import ComposeError, Draft, Plan
from rods.environments.base import Environment, Results
from rods.gates import drafts
from rods.tasks import Task, TaskType

IN_FLIGHT = 2  # seeds at a time, more gain nothing: one is composed while the other waits for a disk


class ProceduralAuthor:
    """The author for one environment: all stages over one catalogue. A seed of an API class without recipes ends as
    `no_prompts`."""

    name = "procedural"

    def __init__(self, catalogue: Catalogue, threads: Executor) -> None:
        self.catalogue, self.threads = catalogue, threads
        self.hashes = {"phrase_book": catalogue.content_id}

    @staticmethod
    def of(environment: Environment, threads: Executor) -> ProceduralAuthor:
        """Raises ComposeError("no_prompts") when the environment has no catalogue."""
        return ProceduralAuthor(catalogue_for(environment), threads)

    async def plan(self, given: Assignment, *, narrative: bool, functions: Literal["other", "same"]) -> Plan:
        if missing := set(given.profile.classes) - self._classes(given):
            raise ComposeError("no_prompts", f"no recipes for the API classes {', '.join(sorted(missing))}")
        return await self._compute(
            lambda: planning.plan(
                self.catalogue,
                given.environment,
                given.seed,
                given.profile,
                limits=given.limits,
                blocked=given.blocked,
                functions=functions,
                narrative=narrative,
                rng=given.rng("plan"),
            )
        )

    async def initial_state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        return await self._compute(lambda: states.fresh_state(self.catalogue, plan, given.seed, given.rng("state")))

    async def execute(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft:
        return await self._compute(
            lambda: bind.realise(given.environment, self.catalogue, plan, state, bind.by_chance(given.rng("realise")))
        )

    async def patch(
        self, given: Assignment, plan: Plan | None, state: Mapping[str, Any], error: ComposeError
    ) -> dict[str, Any] | None:
        if plan is None:  # this planner reads no state: none would help it
            return None
        return await self._compute(lambda: states.repair(self.catalogue, state, error, given.rng("mend")))

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        return await self._compute(lambda: wording.word(self.catalogue, draft, given.rng("queries")))

    async def rewrite(self, given: Assignment, draft: Draft) -> Texts:
        narrative = bool(draft.plan.narrative)
        return await self._compute(
            lambda: wording.rewrite(self.catalogue, draft, narrative=narrative, rng=given.rng("rewrite"))
        )

    async def reword(self, given: Assignment, draft: Draft, texts: Texts, defect: Defect) -> Texts:
        """The turn at fault in plain words: worded for itself, without story or back reference."""
        anew = await self._compute(lambda: wording.word(self.catalogue, draft, given.rng("reword")))
        turn = defect.turn or 0
        return (*texts[:turn], anew[turn], *texts[turn + 1 :])

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        """The finished task; it shows no more tools than its seed, so that the choice among them is as hard."""
        shown = min(self.catalogue.shown, len(given.seed.tools))
        catalogue = replace(self.catalogue, shown=shown)
        return await self._compute(
            lambda: task_types.apply(catalogue, given.environment, draft, texts, type, given.rng(f"form {type}"))
        )

    async def judge(self, given: Assignment, draft: Draft, task: Task, results: Results | None = None) -> Judgement:
        faults = await self._compute(lambda: drafts.judge(self.catalogue, given.environment, task, draft, results))
        if not faults:
            return Judgement("no rule objects")
        return Judgement(
            "; ".join(fault.reason for fault in faults),
            tuple(
                Defect("query_fixable" if fault.part == "query" else "gt_unfixable", fault.reason, fault.turn)
                for fault in faults
            ),
        )

    def _classes(self, given: Assignment) -> set[str]:
        """The API classes that the catalogue has recipes for."""
        tools = given.environment.tools()
        return {tools[name].group for recipe in self.catalogue.recipes.values() for name in recipe.tools}

    async def _compute(self, function: Callable[[], T]) -> T:
        return await in_thread(self.threads, function)
