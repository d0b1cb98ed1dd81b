"""What an endpoint sends is bounded by what it unpacks to, not by what came over the wire."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys

import pytest

ASK = """
import asyncio, resource, sys
import aiohttp
from rods.llm.connections import open_session, read_reply

async def ask():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with open_session(1) as session, session.get(sys.argv[1]) as response:
        try:
            said = f"{len(await read_reply(response))} bytes"
        except aiohttp.ClientPayloadError as error:
            said = str(error)
    print(said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, sep="|")

asyncio.run(ask())
"""


async def asked(content: bytes) -> tuple[str, int]:
    """What a client makes of a reply with this compressed body, and the megabytes that it took."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(content)}\r\n"
        )
        writer.write(f"{head}Content-Encoding: gzip\r\n\r\n".encode() + content)
        try:
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", ASK, url],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    said, megabytes = done.stdout.strip().split("|")
    return said, int(megabytes)


@pytest.mark.slow
async def test_a_reply_that_unpacks_to_a_gigabyte_is_refused_in_bounded_memory() -> None:
    bomb = gzip.compress(bytes(600 << 20), compresslevel=6)
    assert len(bomb) < 1 << 20
    said, megabytes = await asked(bomb)
    assert "more than 32 MB" in said and megabytes < 200, (said, megabytes)


async def test_a_compressed_reply_of_a_sound_size_is_read() -> None:
    assert (await asked(gzip.compress(b"x" * 100_000)))[0] == "100000 bytes"
