"""A call's request, its completion, what it cost, the limits on that, and the errors with which it
ends. A model that says nothing or is cut short has answered (`Completion.finish`); an endpoint that
breaks has not (`EndpointError`)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rods.canonical import JsonMapping, JsonObject, frozen
from rods.config import Budgets
from rods.errors import BudgetSpent, InfrastructureError
from rods.faults import Finish


class Budget:
    """The run's limits. `tokens` and `requests` begin at what earlier starts have spent (the log of
    calls knows).

    Exact where the server counts tokens: a call reserves what it may cost at most before it is
    sent, waits while it would fit but for the reservations of others, and is refused when nothing
    is in flight and it still would not fit. So no answer that was paid for is discarded."""

    def __init__(self, limits: Budgets, *, tokens: int = 0, requests: int = 0) -> None:
        self.limits = limits
        self.tokens = tokens
        self.requests = requests
        # None: no limit
        self.most = {"tokens": limits.tokens or None, "requests": limits.requests or None}
        self._reserved = 0
        self._refused = False
        self._changed = asyncio.Event()

    @property
    def spent(self) -> bool:
        """Whether the end is reached: no further call can be sent, or one was refused already."""
        return (
            self._refused
            or self._over("tokens", self.tokens)
            or self._over("requests", self.requests)
        )

    def status(self) -> dict[str, int | None]:
        """The limits (None: none), and what is used."""
        used = {"used_tokens": self.tokens, "used_requests": self.requests}
        return {**self.most, "variant_calls": self.limits.variant_calls or None, **used}

    async def reserve(self, tokens: int) -> None:
        """Waits until `tokens` more surely fit. Raises BudgetSpent when they never will."""
        while (
            most := self.most["tokens"]
        ) is not None and self.tokens + self._reserved + tokens > most:
            if not self._reserved:
                self._refused = True
                used = f"{self.tokens} are used and the next call may take {tokens}"
                remedy = "raise operation.budgets.tokens and start again"
                raise BudgetSpent(f"the budget of {most} tokens is spent: {used} → {remedy}")
            await self._changed.wait()
        self._reserved += tokens

    def settle(self, reserved: int, used: int) -> None:
        """Gives back a reservation and books what was used in its place."""
        self._reserved -= reserved
        self.tokens += used
        self._changed.set()
        self._changed = asyncio.Event()

    def send(self) -> None:
        """Books one HTTP request. Raises BudgetSpent instead of booking one too many."""
        if self._over("requests", self.requests):
            remedy = "raise operation.budgets.requests and start again"
            raise BudgetSpent(f"the budget of {self.most['requests']} requests is spent → {remedy}")
        self.requests += 1

    def _over(self, kind: Literal["tokens", "requests"], used: int) -> bool:
        most = self.most[kind]
        return most is not None and used >= most


@dataclass(slots=True)
class Account:
    """The calls of one variant so far, and the limit on them (0: none)."""

    name: str
    limit: int = 0
    calls: int = 0

    def open_call(self) -> None:
        """Books one call, however often it is then tried. Raises BudgetSpent instead of booking one
        too many."""
        if self.limit and self.calls >= self.limit:
            raise BudgetSpent(f"{self.name}: {self.limit} calls are all that one variant may make")
        self.calls += 1


@frozen
class Request:
    """One call. `stage` names who asks and is what usage is counted by.

    `messages` go to /chat/completions; with `prompt` (text or token ids) instead, to /completions;
    with `texts` to /embeddings, which a server need not have: then the call is refused. `schema`
    (JSON Schema) constrains the text where the endpoint can. `backbone` pins one endpoint by name;
    empty: one is drawn by weight. `template` (name and version of the prompt's) and `account` (the
    variant that pays) are recorded. `extra` goes into the body as it is."""

    stage: str
    messages: Sequence[JsonMapping] = ()
    prompt: str | Sequence[int] | None = None
    texts: Sequence[str] = ()
    schema: JsonMapping | None = None
    tools: Sequence[JsonMapping] = ()
    max_tokens: int = 1024
    temperature: float = 0.7
    top_p: float = 0.95
    # switched on or off in the chat template; None: as the server has it
    thinking: bool | None = None
    random_seed: int | None = None  # of the server's sampling, where it has one
    backbone: str = ""
    template: str = ""
    account: Account | None = None
    extra: JsonMapping = field(default_factory=dict)


@frozen
class ToolCall:
    """A native tool call as the server parsed it. `arguments` is the model's text, which need not
    be JSON."""

    name: str
    arguments: str
    id: str = ""  # as the server sent it; empty: it sent none


@frozen
class Completion:
    """A model's answer. `text` holds no lone surrogates, so it can be written as UTF-8.

    `model` is what the server says it is. Tokens are the server's count, or about four characters
    each where it sends none. `seconds` is the successful attempt alone. `constrained` says whether
    the schema was in force."""

    text: str
    finish: Finish
    model: str
    backbone: str
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    retries: int = 0
    constrained: bool = False
    # it thought before it answered, in its text (<think>) or in a field of its own
    thought: bool = False
    reasoning: JsonMapping = field(default_factory=dict)  # such fields, as the server calls them
    tool_calls: tuple[ToolCall, ...] = ()
    token_ids: tuple[int, ...] = ()  # vLLM with return_token_ids
    # of the answer's tokens, where /completions was asked for them
    logprobs: tuple[float, ...] = ()
    embeddings: tuple[tuple[float, ...], ...] = ()  # of the texts, in their order

    @property
    def whole(self) -> bool:
        """Whether the model ended by itself and said something."""
        return self.finish in ("stop", "tools") and bool(self.text or self.tool_calls)


class Usage(NamedTuple):
    """What one call cost, successful or not, as the log of calls keeps it. `outcome` is a `Finish`,
    or `failed`, `refused`, `budget` or `cancelled`. `seconds` is the last attempt, `waited`
    everything before it. `requests` went out over HTTP: an attempt whose schema was refused took
    two, one that found no address none."""

    stage: str
    outcome: str
    backbone: str
    model: str
    tokens_in: int
    tokens_out: int
    seconds: float
    waited: float
    retries: int
    requests: int
    constrained: bool
    template: str = ""
    account: str = ""

    def as_json(self) -> JsonObject:
        return self._asdict() | {"seconds": round(self.seconds, 4), "waited": round(self.waited, 4)}


class EndpointError(InfrastructureError):
    """The call was given up: the endpoint failed for longer than `retry_seconds`, or has been gone
    for too long."""


class RequestRefused(EndpointError):
    """The endpoint called this very request wrong (400, 413, 422): sending it again changes
    nothing."""
