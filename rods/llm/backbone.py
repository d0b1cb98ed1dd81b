"""One endpoint as the client uses it: its servers, key, slots and circuit, and one attempt at one
call. Nothing is retried here. Every text that comes from a server is scrubbed of the key, and no
exception of the HTTP library, which knows headers, gets out."""

import asyncio
import contextlib
import email.utils
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import aiofiles
import aiofiles.os

from rods.canonical import without
from rods.config import Endpoint, addresses, base_address
from rods.errors import UserError
from rods.llm import wire
from rods.llm.connections import Key, read_key, read_reply, reason
from rods.llm.pacing import Circuit, Limiter
from rods.llm.records import Completion, Request, RequestRefused, Usage
from rods.logs import log

if TYPE_CHECKING:
    import aiohttp

RESTING = 5.0  # seconds for which a replica that failed is asked only when there is no other
PATIENCE = 5.0  # seconds that a call waits for a look at the endpoint's files
# after so many in a row no more are sent: of one prompt template; of any, while none was taken
SCHEMAS_REFUSED = 8
# what a server answers that answers anything
SHORTEST = Request("probe", [{"role": "user", "content": "Say yes."}], max_tokens=16)


@dataclass(slots=True, eq=False)
class Failure(Exception):
    """An attempt that failed, in the server's words or ours."""

    what: str
    refusal: bool = False  # no call can succeed until someone mends something (key, model, path)
    busy: bool = False  # the server has too much to do
    alive: bool = False  # it is well and only turned this call away
    lost: bool = False  # it was not reached, or went away
    # it took this call in and broke over it, so the call itself may be to blame
    taken: bool = False
    after: float | None = None  # seconds for which it asked to be left alone

    def __str__(self) -> str:
        return self.what


@dataclass(slots=True)
class CallTally:
    """One call while it is tried: how often it was sent, where last, and the seconds that attempts
    and waits took."""

    began: float
    sent: int = 0
    # over HTTP; what is refused with a schema is sent once more within one attempt
    requests: int = 0
    failures: int = 0  # with which its waits grow
    taken: int = 0  # attempts that a server took in and broke over
    refused: float = 0.0  # monotonic time of the last refusal that any call might have met
    spent: float = 0.0
    last: float = 0.0
    backbone: str = ""

    def usage(self, request: Request, completion: Completion | None, outcome: str) -> Usage:
        """The call as it ended."""
        answer = completion or Completion("", "empty", "", self.backbone)
        waited = time.monotonic() - self.began - self.last
        account = request.account.name if request.account else ""
        return Usage(
            request.stage,
            outcome,
            self.backbone,
            answer.model,
            answer.tokens_in,
            answer.tokens_out,
            self.last,
            waited,
            max(0, self.sent - 1),
            self.requests,
            answer.constrained,
            request.template,
            account,
        )


@dataclass(slots=True)
class Server:
    """One address, and what is known about who answers there."""

    base: str
    in_flight: int = 0
    failed: float = 0.0  # monotonic time of the last connection failure


