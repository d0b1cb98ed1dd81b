"""Rolls out many episodes with the policy served by vLLM: asyncio, token in and token out, prefix
caching. Each environment runs in a thread of its own. A server that fails, is gone, or came back
with other weights makes rollouts end as `infrastructure`: no reward, never the policy's failure.
Whoever gives a server weights also sets a weight version, which does not survive a restart
(docs/training.md); the addresses for it need `VLLM_SERVER_DEV_MODE=1`."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from rods.canonical import JsonObject, keyed_random
from rods.config import Endpoint, Rollouts, addresses
from rods.deadlines import SERVER_ANSWER, WEIGHTS_LOADED
from rods.episode.drivers import Job, run_episode
from rods.episode.engine import NeedText, Reply
from rods.episode.goals import SharedGroundTruth
from rods.episode.watchdog import Lanes
from rods.errors import InfrastructureError
from rods.faults import NO_ANSWER
from rods.llm import Client, EndpointError, Request
from rods.llm.connections import Key, read_reply, reason
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Conversation, Sample

# Training states its own sampling; a server's defaults come from the model's folder.
PLAIN_SAMPLING = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}


class ServedEngine:
    """Episodes through `endpoint`. `version` is the weight version that was set in its servers ("":
    they keep none); whoever gives them weights sets it here, in every process."""

    def __init__(self, chat: Chat, limits: Rollouts, endpoint: Endpoint) -> None:
        self.chat = chat
        self.limits = limits
        self.endpoint = endpoint.giving_up
        self.servers = VllmServers(endpoint)
        self.version = ""

    def rollouts(
        self, jobs: Sequence[Job], *, random_seed: int, first: int = 0, greedy: bool = False
    ) -> list[Sample]:
        """Runs `jobs` side by side (rods.trainer.engines.base.RolloutEngine)."""
        seeds = [
            keyed_random(random_seed, "place", first + i).getrandbits(62) for i in range(len(jobs))
        ]
        return asyncio.run(self._all(jobs, seeds, greedy))

    async def _all(self, jobs: Sequence[Job], seeds: Sequence[int], greedy: bool) -> list[Sample]:
        with Lanes(max(1, len(jobs)), "episode") as threads:
            async with (
                Client((self.endpoint,)) as client,
                aiohttp.ClientSession(trust_env=False) as session,
            ):
                shared = {
                    id(job.goal): job.goal
                    for job in jobs
                    if isinstance(job.goal, SharedGroundTruth)
                }
                await asyncio.gather(*(_prepare(goal, threads) for goal in shared.values()))
                episodes = [_Episode(self, client, session, seed, greedy) for seed in seeds]
                return await asyncio.gather(
                    *(play.run(job, threads) for play, job in zip(episodes, jobs, strict=True))
                )


async def _prepare(goal: SharedGroundTruth, threads: Lanes) -> None:
    """Computes a ground truth before its rollouts ask for it: they would all wait for the first,
    and hang with it."""
    try:
        await asyncio.get_running_loop().run_in_executor(threads, goal.make)
    except InfrastructureError as error:
        goal.broken(error)


@dataclass(slots=True)
class _Episode:
    """One rollout while it runs."""

    engine: ServedEngine
    client: Client
    session: aiohttp.ClientSession
    seed: int
    greedy: bool
    conversation: Conversation = field(default_factory=Conversation)

    async def run(self, job: Job, threads: Lanes) -> Sample:
        trace = await run_episode(job, self._reply, threads)
        if not await self._has_our_weights():
            trace = replace(trace, end="infrastructure")
        return self.conversation.sample(trace)

    async def _has_our_weights(self) -> bool:
        return await self.engine.servers.have(self.session, self.engine.version)

    async def _reply(self, need: NeedText) -> Reply:
        chat = self.engine.chat
        limits = self.engine.limits
        conversation = self.conversation
        conversation.ask(chat, need)
        room = conversation.room(limits)
        if room < 1:
            return Reply("", "context")
        wanted = {"return_token_ids": True, "stop_token_ids": sorted(chat.ends)}
        request = Request(
            "rollout",
            prompt=conversation.prompt + conversation.completion,
            max_tokens=room,
            temperature=0.0 if self.greedy else limits.temperature,
            top_p=1.0 if self.greedy else limits.top_p,
            random_seed=(self.seed + len(conversation.spans)) % 2**62,
            extra={**PLAIN_SAMPLING, **wanted, **({} if self.greedy else {"logprobs": 0})},
        )
        try:
            answer = await self.client.complete(request)
        except EndpointError as error:
            return Reply(str(error), "infrastructure")
        if answer.finish == "context":
            return Reply("", "context")
        if answer.finish in NO_ANSWER:
            return Reply(f"no completion: {answer.finish}", "infrastructure")
        tokens = list(answer.token_ids)
        logprobs = answer.logprobs
        if not tokens or (not self.greedy and len(logprobs) != len(tokens)):
            return Reply(
                "the server sent no token ids with their log-probabilities", "infrastructure"
            )
        if answer.retries and not await self._has_our_weights():
            return Reply("the server was restarted and serves other weights", "infrastructure")
        return conversation.take(chat, tokens, limits, logprobs)


WAIT_SECONDS = 1.0  # between attempts


class VllmServers:
    """The servers of `endpoint`, replicas of one policy. One that is gone, or not in the file of
    addresses yet, is waited for during `retry_seconds`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.patience = endpoint.retry_seconds

    def bases(self) -> list[str]:
        """Their addresses without `/v1`. A file is read each time: a server that was requeued may
        be elsewhere. Raises Unreachable for a file that names none."""
        urls: Sequence[str] = self.endpoint.urls
        if self.endpoint.url_file:
            try:
                urls = addresses(
                    Path(self.endpoint.url_file).expanduser().read_text(encoding="utf-8")
                )
            except (OSError, ValueError) as error:
                raise Unreachable(f"{self.endpoint.url_file}: {error}") from error
            if not urls:
                raise Unreachable(f"{self.endpoint.url_file} names no address")
        return [url.removesuffix("/").removesuffix("/v1") for url in urls]

    def load(self, folder: Path | None = None) -> str:
        """Has every server load the weights in `folder` in place and drop its cached prefixes
        (None: they were given in another way); the new weight version, "" where one of them keeps
        none. Raises InfrastructureError."""
        return asyncio.run(self._load(folder))

    async def have(self, session: aiohttp.ClientSession, version: str) -> bool:
        """Whether every server that answers still has `version`, or none was set."""
        with suppress(Unreachable):  # no address: as for one that is gone
            for base in self.bases() if version else ():
                with suppress(InfrastructureError):  # gone, not come back with other weights
                    info = await _ask(session, "GET", f"{base}/weight_info", SERVER_ANSWER)
                    if info is not None and info.get("weight_version") != version:
                        return False
        return True

    async def _load(self, folder: Path | None) -> str:
        deadline = time.monotonic() + self.patience
        version = secrets.token_hex(8)
        versioned: dict[
            str, bool
        ] = {}  # the servers that have them, and whether they keep versions
        async with aiohttp.ClientSession(trust_env=False) as session:
            while True:
                try:
                    bases = self.bases()
                    for base in bases:
                        if base not in versioned:
                            versioned[base] = await _give(session, base, folder, version)
                    return version if all(versioned[base] for base in bases) else ""
                except Unreachable:
                    if time.monotonic() > deadline:
                        raise
                await asyncio.sleep(WAIT_SECONDS)


