"""Plays the episodes of an evaluation: tasks as jobs, with local weights in batches, or by a policy
behind an OpenAI-compatible endpoint, many in flight, each asking as soon as it can.

Behind an endpoint, an episode that meets a spent budget or an infrastructure failure is left out;
the reason is counted, and the next start runs it again. A prompt that does not fit the context ends
the episode, as in the official harness. An output that was cut at the token limit is taken as it is
in the official protocol, and ends the episode elsewhere.

Rollouts, loss and local weights keep the reasoning in earlier replies, since their history is
tokens that are never rendered again. Behind an endpoint the server renders the history, and the
chat templates of some reasoning models leave earlier reasoning out: such a policy would be scored
on other conversations than it was trained on, so it is refused.

Replies with native tool calls are kept as text, as the server sent them (rods.dialects.remote).
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import orjson

from rods import dialects
from rods.analysis.containment import read_json
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen, keyed_random, present
from rods.dialects import Dialect, Message
from rods.dialects.remote import Served, reply_text
from rods.environments.base import Features, Instance, Tools
from rods.episode.drivers import Job, run_episode
from rods.episode.engine import NeedText, NeedVerdict, Reply, Trace, Verdict
from rods.episode.model_thread import ModelThread
from rods.errors import BudgetSpent, InfrastructureError, RodsError, UserError
from rods.family.benchmarks.folder import Episode, Settings
from rods.faults import NO_ANSWER
from rods.llm import Client, Completion, Request, RequestRefused
from rods.logs import log
from rods.tasks import AnyTask

if TYPE_CHECKING:
    from rods.trainer.engines.local import LocalEngine

RANDOM_SEED = 0  # of all draws; a task's samples are keyed by their number
RENDERING_SECONDS = 30.0  # for a server's answer
SPENT = "the budget is spent"
# what endpoints say that filter prompts, and refuse the request for it
FILTERED = re.compile(r"(?i)content.(?:filter|management|policy)|safety system|usage polic")
USER_TRIES = 4  # at a text of a user's that is not empty
ASIDE = "<think>\nOne after the other.\n</think>\n\n"
Slot = tuple[AnyTask, int]  # a task and the number of its sample


class Items(Protocol):
    """What a `Maker` asks of its benchmark."""

    def identifier(self, task: AnyTask) -> str:
        """What journals and result files call an item."""


class Maker(ABC):
    """Makes jobs for the tasks of a benchmark, and episodes out of their traces. `line` is there
    while it plays, where the settings name a model that plays the user, or an encoder."""

    line: ModelThread | None = None
    apart = False  # whether the endpoint is shown one call a message

    def __init__(self, benchmark: Items, settings: Settings) -> None:
        self.benchmark = benchmark
        self.settings = settings

    def trained(self) -> Dialect:
        """The dialect of a training protocol. What an endpoint's model has as its own is written
        and read by the server."""
        settings = self.settings
        assert settings.protocol != "official"
        if settings.served:
            return Served()
        folder, family = (settings.policy.get(name, "") for name in ("path", "family"))
        return dialects.load(settings.protocol, settings.system_prompt, folder, family)

    def returned(self, job: Job, turn: int) -> list[JsonObject]:
        """Tools that a request in `turn` has beside those of the beginning."""
        return []

    def search_by(self, key: str, url: str, patience: float) -> None:
        """Before it plays, where the settings name a search of the web: it is made with this key,
        there (default: the benchmark's own), and tried for so many seconds. Raises UserError."""
        raise NotImplementedError

    @abstractmethod
    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        """`before`: the episode that the item goes on from, where it does (`Benchmark.before`)."""

    @abstractmethod
    def result(self, job: Job, trace: Trace) -> Any:
        """What the record of a finished job holds."""

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        """The record of a finished job; `cut` of its outputs were taken although they were cut."""
        name = self.benchmark.identifier(job.task)
        form = self.settings.results_form
        return Episode(name, sample, form, self.result(job, trace), trace.end, cut)


class Troubled(Protocol):
    """What a job has beside its task: `trouble` is what broke there that is not the policy's."""

    trouble: str


@frozen
class ItemJob(Job):
    """A job with what is made for it alone: its tools, or its conversation."""

    own: Any = field(kw_only=True)  # a `Troubled`

    @property
    def trouble(self) -> str:
        return str(self.own.trouble)


@dataclass(eq=False)
class OwnWorlds:
    """The environment of items whose worlds belong to an episode, and its documented tools."""

    name: str
    hash: str
    documented: Tools = field(default_factory=dict)
    features = Features(waits=True)

    def tools(self) -> Tools:
        return self.documented

    def reset(self, state: JsonMapping | None) -> NoReturn:
        raise ValueError("its worlds belong to an episode")


class Unjudged:
    """The goal of what is scored by its messages alone."""

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        return Verdict(True, True)


class Slots:
    """What is to be played, in order. An item that goes on from what another has left (`earlier`:
    its name by that of the item) waits for the other's episode of the same sample; `done` are those
    that are on record."""

    def __init__(
        self, slots: Iterable[Slot], earlier: Mapping[str, str], done: Iterable[Episode] = ()
    ) -> None:
        self._waiting = deque(slots)
        self._earlier = earlier
        self._names = frozenset(earlier.values())
        self._left = {episode.key: episode for episode in done if episode.task in self._names}

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, most: int = 1) -> list[tuple[AnyTask, int, Episode | None]]:
        """The first that can begin, with the episode that each goes on from."""
        ready: list[tuple[AnyTask, int, Episode | None]] = []
        waiting: list[Slot] = []
        while self._waiting and len(ready) < most:
            task, sample = self._waiting.popleft()
            earlier = self._earlier.get(task.id)
            left = self._left.get((earlier, sample)) if earlier else None
            if earlier and left is None:
                waiting.append((task, sample))
            else:
                ready.append((task, sample, left))
        self._waiting.extendleft(reversed(waiting))
        return ready

    def ended(self, episode: Episode) -> None:
        """Remembers what others go on from."""
        if episode.task in self._names:
            self._left[episode.key] = episode


