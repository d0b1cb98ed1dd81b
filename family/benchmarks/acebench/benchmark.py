"""ACEBench's agents as a benchmark (rods.family.benchmarks.benchmarks): they use simulated APIs,
and in one of two categories a model plays the user. Prompts, the agents' loop and scores are
evalscope's own code (`official`), which also says who is asked next; the items are those that the
user has (`package`)."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen
from rods.conversations import Persona, Rubric
from rods.dialects import Message
from rods.dialects.tags import Hermes
from rods.environments.base import Result, reference
from rods.environments.workers.worker import Worker
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, NeedCalls, NeedText, NeedUser, Reply, Trace
from rods.errors import UserError
from rods.family.benchmarks.acebench import package
from rods.family.benchmarks.acebench.official import OPENING
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import ItemJob, Maker, OwnWorlds, Unjudged, user_reply
from rods.family.benchmarks.folder import Episode, Form, Score, Settings
from rods.family.benchmarks.workers import asked
from rods.faults import End
from rods.tasks import AnyTask, OpenTask, Task
from rods.worlds.pinned import OnlyCalled

# the package's own, of the user's texts
USER = {"temperature": 0.001, "top_p": 1.0, "max_tokens": 1000}
BEHAVIOUR = 1  # to be raised when equal calls may give other results
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
        """Says in the talk who is asked next. Raises InfrastructureError where the machine is at
        fault; what the reading of a text itself overruns is the policy's."""
        talk = self.talk
        request = {"do": "next", "item": talk.item, "policy": talk.policy, "user": talk.user}
        try:
            talk.asks, talk.messages, end = asked(self._worker, request)
        except RuntimeError:
            talk.asks, end = "", "step_limit"
            talk.over = True
        talk.end = end or talk.end
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
                talk.user.append((yield NeedUser(())))
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


class EpisodeMaker(Maker):
    """The `Maker` of such items. A result is {"policy": texts, "user": texts, "over"}."""

    benchmark: "AceBench"

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = self.benchmark.identifier(task)
        talk = Talk(name, [*self.benchmark.items[name]["ahead"]])
        return TalkJob(
            task,
            self.benchmark.world,
            Hermes(),
            Unjudged(),
            user=partial(self._says, talk, task.id),
            world=partial(World, talk, self.benchmark.worker),
            waits=True,
            own=talk,
        )

    def result(self, job: Job, trace: Trace) -> Any:
        assert isinstance(job, TalkJob)
        return {"policy": job.own.policy, "user": job.own.user, "over": job.own.over}

    def _says(self, talk: Talk, task: str, persona: Persona, said: Exchange) -> str:
        """What the model that plays the user says next. Raises InfrastructureError where it says
        nothing."""
        prompt = [{"role": role, "content": text} for role, text in talk.messages]
        return user_reply(self.line, talk, task, len(talk.user), prompt, (), **USER)[0]


class AceBench(Benchmark):
    """The benchmark (rods.family.benchmarks.contract)."""

    name = "acebench"
    title = "ACEBench"
    kinds = package.KINDS
    needs = {"user": ["agent_multi_turn"]}
    measures: Sequence[str] = ("official", "process")
    forms: Sequence[Form] = ("prompt",)
    makes = EpisodeMaker

    @cached_property
    def data(self) -> Mapping[str, str]:
        return package.data()

    @property
    def environment(self) -> str:
        return self.world.hash

    @cached_property
    def world(self) -> OwnWorlds:
        """The simulated APIs, which are documented in prompts."""
        return OwnWorlds(self.name, content_id({**self.data, "behaviour": BEHAVIOUR}))

    @property
    def worker(self) -> Worker:
        return package.worker(package.items()[0], self.data["items"])

    @cached_property
    def items(self) -> dict[str, JsonObject]:
        """What the package says of each item (`official.Official.items`)."""
        return {item["id"]: item for item in self.worker.call({"do": "items"})}

    @cached_property
    def by_id(self) -> dict[str, AnyTask]:
        return {name: self._task(name, item) for name, item in self.items.items()}

    def _task(self, name: str, item: JsonMapping) -> AnyTask:
        version = f"{package.WHEEL.named}, items {self.data['items'][:20]}"
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

    def maker(self, settings: Settings) -> Maker:
        if settings.policy.get("kind") in ("weights", "run"):
            raise UserError(
                "each of its prompts begins anew, which local weights are not asked here",
                where="--weights, --run",
                remedy="serve the policy, and give --url and --model",
            )
        return super().maker(settings)

    def score(self, episode: Episode) -> Score:
        texts = {name: episode.result[name] for name in ("policy", "user")}
        measures = dict.fromkeys(self.measures, 0.0)
        if not episode.result["over"]:
            with suppress(RuntimeError):  # reading it takes longer than is allowed
                request = {"do": "score", "item": episode.task, **texts}
                measures = asked(self.worker, request)
        return Score(self.items[episode.task]["kind"], measures)
