"""The project's client, with the log of calls as its sink, as in the daemon."""

import asyncio
import tempfile
from pathlib import Path

from bench.llm_clients.drive import MESSAGES, asked, drive
from rods.buffers.usage import UsageLog
from rods.config import Endpoint
from rods.llm import Client, Request


async def main() -> None:
    url, in_flight, rounds = asked()
    endpoint = Endpoint(model="stub", urls=(url,), concurrency=in_flight)
    request = Request("bench", MESSAGES)
    with tempfile.TemporaryDirectory() as folder:
        async with UsageLog(Path(folder), "bench") as log, Client([endpoint], sink=log) as client:

            async def call() -> str:
                return (await client.complete(request)).text

            await drive(call, in_flight, rounds)


asyncio.run(main())
