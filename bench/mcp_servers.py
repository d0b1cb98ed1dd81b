"""What an episode sees of an MCP server: how soon it has a world, calls a second, memory of 64
servers.

Claim: a world within a second, 90 % of the calls a second of the SDK's own client, 64 servers in
4.5 GB. Anchor: that client, one call after another. Command: `python -m bench.mcp_servers`.

The server is ours, of a few lines, and nearly all of its memory is its interpreter and the SDK.
Worlds are timed from `reset` to the first answer, less an ordinary call.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path

from mcp import Client, StdioServerParameters

from bench.figures import Figure, run
from rods.calls import Call
from rods.environments.replay import Replayed
from rods.worlds.mcp.description import Description, asked
from rods.worlds.mcp.sessions import Session
from rods.worlds.mcp.world import McpEnvironment

COMMAND = [sys.executable, "-m", "bench.fixtures.mcp_shop"]
HERE = str(Path(__file__).parent.parent)
SERVERS = 64
CALLS = 300
ASKED = Call("read_marks")
REACH_WORLD = 1.0
REACH_RATE = 0.9
REACH_MEMORY = 4.5


def measure(quick: bool) -> list[Figure]:
    environment = shop()
    resets = [_reset(environment) for _ in range(4 if quick else 20)]
    ours = []
    bare = []
    world = environment.reset(None)
    for _ in range(4 if quick else 12):
        bare.append(asyncio.run(_bare()))
        began = time.perf_counter()
        for _ in range(CALLS):
            world.call(ASKED)
        ours.append(CALLS / (time.perf_counter() - began))
    worlds = [world, *(environment.reset(None) for _ in range((8 if quick else SERVERS) - 1))]
    gigabytes = (
        sum(_memory(int(each.call(Call("pid")).value["pid"])) for each in worlds)
        / len(worlds)
        * SERVERS
        / 1e9
    )
    return [
        Figure("a world, median", statistics.median(resets), "s", "", None, REACH_WORLD, False),
        Figure(
            "calls, one after another, best", max(ours), "calls/s", "the SDK's client", max(bare)
        ),
        Figure("calls, share of that client's", max(ours) / max(bare), "", "", None, REACH_RATE),
        Figure(f"memory of {SERVERS} servers", gigabytes, "GB", "", None, REACH_MEMORY, False),
    ]


def shop() -> Replayed:
    given = Description(command=COMMAND, env={"PYTHONPATH": HERE})
    session = Session(given).wait()
    session.end()
    server = asked(given, session.tools, session.about)
    return server.replayed(McpEnvironment("shop.json", server))


def _reset(environment: Replayed) -> float:
    began = time.perf_counter()
    world = environment.reset(None)
    world.call(ASKED)
    there = time.perf_counter()
    world.call(ASKED)
    return 2 * there - began - time.perf_counter()


async def _bare() -> float:
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env={"PYTHONPATH": HERE})
    async with Client(server) as client:
        await client.call_tool(ASKED.name, dict(ASKED.arguments))
        began = time.perf_counter()
        for _ in range(CALLS):
            await client.call_tool(ASKED.name, dict(ASKED.arguments))
        return CALLS / (time.perf_counter() - began)


def _memory(pid: int) -> int:
    """Bytes of a process, what it shares divided among those that share it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    run(measure)
