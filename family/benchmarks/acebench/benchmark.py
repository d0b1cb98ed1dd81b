"""ACEBench's agents as a benchmark (rods.family.benchmarks.benchmarks): they use simulated APIs,
and in one of two categories a model plays the user. Prompts, the agents' loop and scores are the
code of the pinned `evalscope` wheel, which runs in a worker process (`official`); the items are
those that a user's checkout has. In an episode the package's loop says who is asked next.
"""

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

from cyclopts import Parameter

from rods.buffers.log.disk import replace
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen, only
from rods.commands import Json
from rods.console.output import print_result
from rods.conversations import Persona, Rubric
from rods.dialects import Message
from rods.dialects.tags import Hermes
from rods.environments.base import Features, Result, Tools, reference
from rods.environments.registry import declared
from rods.environments.workers.worker import Overrun, Worker
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, NeedCalls, NeedText, NeedUser, Reply, Trace
from rods.errors import UserError
from rods.family.benchmarks.acebench.official import OPENING
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import ItemJob, Maker, Unjudged, user_text
from rods.family.benchmarks.folder import Episode, Form, Score, Settings
from rods.family.benchmarks.workers import worker as own_worker
from rods.faults import End
from rods.files import BULK, read_regular, user_cache
from rods.tasks import AnyTask, OpenTask, Task
from rods.wheels import Wheel
from rods.worlds.pinned import OnlyCalled

# characters of a reply that are read; the package looks for calls by a pattern that is quadratic in
# them
TEXT = 32_768


@dataclass
class Talk:
    """What was said in an episode, who is asked next and reads what. `ahead`: what is known of that
    beforehand. `over`: reading the policy's texts exceeds the worker's bounds."""

    item: str
    ahead: list[list[Any]]
    asks: str = ""
    messages: Sequence[Sequence[str]] = ()
    policy: list[str] = field(default_factory=list)
    user: list[str] = field(default_factory=list)
    end: End = "finished"
    over: bool = False
    trouble: str = ""

    def goes_on(self) -> bool:
        """Takes what is known to come next, as far as it is."""
        if not self.ahead:
            return False
        self.asks, messages = self.ahead.pop(0)
        opening = self.user[0] if self.user else OPENING
        self.messages = [(role, text.replace(OPENING, opening)) for role, text in messages]
        return True


class World(OnlyCalled):
    """What an agent has changed so far, in the worker's process: it is made of what was said."""

    def __init__(self, talk: Talk, worker: Worker) -> None:
        self.talk = talk
        self._worker = worker

    def results(self, need: NeedCalls) -> list[Result]:
        """Says in the talk who is asked next. Raises InfrastructureError where the process was
        killed; what the reading of a text itself overruns is the policy's."""
        talk = self.talk
        try:
            answer = self._worker.call(
                {"do": "next", "item": talk.item, "policy": talk.policy, "user": talk.user}
            )
        except (Overrun, RuntimeError):
            answer = {"asks": "", "messages": (), "end": "step_limit"}
            talk.over = True
        talk.asks = answer["asks"]
        talk.messages = answer["messages"]
        talk.end = answer["end"]
        return []

    def call(self, call: Call) -> Result:
        raise NotImplementedError


@frozen
class TalkJob(ItemJob):
    """A job in which each prompt stands for itself; its `own` is the conversation."""

    def engine(self) -> Generator[Any, Any, Trace]:
        talk: Talk = self.own
        end = None
        prompt = tuple[Message, ...]()
        talk.goes_on()
        while talk.asks:
            if talk.asks == "user":
                text = yield NeedUser(())
                talk.user.append(text if isinstance(text, str) else text.text)
            else:
                prompt = tuple(
                    Message(role, text)  # type: ignore[arg-type]
                    for role, text in talk.messages
                )
                reply: Reply = yield NeedText(prompt, 0, len(talk.policy))
                if reply.end != "stop":
                    end = reply.end
                    break
                talk.policy.append(reply.text[:TEXT])
            if not talk.goes_on():
                yield NeedCalls(())  # the package says what comes next
        return Trace(self.task.id, (), end or talk.end, self.task.expected, prompt)


