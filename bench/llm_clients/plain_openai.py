"""The `openai` client as it comes, in an environment of its own. It is no dependency of this
project."""

import asyncio
import sys
from pathlib import Path

import openai  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parent))

from drive import MESSAGES, asked, drive  # type: ignore[import-not-found]


async def main() -> None:
    url, in_flight, rounds = asked()
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:

        async def call() -> str:
            reply = await client.chat.completions.create(
                model="stub", messages=MESSAGES, max_tokens=1024
            )
            return str(reply.choices[0].message.content)

        await drive(call, in_flight, rounds)


asyncio.run(main())
