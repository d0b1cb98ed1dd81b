"""ACEBench as a benchmark (rods.family.benchmarks.benchmarks): calls that are compared, requests
that cannot be served, and agents with simulated APIs, in one of whose categories a model plays the
user. Prompts, the agents' loop and scores are evalscope's own code (`official`); the items are
those that the user has (`package`)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

from rods.calls import Call
from rods.canonical import content_id
from rods.conversations import Persona, Rubric
from rods.dialects.tags import Hermes
from rods.environments.base import Features, Tool, reference
from rods.environments.workers.worker import Overrun, Worker
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, Trace
from rods.episode.model_thread import ModelThread
from rods.errors import InfrastructureError, RefusedError, UserError
from rods.family.benchmarks import suite
from rods.family.benchmarks.acebench import package
from rods.family.benchmarks.acebench.conversation import Talk, TalkJob, World
from rods.family.benchmarks.acebench.official import DONE, GO_ON
from rods.family.benchmarks.benchmarks import chosen
from rods.family.benchmarks.episodes import user_text
from rods.family.benchmarks.folder import Episode, Form, Part, Protocol, Score, Settings
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


class AceBench:
    """See `rods.family.benchmarks.benchmarks.Benchmark`, `Summed` and `Talking`. The steps of a
    dialogue are one item. The provenance of a task has its id and its kind."""

    name = "acebench"
    user = "the user"
    talking: Sequence[str] = ("agent_multi_turn",)
    kinds: Sequence[str] = package.KINDS
    measures: Sequence[str] = ("official", "process")
    protocols: Sequence[Protocol] = ("official",)
    part: Part = "all"
    parts: Mapping[Part, str] = {"all": "all items"}
    environment = property(lambda self: self.world.hash)

    @cached_property
    def data(self) -> Mapping[str, str]:
        return package.data()

    @cached_property
    def world(self) -> Simulated:
        return Simulated(self.data)

    @property
    def worker(self) -> Worker:
        return package.worker(package.items()[0], self.data["items"])

    @cached_property
    def items(self) -> dict[str, dict[str, Any]]:
        """What the package says of each item (`official.Official.items`), with its kind."""
        made = (
            (kind, item)
            for kind in self.kinds
            for item in self.worker.call({"do": "items", "kind": kind})
        )
        return {item["id"]: {**item, "kind": kind} for kind, item in made}

    @cached_property
    def _tasks(self) -> dict[str, AnyTask]:
        return {name: self._task(name, item) for name, item in self.items.items()}

    def _task(self, name: str, item: Mapping[str, Any]) -> AnyTask:
        version = f"{package.WHEEL.named}, items {self.data['language']} {self.data['items'][:20]}"
        calls = tuple(tuple(Call(*call) for call in step) for step in item["calls"])
        world = reference(self.world)
        questions = tuple(item["questions"])
        about: dict[str, Any] = {"id": name, "version": version, "kind": item["kind"]}
        told: dict[str, Any] = {"state": {"entry": name}, "split": "test", "provenance": about}
        if item["kind"] not in self.talking:
            return Task(world, "base", questions, calls, (), **told)
        tools = tuple(sorted({*item["tools"], *(call.name for call in calls[0])}))
        goal = Rubric(("the state is as the ground truth has it",), calls[0])
        return OpenTask(world, "base", Persona(questions[0], questions[0]), goal, tools, **told)

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        told = (self.worker.call({"do": "known", "kind": kind}) for kind in self.kinds)
        return {name: known for kind in told for name, known in kind.items()}

    def tasks(self) -> list[AnyTask]:
        return [*self._tasks.values()]

    def kind(self, task: AnyTask) -> str:
        return str(task.provenance["kind"])

    def identifier(self, task: AnyTask) -> str:
        return str(task.provenance["id"])

    def identity(self, tasks: Sequence[AnyTask]) -> dict[str, Any]:
        return {"benchmark": self.name, "data": self.data, "environment": self.environment}

    def check_data(self, stated: Mapping[str, Any], where: Path) -> None:
        if stated != self.data:
            remedy = (
                f"`{package.WHEEL.verb} FOLDER` keeps the items of a checkout; it was another, or "
                f"another language"
            )
            raise RefusedError(
                f"belongs to data of {stated!r}, and {self.data!r} are kept",
                where=str(where),
                remedy=remedy,
            )

    def about(self) -> str:
        return (
            f"ACEBench ({self.data['language']}) by {package.WHEEL.named}, items "
            f"{self.data['items'][:20]}"
        )

    def maker(self, settings: Settings) -> "EpisodeMaker":
        for wrong, why, option in (
            (settings.documents != "full", "prompts are the package's", "--documents"),
            (settings.form == "native", "its protocol has prompts alone", "--calls"),
            (
                settings.policy.get("kind") in ("weights", "run"),
                "each of its prompts begins anew, which local weights are not asked here: serve "
                "the policy",
                "--weights, --run",
            ),
        ):
            if wrong:
                raise UserError(
                    why, where=option, remedy="leave it out, and give --url and --model"
                )
        return EpisodeMaker(self, settings)

    def expected(self, settings: Settings) -> int:
        return len(chosen(self, settings))

    def score(self, episode: Episode) -> Score:
        said = {name: episode.result[name] for name in ("policy", "user")}
        measures = dict.fromkeys(self.measures, 0.0)
        if not episode.result["over"]:
            with suppress(Overrun, RuntimeError):  # reading it takes longer than is allowed
                measures = self.worker.call({"do": "score", "item": episode.task, **said})
        return Score(self.items[episode.task]["kind"], measures)

    def figures(self, verdicts: Mapping[str, float], whole: bool) -> Mapping[str, float]:
        """The leaderboard's groups in percent, each of which is there if all its categories are;
        OVERALL if all are."""
        rows = {kind: {"": {"mean": verdict}} for kind, verdict in verdicts.items()}
        parts = {part["mean"][0].partition("_")[0].upper(): [part] for part in package.TOTAL}
        parts["OVERALL"] = package.TOTAL
        lacking = {*self.kinds} - rows.keys() if whole else {*self.kinds}
        there = {
            name: own
            for name, own in parts.items()
            if not any(lacking & {*part["mean"]} for part in own)
        }
        return {name: 100 * suite.weighted(own, rows, "") for name, own in there.items()}

    def known(self, task: AnyTask, turn: int, policy: str) -> Sequence[Call] | str | None:
        if policy == "nothing":
            return ()
        said = self._known[self.identifier(task)][policy]
        return None if said is None else said[turn] if turn < len(said) else DONE

    def due(self, task: AnyTask, policy: str, form: Form) -> tuple[Mapping[str, float], str]:
        still = policy == "nothing" and self._known[self.identifier(task)]["still"]
        return {"official": float(policy == "truth" or still)}, STILL if still else ""


class Unjudged:
    """The goal of what is scored by its texts."""

    def outcome(self, instance: Any, need: Any) -> NoReturn:
        raise NotImplementedError

    verdict = outcome


class EpisodeMaker:
    """The `Maker` of such items (`Listening`). A result is {"policy": texts, "user": texts,
    "over"}."""

    def __init__(self, benchmark: AceBench, settings: Settings) -> None:
        self.settings = settings
        self._benchmark = benchmark
        self.line: ModelThread | None = None

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = self._benchmark.identifier(task)
        kind = self._benchmark.kind(task)
        talk = Talk(
            name, agent := kind.startswith("agent"), [*self._benchmark.items[name]["ahead"]]
        )
        user = (
            partial(self._says, talk, task.id) if self.settings.user else partial(_scripted, talk)
        )
        world = partial(World, talk, self._benchmark.worker)
        return TalkJob(
            task,
            self._benchmark.world,
            Hermes(),
            Unjudged(),
            user=user,
            world=world,
            waits=agent,
            talk=talk,
        )

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        assert isinstance(job, TalkJob)
        result = {"policy": job.talk.policy, "user": job.talk.user, "over": job.talk.over}
        return Episode(job.talk.item, sample, self.settings.form, result, trace.end, cut)

    def _says(self, talk: Talk, task: str, persona: Persona, said: Exchange) -> str:
        """What the model that plays the user says next. Raises InfrastructureError where it says
        nothing."""
        assert self.line is not None
        messages = [{"role": role, "content": text} for role, text in talk.messages]
        try:
            return user_text(self.line, task, len(talk.user), messages, **USER)
        except InfrastructureError as error:
            talk.trouble = str(error)
            raise


def _scripted(talk: Talk, persona: Persona, said: Exchange) -> str:
    """A user without a model, for policies with known scores."""
    return GO_ON if talk.user else persona.query
