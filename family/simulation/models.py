"""Models that play a task's tools, its user and its verifier, or think up tasks (001 §2.2), one
question at a time. What no try brings an answer to, and what the endpoint breaks over, is an
InfrastructureError: nobody has failed. What a question is asked with, its random seeds included,
follows from task and conversation alone."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rods.analysis.containment import values_in
from rods.analysis.schemas import fits, limits
from rods.asking import Question, Questioner, Unanswered, Unreadable, together
from rods.calls import Call
from rods.canonical import content_id, frozen, keyed_random
from rods.config import Roles
from rods.conversations import RUBRIC_LEVELS, Persona
from rods.environments.base import Instance, Result, Tool, reference
from rods.episode.engine import Exchange, NeedCalls, NeedOutcome, Outcome
from rods.episode.model_thread import ModelThread
from rods.errors import BudgetSpent, InfrastructureError, UserError
from rods.family.simulation import roles
from rods.family.simulation.generating import (
    DrawnTask,
    Errand,
    Wanted,
    brings,
    found_by_calls,
    offered,
    open_task,
)
from rods.family.simulation.ledger import Ledger, ToolAnswer
from rods.family.simulation.roles import Past, without_asking
from rods.family.simulation.settings import SimulationSettings
from rods.family.simulation.world import RepositoryEnvironment, RepositoryWorld
from rods.llm import Account, Client
from rods.logs import log
from rods.tasks import OpenTask
from rods.transcripts import LONGEST, line
from rods.worlds.pinned import OnlyCalled

T = TypeVar("T")
OFFERS = 3  # sets of tools that a model is offered for a task


class Unusable(InfrastructureError):
    """A model has answered, and no try can be used."""


class Models:
    """What all of them share: the settings of `[simulation]` and `[roles]` (of `config`, or the
    defaults), the random seed, and `line`, through which they are asked while it is open."""

    def __init__(self, config: Any) -> None:
        self.settings: SimulationSettings = (
            SimulationSettings() if config is None else config.simulation
        )
        self.roles: Roles = Roles() if config is None else config.roles
        self.random_seed: int = 0 if config is None else config.random_seeds.rollouts
        self.line: ModelThread | None = None

    def put(self, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """What `question` comes to in the line's loop, which is there around all that plays
        (rods.buffers.run.run.Run.playing)."""
        assert self.line is not None
        return self.line.ask(question)

    def answer(self, account: str, question: Question[T]) -> T:
        """What the model says. Raises InfrastructureError where no try can be used, and UserError
        where a budget is spent."""
        return self.put(lambda client: self.ask(client, account, question))

    async def ask(self, client: Client, account: str, question: Question[T]) -> T:
        """The same in the client's loop."""
        key = content_id([question.template, account, dict(question.fields)])
        backbone = client.draw(keyed_random(self.random_seed, "player", account))
        asker = Questioner(
            client, backbone, Account(account), self.settings.tries, roles=self.roles
        )
        try:
            return await asker.ask(
                question, lambda number: keyed_random(self.random_seed, key, number).getrandbits(31)
            )
        except Unanswered as failed:
            log.warning(
                "a player's answers cannot be used",
                role=question.template,
                of=account,
                why=failed.why[:400],
            )
            tries = self.settings.tries
            raise Unusable(
                f"{question.template} gave no usable answer in {tries} tries: {failed.why}"
            ) from failed
        except BudgetSpent as spent:
            raise UserError(
                str(spent).partition(" → ")[0],
                where="operation.player_budgets",
                remedy="raise it and start the same command again",
            ) from spent


def unobjected(check: Callable[[T], Sequence[str]]) -> Callable[[T], Awaitable[None]]:
    """The `check` of a question: with what is said against an answer, it is asked again."""

    async def checked(answer: T) -> None:
        if objections := check(answer):
            # they name what a call has said
            raise Unreadable(line({"objections": "; ".join(objections)}, LONGEST))

    return checked


