"""τ²-bench as a benchmark (rods.family.benchmarks.benchmarks): a policy serves customers of an
airline and of a shop by their rules and tools, and a model plays the customer. Scores are the
package's own: the database as the ground truth's calls leave it, and what had to be said. No item
of these domains is scored by a judge."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rods.calls import Call
from rods.conversations import Persona, Rubric
from rods.dialects.tags import Hermes
from rods.environments.base import reference
from rods.environments.registry import declared
from rods.environments.workers.worker import Overrun
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, NeedOutcome, Outcome, Trace
from rods.episode.model_thread import ModelThread
from rods.errors import InfrastructureError, RefusedError, UserError
from rods.family.benchmarks.benchmarks import chosen
from rods.family.benchmarks.episodes import user_text
from rods.family.benchmarks.folder import Episode, Form, Part, Protocol, Score, Settings
from rods.family.benchmarks.tau2.conversation import Talk, TalkJob, World
from rods.family.benchmarks.tau2.domains import Domain, Native
from rods.family.benchmarks.tau2.package import DATA, DOMAINS, WHEEL, worker
from rods.tasks import AnyTask, OpenTask

FAULTS = declared("rods.family.benchmarks", "benchmark.toml")["tau2"]["faults"]
UNHELPED = "the ground truth changes nothing, and nothing has to be said"
USER_TOKENS = 2048  # of one text of the user's
SCRIPT = ("Please go on.", "###STOP###")  # what the scripted user says after its reason for calling


class Tau2:
    """See `rods.family.benchmarks.benchmarks.Benchmark`, and `Talking`. The provenance of a task
    has its domain, its id there, and what has to be `told`; its persona's intent is the whole
    prompt of who plays it."""

    name = "tau2"
    user = "the customer"
    kinds: Sequence[str] = DOMAINS
    talking: Sequence[str] = DOMAINS
    measures: Sequence[str] = ("official", "database", "communicated")
    protocols: Sequence[Protocol] = ("official",)
    part: Part = "all"
    parts: Mapping[Part, str] = {"all": "all items"}
    environment = property(lambda self: " ".join(domain.hash for domain in self.domains.values()))

    @cached_property
    def rules(self) -> Mapping[str, Any]:
        """What the package says of its domains, and of how a conversation goes."""
        rules: Mapping[str, Any] = worker().open()
        return rules

    @cached_property
    def domains(self) -> dict[str, Domain]:
        return {name: Domain(name, described) for name, described in self.rules["domains"].items()}

    @cached_property
    def _tasks(self) -> dict[str, OpenTask]:
        items = (
            (name, item) for name in self.domains for item in self.rules["domains"][name]["tasks"]
        )
        made = (self._task(name, item) for name, item in items)
        return {task.provenance["id"]: task for task in made}

    def _task(self, name: str, item: Mapping[str, Any]) -> OpenTask:
        domain = self.domains[name]
        calls = tuple(Call(*call) for call in item["calls"])
        about = {
            "id": f"{name}_{item['id']}",
            "version": WHEEL.named,
            "domain": name,
            "item": item["id"],
        }
        return OpenTask(
            reference(domain),
            "base",
            Persona(item["user"], item["opening"]),
            Rubric(("the database is as the expected calls leave it", *item["told"]), calls),
            tuple(domain.tools()),
            split="test",
            system=domain.system,
            provenance={**about, "told": item["told"]},
        )

    @cached_property
    def _unchanged(self) -> Mapping[str, Sequence[str]]:
        """By domain, the items whose ground truth leaves the database as it was."""
        unchanged: Mapping[str, Sequence[str]] = worker().call({"do": "unchanged"})
        return unchanged

    def tasks(self) -> list[AnyTask]:
        return [*self._tasks.values()]

    def kind(self, task: AnyTask) -> str:
        return str(task.provenance["domain"])

    def identifier(self, task: AnyTask) -> str:
        return str(task.provenance["id"])

    def identity(self, tasks: Sequence[AnyTask]) -> dict[str, Any]:
        return {"benchmark": self.name, "data": DATA, "environment": self.environment}

    def check_data(self, stated: Mapping[str, Any], where: Path) -> None:
        if stated != DATA:
            remedy = f"install the version that has them; this one scores {WHEEL.named}"
            raise RefusedError(f"belongs to data of {stated!r}", where=str(where), remedy=remedy)

    def about(self) -> str:
        return f"τ²-bench, data of {WHEEL.named}, environment {self.environment}"

    def maker(self, settings: Settings) -> "TalkMaker":
        if settings.documents != "full":
            raise UserError(
                "tools have the package's documents", where="--documents", remedy="leave it out"
            )
        return TalkMaker(self, settings)

    def expected(self, settings: Settings) -> int:
        return len(chosen(self, settings))

    def score(self, episode: Episode) -> Score:
        about = self._tasks[episode.task].provenance
        asked = {"do": "score", "domain": about["domain"], "task": about["item"], **episode.result}
        try:
            measures = worker().call(asked)
        # its calls take longer than is allowed, or cannot be made again
        except (Overrun, RuntimeError):
            measures = dict.fromkeys(self.measures, 0.0)
        return Score(about["domain"], measures)

    def known(self, task: AnyTask, turn: int, policy: str) -> Sequence[Call] | str | None:
        about = task.provenance
        if turn == 1 and policy != "nothing":
            return f"I have to tell you: {'; '.join(about['told'])}" if about["told"] else ()
        fault = FAULTS[about["domain"]] if policy == "fault" else {}
        made = *task.goal_calls, *(Call(name, arguments) for name, arguments in fault.items())
        return () if turn or policy == "nothing" else made

    def due(self, task: AnyTask, policy: str, form: Form) -> tuple[Mapping[str, float], str]:
        about = task.provenance
        still = about["item"] in self._unchanged[about["domain"]]
        database = still if policy == "nothing" else policy == "truth"
        communicated = policy != "nothing" or not about["told"]
        due = dict(
            zip(
                self.measures,
                map(float, (database and communicated, database, communicated)),
                strict=True,
            )
        )
        return due, UNHELPED if policy == "nothing" and due["official"] else ""


class Unjudged:
    """The goal of what is scored by its messages."""

    def outcome(self, instance: Any, need: NeedOutcome) -> Outcome:
        return Outcome(0, 0)


class TalkMaker:
    """The `Maker` of conversations (`Listening`). A result is {"end", "messages"}, as the package
    has them."""

    def __init__(self, benchmark: Tau2, settings: Settings) -> None:
        self.settings = settings
        self._rules = benchmark.rules
        self._domains = benchmark.domains
        self.line: ModelThread | None = None
        native = settings.form == "native"
        self._dialects = {
            name: Native(one.tools()) if native else Hermes() for name, one in self._domains.items()
        }

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        talk = Talk(name := task.provenance["domain"], self._rules)
        user = partial(self._says, talk, task.id) if self.settings.user else scripted_user
        played = self._domains[name], self._dialects[name], Unjudged()
        return TalkJob(task, *played, user=user, world=partial(World, talk), waits=True, talk=talk)

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        assert isinstance(job, TalkJob)
        result = {"end": job.talk.end, "messages": job.talk.messages}
        return Episode(
            job.task.provenance["id"], sample, self.settings.form, result, trace.end, cut
        )

    def _says(self, talk: Talk, task: str, persona: Persona, said: Exchange) -> str:
        """What the model that plays the user says next. Raises InfrastructureError where it says
        nothing."""
        assert self.line is not None
        conversation = [("system", persona.intent), ("user", self._rules["greeting"])]
        for text, answer in said:
            conversation += [("assistant", text), ("user", answer)]
        messages = [{"role": role, "content": content} for role, content in conversation]
        told = {
            "temperature": self._rules["user_temperature"],
            "top_p": 1.0,
            "max_tokens": USER_TOKENS,
        }
        try:
            return user_text(self.line, task, len(said), messages, **told)
        except InfrastructureError as error:
            talk.trouble = str(error)
            raise


def scripted_user(persona: Persona, said: Exchange) -> str:
    """A user without a model, for policies with known scores: why it calls, one more text, and a
    stop."""
    return (persona.query, *SCRIPT)[len(said)]
