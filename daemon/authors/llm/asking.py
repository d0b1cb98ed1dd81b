"""How the author asks a language model (rods/asking.py): what a model does wrong ends, after a few tries, as the
`ComposeError` that the caller names, with what the model had written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

from daemon.authors.base import T, in_thread
from rods.answers import AnswerForm
from rods.asking import Questioner, Unanswered
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError
from rods.config import PipelineSettings, Roles
from rods.faults import ErrorType

KEPT = 4_000  # characters of a failed answer that are kept as evidence


class Keyed(Protocol):
    """What a question is drawn by: an assignment of the author, for instance."""

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same purpose."""
        ...


class Asker(Questioner):
    """Speaks for one variant."""

    __slots__ = ()
    roles: Roles  # the author's

    async def ask(
        self,
        given: Keyed,
        template: str,
        *,
        stage: str,
        fields: Mapping[str, str],
        sections: Sequence[str] = (),
        form: AnswerForm,
        read: Callable[[dict[str, Any]], T],
        check: Callable[[T], Awaitable[None]] | None = None,
        error: ErrorType,
        turn: int | None = None,
        function: str | None = None,
        parts: int = 0,
    ) -> T:
        """As `put`. Raises ComposeError(error) when no try succeeds, EndpointError, BudgetSpent."""
        try:
            return await self.put(
                template,
                stage=stage,
                fields=fields,
                sections=sections,
                form=form,
                read=read,
                check=check,
                random_seed=lambda number: given.rng(f"{template} {turn} {number}").getrandbits(31),
                parts=parts,
            )
        except Unanswered as failed:
            kind = failed.error or error
            detail = f"{template}: {failed.why}"
            raise ComposeError(kind, detail, function=function, turn=turn, said=failed.said[:KEPT]) from None


@dataclass(frozen=True, slots=True)
class Context:
    """What every stage of one variant works with."""

    catalogue: Catalogue
    asker: Asker
    settings: PipelineSettings
    threads: Executor
    look_ups: dict[str, str] = field(default_factory=dict)  # what prompts say of them, by root

    def compute(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """`function()`, computed in a thread."""
        return in_thread(self.threads, function)