class Backbone:
    """One `Endpoint` of the configuration at work, from `open` to `close`."""

    def __init__(
        self, settings: Endpoint, session: "aiohttp.ClientSession", sending: Callable[[], None]
    ) -> None:
        """`sending` is called before every request for an answer, and may raise to forbid it."""
        import aiohttp  # late, as in connections

        self.settings = settings
        self.session = session
        self.sending = sending
        self.name = settings.name or settings.model
        self.slots = Limiter(settings.concurrency)
        self.circuit = Circuit()
        self.structured = settings.structured
        self.fields = settings.fields  # and what was found out
        self._suspect = True  # nothing was answered since a refusal, or at all
        self.credit = 0.0  # of the weighted draw
        self._schemas_taken = False  # whether a constrained answer has come
        self._refused_schemas = Counter[str]()  # in a row, by prompt template
        self._timeout = aiohttp.ClientTimeout(
            total=settings.read_seconds, sock_connect=settings.connect_seconds
        )
        self._file_seen: tuple[int, int, int] | None = None
        self.servers: list[Server] = []
        self._look: asyncio.Task[bool] | None = None  # at the files, by now perhaps done
        self._use_key(Key())
        self._set_servers([base_address(url) for url in settings.urls])

    async def open(self) -> Self:
        """Reads the key and the addresses. Raises UserError for a key that is missing."""
        self._use_key(await read_key(self.settings))
        await self.reload()
        return self

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()

    async def reload(self) -> bool:
        """Reads key and address file again. True when the addresses changed. A file that cannot be
        read changes nothing. Whoever asks during a look shares it, for `PATIENCE` seconds at most;
        one that hangs is left alone."""
        if not (self.settings.url_file or self.settings.key_file):
            return False
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._read_files())
        done, _ = await asyncio.wait({self._look}, timeout=PATIENCE)
        return any(look.result() for look in done if not look.cancelled())

    async def _read_files(self) -> bool:
        with contextlib.suppress(UserError):
            self._use_key(await read_key(self.settings))
        if not self.settings.url_file:
            return False
        # asks no file system
        path = os.path.expanduser(self.settings.url_file)  # noqa: ASYNC240, PTH111
        try:
            stat = await aiofiles.os.stat(path)
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen == self._file_seen:
                return False
            async with aiofiles.open(path, encoding="utf-8") as file:
                bases = addresses(await file.read())
        except (OSError, ValueError):
            return False
        self._file_seen = seen
        if not self._set_servers(bases):
            return False
        self.circuit.try_now()
        log.info(
            "endpoint moved", endpoint=self.name, servers=[server.base for server in self.servers]
        )
        return True

    def _use_key(self, key: Key) -> None:
        self.key = key
        self._headers = {"Content-Type": "application/json", **key.headers()}

    def _set_servers(self, bases: list[str]) -> bool:
        by_base = {server.base: server for server in self.servers}
        if not bases or list(by_base) == bases:
            return False
        self.servers = [by_base.get(base) or Server(base) for base in dict.fromkeys(bases)]
        return True

    async def ask(self, request: Request, call: CallTally) -> Completion:
        """One attempt of `call`. Raises RequestRefused where it is at fault; where nothing is
        answered, not even `SHORTEST`, it is the configuration, and a Failure. (Who has patience for
        an outage only is told at once.)"""
        try:
            completion = await self._ask_as_able(request, call)
        except RequestRefused as refusal:
            chat = wire.path(request) == wire.CHAT
            if chat and self._suspect and not self.settings.patience_seconds:
                try:
                    await self._ask(SHORTEST, call, constrained=False)
                except RequestRefused:
                    what = str(refusal).partition(": ")[2]
                    raise Failure(f"it refuses every request: {what}", refusal=True) from None
            self._suspect = not self._suspect
            raise
        self._suspect = False
        return completion

    async def _ask_as_able(self, request: Request, call: CallTally) -> Completion:
        """Where a schema is refused the same call goes without; after a few in a row of one
        template none of its are sent, none at all when none was ever taken, or schemas are unknown.
        Raises Failure or RequestRefused."""
        kind = request.template or request.stage
        refused = self._refused_schemas
        if request.schema is None or not self.structured or refused[kind] >= SCHEMAS_REFUSED:
            return await self._ask(request, call, constrained=False)
        try:
            completion = await self._ask(request, call, constrained=True)
        except RequestRefused as refusal:
            completion = await self._ask(request, call, constrained=False)
            refused[kind] += 1
            if not self._schemas_taken:
                few = refused.total() < SCHEMAS_REFUSED
                self.structured = few and not wire.refuses_schemas(str(refusal))
            more = self.structured and refused[kind] < SCHEMAS_REFUSED
            log.warning(
                "schema refused", endpoint=self.name, why=str(refusal), kind=kind, more=more
            )
            return completion
        if completion.finish != "context":  # that says nothing of the schema
            self._schemas_taken = True
            refused[kind] = 0
        return completion

    def estimate(self, request: Request) -> int:
        """Tokens that one call surely stays under: a generous guess at the prompt, and the longest
        answer."""
        return len(self._body(request, self.fields, constrained=False)) // 3 + request.max_tokens

    def _body(self, request: Request, fields: Mapping[str, str], *, constrained: bool) -> bytes:
        return wire.encode(
            request, self.settings.model, self.settings.extra, fields, constrained=constrained
        )

    async def _ask(self, request: Request, call: CallTally, *, constrained: bool) -> Completion:
        fields = dict(self.fields)
        path = wire.path(request)
        blank = Completion("", "context", self.settings.model, self.name, retries=call.sent - 1)
        began = time.monotonic()
        while True:
            body = self._body(request, fields, constrained=constrained)
            status, headers, content = await self._post(path, body, call)
            mendable = status in (400, 422) and path == wire.CHAT and not wire.no_room(content)
            if not (mendable and (change := wire.refused_field(content, fields))):
                break
            fields |= change
        if status == 200 and (learnt := without(fields, *self.fields)):
            self.fields = {**self.fields, **learnt}
            log.warning(
                "fields refused, sent otherwise from now on",
                endpoint=self.name,
                fields=learnt,
                remedy="the same in operation.endpoints.fields saves the refusal",
            )
        seconds = time.monotonic() - began
        if status != 200:
            if status in (400, 413, 422) and wire.no_room(content):
                return blank
            words = wire.complaint(content, self.key)
            if request.texts and status in (404, 405, 501):  # a server of chats, which does well
                raise RequestRefused(
                    f"endpoint {self.name} offers no embeddings: HTTP {status}: {words}"
                )
            raise self._complaint(status, words, headers)
        sent = replace(
            blank, tokens_in=len(body) // wire.CHARACTERS_A_TOKEN, constrained=constrained
        )
        try:
            if request.texts:
                return wire.decode_embeddings(content, sent, len(request.texts), seconds, self.key)
            return wire.decode(content, sent, seconds, self.key)
        except wire.NotAnAnswer as error:
            kind = self.key.complaint(headers.get("Content-Type", "no content type"))
            raise Failure(f"answered with {kind}: {error}", taken=True) from None

    def _complaint(self, status: int, words: str, headers: Any) -> Exception:
        what = f"HTTP {status}: {words}"
        if status in (408, 429) or status >= 500:
            after = _retry_after(headers.get("Retry-After"))
            # it was not this call that anything broke over
            absent = status in (408, 429, 502, 503, 504)
            return Failure(
                what,
                busy=status in (408, 429, 503),
                alive=status == 429,
                taken=not absent,
                after=after,
            )
        if status in (400, 413, 422):
            return RequestRefused(f"endpoint {self.name} refused a request: {what}")
        return Failure(what, refusal=True)

    async def _post(self, path: str, body: bytes, call: CallTally) -> tuple[int, Any, bytes]:
        import aiohttp

        server = self._server()
        self.sending()
        call.requests += 1
        server.in_flight += 1
        try:
            async with self.session.post(
                server.base + path,
                data=body,
                headers=self._headers,
                timeout=self._timeout,
                allow_redirects=False,
            ) as response:
                return response.status, response.headers, await read_reply(response)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            late = isinstance(error, TimeoutError)
            taken = not isinstance(
                error, aiohttp.ConnectionTimeoutError if late else aiohttp.ClientConnectorError
            )
            if not taken:
                server.failed = time.monotonic()
            limit = self.settings.read_seconds if taken else self.settings.connect_seconds
            what = (
                f"no {'answer' if taken else 'connection'} within {limit:g} s"
                if late
                else reason(error, self.key)
            )
            raise Failure(
                f"{server.base}: {what}",
                busy=late and taken,
                lost=not (late and taken),
                taken=taken,
            ) from None
        finally:
            server.in_flight -= 1

    def _server(self) -> Server:
        """The replica with the fewest calls, of those that did not just fail."""
        if not self.servers:
            raise Failure(f"no address in {self.settings.url_file} yet", lost=True)
        if len(self.servers) == 1:
            return self.servers[0]
        now = time.monotonic()
        return min(
            self.servers, key=lambda server: (now - server.failed < RESTING, server.in_flight)
        )


def _retry_after(value: str | None) -> float | None:
    """Seconds, from either form of the header; None when there is none that makes sense."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < 1e9 else None
