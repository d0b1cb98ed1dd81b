"""ACEBench's agents as a benchmark (rods.family.benchmarks.benchmarks): they use simulated APIs,
and in one of two categories a model plays the user. Prompts, the agents' loop and scores are
evalscope's own code (`official`); the items are those that the user has (`package`)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, NoReturn

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id
from rods.conversations import Persona, Rubric
from rods.dialects.tags import Hermes
from rods.environments.base import Features, Tools, reference
from rods.environments.workers.worker import Worker
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, Trace
from rods.errors import UserError
from rods.family.benchmarks.acebench import package
from rods.family.benchmarks.acebench.conversation import Talk, TalkJob, World
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import Maker, Unjudged, user_reply
from rods.family.benchmarks.folder import Episode, Form, Score, Settings
from rods.family.benchmarks.workers import asked
from rods.tasks import AnyTask, OpenTask, Task

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
    kinds = package.KINDS
    needs = {"user": ["agent_multi_turn"]}
    measures: Sequence[str] = ("official", "process")
    forms: Sequence[Form] = ("prompt",)

    @cached_property
    def data(self) -> Mapping[str, str]:
        return package.data()

    @property
    def environment(self) -> str:
        return self.world.hash

    @cached_property
    def world(self) -> Simulated:
        return Simulated(self.data)

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
            with suppress(RuntimeError):  # reading it takes longer than is allowed
                request = {"do": "score", "item": episode.task, **texts}
                measures = asked(self.worker, request)
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
        prompt = [{"role": role, "content": text} for role, text in talk.messages]
        return user_reply(self.line, talk, task, len(talk.user), prompt, (), **USER)[0]
