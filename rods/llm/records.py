"""A call's request, its completion, what it cost, and the errors with which it ends.

A model that says nothing, is cut short or lacks room for the prompt has answered: that is a `Completion` with its
`finish`. An endpoint that cannot be reached, breaks or refuses has not: that is an `EndpointError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.errors import InfrastructureError
from rods.faults import Finish
from rods.llm.budgets import Account


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `stage` names who asks and is what usage is counted by.

    `messages` go to /chat/completions; with `prompt` (text or token ids) instead, to /completions; with `texts` to
    /embeddings, which a server need not have: then the call is refused. `schema` (JSON
    Schema) constrains the text where the endpoint can. `backbone` pins one endpoint by name; empty lets the client
    draw by weight. `template` is the prompt template's name and version, `account` the variant that pays; both are
    recorded. `extra` goes into the body as it is.
    """

    stage: str
    messages: Sequence[Mapping[str, Any]] = ()
    prompt: str | Sequence[int] | None = None
    texts: Sequence[str] = ()
    schema: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int = 1024
    temperature: float = 0.7
    top_p: float = 0.95
    thinking: bool | None = None  # switched on or off in the chat template; None: as the server has it
    random_seed: int | None = None  # of the server's sampling, where it has one
    stop: Sequence[str] = ()
    backbone: str = ""
    template: str = ""
    account: Account | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A native tool call as the server parsed it. `arguments` is the model's text, which need not be JSON."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer. `text` holds no lone surrogates, so it can be written as UTF-8.

    `model` is what the server says it is. Tokens are the server's count, or about four characters each where it sends
    none. `seconds` is the successful attempt alone. `constrained` says whether the schema was in force.
    """

    text: str
    finish: Finish
    model: str
    backbone: str
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    retries: int = 0
    constrained: bool = False
    thought: bool = False  # it thought before it answered, in its text (<think>) or in a field of its own
    tool_calls: tuple[ToolCall, ...] = ()
    prompt_ids: tuple[int, ...] = ()  # vLLM with return_token_ids
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()  # of the answer's tokens, where /completions was asked for them
    embeddings: tuple[tuple[float, ...], ...] = ()  # of the texts, in their order

    @property
    def whole(self) -> bool:
        """Whether the model ended by itself and said something. Anything else is the model's failure."""
        return self.finish in ("stop", "tools")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call cost, successful or not, as the log of calls keeps it. `outcome` is a `Finish`, or `failed`,
    `refused`, `budget` or `cancelled`. `seconds` is the last attempt, `waited` everything before it: the queue, pauses
    and earlier attempts. `requests` went out over HTTP: an attempt whose schema was refused took two, one that found no
    address none."""

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

    def as_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "outcome": self.outcome,
            "backbone": self.backbone,
            "model": self.model,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "seconds": round(self.seconds, 4),
            "waited": round(self.waited, 4),
            "retries": self.retries,
            "requests": self.requests,
            "constrained": self.constrained,
            "template": self.template,
            "account": self.account,
        }


@dataclass(slots=True)
class Totals:
    """Sums over the calls of one stage."""

    calls: int = 0
    failed: int = 0  # of these: given up, refused, cancelled
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def add(self, usage: Usage, failed: bool) -> None:
        self.calls += 1
        self.failed += failed
        self.retries += usage.retries
        self.tokens_in += usage.tokens_in
        self.tokens_out += usage.tokens_out
        self.seconds += usage.seconds


Sink = Callable[[Usage], None]  # called on the event loop, once a call; must be quick


class EndpointError(InfrastructureError):
    """The call was given up: the endpoint failed for longer than `retry_seconds`, or has been gone for too long."""


class RequestRefused(EndpointError):
    """The endpoint called this very request wrong (400, 413, 422): sending it again changes nothing."""