def play_batches(
    engine: "LocalEngine",
    maker: Maker,
    slots: Slots,
    in_flight: int,
    done: Callable[[Episode], None],
    asked: Callable[[], bool],
) -> None:
    """Plays `slots` with local weights in batches of `in_flight` and hands every finished episode
    to `done`. Begins no other batch when `asked` says to stop. Native tool calls are parsed by
    servers, so there are none here."""
    while not asked() and (part := slots.take(in_flight)):
        jobs = [maker.job(task, before) for task, _, before in part]
        key = keyed_random(
            RANDOM_SEED, "evaluation", *(f"{task.id} {n}" for task, n, _ in part)
        ).getrandbits(63)
        played = engine.rollouts(jobs, random_seed=key, greedy=maker.settings.greedy)
        for job, (_, sample, _), rollout in zip(jobs, part, played, strict=True):
            if rollout.trace.end != "infrastructure":
                done(episode := maker.episode(job, sample, rollout.trace))
                slots.ended(episode)


async def play(
    replies: Callable[[Job, int], "EndpointReplies"],
    maker: Maker,
    slots: Slots,
    in_flight: int,
    done: Callable[[Episode], None],
    asked: Callable[[], bool],
) -> Counter[str]:
    """Plays `slots`, each job and its sample by who `replies` makes for it, and hands every
    finished episode to `done`, and each that a completion that is none has ended, with its name;
    how many were left out, by reason. Begins no more when `asked` says to stop, and gives up those
    that are running."""
    stopped: Counter[str] = Counter()
    # set when an episode has ended: others may go on from it
    playing = 0
    ended = asyncio.Event()

    async def worker() -> None:
        nonlocal playing
        while slots:
            if not (ready := slots.take()):
                if not playing:
                    return
                ended.clear()
                await ended.wait()
                continue
            task, sample, before = ready[0]
            if stopped[SPENT]:
                stopped[SPENT] += 1
                continue
            playing += 1
            try:
                await episode(task, sample, before)
            except (RodsError, OSError):  # of the policy, or of the folder: so it is with all
                raise
            except Exception as error:  # noqa: BLE001 one item must not end the others
                log.warning("an item broke", task=task.id, exc_info=True)
                stopped[f"{maker.benchmark.identifier(task)} broke: {error!r}"] += 1
            finally:
                playing -= 1
                ended.set()

    async def episode(task: AnyTask, sample: int, before: Episode | None) -> None:
        job = maker.job(task, before)
        policy = replies(job, sample)
        trace = await run_episode(job, policy.reply)
        if trace.end == "infrastructure":
            stopped[policy.trouble or job.trouble or "the environment's machinery failed"] += 1
            if policy.trouble in NO_ANSWER:
                name = maker.benchmark.identifier(task)
                form = maker.settings.results_form
                done(Episode(name, sample, form, None, policy.trouble))
        else:
            done(played := maker.episode(job, sample, trace, policy.cut))
            slots.ended(played)

    workers = [asyncio.create_task(worker()) for _ in range(min(in_flight, len(slots)))]
    together = asyncio.gather(*workers)
    try:
        # a signal's handler cannot set an event of the loop
        while not together.done() and not asked():
            await asyncio.wait([together], timeout=0.2)
        if together.done():
            together.result()
    finally:
        for running in workers:
            running.cancel()
        await asyncio.gather(together, *workers, return_exceptions=True)
    if slots and not asked():
        stopped["what they go on from was left out"] += len(slots)
    return stopped


