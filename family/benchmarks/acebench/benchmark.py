"""ACEBench as a benchmark (rods.family.benchmarks.benchmarks): calls that are compared, requests
that cannot be served, and agents with simulated APIs, in one of whose categories a model plays the
user. Prompts, the agents' loop and scores are evalscope's own code (`official`); the items are
those that the user has (`package`)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, NoReturn

from rods.calls import Call
from rods.canonical import content_id
from rods.conversations import Persona, Rubric
from rods.dialects.tags import Hermes
from rods.environments.base import Features, Tool, reference
from rods.environments.workers.worker import Overrun, Worker
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, Trace
from rods.errors import UserError
from rods.family.benchmarks import suite
from rods.family.benchmarks.acebench import package
from rods.family.benchmarks.acebench.conversation import Talk, TalkJob, World
from rods.family.benchmarks.acebench.official import DONE, GO_ON
from rods.family.benchmarks.contract import Benchmark, Known, Need
from rods.family.benchmarks.episodes import Maker, Unjudged, user_text
from rods.family.benchmarks.folder import Episode, Form, Score, Settings
from rods.tasks import AnyTask, OpenTask, Task

# the package's own, of the user's texts
USER = {"temperature": 0.001, "top_p": 1.0, "max_tokens": 1000}
BEHAVIOUR = 1  # to be raised when equal calls may give other results
STILL = "nothing has to be changed"


class Simulated:
    """The simulated APIs as an environment. They are documented in prompts, and belong to an
    episode."""

    name = "acebench"
    features = Features(waits=True)

    def __init__(self, data: Mapping[str, str]) -> None:
        self.hash = content_id({**data, "behaviour": BEHAVIOUR})

    def tools(self) -> Mapping[str, Tool]:
        return {}

    def reset(self, state: Mapping[str, Any] | None) -> NoReturn:
        raise ValueError("its worlds belong to an episode")


class AceBench(Benchmark):
    """The benchmark (rods.family.benchmarks.contract). The steps of a dialogue are one item."""

    name = "acebench"
    title = "ACEBench"
    kinds: Sequence[str] = package.KINDS
    needs: Mapping[Need, Sequence[str]] = {"user": ["agent_multi_turn"]}
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
    def items(self) -> dict[str, dict[str, Any]]:
        """What the package says of each item (`official.Official.items`), with its kind."""
        return {
            item["id"]: {**item, "kind": kind}
            for kind in self.kinds
            for item in self.worker.call({"do": "items", "kind": kind})
        }

    @cached_property
    def by_id(self) -> dict[str, AnyTask]:
        return {name: self._task(name, item) for name, item in self.items.items()}

    def _task(self, name: str, item: Mapping[str, Any]) -> AnyTask:
        version = f"{package.WHEEL.named}, items {self.data['language']} {self.data['items'][:20]}"
        calls = tuple(tuple(Call(*call) for call in step) for step in item["calls"])
        world = reference(self.world)
        questions = tuple(item["questions"])
        about: dict[str, Any] = {
            "state": {"entry": name},
            "split": "test",
            "provenance": {"id": name, "version": version, "kind": item["kind"]},
        }
        if item["kind"] not in self.needs["user"]:
            return Task(world, "base", questions, calls, (), **about)
        tools = tuple(sorted({*item["tools"], *(call.name for call in calls[0])}))
        goal = Rubric(("the state is as the ground truth has it",), calls[0])
        persona = Persona(questions[0], questions[0])
        return OpenTask(world, "base", persona, goal, tools, **about)

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        return {
            name: known
            for kind in self.kinds
            for name, known in self.worker.call({"do": "known", "kind": kind}).items()
        }

    def maker(self, settings: Settings) -> "EpisodeMaker":
        if settings.policy.get("kind") in ("weights", "run"):
            why = "each of its prompts begins anew, which local weights are not asked here"
            remedy = "serve the policy, and give --url and --model"
            raise UserError(why, where="--weights, --run", remedy=remedy)
        return EpisodeMaker(self, settings)

    def score(self, episode: Episode) -> Score:
        texts = {name: episode.result[name] for name in ("policy", "user")}
        measures = dict.fromkeys(self.measures, 0.0)
        if not episode.result["over"]:
            with suppress(Overrun, RuntimeError):  # reading it takes longer than is allowed
                measures = self.worker.call({"do": "score", "item": episode.task, **texts})
        return Score(self.items[episode.task]["kind"], measures)

    def figures(self, verdicts: Mapping[str, float], whole: bool) -> Mapping[str, float]:
        """The leaderboard's groups in percent, each of which is there if all its categories are;
        OVERALL if all are."""
        rows = {kind: {"": {"mean": verdict}} for kind, verdict in verdicts.items()}
        parts = {part["mean"][0].partition("_")[0].upper(): [part] for part in package.TOTAL}
        parts["OVERALL"] = package.TOTAL
        lacking = {*self.kinds} - rows.keys() if whole else {*self.kinds}
        return {
            name: 100 * suite.weighted(own, rows, "")
            for name, own in parts.items()
            if not any(lacking & {*part["mean"]} for part in own)
        }

    def known(self, task: AnyTask, turn: int, policy: Known) -> Sequence[Call] | str | None:
        if policy == "nothing":
            return ()
        texts = self._known[self.identifier(task)][policy]
        return None if texts is None else texts[turn] if turn < len(texts) else DONE

    def due(self, task: AnyTask, policy: Known, form: Form) -> tuple[Mapping[str, float], str]:
        still = policy == "nothing" and self._known[self.identifier(task)]["still"]
        return {"official": float(policy == "truth" or still)}, STILL if still else ""


class EpisodeMaker(Maker):
    """The `Maker` of such items. A result is {"policy": texts, "user": texts, "over"}."""

    def __init__(self, benchmark: AceBench, settings: Settings) -> None:
        super().__init__(settings)
        self._benchmark = benchmark

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = self._benchmark.identifier(task)
        agent = self._benchmark.kind(task).startswith("agent")
        talk = Talk(name, agent, [*self._benchmark.items[name]["ahead"]])
        says = self._says if self.settings.user else _scripted
        return TalkJob(
            task,
            self._benchmark.world,
            Hermes(),
            Unjudged(),
            user=partial(says, talk),
            world=partial(World, talk, self._benchmark.worker),
            waits=agent,
            own=talk,
        )

    def result(self, job: Job, trace: Trace) -> Any:
        assert isinstance(job, TalkJob)
        return {"policy": job.own.policy, "user": job.own.user, "over": job.own.over}

    def _says(self, talk: Talk, persona: Persona, said: Exchange) -> str:
        """What the model that plays the user says next. Raises InfrastructureError where it says
        nothing."""
        task = self._benchmark.by_id[talk.item].id
        return user_text(self.line, talk, task, len(talk.user), talk.messages, **USER)


def _scripted(talk: Talk, persona: Persona, said: Exchange) -> str:
    """A user without a model, for policies with known scores."""
    return GO_ON if talk.user else persona.query