class Unreachable(InfrastructureError):
    """Nobody answers at an address at the moment, or not with these weights yet."""


async def _give(
    session: aiohttp.ClientSession, base: str, folder: Path | None, version: str
) -> bool:
    """Whether the server at `base`, which has the weights in `folder` now, if any, keeps weight
    versions."""
    if folder is not None:
        order: JsonObject = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        answer = await _ask(session, "POST", f"{base}/collective_rpc", WEIGHTS_LOADED, json=order)
        reset = answer is not None and await _ask(
            session, "POST", f"{base}/reset_prefix_cache", SERVER_ANSWER
        )
        if not isinstance(reset, dict):
            raise InfrastructureError(
                f"{base} does not take weights: start the server with VLLM_SERVER_DEV_MODE=1"
            )
        if not reset.get("success", True):
            raise Unreachable(
                f"{base} keeps prefixes of older weights: it is still answering someone"
            )
    order = {"new_version": version}
    return (
        await _ask(session, "POST", f"{base}/update_weight_version", SERVER_ANSWER, json=order)
        is not None
    )


async def _ask(
    session: aiohttp.ClientSession, method: str, address: str, seconds: float, **body: Any
) -> Any:
    """The server's answer, None where it knows no such address. Raises InfrastructureError."""
    try:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with session.request(method, address, timeout=timeout, **body) as answer:
            content = await read_reply(answer)
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise InfrastructureError(
                    f"{address} answered {answer.status} ({Key().complaint(content)})"
                )
            return orjson.loads(content) if content else {}
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise Unreachable(f"{address}: {reason(error, Key())}") from error
