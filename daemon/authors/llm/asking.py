"""How the author asks a language model (rods/asking.py): what a model does wrong ends, after a few
tries, as the `ComposeError` that the caller names, with what the model had written."""

import random
import tomllib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from rods.answers import AnswerForm
from rods.asking import Question, Questioner, Unanswered
from rods.canonical import keyed_random
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError
from rods.config import PipelineSettings, Roles
from rods.daemon.authors.base import Assignment, T, in_thread
from rods.environments.base import Environment
from rods.faults import ErrorType
from rods.gates.requests import look_ups
from rods.prompts import load
from rods.tasks import Task

KEPT = 4_000  # characters of a failed answer that are kept as evidence
QUESTIONS: Mapping[str, tuple[str, ErrorType]] = tomllib.loads(
    Path(__file__).with_name("questions.toml").read_text(encoding="utf-8")
)


class Keyed(Protocol):
    """What a question is drawn by: an assignment of the author, for instance."""

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same purpose."""


class Chance:
    """One attempt, whose generators are those of `keyed_random` with these first arguments."""

    def __init__(self, random_seed: int, of: str, *attempt: int | str) -> None:
        self.rng = partial(keyed_random, random_seed, of, *attempt)


class Asker(Questioner):
    """Speaks for one variant."""

    __slots__ = ()
    roles: Roles  # the author's

    async def ask_keyed(
        self,
        assignment: Keyed,
        question: Question[T],
        error: ErrorType,
        *,
        turn: int | None = None,
        functions: Iterable[str] = (),
    ) -> T:
        """As `ask`, with random seeds that are keyed by `given`; `functions` are those that the
        question is about. Raises ComposeError(error) when no try succeeds, EndpointError,
        BudgetSpent."""
        try:
            purpose = f"{question.template} {turn}"
            return await self.ask(
                question, lambda number: assignment.rng(f"{purpose} {number}").getrandbits(31)
            )
        except Unanswered as failed:
            kind = failed.error or error
            detail = f"{question.template}: {failed.why}"
            said = failed.said[:KEPT]
            involved = failed.functions or tuple(functions)
            first = next(iter(involved), None)
            raise ComposeError(
                kind, detail, function=first, functions=involved, turn=turn, said=said
            ) from None


@dataclass(slots=True)
class Context:
    """What every stage of one variant works with. `patches` holds all accepted ones, merged."""

    environment: Environment
    catalogue: Catalogue
    asker: Asker
    settings: PipelineSettings
    threads: Executor
    patches: dict[str, Any] = field(default_factory=dict)
    look_ups: dict[str, str] = field(default_factory=dict)  # what prompts say of them, by root

    async def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        """`function(*arguments)`, computed in a thread; what it tells of itself holds meanwhile."""
        try:
            return await in_thread(self.threads, function, *arguments)
        finally:
            self.asker.tell("")

    async def ask(
        self,
        assignment: Assignment[Task],
        template: str,
        fields: Mapping[str, str],
        form: AnswerForm,
        read: Callable[[dict[str, Any]], T],
        *,
        turn: int | None = None,
        functions: Iterable[str] = (),
        **options: Any,
    ) -> T:
        """What `read` makes of the answer to one of the QUESTIONS; `options` are other fields of
        Question. The field `look_ups` is filled in here: what is said to writers and checkers of
        calls that only feed a later one, which are to be asked for where the root's user asks for
        at least half of its own."""
        if "look_ups" in load(template).fields:
            if assignment.root.id not in self.look_ups:
                asked_for = await self.compute(look_ups, self.environment, assignment.root)
                way = (
                    "narrated"
                    if 2 * sum(asked_for.values()) >= max(1, len(asked_for))
                    else "silent"
                )
                self.look_ups[assignment.root.id] = self.asker.template("look_ups").sections[way]
            fields = {"look_ups": self.look_ups[assignment.root.id], **fields}
        stage, error = QUESTIONS[template]
        question = Question(template, fields, form, read, stage=stage, **options)
        return await self.asker.ask_keyed(
            assignment, question, error, turn=turn, functions=functions
        )
