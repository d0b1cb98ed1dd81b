"""aiohttp and orjson with nothing around them: no slots, no retries, no accounting. The least that
a call can cost."""

import asyncio

import aiohttp
import orjson

from bench.llm_clients.drive import MESSAGES, asked, drive


async def main() -> None:
    url, in_flight, rounds = asked()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:

        async def call() -> str:
            body = orjson.dumps(
                {"model": "stub", "messages": MESSAGES, "max_tokens": 1024, "temperature": 0.7}
            )
            async with session.post(
                f"{url}/chat/completions", data=body, headers={"Content-Type": "application/json"}
            ) as response:
                text: str = orjson.loads(await response.read())["choices"][0]["message"]["content"]
                return text

        await drive(call, in_flight, rounds)


asyncio.run(main())
