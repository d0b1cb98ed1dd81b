"""Rolls out many episodes with the policy served by vLLM: asyncio, token in and token out, prefix caching.

Every episode goes its own way: its environment in a thread of its own, its replies among the requests in flight. A
server that fails, is gone, or came back with other weights than the policy's makes rollouts end as `infrastructure`: no
reward, never the policy's failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import aiohttp

from rods.canonical import keyed_random
from rods.config import Endpoint, Rollouts
from rods.episode.drivers import Job, run_episode
from rods.episode.engine import NeedText, Reply
from rods.episode.goals import Goal, SharedGroundTruth
from rods.episode.watchdog import Lanes
from rods.errors import InfrastructureError
from rods.llm import Client, EndpointError, Request
from trainer.chat import Chat
from trainer.engines.conversations import Conversation, Sample
from trainer.engines.vllm_server import VllmServers

# The server's own sampling defaults come from the model's folder: training states its own.
PLAIN_SAMPLING = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}


class ServedEngine:
    """Episodes through `endpoint`, whose servers have the policy's weights. `mark` is what was left with them
    (trainer.engines.vllm_server); whoever gives them weights sets it, in every process."""

    def __init__(self, chat: Chat, limits: Rollouts, endpoint: Endpoint) -> None:
        self.chat, self.limits = chat, limits
        # a server that is gone ends rollouts; without patience, calls would wait for it for ever
        patience = endpoint.patience_seconds or max(1.0, endpoint.retry_seconds)
        self.endpoint = endpoint.model_copy(update={"patience_seconds": patience})
        self.servers = VllmServers(endpoint.urls, endpoint.retry_seconds)
        self.mark = ""

    def rollouts(self, jobs: Sequence[Job], *, random_seed: int, first: int = 0, greedy: bool = False) -> list[Sample]:
        """Runs `jobs` side by side (trainer.engines.conversations.RolloutEngine)."""
        return asyncio.run(self._all(jobs, random_seed, first, greedy))

    async def _all(self, jobs: Sequence[Job], random_seed: int, first: int, greedy: bool) -> list[Sample]:
        with Lanes(max(1, len(jobs)), "episode") as threads:
            async with Client((self.endpoint,)) as client, aiohttp.ClientSession(trust_env=False) as session:
                seeds = [keyed_random(random_seed, "place", first + i).getrandbits(62) for i in range(len(jobs))]
                episodes = [_Episode(self, client, session, seed, greedy) for seed in seeds]
                await asyncio.gather(
                    *(_prepare(goal, threads) for goal in {id(job.goal): job.goal for job in jobs}.values())
                )
                runs = [one.run(job, threads) for one, job in zip(episodes, jobs, strict=True)]
                return await asyncio.gather(*runs)


async def _prepare(goal: Goal, threads: Lanes) -> None:
    """Makes a shared ground truth before its rollouts ask: they would all wait for one of them, and hang with it."""
    if isinstance(goal, SharedGroundTruth):
        try:
            await asyncio.get_running_loop().run_in_executor(threads, goal.make)
        except InfrastructureError as error:
            goal.broken(error)


class _Episode:
    """One rollout on its way."""

    def __init__(
        self, engine: ServedEngine, client: Client, session: aiohttp.ClientSession, seed: int, greedy: bool
    ) -> None:
        self.engine, self.client, self.session, self.seed, self.greedy = engine, client, session, seed, greedy
        self.conversation = Conversation()

    async def run(self, job: Job, threads: Lanes) -> Sample:
        trace = await run_episode(job, self._reply, threads)
        if not await self._our_weights():
            trace = replace(trace, end="infrastructure")
        return self.conversation.sample(trace)

    async def _our_weights(self) -> bool:
        return await self.engine.servers.kept(self.session, self.engine.mark)

    async def _reply(self, need: NeedText) -> Reply:
        chat, limits, conversation = self.engine.chat, self.engine.limits, self.conversation
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
        tokens, logprobs = list(answer.token_ids), answer.logprobs
        if not tokens or (not self.greedy and len(logprobs) != len(tokens)):
            return Reply("the server sent no token ids with their log-probabilities", "infrastructure")
        if answer.retries and not await self._our_weights():
            return Reply("the server was restarted and serves other weights", "infrastructure")
        return conversation.take(chat, tokens, limits, logprobs)
