"""A policy behind an OpenAI-compatible endpoint: many episodes in flight, each asking as soon as it can.

An episode that meets a spent budget or an infrastructure failure is left out; the reason is counted, and the next start
runs it again. A prompt that does not fit the context ends the episode, as in the official harness. An output that was
cut at the token limit is taken as it is in the official protocol, and ends the episode elsewhere.

Rollouts, loss and local weights keep the reasoning in earlier replies, since their history is tokens that are never
rendered again. Behind an endpoint the server renders the history, and the chat templates of some reasoning models leave
earlier reasoning out: such a policy would be scored on other conversations than it was trained on, so it is refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from evaluation.bfcl.dialects import Native, messages, reply_text
from evaluation.episodes import RANDOM_SEED, Maker, Slot
from evaluation.folder import Episode
from rods.canonical import content_id, keyed_random
from rods.episode.drivers import Job, run_episode
from rods.episode.engine import NeedText, Reply
from rods.errors import InfrastructureError, UserError
from rods.llm import BudgetSpent, Client, Completion, Request
from rods.tasks import AnyTask

if TYPE_CHECKING:
    import aiohttp

STAGE = "evaluation"  # what calls are counted by


class EndpointPolicy:
    """Runs episodes through `client`. `stopped` counts the episodes that were left out, by reason."""

    def __init__(self, client: Client, maker: Maker, in_flight: int) -> None:
        self.client, self.maker, self.in_flight = client, maker, in_flight
        self.stopped: Counter[str] = Counter()
        self._spent = False

    async def run(self, slots: Sequence[Slot], done: Callable[[Episode], None], asked: Callable[[], bool]) -> None:
        """Runs `slots` and hands every finished episode to `done`. Begins no more when `asked` says to stop, and gives
        up those that are running."""
        waiting = iter(slots)

        async def worker() -> None:
            for task, sample in waiting:
                if self._spent:
                    self.stopped["the budget is spent"] += 1
                else:
                    await self._episode(task, sample, done)

        workers = [asyncio.create_task(worker()) for _ in range(min(self.in_flight, len(slots)))]
        watch = asyncio.create_task(_wait_until(asked))
        try:
            together = asyncio.gather(*workers)
            either: set[asyncio.Future[Any]] = {together, watch}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if together.done():
                together.result()
        finally:
            for task in [watch, *workers]:
                task.cancel()
            await asyncio.gather(watch, *workers, return_exceptions=True)

    async def _episode(self, task: AnyTask, sample: int, done: Callable[[Episode], None]) -> None:
        job = self.maker.job(task)
        calls = _EpisodeCalls(self.client, self.maker, job, sample)
        trace = await run_episode(job, calls.reply)
        if trace.end == "infrastructure":
            self._spent |= calls.spent
            self.stopped[calls.trouble or "the environment's machinery failed"] += 1
        else:
            done(self.maker.episode(job, sample, trace, calls.cut))


class _EpisodeCalls:
    """The requests of one episode and their replies."""

    def __init__(self, client: Client, maker: Maker, job: Job, sample: int) -> None:
        self.client, self.settings, self.job, self.sample = client, maker.settings, job, sample
        self.trouble = ""
        self.spent = False
        self.cut = 0
        self._asked = 0

    async def reply(self, need: NeedText) -> Reply:
        try:
            completion = await self.client.complete(self._request(need))
        except BudgetSpent:
            self.trouble, self.spent = "the budget is spent", True
            return Reply("", "infrastructure")
        except InfrastructureError as error:
            self.trouble = str(error)
            return Reply("", "infrastructure")
        return self._read(completion)

    def _request(self, need: NeedText) -> Request:
        settings, dialect = self.settings, self.job.dialect
        self._asked += 1
        native = isinstance(dialect, Native)
        return Request(
            STAGE,
            messages(need.messages) if native else [{"role": m.role, "content": m.content} for m in need.messages],
            tools=self._tools(need) if isinstance(dialect, Native) else (),
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            random_seed=None if settings.greedy else self._seed(),
        )

    def _seed(self) -> int:
        key = (self.job.task.id, self.sample, self._asked)
        return keyed_random(RANDOM_SEED, "evaluation", *key).getrandbits(31)

    def _tools(self, need: NeedText) -> list[dict[str, object]]:
        """What is visible in this turn."""
        assert isinstance(self.job.dialect, Native)
        first = self.job.task.tools_at(0)
        now = set(self.job.task.tools_at(need.turn))
        held_out = [name for until, names in sorted(self.job.task.held_out.items()) for name in names]
        return self.job.dialect.tools(first, [name for name in held_out if name in now and name not in first])

    def _read(self, completion: Completion) -> Reply:
        text = completion.text
        if isinstance(self.job.dialect, Native):
            text = reply_text(text or None, [(call.name, call.arguments) for call in completion.tool_calls])
        if completion.finish == "context":
            return Reply(text, "context")
        if completion.finish == "length":
            if self.settings.protocol != "official":
                return Reply(text, "length")
            self.cut += 1
        return Reply(text)


async def _wait_until(asked: Callable[[], bool]) -> None:
    while not asked():  # noqa: ASYNC110 a signal's handler cannot set an event of the loop
        await asyncio.sleep(0.2)


SECONDS = 30.0
ASIDE = "<think>\nOne after the other.\n</think>\n\n"


async def refuse_dropped_reasoning(model: str, bases: Sequence[str]) -> None:
    """Has the servers at `bases` (…/v1) render a conversation with reasoning in it, where they can (vLLM). Raises
    UserError when they leave it out."""
    import aiohttp  # late, as in rods.llm.connections

    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout) as session:
        for base in bases:
            address = f"{base.removesuffix('/v1')}/tokenize"
            whole = await _tokens(session, address, model, f"{ASIDE}Done.")
            if whole is not None and whole == await _tokens(session, address, model, "Done."):
                raise UserError(
                    "the server's chat template leaves out earlier reasoning, which the policy was trained to read",
                    where=base,
                    remedy="serve it with --chat-template and one that keeps it, or score the local weights",
                )


async def rendered_template(model: str, bases: Sequence[str]) -> str | None:
    """A hash of what the chat templates of the servers at `bases` make of a fixed conversation, its tokens; None where
    no server says."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout) as session:
        asked = [_tokens(session, f"{base.removesuffix('/v1')}/tokenize", model, f"{ASIDE}Done.") for base in bases]
        found = {content_id(tokens) for tokens in await asyncio.gather(*asked) if tokens is not None}
    return " and ".join(f"rendered {one}" for one in sorted(found)) or None


async def _tokens(session: aiohttp.ClientSession, address: str, model: str, reply: str) -> list[int] | None:
    """The conversation as the server would prompt the policy with it; None where it does not say."""
    import aiohttp

    said = (("user", "Begin."), ("assistant", reply), ("user", "Go on."))
    messages = [{"role": role, "content": content} for role, content in said]
    try:
        async with session.post(address, json={"model": model, "messages": messages}) as answer:
            found = await answer.json(content_type=None) if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None  # the next request reports why
    return found.get("tokens") if isinstance(found, dict) else None
