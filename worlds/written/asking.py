"""How models that write worlds are asked: each question once, in all starts together (`WritingRecord`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from prompts import load
from rods.answers import AnswerForm
from rods.asking import Questioner, Unanswered
from rods.canonical import content_id, keyed_random
from rods.config import Operation
from rods.llm import Account, Client
from worlds.written.record import WritingRecord

T = TypeVar("T")


class Asking(Protocol):
    """Whoever puts questions to models that write."""

    @property
    def settings(self) -> Operation: ...

    async def put(
        self,
        template: str,
        about: str,
        fields: Mapping[str, str],
        form: AnswerForm,
        read: Callable[[dict[str, Any]], T],
        *,
        check: Callable[[T], Awaitable[None]] | None = None,
        sections: Sequence[str] = (),
        number: int = 0,
    ) -> T:
        """What `read` makes of the answer, which `check` may refuse (`Questioner.put`). `about` names what the question
        belongs to, `number` tells equal questions apart. Raises Unanswered, EndpointError, BudgetSpent."""
        ...


@dataclass(frozen=True, slots=True)
class Authors:
    """Models that write, each question asked once. `random_seed`: of the draw of endpoints, and of their sampling."""

    client: Client
    record: WritingRecord
    settings: Operation
    random_seed: int = 0

    async def put(
        self,
        template: str,
        about: str,
        fields: Mapping[str, str],
        form: AnswerForm,
        read: Callable[[dict[str, Any]], T],
        *,
        check: Callable[[T], Awaitable[None]] | None = None,
        sections: Sequence[str] = (),
        number: int = 0,
    ) -> T:
        """As `Asking.put`."""
        key = content_id([template, load(template).hash, dict(fields), list(sections), number])
        if (known := self.record.answers.get(key)) is not None:
            return read(dict(known["answer"]))
        backbone = self.client.draw(keyed_random(self.random_seed, "writer", about))
        questioner = Questioner(
            self.client, backbone, Account(about), self.settings.writing.tries, roles=self.settings.writers
        )
        answers: list[dict[str, Any]] = []

        def reading(answer: dict[str, Any]) -> T:
            answers.append(answer)
            return read(dict(answer))

        told = {"key": key, "template": f"{template}@{load(template).hash}", "about": about}
        try:
            meant = await questioner.put(
                template,
                stage=template,
                fields=fields,
                sections=sections,
                form=form,
                read=reading,
                check=check,
                random_seed=lambda at: keyed_random(self.random_seed, "sampling", key, at).getrandbits(31),
            )
        except Unanswered as unanswered:
            self.record.append("asked", **told, why=unanswered.why, said=unanswered.said[:2_000])
            raise
        self.record.append("asked", **told, answer=answers[-1])
        return meant


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all `work`, done at the same time. Raises what the first that fails raises, by itself; what the
    machinery did wrong before what a model did."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except BaseExceptionGroup as several:
        raise min(several.exceptions, key=lambda each: isinstance(each, Unanswered)) from None
    return [each.result() for each in tasks]