@dataclass(eq=False)
class EndpointReplies:
    """The requests of one episode to an endpoint, and their replies. `trouble`: what has ended it
    that is not the policy's, or the name of a completion that is none (`rods.faults.NO_ANSWER`);
    `cut`: outputs that were cut and yet taken."""

    client: Client
    maker: Maker
    job: Job
    sample: int
    trouble = ""
    cut = 0
    asked = 0  # requests

    async def reply(self, need: NeedText) -> Reply:
        self.asked += 1
        try:
            completion = await self._completion(need)
        except (BudgetSpent, InfrastructureError) as error:
            self.trouble = SPENT if isinstance(error, BudgetSpent) else str(error)
            if isinstance(error, RequestRefused) and FILTERED.search(self.trouble):
                self.trouble = "filtered"
            return Reply("", "infrastructure")
        if completion.finish in NO_ANSWER:
            self.trouble = completion.finish
            return Reply("", "infrastructure")
        text = completion.text
        if isinstance(self.job.dialect, Served):
            calls = [(call.name, call.arguments, call.id) for call in completion.tool_calls]
            text = reply_text(text or None, calls, completion.reasoning)
        if completion.finish == "context" or (
            completion.finish == "length" and self.maker.settings.protocol != "official"
        ):
            return Reply(text, completion.finish)
        self.cut += completion.finish == "length"
        return Reply(text)

    async def _completion(self, need: NeedText) -> Completion:
        """The answer. Some chat templates have one call a message: where a conversation with
        several is refused, it is asked again with one, as are all from then on if that passes."""
        request = self._request(need, apart=self.maker.apart)
        try:
            return await self.client.complete(request)
        except RequestRefused:
            other = self._request(need, apart=True)
            if other.messages == request.messages:
                raise
            completion = await self.client.complete(other)
        self.maker.apart = True
        return completion

    def _request(self, need: NeedText, *, apart: bool) -> Request:
        settings = self.maker.settings
        key = (RANDOM_SEED, "evaluation", self.job.task.id, self.sample, self.asked)
        tools: Sequence[JsonObject] = ()
        if isinstance(self.job.dialect, Served):
            tools = request_tools(need.messages) + self.maker.returned(self.job, need.turn)
            conversation = messages(need.messages, apart=apart)
        else:
            conversation = [
                {"role": message.role, "content": message.content} for message in need.messages
            ]
        return Request(
            "evaluation",
            conversation,
            tools=tools,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            random_seed=None if settings.greedy else keyed_random(*key).getrandbits(31),
        )


def user_reply(
    line: ModelThread | None,
    talk: Troubled,
    task: str,
    place: int,
    conversation: Sequence[JsonObject],
    tools: Sequence[JsonMapping],
    **sampling: float,
) -> tuple[str, tuple[Call, ...]]:
    """What the model that plays the user of `task` says as its reply number `place`, from 0, and
    the calls of its `tools` that it makes. Raises InfrastructureError, and leaves it in the `talk`,
    where it fails, or does neither in `USER_TRIES` tries."""
    assert line is not None
    try:
        for number in range(USER_TRIES):
            seed = keyed_random(RANDOM_SEED, "user", task, place, number).getrandbits(31)
            request = Request(
                "user",
                conversation,
                tools=tools,
                random_seed=seed,
                **sampling,  # type: ignore[arg-type]
            )
            answer = line.ask(partial(Client.complete, request=request))
            made = [(call.name, call.arguments) for call in answer.tool_calls] if tools else ()
            parsed = Served().parse(reply_text(text := answer.text.strip(), made))
            if answer.finish not in NO_ANSWER and not parsed.error and (text or parsed.calls):
                return text, parsed.calls
        raise InfrastructureError(f"it said nothing in {USER_TRIES} tries")
    except InfrastructureError as error:
        talk.trouble = f"the user's model: {error}"
        raise


