"""How an agent is asked: a template filled, sent with the schema of its answer, read strictly, and asked again.

One `Asker` speaks for one variant: its account pays, its backbone answers every call, and it remembers the templates
that were really used. What a model does wrong ends, after a few tries, as the `ComposeError` that the caller names,
with what the model had written. What the machinery does wrong (`EndpointError`, `BudgetSpent`) passes through
untouched: it is no candidate's fault.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from daemon.authors.base import Assignment
from daemon.authors.llm.answers import Form, Unreadable
from prompts import load
from rods.composing.records import ComposeError
from rods.faults import ErrorType
from rods.llm import Account, Client, Completion, Request

T = TypeVar("T")
SHOWN = 1_000  # characters of a failed answer that are shown to the model again
KEPT = 4_000  # and that are kept as evidence


@dataclass(slots=True)
class Asker:
    """`backbone` names the endpoint that answers every call of this variant. `hashes` holds the templates used so far,
    by name. `tries`: how often one question is asked until its answer can be read."""

    client: Client
    backbone: str
    account: Account
    tries: int = 3
    hashes: dict[str, str] = field(default_factory=dict)

    async def ask(
        self,
        given: Assignment,
        template: str,
        *,
        stage: str,
        fields: Mapping[str, str],
        sections: Sequence[str] = (),
        form: Form,
        read: Callable[[dict[str, Any]], T],
        check: Callable[[T], Awaitable[None]] | None = None,
        error: ErrorType,
        turn: int | None = None,
        function: str | None = None,
        max_tokens: int = 1024,
    ) -> T:
        """What `read` makes of the answer's fields; it may raise Unreadable for what has the form but no sense.
        `check` then looks at what only work can tell, and may raise it too. `sections` of the template are added to the
        question.

        The first try is constrained where the endpoint can do that. An answer that was cut short leads to the tagged
        form; one that could not be read is shown to the model with what was wrong, and the question put again; a model
        that only repeats itself is asked anew. Raises ComposeError(error) when no try succeeds, EndpointError,
        BudgetSpent.
        """
        loaded = load(template)
        self.hashes[template] = loaded.hash
        said_to = loaded.render_sections(**fields)
        question = "\n\n".join(said_to[name] for name in ("user", *sections))
        constrained = self.client.constrains(self.backbone)
        exchange: list[dict[str, str]] = []
        why, said, kind, repeated = "", "", error, False
        for number in range(self.tries):
            way = "constrained" if constrained else "tagged"
            user = {"role": "user", "content": f"{question}\n\n{said_to[way]}"}
            completion = await self.client.complete(
                Request(
                    stage,
                    [{"role": "system", "content": said_to["system"]}, user, *exchange],
                    schema=form.schema() if constrained else None,
                    max_tokens=max_tokens,
                    random_seed=given.rng(f"{template} {turn} {number}").getrandbits(31),
                    backbone=self.backbone,
                    template=f"{template}@{loaded.hash}",
                    account=self.account,
                )
            )
            said, repeated = completion.text, completion.text == said
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
            anew = repeated or completion.finish in ("length", "context")  # who sees his answer may just repeat it
            exchange = [] if anew else self._again(said, why)
        detail = f"{template}: {why}"
        raise ComposeError(kind, detail, function=function, turn=turn, said=said[:KEPT])

    def _again(self, said: str, why: str) -> list[dict[str, str]]:
        """The failed answer and the complaint about it, as the end of the next question."""
        complaint = load("again")
        self.hashes["again"] = complaint.hash
        return [
            {"role": "assistant", "content": said[:SHOWN] or "(nothing)"},
            {"role": "user", "content": complaint.render(problem=why)},
        ]


def _fields(completion: Completion, form: Form, *, constrained: bool) -> dict[str, Any]:
    if not completion.whole:
        told = {"length": "was cut short", "context": "found no room: the prompt is too long", "empty": "is empty"}
        raise Unreadable(f"the answer {told.get(completion.finish, 'was withheld')}")
    return form.read(completion.text, constrained=constrained)
