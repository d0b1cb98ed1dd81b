"""The procedural author: recipes and a phrase book instead of a model (rods/composing).
Deterministic and without I/O.

Every stage is a pure function under a generator of its own, and runs in a thread, so that the
service stays responsive.
"""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

from rods.canonical import JsonObject, Texts
from rods.composing import bind, planning, task_types, wording
from rods.composing.catalogue import Catalogue, catalogue_for
from rods.composing.records import ComposeError, Draft, Plan
from rods.daemon.authors.base import Asking, Judgement, StagedAssignment, T, in_thread
from rods.daemon.authors.state_shapes import State
from rods.environments.base import Environment, Results, kept
from rods.faults import Defect, Reason
from rods.gates.texts import style
from rods.tasks import Task, TaskType

# seeds at a time, more gain nothing: one is composed while the other waits for a disk
IN_FLIGHT = 2

_catalogue = kept(catalogue_for)


def sketch(
    catalogue: Catalogue,
    environment: Environment,
    assignment: StagedAssignment,
    rng: random.Random,
    tries: int = planning.TRIES,
) -> Plan:
    """A plan in the root's shape, as `planning.plan` makes one."""
    return planning.plan(
        catalogue,
        environment,
        assignment.profile,
        assignment.profile.type,
        seed=assignment.seed,
        limits=assignment.limits,
        blocked=assignment.blocked,
        functions="same" if assignment.same else "other",
        narrative=assignment.narrative,
        tries=tries,
        rng=rng,
    )


class ProceduralAuthor:
    """All stages over the catalogue of one environment. A seed of an API class without recipes ends
    as `no_prompts`."""

    name = "procedural"

    def __init__(self, environment: Environment, catalogue: Catalogue, threads: Executor) -> None:
        self.environment = environment
        self.catalogue = catalogue
        self.threads = threads
        self.hashes = {"phrase_book": catalogue.content_id}

    @staticmethod
    def of(environment: Environment, threads: Executor) -> "ProceduralAuthor":
        """Raises ComposeError("no_prompts") when the environment has no catalogue."""
        return ProceduralAuthor(environment, _catalogue(environment), threads)

    async def plan(self, assignment: StagedAssignment) -> Plan:
        tools = self.environment.tools()
        with_recipes = {
            tools[name].group for recipe in self.catalogue.recipes.values() for name in recipe.tools
        }
        if missing := set(assignment.profile.classes) - with_recipes:
            raise ComposeError(
                "no_prompts", f"no recipes for the API classes {', '.join(sorted(missing))}"
            )
        # Its recipes hold together: only what failed by itself is left out, not all that stood
        # beside it.
        alone = replace(
            assignment,
            blocked=frozenset(error.function for error in assignment.failures if error.function),
        )
        return await self._compute(
            sketch, self.catalogue, self.environment, alone, assignment.rng("plan")
        )

    async def initial_state(self, assignment: StagedAssignment, plan: Plan) -> JsonObject:
        return await self._compute(
            bind.fresh_state, self.catalogue, plan, assignment.seed, assignment.rng("state")
        )

    async def execute(self, assignment: StagedAssignment, plan: Plan, state: State) -> Draft:
        chooser = bind.random_chooser(assignment.rng("realise"))
        return await self._compute(
            bind.realise, self.environment, self.catalogue, plan, state, chooser
        )

    async def patch(
        self, assignment: StagedAssignment, plan: Plan | None, state: State, error: ComposeError
    ) -> JsonObject | None:
        if plan is None:  # this planner reads no state: none would help it
            return None
        return await self._compute(
            bind.repair, self.catalogue, state, error, assignment.rng("mend")
        )

    async def queries(self, assignment: StagedAssignment, draft: Draft) -> Texts:
        return await self._compute(wording.word, self.catalogue, draft, assignment.rng("queries"))

    async def rewrite(self, assignment: StagedAssignment, draft: Draft) -> Texts:
        counts = assignment.profile.calls_per_turn
        rewrite = partial(
            wording.rewrite,
            narrative=bool(draft.plan.narrative),
            served=True,
            told=counts.index(0) if 0 in counts else None,
            rng=assignment.rng("rewrite"),
        )
        return await self._compute(rewrite, self.catalogue, draft)

    async def reword(
        self, assignment: StagedAssignment, draft: Draft, texts: Texts, defect: Defect
    ) -> Texts:
        """The turn at fault in plain words: worded for itself, without story or back reference."""
        anew = await self._compute(wording.word, self.catalogue, draft, assignment.rng("reword"))
        turn = defect.turn or 0
        return (*texts[:turn], anew[turn], *texts[turn + 1 :])

    async def form(
        self, assignment: StagedAssignment, draft: Draft, texts: Texts, type: TaskType
    ) -> Task:
        """The finished task, which shows no more tools than it may."""
        catalogue = replace(self.catalogue, shown=assignment.shown(self.catalogue.shown))
        rng = assignment.rng(f"form {type}")
        return await self._compute(
            task_types.apply, catalogue, self.environment, draft, texts, type, rng
        )

    async def judge(
        self,
        assignment: StagedAssignment,
        draft: Draft,
        task: Task,
        results: Results | None = None,
        doubts: Sequence[Reason] = (),
    ) -> Judgement:
        defects = style(task, self.catalogue.book.longest + wording.SLACK)
        if task.type == "long_context" and not task_types.lengthened(task, draft):
            defects = [Defect("gt_unfixable", "no part of a long context is longer than the draft")]
        return Judgement(
            "; ".join(defect.reason for defect in defects) or "no rule objects", tuple(defects)
        )

    async def _compute(self, function: Callable[..., T], *arguments: Any) -> T:
        return await in_thread(self.threads, function, *arguments)


def by_rules(threads: Executor) -> Asking:
    """What a kind is given where no language model writes."""
    return Asking(
        threads,
        lambda environment, pick, index: ProceduralAuthor.of(environment, threads),
        lambda environment: ProceduralAuthor.of(environment, threads).hashes,
    )