async def rendered_template(
    model: str, bases: Sequence[str], *, keeps_reasoning: bool
) -> str | None:
    """A hash of what the chat templates of the servers at `bases` (…/v1) make of a fixed
    conversation with reasoning in it, its tokens; None where no server says (vLLM does). With
    `keeps_reasoning`, raises UserError where one leaves the reasoning out."""
    import aiohttp  # late, as in rods.llm.connections

    async def tokens(base: str, reply: str) -> Any:
        """The conversation as the server would prompt the policy with it; None where it does not
        say."""
        conversation = (("user", "Begin."), ("assistant", reply), ("user", "Go on."))
        request = {
            "model": model,
            "messages": [{"role": role, "content": content} for role, content in conversation],
        }
        try:
            async with session.post(f"{base.removesuffix('/v1')}/tokenize", json=request) as answer:
                content = await answer.json(content_type=None) if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None  # the next request reports why
        return content.get("tokens") if isinstance(content, dict) else None

    rendered = set()
    timeout = aiohttp.ClientTimeout(total=RENDERING_SECONDS)
    async with aiohttp.ClientSession(trust_env=False, timeout=timeout) as session:
        for base in bases:
            whole = await tokens(base, f"{ASIDE}Done.")
            if whole is None:
                continue
            if keeps_reasoning and whole == await tokens(base, "Done."):
                what = (
                    "the server's chat template leaves out earlier reasoning, which the policy was "
                    "trained to read"
                )
                remedy = (
                    "serve it with --chat-template and one that keeps it, or score the local "
                    "weights"
                )
                raise UserError(what, where=base, remedy=remedy)
            rendered.add(content_id(whole))
    return " and ".join(f"rendered {mark}" for mark in sorted(rendered)) or None


def request_tools(conversation: Sequence[Message]) -> list[JsonObject]:
    """The tools that stand beside the messages of a conversation."""
    return [orjson.loads(tool) for message in conversation for tool in message.tools]


def messages(conversation: Sequence[Message], *, apart: bool = False) -> list[JsonObject]:
    """A conversation of the native form as chat-completion messages; `apart`: one call a message,
    its result behind it."""
    listed: list[JsonObject] = []
    for place, message in enumerate(conversation):
        if message.role == "assistant":
            following = takewhile(lambda other: other.role == "tool", conversation[place + 1 :])
            results = [other.content for other in following]
            listed += _exchange(orjson.loads(message.content), results, len(listed), apart)
        elif message.role != "tool" and message.content:
            listed.append({"role": message.role, "content": message.content})
    return listed


def _exchange(
    reply: JsonObject, results: Sequence[str], place: int, apart: bool
) -> list[JsonObject]:
    """A reply and the results of its calls. Calls whose arguments are no JSON object, which servers
    would refuse to take back, are shown as the assistant's text, and their results as the
    user's."""
    calls = [
        {"id": f"{place:05d}{index:04d}", **call}
        for index, call in enumerate(reply.pop("tool_calls", ()))
    ]
    said = {"role": "assistant", **reply}
    functions = [call["function"] for call in calls]
    if not all(isinstance(read_json(one["arguments"] or "{}"), dict) for one in functions):
        lines = [f"{one['name']} {one['arguments']}" for one in functions]
        said["content"] = "\n".join(filter(None, [reply["content"], *lines]))
        return [said, *([{"role": "user", "content": "\n".join(results)}] if results else ())]
    answers = [
        {"role": "tool", "tool_call_id": call["id"], "content": text}
        for call, text in zip(calls, results, strict=False)
    ]
    if not (apart and answers):
        return [said | present(tool_calls=calls or None), *answers]
    exchange: list[JsonObject] = []
    for call, answer in zip(calls, answers, strict=False):
        exchange += [said | {"tool_calls": [call]}, answer]
        said = {"role": "assistant", "content": None}
    return exchange