WHEEL = Wheel(
    "evalscope",
    "1.14.1",
    "ae4bb15908862d6ae22c9ffe2af3c11e8f446a0ea798912870178f4347ef90c4",
    "rods data acebench",
    "code of ACEBench's protocol",
)
DECLARED = declared("rods.family.benchmarks", "benchmark.toml")["acebench"]
KINDS: list[str] = DECLARED["total"]["parts"][0]["mean"]
ITEMS = "acebench.jsonl"  # in the cache
_FIELDS = ("id", "question", "function", "initial_config", "involved_classes")


def fetch(
    folder: Annotated[
        Path | None, Parameter(help="a checkout of ACEBench; none: the wheel alone")
    ] = None,
    /,
    *,
    as_json: Json = False,
) -> None:
    """Fetch the pinned wheel of evalscope (4.9 MB) once, and check its hash; nothing of it is
    installed. Then keep the agents' items that FOLDER has (data_all/data_en) in the cache, in the
    place of those that were kept before."""
    facts: JsonObject = {"wheel": str(WHEEL.fetch())}
    if folder is not None:
        rows = [*gathered(folder / "data_all" / "data_en")]
        replace(
            file := user_cache() / ITEMS, "".join(json.dumps(row) + "\n" for row in rows).encode()
        )
        facts |= {"kept": str(file), "count": len(rows), **data()}
    print_result(as_json, facts, (f"{name}: {fact}" for name, fact in facts.items()))


def gathered(folder: Path) -> Iterator[JsonObject]:
    """The items with their answers, as the package's records have them. Raises UserError for a file
    that is missing or cannot be read, and for an item without an answer."""
    for kind in KINDS:
        file = f"data_{kind}.json"
        answers = {answer["id"]: answer for answer in _lines(folder / "possible_answer" / file)}
        for item in _lines(folder / file):
            answer = answers.get(item["id"], {})
            if "ground_truth" not in answer:
                raise UserError(
                    f"has no answer to {item['id']!r}",
                    where=str(folder / "possible_answer" / file),
                    remedy="take a whole checkout",
                )
            fields = only(item, _FIELDS)
            yield {
                **fields,
                "rubric": {name: answer.get(name, []) for name in ("ground_truth", "mile_stone")},
                "sub_category": f"data_{kind}",
            }


def _lines(file: Path) -> list[JsonObject]:
    remedy = "name a checkout of ACEBench, which has data_all/data_en"
    try:
        rows = [
            json.loads(line)
            for line in read_regular(file, BULK).decode().splitlines()
            if line.strip()
        ]
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read ({error})", where=file, remedy=remedy) from error
    if not rows or not all(
        isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows
    ):
        raise UserError("is no list of items with ids, one a line", where=file, remedy=remedy)
    return rows


def items() -> tuple[Path, bytes]:
    """Where the items are kept, and what they are. Raises UserError."""
    file = user_cache() / ITEMS
    if not file.is_file():
        raise UserError(
            "the items of ACEBench are not there",
            where=file,
            remedy=f"run `{WHEEL.verb} FOLDER` once with a checkout of ACEBench: nothing else "
            "has them",
        )
    return file, read_regular(file, BULK)


def data() -> dict[str, str]:
    """What a score belongs to: the package, and the items by their hash. Raises UserError."""
    return {**WHEEL.facts, "items": hashlib.sha256(items()[1]).hexdigest()}


@cache
def worker(file: Path, digest: str) -> Worker:
    """The process that answers the requests of `official.answer` about the items in `file`, whose
    hash is `digest`. Raises UserError where the wheel is not there."""
    opening = {"do": "open", "wheel": str(WHEEL.path()), "items": str(file), "sha256": digest}
    return own_worker("rods.family.benchmarks.acebench.official:answer", opening)


# the package's own, of the user's texts
USER = {"temperature": 0.001, "top_p": 1.0, "max_tokens": 1000}
BEHAVIOUR = 1  # to be raised when equal calls may give other results


