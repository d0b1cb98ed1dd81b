"""Rolls out many episodes with the policy served by vLLM: asyncio, token in and token out, prefix caching.

Before each batch the server gets the current weights: they are written as a folder of safetensors that both machines
see, and the server is told to load them in place and to forget its cached prefixes. This needs a server with
`VLLM_SERVER_DEV_MODE=1` and works on every device; how long it takes is the time to write and read the weights once.

A server that fails or is gone makes rollouts end as `infrastructure`: no reward, never the policy's failure.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp

from rods.canonical import keyed_random
from rods.config import Endpoint, Rollouts
from rods.driving import Job, run_episode
from rods.episodes import NeedText, Reply, Trace
from rods.errors import InfrastructureError
from rods.llm import Client, EndpointError, Request
from trainer.chat import Chat
from trainer.conversations import Conversation, Sample

THREADS = 16  # environments that run side by side
SYNC_SECONDS = 900.0  # for a server to load its weights
# The server's own sampling defaults come from the model's folder: training states its own.
PLAIN_SAMPLING = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}


class ServedEngine:
    """Episodes through `endpoint`, whose server has the policy's weights.

    `save` writes the policy as a folder; `folder` is where, on a disk that the server sees under the same path.
    """

    def __init__(
        self, chat: Chat, limits: Rollouts, endpoint: Endpoint, folder: Path, save: Callable[[Path], None]
    ) -> None:
        self.chat, self.limits, self.endpoint = chat, limits, endpoint
        self.folder, self.save = folder, save
        self.synchronised = 0  # how often the server has loaded weights

    def rollouts(self, jobs: Sequence[Job], *, random_seed: int, first: int = 0, greedy: bool = False) -> list[Sample]:
        """Runs `jobs` side by side (trainer.conversations.RolloutEngine)."""
        return asyncio.run(self._all(jobs, random_seed, first, greedy))

    def synchronise(self) -> None:
        """Gives the server the policy's weights. Raises InfrastructureError when it does not take them."""
        self.synchronised += 1
        written = self.folder / f"{os.getpid()}-{self.synchronised}"
        written.mkdir(parents=True)
        try:
            self.save(written)
            asyncio.run(self._load(written))
        finally:
            shutil.rmtree(written, ignore_errors=True)

    async def _all(self, jobs: Sequence[Job], random_seed: int, first: int, greedy: bool) -> list[Sample]:
        with ThreadPoolExecutor(THREADS) as threads:
            async with Client((self.endpoint,)) as client:
                return await asyncio.gather(
                    *(
                        self._one(
                            client, job, threads, keyed_random(random_seed, "place", place).getrandbits(62), greedy
                        )
                        for place, job in enumerate(jobs, start=first)
                    )
                )

    async def _one(self, client: Client, job: Job, threads: ThreadPoolExecutor, seed: int, greedy: bool) -> Sample:
        conversation = Conversation()

        async def complete(need: NeedText) -> Reply:
            conversation.ask(self.chat, need)
            room = conversation.room(self.limits)
            if room < 1:
                return Reply("", "context")
            request = Request(
                "rollout",
                prompt=conversation.prompt + conversation.completion,
                max_tokens=room,
                temperature=0.0 if greedy else self.limits.temperature,
                top_p=1.0 if greedy else self.limits.top_p,
                random_seed=(seed + len(conversation.spans)) % 2**62,
                extra={**PLAIN_SAMPLING, "return_token_ids": True, "stop_token_ids": sorted(self.chat.ends)},
            )
            try:
                answer = await client.complete(request)
            except EndpointError as error:
                return Reply(str(error), "infrastructure")
            tokens = list(answer.token_ids)
            if answer.finish == "context":
                return Reply("", "context")
            if not tokens:
                return Reply("the server sent no token ids", "infrastructure")
            return conversation.take(self.chat, tokens, self.limits)

        trace: Trace = await run_episode(job, complete, threads)
        return conversation.sample(trace)

    async def _load(self, written: Path) -> None:
        timeout = aiohttp.ClientTimeout(total=SYNC_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            for url in self.endpoint.urls:
                base = url.removesuffix("/").removesuffix("/v1")
                order = {"method": "reload_weights", "kwargs": {"weights_path": str(written)}}
                await _post(session, f"{base}/collective_rpc", json=order)
                await _post(session, f"{base}/reset_prefix_cache")


async def _post(session: aiohttp.ClientSession, address: str, **body: Any) -> None:
    try:
        async with session.post(address, **body) as answer:
            if answer.status != 200:
                said = (await answer.text())[:300]
                raise InfrastructureError(
                    f"{address} answered {answer.status} ({said}): start the server with VLLM_SERVER_DEV_MODE=1"
                )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise InfrastructureError(f"{address}: {error or type(error).__name__}") from error
