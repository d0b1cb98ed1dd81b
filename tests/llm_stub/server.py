"""The stub's server: bare asyncio, so that on one core it outruns any client. `python -m tests.llm_stub.server SCRIPT`.

Prints its port once it listens, and ends when its standard input closes. /stub/counts tells what it saw, a POST to
/stub/script changes the script.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import struct
import sys
from collections import Counter, deque
from typing import Any

from tests.llm_stub import replies
from tests.llm_stub.script import REFUSALS, Chance, Script

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_KEY = re.compile(rb"\r\nauthorization: *Bearer ([^\r]*)", re.IGNORECASE)
AT_ONCE = frozenset(REFUSALS) | {"429", "429_date"}  # no model is needed to say this


class Server:
    """The script, the counts, and the slots in which answers are written."""

    def __init__(self, script: Script) -> None:
        self.counts: Counter[str] = Counter()
        self.in_flight = self.running = 0
        self.queue: deque[Connection] = deque()
        self.use(script)

    def use(self, script: Script) -> None:
        self.script, self.chance = script, Chance(script)
        self.plain = replies.http("200 OK", replies.completion(replies.text_for({}, script), script))

    def enter(self, connection: Connection) -> None:
        self.in_flight += 1
        self.counts["most_in_flight"] = max(self.counts["most_in_flight"], self.in_flight)
        if self.script.slots and self.running >= self.script.slots:
            self.queue.append(connection)
        else:
            self._run(connection)

    def _run(self, connection: Connection) -> None:
        self.running += 1
        connection.running = True
        connection.timer = asyncio.get_running_loop().call_later(self.chance.latency(), connection.reply)

    def leave(self, connection: Connection) -> None:
        self.in_flight -= 1
        if connection.running:
            self.running -= 1
            connection.running = False
        else:
            with contextlib.suppress(ValueError):
                self.queue.remove(connection)
        while self.queue and (not self.script.slots or self.running < self.script.slots):
            self._run(self.queue.popleft())

    def metrics(self) -> bytes:
        label = f'{{engine="0",model_name="{self.script.model}"}}'
        return (
            f"# HELP vllm:num_requests_waiting Number of requests waiting to be processed.\n"
            f"vllm:num_requests_running{label} {self.running}.0\n"
            f"vllm:num_requests_waiting{label} {len(self.queue)}.0\n"
        ).encode()


class Connection(asyncio.Protocol):
    """One client's connection, one request at a time."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = b""
        self.body = b""
        self.chat = True
        self.fault = ""
        self.busy = self.running = False
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.known = False  # whether it counts as a connection: not for one that only asks the stub itself

    def connection_lost(self, error: Exception | None) -> None:
        if self.busy:
            self.server.counts["hung_up"] += 1
            self._done()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if self.busy or not end:
            return
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if len(rest) < size:
            return
        self.body, self.buffer = rest[:size], rest[size:]
        path = head.split(b" ", 2)[1].decode()
        if path in ("/v1/chat/completions", "/v1/completions"):
            self._take(head, chat="chat" in path)
        else:
            self.transport.write(self._aside(path, head))

    def _take(self, head: bytes, *, chat: bool) -> None:
        server = self.server
        server.counts["requests"] += 1
        server.counts["connections"] += not self.known
        self.known = True
        self.busy, self.chat = True, chat
        if not self._knows_key(head):
            self.fault = "401"
        elif server.script.refuse_schema and b'"response_format"' in self.body:
            self.fault = "400"
        else:
            self.fault = server.chance.fault(self.body)
        if self.fault in AT_ONCE:
            server.in_flight += 1
            self.reply()
        else:
            server.enter(self)

    def reply(self) -> None:
        """Says what there is to say, in the way that the fault demands."""
        self.server.counts[self.fault or "good"] += 1
        self.timer = None
        if self.fault == "reset":
            self._reset()
        elif self.fault in ("stall_midway", "reset_midway", "truncated"):
            self._break_off()
        elif self.fault != "stall":
            self.transport.write(self._whole())
            if self.fault == "close":
                self.transport.close()
            self._done()
            if self.buffer:
                self.data_received(b"")

    def _whole(self) -> bytes:
        answer, script = self.server.chance.answer, self.server.script
        if not self.fault and self.chat and not answer and b'"response_format"' not in self.body:
            return self.server.plain
        request = json.loads(self.body)
        text = answer(request) if answer else replies.text_for(request, script)
        if self.fault == "chunked":
            return replies.chunked(replies.completion(text, script, chat=self.chat))
        if self.fault in replies.REPLIES:
            return replies.REPLIES[self.fault](text, script, self.chat)
        # One that plays a role counts as a model would, about four characters a token.
        usage = {"prompt_tokens": len(self.body) // 4, "completion_tokens": len(text) // 4} if answer else None
        return replies.http("200 OK", replies.completion(text, script, chat=self.chat, usage=usage))

    def _break_off(self) -> None:
        whole = self._whole()
        self.transport.write(whole[: len(whole) - 40])
        if self.fault == "reset_midway":  # once that has left, or it would never arrive
            asyncio.get_running_loop().call_later(0.01, self._reset)
        elif self.fault == "truncated":
            self.transport.close()

    def _done(self) -> None:
        self.busy = False
        if self.timer is not None:
            self.timer.cancel()
        self.server.leave(self)

    def _reset(self) -> None:
        raw: Any = self.transport.get_extra_info("socket")
        if raw is not None and raw.fileno() >= 0:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _knows_key(self, head: bytes) -> bool:
        key = _KEY.search(head)
        return not self.server.script.key or (key is not None and key[1].decode() == self.server.script.key)

    def _aside(self, path: str, head: bytes) -> bytes:
        server, script = self.server, self.server.script
        if path == "/v1/models":
            if not self._knows_key(head):
                return replies.REPLIES["401"]("", script, True)
            card = {"id": script.model, "object": "model", "max_model_len": script.max_model_len}
            return replies.http("200 OK", json.dumps({"object": "list", "data": [card]}).encode())
        if path == "/metrics":
            return replies.http("200 OK", server.metrics(), kind="text/plain")
        if path == "/stub/counts":
            return replies.http("200 OK", json.dumps(server.counts).encode())
        if path == "/stub/forget":
            server.counts.clear()
            return replies.http("200 OK", b"{}")
        if path == "/stub/script":
            server.use(Script(**json.loads(self.body)))
            return replies.http("200 OK", b"{}")
        return replies.error("404 Not Found", "no such path")


async def _serve(script: Script, port: int) -> None:
    server = Server(script)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", port, backlog=4096)
    print(listener.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def main() -> None:
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible server.")
    parser.add_argument("script", help="the script as JSON")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cpu", type=int, default=-1, help="the core to run on")
    asked = parser.parse_args()
    if asked.cpu >= 0:
        os.sched_setaffinity(0, {asked.cpu})
    asyncio.run(_serve(Script(**json.loads(asked.script)), asked.port))


if __name__ == "__main__":
    main()
