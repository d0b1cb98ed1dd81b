"""Stage II by a model: a world for the plan, values for its blanks, execution call by call (004 §3.3, Appendix D).

Batched, one question asks for all values of the conversation; in the paper's form each function's values are asked for
when its turn has come, with the true state and results before it. What turns out to be impossible, or makes a call
fail, is asked again with the reason, a few times; then the error goes to the critic or back to the planner.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from daemon.authors.base import Assignment, Texts
from daemon.authors.catalogue_free.plain import is_plain
from daemon.authors.llm import linking, showing
from daemon.authors.llm.answers import Form, obj
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.choosing import EXAMPLES, Blank, Choosing, Key
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.querying import Querying
from daemon.authors.llm.worlds import Worlds
from rods.analysis.flows import Flow, infer
from rods.composing.bind import realise
from rods.composing.catalogue import LEFT_OUT, Catalogue, Scene
from rods.composing.records import ComposeError, Draft, Plan
from rods.config import PipelineSettings
from rods.environments.base import Tool, reference
from rods.tasks import Task

AGAIN = 2  # times that a value is asked for anew
SURVEYS = 3  # runs by chance until one shows all blanks
STATE_ROOM = 2_500  # characters of the world in a prompt


@dataclass(frozen=True, slots=True)
class Question:
    """The blanks to ask for, and the fields of the template. Holds no world: many wait for an answer at a time."""

    blanks: tuple[Blank, ...]
    fields: Mapping[str, str]


class Executor:
    """Raises ComposeError: `param_gen_failed` for values that never fit, `vm_exec_failed` for calls that the world
    refuses, `duplicate_func`, `conversation_construct_failed` for single tools that do not feed each other as in the
    root, those of `fits` (a draft of which the seed's type cannot be made) and of the queries."""

    def __init__(
        self,
        catalogue: Catalogue,
        asker: Asker,
        settings: PipelineSettings,
        compute: Compute,
        worlds: Worlds,
        querying: Querying,
        fits: Callable[[Assignment, Draft], Awaitable[None]],
    ) -> None:
        self.catalogue, self.asker, self.settings, self.compute = catalogue, asker, settings, compute
        self.worlds, self.querying, self.fits = worlds, querying, fits

    async def state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        return await self.worlds.state(given, plan)

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        return await self.querying.queries(given, draft)

    async def realise(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft:
        binding = _Binding(given.environment.tools(), linking.links(self.catalogue, given, plan))
        while True:
            made = await self.compute(lambda: self._bound(given, plan, state, binding))
            if isinstance(made, Draft):
                await self.fits(given, made)
                return made
            binding.told(await self._ask(given, made), made.blanks)

    async def _ask(self, given: Assignment, question: Question) -> dict[Key, Any]:
        blanks = question.blanks
        optional = frozenset(blank.id for blank in blanks if blank.optional)
        form = Form({"values": obj({blank.id: blank.as_schema() for blank in blanks}, optional)})

        def read(answer: dict[str, Any]) -> dict[Key, Any]:
            values = answer["values"]
            return {blank.key: blank.value(values[blank.id]) if blank.id in values else LEFT_OUT for blank in blanks}

        return await self.asker.ask(
            given,
            "parameters",
            stage="parameters",
            fields=question.fields,
            form=form,
            read=read,
            error="param_gen_failed",
            turn=blanks[0].key[0],
            function=blanks[0].tool,
            max_tokens=400 + 40 * len(blanks),
        )

    def _bound(self, given: Assignment, plan: Plan, state: Mapping[str, Any], binding: _Binding) -> Draft | Question:
        """The draft, or what is still to be asked for it."""
        while True:
            made, run = self._run(given, plan, state, binding)
            if run.blanks:
                return self._question(plan, state, list(run.blanks.values()), run.scene)
            if isinstance(made, Draft):
                return self._checked(given, made, binding)
            binding.blame(made, run)

    def _run(
        self, given: Assignment, plan: Plan, state: Mapping[str, Any], binding: _Binding
    ) -> tuple[Draft | ComposeError, Choosing]:
        """One run, in which chance fills the blanks. Where it fails on the way, some others: the one that gets farthest
        shows most of what is to be asked."""
        runs = []
        for number in range(SURVEYS):
            chance = given.rng(f"chance {number}")
            run = Choosing(binding.tools, binding.answers, binding.problems, chance, binding.links)
            try:
                return realise(given.environment, self.catalogue, plan, state, run), run
            except ComposeError as error:
                runs.append((error, run))
            if not run.blanks:
                break
        if all(error.domain for error, _ in runs):  # nothing to choose from, whatever is chosen before
            raise runs[0][0]
        return max(runs, key=lambda pair: len(pair[1].blanks))

    def _question(self, plan: Plan, state: Mapping[str, Any], blanks: list[Blank], scene: Scene | None) -> Question:
        """What to ask for now: all blanks, or those of the first function that has any. `scene` is the first's."""
        assert scene is not None
        if self.settings.calls == "per_turn":
            blanks = [blank for blank in blanks if blank.key[:2] == blanks[0].key[:2]]
        # A snapshot may hold more than an initial state, which is how the world describes itself.
        world = scene.state if scene.state.keys() == state.keys() else state
        fields = {
            "story": showing.narrative(plan.narrative),
            "plan": showing.plan(self.catalogue, plan),
            "state": showing.world(world, STATE_ROOM),
            "done": "\n".join(showing.call_line(call, result) for call, result in scene.calls) or "(none)",
            "values": "\n".join(map(_line, blanks)),
        }
        return Question(tuple(blanks), fields)

    def _checked(self, given: Assignment, draft: Draft, binding: _Binding) -> Draft:
        draft = self._with_flows(given, draft)
        if binding.links and (depth := linking.depth(draft)) != given.profile.depth:
            detail = f"results feed calls over {depth} steps, it must be {given.profile.depth}"
            raise ComposeError("conversation_construct_failed", detail)
        return draft

    def _with_flows(self, given: Assignment, draft: Draft) -> Draft:
        """The flows of single tools are found out from results and state; recipes know theirs."""
        if not any(is_plain(self.catalogue.recipes[bound.recipe]) for calls in draft.turns for bound in calls):
            return draft
        calls = tuple(tuple(bound.call for bound in calls) for calls in draft.turns)
        used = tuple(dict.fromkeys(call.name for turn in calls for call in turn))
        silent = ("",) * len(calls)
        task = Task(reference(given.environment), "base", silent, calls, used, state=draft.state)
        flows = infer(given.environment.tools(), task, [[bound.result for bound in calls] for calls in draft.turns])
        turns = [
            tuple(
                replace(bound, flows={name: _of_user(flow) for name, flow in found.items()})
                if is_plain(self.catalogue.recipes[bound.recipe])
                else bound
                for bound, found in zip(bounds, row, strict=True)
            )
            for bounds, row in zip(draft.turns, flows, strict=True)
        ]
        return replace(draft, turns=tuple(turns))


class _Binding:
    """What is known while one plan is bound: the answers, and what was wrong with those that failed."""

    def __init__(self, tools: Mapping[str, Tool], links: Mapping[tuple[int, int], Sequence[int]]) -> None:
        self.tools, self.links = tools, links
        self.answers: dict[Key, Any] = {}
        self.problems: dict[Key, str] = {}
        self._asked: dict[Key, int] = {}
        self._invented: set[Key] = set()
        self._failed = 0

    def told(self, answers: Mapping[Key, Any], blanks: Sequence[Blank]) -> None:
        """Raises ComposeError when a value has been asked for too often."""
        for blank in blanks:
            if not blank.closed:
                self._invented.add(blank.key)
            self._asked[blank.key] = self._asked.get(blank.key, 0) + 1
            if self._asked[blank.key] > AGAIN + 1:
                detail = f"no possible value for {blank.argument} after {AGAIN + 1} answers"
                raise ComposeError("param_gen_failed", detail, function=blank.tool, turn=blank.key[0])
        self.answers |= answers

    def blame(self, error: ComposeError, run: Choosing) -> None:
        """A call failed although everything is answered: its function's values are asked for anew, closed, a few times;
        where it has none, those that were invented before it. Raises the error when that does not help or there is
        nothing to ask."""
        turn = error.turn or 0
        keys = [key for key in self.answers if key[:2] == run.place and key[0] == turn]
        keys = keys or [key for key in self.answers if key in self._invented - self.problems.keys() and key[0] <= turn]
        self._failed += 1
        if error.type not in ("vm_exec_failed", "param_gen_failed") or not keys or self._failed > AGAIN:
            raise error
        for key in keys:
            self.problems[key] = error.detail[:200]
            del self.answers[key]


def _of_user(flow: Flow) -> Flow:
    """What only the state knows, the user has to say: nothing else tells it."""
    return Flow("user") if flow.source == "state" else flow


def _line(blank: Blank) -> str:
    may: dict[str, Any] = {"one of": list(blank.options)} if blank.closed else {"any": blank.schema}
    if not blank.closed:
        may["such as"] = list(blank.options)[:EXAMPLES]
    if blank.optional:
        may["may be left out"] = True
    if blank.problem:
        may["not again"] = blank.problem
    return f"{blank.id} ({blank.argument} of {blank.tool}): {showing.compact(may)}"