class ModelWorld(OnlyCalled):
    """An instance (`rods.episode.drivers.Played`) whose tools a model plays. Calls that break their
    tool's document are refused without it; a ledger answers what is known, and answers that
    contradict it are asked for again, and in the end put right without the model."""

    def __init__(self, models: Models, task: OpenTask, documents: RepositoryEnvironment) -> None:
        self.models = models
        self.task = task
        self.documents = documents
        self.brief = Errand.of(task)
        tools = documents.tools()
        self.tools = [tools[name] for name in task.tools]
        # of no tools: it knows nothing, and nothing contradicts it
        self.ledger = Ledger(documents.repository.tools if models.settings.ledger else {})
        self.found = found_by_calls(task) if models.settings.ledger else []
        self.history: list[tuple[int, Call, Result]] = []

    def results(self, need: NeedCalls) -> list[Result]:
        """Raises InfrastructureError where no answer can be had."""
        return [self.call(call, need.said) for call in need.calls]

    def call(self, call: Call, said: Exchange = ()) -> Result:
        result = self._result(call, Past(said, self.history))
        self.history.append((len(said), call, result))
        return result

    def _result(self, call: Call, past: Past) -> Result:
        if (refused := self.documents.refusal(call)) is not None:
            return refused
        answer = self.ledger.known(call)
        if answer is None:
            question = roles.ask_tool(
                self.brief,
                self.tools,
                past,
                call,
                known=self.ledger.things(),
                found=self.found,
                information=self.models.settings.tools_told,
            )
            last = list[ToolAnswer]()

            def objections(given: ToolAnswer) -> list[str]:
                last[:] = [given]
                return self._objections(call, given)

            question = replace(question, check=unobjected(objections))
            try:
                answer = self.models.answer(self.task.id, question)
            except Unusable:
                # an answer that can be read, and that nobody can take up
                answer = self._reconciled(call, last[0]) if last else None
                if answer is None:
                    raise
        self.ledger.record(call, answer)
        return answer.result()

    def _reconciled(self, call: Call, given: ToolAnswer) -> ToolAnswer | None:
        """An answer that is drawn without a model, with all that the `given` one says and nothing
        is against; None where none can be."""
        seed = keyed_random(self.models.random_seed, "reconciled", self.task.id).getrandbits(31)
        world = RepositoryWorld(self.documents, {"random_seed": seed})
        world.ledger = self.ledger
        answer = world.drawn(call)
        if self._objections(call, answer):
            return None
        for name, value in given.value.items() if answer.status == "ok" else ():
            fuller = replace(answer, value={**answer.value, name: value})
            if not self._objections(call, fuller):
                answer = fuller
        return answer

    def _objections(self, call: Call, answer: ToolAnswer) -> list[str]:
        """What the ledger knows better, and what an expected call was to find and does not show,
        in whatever value: without it a later call cannot be made."""
        objections = self.ledger.contradictions(call, answer)
        if answer.status != "ok" or call not in self.brief.calls:
            return objections
        tool = self.documents.tools()[call.name]
        for later in self.found:
            for name in sorted(later.arguments.keys() - call.arguments):
                parameter = self.documents.tools()[later.name].by_name[name]
                schema = limits(parameter)
                one = schema.get("items", schema)
                shown = any(fits(one, leaf) for leaf in values_in(answer.value))
                if brings(tool, parameter) and not shown:
                    objections.append(f"it shows no {name}, which the errand needs later")
        return objections


@frozen
class ModelUser:
    """A `rods.episode.users.User`: the personas of one task."""

    models: Models
    task: OpenTask
    tools: Sequence[Tool]

    def __call__(self, persona: Persona, said: Exchange) -> str:
        question = roles.ask_user(
            Errand.of(self.task), self.tools, Past(said), self.models.settings.user_told
        )
        return self.models.answer(self.task.id, question)


@frozen
class ModelVerifier:
    """A `WholeGoal`: the rubric of one task. What needs no verifier is judged without one."""

    models: Models
    task: OpenTask
    tools: Sequence[Tool]

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        """Raises InfrastructureError where no verdict can be had."""
        if (clear := without_asking(need)) is not None:
            return clear
        errand = Errand.of(self.task)
        calls = [
            (number, *pair)
            for number, turn in enumerate(need.turns, start=1)
            for pair in turn.pairs
        ]
        question = roles.ask_verifier(
            errand, self.tools, Past(need.said, calls), self.models.settings.verifier_told
        )
        opinion = self.models.answer(self.task.id, question)
        met = f"met: {', '.join(opinion.met) or 'none'} of {len(errand.criteria)}"
        partly = f"partly: {', '.join(opinion.partly)}" if opinion.partly else ""
        return Outcome(
            opinion.verdict + 1, RUBRIC_LEVELS, (met, *filter(None, (partly, opinion.reason)))
        )


class ModelGenerator:
    """A `rods.family.simulation.generating.Generator`: category and tools are drawn as without a
    model, the rest is the model's. All tasks of a step are asked for together."""

    def __init__(
        self, models: Models, environment: RepositoryEnvironment, random_seed: int
    ) -> None:
        self.models = models
        self.repository = environment.repository
        self.random_seed = random_seed
        self.named = reference(environment)

    def __call__(self, wanted: Sequence[Wanted]) -> list[OpenTask]:
        """Raises InfrastructureError where a task cannot be had."""
        return self.models.put(
            lambda client: together([self._task(client, asked) for asked in wanted])
        )

    async def _task(self, client: Client, asked: Wanted) -> OpenTask:
        """Over other tools where the model finds nothing for these."""
        for attempt in range(OFFERS):
            rng = keyed_random(self.random_seed, "drawn task", asked.step, asked.slot, attempt)
            tools = [entry.tool for entry in offered(self.repository, asked.levels.tools, rng)]
            account = f"step {asked.step} slot {asked.slot}"
            question = roles.ask_for_task(self.repository, tools, asked.levels)
            question = replace(question, check=unobjected(self._fault))
            try:
                return open_task(await self.models.ask(client, account, question), self.named)
            except Unusable as error:
                last = error
        raise last

    def _fault(self, drawn: DrawnTask) -> list[str]:
        try:
            open_task(drawn, self.named)
        except ValueError as error:
            return [str(error)]
        return []
