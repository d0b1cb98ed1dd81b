"""What the author asks language models (questions.toml), through rods/asking.py: what a model does
wrong ends, after a few tries, as the `ComposeError` that the question names, with what the model
had written."""

import random
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from rods.asking import AnswerForm, Question, Questioner, Unanswered
from rods.canonical import JsonObject
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError, Plan
from rods.config import PipelineSettings, Roles
from rods.daemon.authors.base import StagedAssignment, T, in_thread
from rods.environments.base import Environment
from rods.faults import ErrorType
from rods.files import module_table

NARRATIVE = {"type": "string", "minLength": 1, "maxLength": 800}
KEPT = 4_000  # characters of a failed answer that are kept as evidence
Key = tuple[int, int, str]  # of a value: turn, place in it, slot
QUESTIONS: Mapping[str, tuple[str, ErrorType]] = module_table(__file__)


class Asker(Questioner):
    """Speaks for one variant."""

    __slots__ = ()
    roles: Roles  # the author's

    async def ask_keyed(
        self,
        rng: Callable[[str], random.Random],
        question: Question[T],
        error: ErrorType,
        *,
        turn: int | None = None,
        functions: Iterable[str] = (),
    ) -> T:
        """As `ask`. `rng` gives a fresh generator, the same for the same purpose, from which each
        try has its random seed; `functions` are those that the question is about. Raises
        ComposeError(error) when no try succeeds, EndpointError, BudgetSpent."""
        purpose = f"{question.template} {turn}"
        try:
            return await self.ask(
                question, lambda number: rng(f"{purpose} {number}").getrandbits(31)
            )
        except Unanswered as failed:
            involved = failed.functions or tuple(functions)
            raise ComposeError(
                failed.error or error,
                f"{question.template}: {failed.why}",
                function=next(iter(involved), None),
                functions=involved,
                turn=turn,
                said=failed.said[:KEPT],
            ) from None


@dataclass(slots=True)
class Context:
    """What every stage of one variant works with. `patches` holds all accepted ones, merged,
    `answered` the plan whose values were asked for last, the values that are known, and which of
    them were invented, `story` what was told with them."""

    environment: Environment
    catalogue: Catalogue
    asker: Asker
    settings: PipelineSettings
    threads: Executor
    patches: JsonObject = field(default_factory=dict)
    answered: tuple[Plan, dict[Key, Any], set[Key]] | None = None
    story: str = ""

    async def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        """`function(*arguments)`, computed in a thread; what it tells of itself holds meanwhile."""
        try:
            return await in_thread(self.threads, function, *arguments)
        finally:
            self.asker.tell("")

    async def ask(
        self,
        assignment: StagedAssignment,
        template: str,
        fields: Mapping[str, str],
        form: AnswerForm,
        read: Callable[[JsonObject], T],
        *,
        turn: int | None = None,
        functions: Iterable[str] = (),
        **options: Any,
    ) -> T:
        """What `read` makes of the answer to one of the QUESTIONS; `options` are other fields of
        Question."""
        stage, error = QUESTIONS[template]
        question = Question(template, fields, form, read, stage=stage, **options)
        return await self.asker.ask_keyed(
            assignment.rng, question, error, turn=turn, functions=functions
        )
