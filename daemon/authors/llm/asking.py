"""How a language model is asked: a template filled, sent with the schema of its answer, read strictly, and asked again.

The form of an answer stands in rods/answers.py. How much room a question has and how its answer is sampled is its
role's (`[roles]`): the stage of the call. A model whose thoughts took all the room is given more (`thinking_tokens`).

One `Asker` speaks for one variant: its account pays, its backbone answers every call, and it remembers the templates
that were used. What a model does wrong ends, after a few tries, as the `ComposeError` that the caller names, with what
the model had written. What the machinery does wrong (`EndpointError`, `BudgetSpent`) passes through: it is no
candidate's failure.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from daemon.authors.base import T, in_thread
from prompts import Template, load
from rods.answers import AnswerForm, Unreadable
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError
from rods.config import PipelineSettings, Role, Roles
from rods.faults import ErrorType
from rods.llm import Account, Client, Completion, Request

SHOWN = 1_000  # characters of a failed answer that are shown to the model again
KEPT = 4_000  # and that are kept as evidence


class Keyed(Protocol):
    """What a question is drawn by: an assignment of the author, for instance."""

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same purpose."""
        ...


@dataclass(slots=True)
class Asker:
    """`backbone` names the endpoint that answers every call of this variant. `hashes` holds the templates used so far,
    by name. `tries`: how often one question is asked until its answer can be read. `feedback`: whether the next try is
    shown the failed answer and what was wrong with it; blind, the question is asked anew."""

    client: Client
    backbone: str
    account: Account
    tries: int = 3
    feedback: bool = True
    roles: Roles = field(default_factory=Roles)
    hashes: dict[str, str] = field(default_factory=dict)

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
        """What `read` makes of the answer's fields; it may raise Unreadable for what has the form but no sense.
        `check` then looks at what has to be computed, and may raise it too. `sections` of the template are added to the
        question. `stage` names the role; `parts` are tokens that its answer needs beside the role's own.

        The first try is constrained where the endpoint can do that. An answer that was cut short leads to the tagged
        form; one that could not be read is shown to the model with what was wrong, and the question put again; a model
        that only repeats itself is asked anew, and so is every one without `feedback`. A model that is cut while it
        still thinks is asked the same with more room, which is no try. Raises ComposeError(error) when no try succeeds,
        EndpointError, BudgetSpent.
        """
        loaded = self.template(template)
        rendered = loaded.render_sections(**fields)
        question = "\n\n".join(rendered[name] for name in ("user", *sections))
        constrained = self.constrains()
        exchange: list[dict[str, str]] = []
        why, said, kind = "", "", error
        role: Role = getattr(self.roles, stage)
        number = 0
        while number < self.tries:
            way = "constrained" if constrained else "tagged"
            user = {"role": "user", "content": f"{question}\n\n{rendered[way]}"}
            request = Request(
                stage,
                [{"role": "system", "content": rendered["system"]}, user, *exchange],
                schema=form.schema(role.reason) if constrained else None,
                max_tokens=role.tokens + parts,
                temperature=role.temperature,
                top_p=role.top_p,
                thinking={"on": True, "off": False}.get(role.thinking),
                random_seed=given.rng(f"{template} {turn} {number}").getrandbits(31),
                backbone=self.backbone,
                template=f"{template}@{loaded.hash}",
                account=self.account,
            )
            completion = await self.complete(request, form)
            number += 1
            repeated, said = completion.text == said, completion.text
            try:
                meant = read(_fields(completion, form, constrained=constrained))
                if check is not None:
                    await check(meant)
                return meant
            except Unreadable as unreadable:
                why, kind = str(unreadable), unreadable.error or error
            if completion.finish == "context" and not exchange:
                break  # nothing shorter can be asked
            constrained = constrained and completion.constrained and completion.finish != "length"  # a grammar can loop
            anew = (
                not self.feedback or repeated or completion.finish in ("length", "context")
            )  # one that sees its answer may repeat it
            exchange = [] if anew else self._complaint(said, why)
        raise ComposeError(kind, f"{template}: {why}", function=function, turn=turn, said=said[:KEPT])

    def constrains(self) -> bool:
        """Whether answers are still believed to be held to a schema."""
        return self.client.constrains(self.backbone)

    async def complete(self, request: Request, form: AnswerForm) -> Completion:
        """The answer; a model that thinks is given room for that. Whether one does is found out where an answer is
        cut: by its thoughts, or, where it writes no tag at all, by what comes with more room."""
        thinks = self.client.thinks
        roomy = replace(request, max_tokens=request.max_tokens + self.client.thinking_tokens(self.backbone))
        if request.thinking or thinks.get(self.backbone):
            return await self.client.complete(roomy)
        completion = await self.client.complete(request)
        mute = not completion.constrained and not any(
            f"<{name}>" in completion.text for name in ("reason", *form.fields)
        )
        if completion.finish == "length" and (completion.thought or (mute and self.backbone not in thinks)):
            completion = await self.client.complete(roomy)
            thinks[self.backbone] = completion.thought
        return completion

    def template(self, name: str) -> Template:
        """The template, which counts as used from now on."""
        loaded = load(name)
        self.hashes[name] = loaded.hash
        return loaded

    def _complaint(self, said: str, why: str) -> list[dict[str, str]]:
        """The failed answer and what was wrong with it, as the end of the next question."""
        return [
            {"role": "assistant", "content": said[:SHOWN] or "(nothing)"},
            {"role": "user", "content": self.template("again").render(problem=why)},
        ]


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


def _fields(completion: Completion, form: AnswerForm, *, constrained: bool) -> dict[str, Any]:
    if not completion.whole:
        told = {"length": "was cut short", "context": "found no room: the prompt is too long", "empty": "is empty"}
        raise Unreadable(f"the answer {told.get(completion.finish, 'was withheld')}")
    return form.read(completion.text, constrained=constrained)
