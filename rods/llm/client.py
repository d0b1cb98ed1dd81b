"""The client: chooses an endpoint, waits for a slot, tries, tries again, counts. See
rods/llm/__init__.py.

One call is tried until it is answered, refused, or has failed for `retry_seconds` (attempts and the
waits between them; not the queue, and not the pauses of an open circuit), or often enough to be
suspected of breaking the server itself. A call that waits between attempts holds no slot; when it
comes back it goes first. Calls may be cancelled at any moment.
"""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from rods.canonical import JsonObject
from rods.config import Budgets, Endpoint
from rods.errors import BudgetSpent, UserError
from rods.llm.backbone import Backbone, CallTally, Failure
from rods.llm.connections import open_session
from rods.llm.records import (
    Account,
    Budget,
    Completion,
    EndpointError,
    Request,
    RequestRefused,
    Usage,
)
from rods.logs import log

if TYPE_CHECKING:
    import aiohttp

# seconds between attempts at most; doubles, and is drawn from 0 to that
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
MOST_TAKEN = 20  # attempts that servers broke over; so often it is the call that breaks them
WATCH_SECONDS = 2.0  # between looks at address files


class Client:
    """Calls to one or several endpoints, each with its own bound, circuit and key. Used as an async
    context manager. Raises UserError for endpoints whose key is missing. `sink` is called on the
    event loop, once a call; must be quick.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        budget: Budget | None = None,
        sink: Callable[[Usage], None] | None = None,
    ) -> None:
        if not endpoints:
            raise UserError(
                "no endpoint is configured",
                where="operation.endpoints",
                remedy="add one: see `rods doctor`",
            )
        self.settings = tuple(endpoints)
        self.budget = budget or Budget(Budgets())
        self.sink = sink
        # endpoints whose model was found to think before it answers, or not to
        self.thinks: dict[str, bool] = {}
        self._backbones: dict[str, Backbone] = {}
        self._session: aiohttp.ClientSession | None = None
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._session = open_session(sum(endpoint.concurrency + 4 for endpoint in self.settings))
        try:
            opened = [
                await Backbone(endpoint, self._session, self.budget.send).open()
                for endpoint in self.settings
            ]
        except BaseException:
            await self._session.close()
            raise
        self._backbones = {backbone.name: backbone for backbone in opened}
        self._watch = asyncio.create_task(self._watching())
        return self

    async def __aexit__(self, *raised: object) -> None:
        watch = self._watch
        self._watch = None
        if watch is not None:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        for backbone in self._backbones.values():
            backbone.close()
        if self._session is not None:
            await self._session.close()

    @property
    def backbones(self) -> list[str]:
        """The names of the endpoints."""
        return list(self._backbones)

    def draw(self, chance: random.Random) -> str:
        """An endpoint's name by weight, to pin all calls of a variant to (`Request.backbone`)."""
        weights = [backbone.settings.weight for backbone in self._backbones.values()]
        return chance.choices(self.backbones, weights)[0]

    def constrains(self, backbone: str) -> bool:
        """Whether the endpoint of this name is still believed to hold answers to a schema."""
        return self._backbones[backbone].structured

    def thinking_tokens(self, backbone: str) -> int:
        """Tokens that a model of this endpoint is given to think."""
        return self._backbones[backbone].settings.thinking_tokens

    def account(self, name: str) -> Account:
        """A new account for the calls of one variant."""
        return Account(name, self.budget.limits.variant_calls)

    def status(self) -> list[JsonObject]:
        """Every endpoint as people should see it: `answered` says whether it ever did,
        `down_seconds` and `why` tell a pause from an idle client."""
        return [
            {
                "endpoint": target.name,
                "model": target.settings.model,
                "servers": [server.base for server in target.servers],
                "in_flight": target.slots.held,
                "limit": int(target.slots.limit),
                "waiting": target.slots.waiting,
                "answered": target.circuit.last_answered > 0,
                "down_seconds": round(target.circuit.outage, 1),
                "why": target.circuit.why if target.circuit.outage else "",
            }
            for target in self._backbones.values()
        ]

    async def complete(self, request: Request) -> Completion:
        """The model's answer. Raises RequestRefused, EndpointError, BudgetSpent; ValueError for
        what is no JSON."""
        if self._watch is not None and self._watch.done():
            self._watch.result()
        call = CallTally(time.monotonic())
        reserved = 0
        completion = None
        outcome = "failed"
        try:
            if request.account is not None:
                request.account.open_call()
            if self.budget.most["tokens"] is not None:
                asked = self._backbones.get(request.backbone) or next(
                    iter(self._backbones.values())
                )
                tokens = asked.estimate(request)
                await self.budget.reserve(tokens)
                reserved = tokens
            completion = await self._answer(request, call)
            outcome = completion.finish
        except (BudgetSpent, RequestRefused, asyncio.CancelledError) as error:
            kinds = {
                BudgetSpent: "budget",
                RequestRefused: "refused",
                asyncio.CancelledError: "cancelled",
            }
            outcome = kinds[type(error)]
            raise
        finally:
            self.budget.settle(
                reserved, completion.tokens_in + completion.tokens_out if completion else 0
            )
            if self.sink is not None and (call.sent or call.requests):
                self.sink(call.usage(request, completion, outcome))
        return completion

    async def _answer(self, request: Request, call: CallTally) -> Completion:
        while True:
            backbone = self._choose(request.backbone)
            await backbone.slots.acquire(first=call.sent > 0)
            try:
                trial = await self._passage(backbone, pinned=bool(request.backbone))
                outcome = None
                if trial is not None:
                    outcome = await self._attempt(backbone, trial, request, call)
            finally:
                backbone.slots.release()
            if isinstance(outcome, Completion):
                return outcome
            if outcome is not None:
                await self._wait(backbone, call, outcome)

    def _choose(self, pinned: str) -> Backbone:
        """The pinned endpoint, or the next by weight among those that are not known to be down."""
        if pinned:
            if pinned not in self._backbones:
                raise UserError(
                    f"no endpoint is called {pinned!r}",
                    where="operation.endpoints",
                    remedy=", ".join(self._backbones),
                )
            return self._backbones[pinned]
        every = list(self._backbones.values())
        able = [backbone for backbone in every if backbone.circuit.able] or every
        for backbone in able:
            backbone.credit += backbone.settings.weight
        best = max(able, key=lambda backbone: backbone.credit)
        best.credit -= sum(backbone.settings.weight for backbone in able)
        return best

    async def _passage(self, backbone: Backbone, *, pinned: bool) -> bool | None:
        """Whether the call is the trial of an endpoint that is down; waits its turn. None: better
        another one."""
        while True:
            circuit = backbone.circuit
            if (
                not circuit.able
                and not pinned
                and any(other.circuit.able for other in self._backbones.values())
            ):
                return None
            patience = backbone.settings.patience_seconds
            if circuit.resting and 0 < patience < circuit.outage:
                raise EndpointError(
                    f"endpoint {backbone.name} is gone for more than {patience:g} s: {circuit.why}"
                )
            trial = await circuit.passage(patience - circuit.outage if patience else math.inf)
            if trial is not None:
                return trial

    async def _attempt(
        self, backbone: Backbone, trial: bool, request: Request, call: CallTally
    ) -> Completion | Failure:
        """Sends the call once, and tells slots and circuit how it went."""
        if self._watch is None:
            raise EndpointError("the client is closed")
        call.backbone = backbone.name
        call.sent += 1
        began = time.monotonic()
        try:
            completion = await backbone.ask(request, call)
        except Failure as failure:
            if failure.busy:
                backbone.slots.ended(busy=True)
            if failure.refusal:
                self._blame(backbone, call, failure)
            if failure.alive:
                self._reached(backbone, began, answered=False)
            elif backbone.circuit.failed(
                str(failure), trial, refusal=failure.refusal, after=failure.after or 0.0
            ):
                log.warning("endpoint down, calls wait", endpoint=backbone.name, why=str(failure))
            return failure
        except RequestRefused:
            self._reached(backbone, began)
            raise
        except BudgetSpent:
            call.sent -= 1
            raise
        finally:
            call.last = time.monotonic() - began
            call.spent += call.last
            backbone.circuit.leave(trial)
        if completion.finish != "context":
            backbone.slots.ended(busy=False)
        self._reached(backbone, began)
        return completion

    def _blame(self, backbone: Backbone, call: CallTally, failure: Failure) -> None:
        """Raises RequestRefused when calls that were sent after this one's last refusal were
        answered: then it is the call. Answers that were only on their way by then do not show that
        the key or the model is still good."""
        if call.refused and backbone.circuit.last_answered > call.refused:
            raise RequestRefused(f"endpoint {backbone.name} refuses this request alone: {failure}")
        call.refused = time.monotonic()

    async def _wait(self, backbone: Backbone, call: CallTally, failure: Failure) -> None:
        """Between attempts: backs off, or does not while the circuit does. Raises EndpointError
        when it is enough."""
        if (failure.lost or failure.refusal) and await backbone.reload():
            return
        wait = 0.0
        if backbone.circuit.down_since is None:
            wait = random.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(call.failures, 10)))
            wait = max(wait, failure.after or 0.0)
            call.failures += 1
        call.taken += failure.taken
        if call.spent + wait > backbone.settings.retry_seconds or call.taken >= MOST_TAKEN:
            tried = f"given up after {call.sent} attempts and {call.spent:.0f} s"
            asked = (
                ""
                if failure.after is None
                else f"; it asks to be left alone for {failure.after:.0f} s"
            )
            raise EndpointError(f"endpoint {backbone.name}: {tried}: {failure}{asked}")
        call.spent += wait
        await asyncio.sleep(wait)

    def _reached(self, backbone: Backbone, sent: float, *, answered: bool = True) -> None:
        if backbone.circuit.succeeded(sent, answered=answered):
            log.info("endpoint back", endpoint=backbone.name)

    async def _watching(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for backbone in self._backbones.values():
                if backbone.settings.url_file:
                    await backbone.reload()
