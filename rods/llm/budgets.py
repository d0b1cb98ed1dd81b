"""Limits on tokens and requests of a run and on the calls of a variant.

The run's budget is exact where the server counts tokens: a call reserves what it may cost at most before it is sent,
waits while it would fit but for the reservations of other calls, and is refused when nothing is in flight and it would
still not fit. So no answer that was paid for is discarded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from rods.config import Budgets
from rods.errors import RodsError


class BudgetSpent(RodsError):
    """A limit that the user set is reached. `scope` says which: all calls of the run, or those of one variant."""

    def __init__(self, scope: Literal["run", "variant"], text: str) -> None:
        super().__init__(text)
        self.scope: Literal["run", "variant"] = scope


class Budget:
    """The run's limits. `tokens` and `requests` begin at what earlier starts have spent (the log of calls knows)."""

    def __init__(self, limits: Budgets, *, tokens: int = 0, requests: int = 0) -> None:
        self.limits, self.tokens, self.requests = limits, tokens, requests
        self.most_tokens, self.most_requests = limits.tokens or None, limits.requests or None  # None: no limit
        self._reserved = 0
        self._refused = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def spent(self) -> bool:
        """Whether the end is reached: no further call can be sent, or one was refused already."""
        over_tokens = self.most_tokens is not None and self.tokens >= self.most_tokens
        return self._refused or self._over_requests() or over_tokens

    def limit(self, kind: Literal["tokens", "requests"], most: int | None) -> None:
        """Sets another limit from now on; None: no limit, 0: no call more. What is in flight is not cut off."""
        if kind == "tokens":
            self.most_tokens = most
        else:
            self.most_requests = most
        self._refused = False
        self._wake()

    def status(self) -> dict[str, int | None]:
        """The limits (None: none), and what is used."""
        return {
            "tokens": self.most_tokens,
            "requests": self.most_requests,
            "variant_calls": self.limits.variant_calls or None,
            "used_tokens": self.tokens,
            "used_requests": self.requests,
        }

    async def reserve(self, tokens: int) -> None:
        """Waits until `tokens` more surely fit. Raises BudgetSpent when they never will."""
        while self.most_tokens is not None and self.tokens + self._reserved + tokens > self.most_tokens:
            if not self._reserved:
                self._refused = True
                raise BudgetSpent(
                    "run",
                    f"the budget of {self.most_tokens} tokens is spent: {self.tokens} are used and the next call "
                    f"may take {tokens} → raise operation.budgets.tokens and start again",
                )
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        self._reserved += tokens

    def settle(self, reserved: int, used: int) -> None:
        """Gives back a reservation and books what was used in its place."""
        self._reserved -= reserved
        self.tokens += used
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def send(self) -> None:
        """Books one HTTP request. Raises BudgetSpent instead of booking one too many."""
        if self._over_requests():
            raise BudgetSpent(
                "run",
                f"the budget of {self.most_requests} requests is spent → raise operation.budgets.requests and "
                "start again",
            )
        self.requests += 1

    def _over_requests(self) -> bool:
        return self.most_requests is not None and self.requests >= self.most_requests


@dataclass(slots=True)
class Account:
    """What one variant has cost so far, and the limit on its calls (0: none)."""

    name: str
    limit: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    models: list[str] = field(default_factory=list)  # that answered, each once, in order

    def open_call(self) -> None:
        """Books one call, however often it is then tried. Raises BudgetSpent instead of booking one too many."""
        if self.limit and self.calls >= self.limit:
            raise BudgetSpent("variant", f"{self.name}: {self.limit} calls are all that one variant may make")
        self.calls += 1

    def book(self, model: str, tokens_in: int, tokens_out: int, seconds: float) -> None:
        """Adds what one answer of `model` cost."""
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.seconds += seconds
        if model not in self.models:
            self.models.append(model)