class Simulated:
    """The simulated APIs as an environment. They are documented in prompts, and belong to an
    episode."""

    name = "acebench"
    features = Features(waits=True)

    def __init__(self, data: Mapping[str, str]) -> None:
        self.hash = content_id({**data, "behaviour": BEHAVIOUR})

    def tools(self) -> Tools:
        return {}

    def reset(self, state: JsonMapping | None) -> NoReturn:
        raise ValueError("its worlds belong to an episode")


class AceBench(Benchmark):
    """The benchmark (rods.family.benchmarks.contract)."""

    name = "acebench"
    title = "ACEBench"
    kinds = KINDS
    needs = {"user": ["agent_multi_turn"]}
    measures: Sequence[str] = ("official", "process")
    forms: Sequence[Form] = ("prompt",)

    @cached_property
    def data(self) -> Mapping[str, str]:
        return data()

    @property
    def environment(self) -> str:
        return self.world.hash

    @cached_property
    def world(self) -> Simulated:
        return Simulated(self.data)

    @property
    def worker(self) -> Worker:
        return worker(items()[0], self.data["items"])

    @cached_property
    def items(self) -> dict[str, JsonObject]:
        """What the package says of each item (`official.Official.items`)."""
        return {item["id"]: item for item in self.worker.call({"do": "items"})}

    @cached_property
    def by_id(self) -> dict[str, AnyTask]:
        return {name: self._task(name, item) for name, item in self.items.items()}

    def _task(self, name: str, item: JsonMapping) -> AnyTask:
        version = f"{WHEEL.named}, items {self.data['items'][:20]}"
        calls = tuple(Call(*call) for call in item["calls"])
        world = reference(self.world)
        question = item["question"]
        about: JsonObject = {
            "state": {"entry": name},
            "split": "test",
            "provenance": {"id": name, "version": version, "kind": item["kind"]},
        }
        if item["kind"] not in self.needs["user"]:
            return Task(world, "base", (question,), (calls,), (), **about)
        tools = tuple(sorted({*item["tools"], *(call.name for call in calls)}))
        goal = Rubric(("the state is as the ground truth has it",), calls)
        return OpenTask(world, "base", Persona(question, question), goal, tools, **about)

    def maker(self, settings: Settings) -> "EpisodeMaker":
        if settings.policy.get("kind") in ("weights", "run"):
            raise UserError(
                "each of its prompts begins anew, which local weights are not asked here",
                where="--weights, --run",
                remedy="serve the policy, and give --url and --model",
            )
        return EpisodeMaker(self, settings)

    def score(self, episode: Episode) -> Score:
        texts = {name: episode.result[name] for name in ("policy", "user")}
        measures = dict.fromkeys(self.measures, 0.0)
        if not episode.result["over"]:
            with suppress(Overrun, RuntimeError):  # reading it takes longer than is allowed
                measures = self.worker.call({"do": "score", "item": episode.task, **texts})
        return Score(self.items[episode.task]["kind"], measures)


class EpisodeMaker(Maker):
    """The `Maker` of such items. A result is {"policy": texts, "user": texts, "over"}."""

    def __init__(self, benchmark: AceBench, settings: Settings) -> None:
        super().__init__(settings)
        self._benchmark = benchmark

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = self._benchmark.identifier(task)
        talk = Talk(name, [*self._benchmark.items[name]["ahead"]])
        return TalkJob(
            task,
            self._benchmark.world,
            Hermes(),
            Unjudged(),
            user=partial(self._says, talk, task.id),
            world=partial(World, talk, self._benchmark.worker),
            waits=True,
            own=talk,
        )

    def result(self, job: Job, trace: Trace) -> Any:
        assert isinstance(job, TalkJob)
        return {"policy": job.own.policy, "user": job.own.user, "over": job.own.over}

    def _says(self, talk: Talk, task: str, persona: Persona, said: Exchange) -> str:
        """What the model that plays the user says next. Raises InfrastructureError where it says
        nothing."""
        return user_text(self.line, talk, task, len(talk.user), talk.messages, **USER)
