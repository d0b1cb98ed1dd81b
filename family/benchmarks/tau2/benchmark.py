"""τ²-bench as a benchmark (rods.family.benchmarks.benchmarks): a policy serves customers of an airline and of a shop by
their rules and tools, and a model plays the customer. Scores are the package's own: the database as the ground truth's
calls leave it, and what had to be said. No item of these domains is scored by a judge."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rods.calls import Call
from rods.canonical import keyed_random
from rods.conversations import Persona, Rubric
from rods.dialects.tags import Hermes
from rods.environments.base import reference
from rods.environments.registry import declared
from rods.environments.workers.worker import Overrun
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, NeedOutcome, Outcome, Trace
from rods.errors import InfrastructureError, RefusedError, UserError
from rods.family.benchmarks.benchmarks import chosen
from rods.family.benchmarks.folder import Episode, Form, Part, Protocol, Score, Settings
from rods.family.benchmarks.tau2.conversation import Domain, Talk, TalkJob, World
from rods.family.benchmarks.tau2.native import Native
from rods.family.benchmarks.tau2.package import DATA, DOMAINS, WHEEL, worker
from rods.family.benchmarks.user_line import UserLine
from rods.llm import Request
from rods.tasks import AnyTask, OpenTask

FAULTS = declared("rods.family.benchmarks", "benchmark.toml")["tau2"]["faults"]
UNHELPED = "the ground truth changes nothing, and nothing has to be said"
USER_TOKENS = 2048  # of one text of the user's
USER_TRIES = 4  # at a text that is not empty, as in the package
SCRIPT = ("Please go on.", "###STOP###")  # what the scripted user says after its reason for calling


class Tau2:
    """See `rods.family.benchmarks.benchmarks.Benchmark`, and `Talking`. The provenance of a task has its domain, its id
    there, and what has to be `told`; its persona's intent is the whole prompt of who plays it."""

    name = "tau2"
    user = "the customer"
    kinds: Sequence[str] = DOMAINS
    measures: Sequence[str] = ("official", "database", "communicated")
    protocols: Sequence[Protocol] = ("official",)
    part: Part = "all"
    parts: Mapping[Part, str] = {"all": "all items"}

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
        made = {}
        for name, domain in self.domains.items():
            for item in self.rules["domains"][name]["tasks"]:
                if not {"DB", "COMMUNICATE"} >= set(item["basis"]):
                    raise RefusedError(f"item {item['id']} of {name} is scored by {item['basis']}", where=WHEEL.named)
                calls = tuple(Call(*call) for call in item["calls"])
                made[f"{name}_{item['id']}"] = OpenTask(
                    reference(domain),
                    "base",
                    Persona(item["user"], item["opening"]),
                    Rubric(("the database is as the expected calls leave it", *item["told"]), calls),
                    tuple(domain.tools()),
                    split="test",
                    system=domain.system,
                    provenance={
                        "id": f"{name}_{item['id']}",
                        "version": WHEEL.named,
                        "domain": name,
                        "item": item["id"],
                        "told": item["told"],
                    },
                )
        return made

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

    @property
    def environment(self) -> str:
        return " ".join(domain.hash for domain in self.domains.values())

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
            raise UserError("tools have the package's documents", where="--documents", remedy="leave it out")
        return TalkMaker(self, settings)

    def expected(self, settings: Settings) -> int:
        return len(chosen(self, settings))

    def score(self, episode: Episode) -> Score:
        about = self._tasks[episode.task].provenance
        asked = {"do": "score", "domain": about["domain"], "task": about["item"], **episode.result}
        try:
            measures = worker().call(asked)
        except (Overrun, RuntimeError):  # its calls take longer than is allowed, or cannot be made again
            measures = dict.fromkeys(self.measures, 0.0)
        return Score(about["domain"], measures)

    def known(self, task: AnyTask, turn: int, policy: str) -> Sequence[Call] | str | None:
        about = task.provenance
        if policy == "nothing" or turn > 1:
            return ()
        if turn == 1:
            return f"I have to tell you: {'; '.join(about['told'])}" if about["told"] else ()
        fault = FAULTS[about["domain"]] if policy == "fault" else {}
        return *task.goal_calls, *(Call(name, arguments) for name, arguments in fault.items())

    def due(self, task: AnyTask, policy: str, form: Form) -> tuple[Mapping[str, float], str]:
        about, still = task.provenance, task.provenance["item"] in self._unchanged[task.provenance["domain"]]
        database = {"nothing": still, "truth": True, "fault": False}[policy]
        communicated = policy != "nothing" or not about["told"]
        right = database and communicated
        due = {"official": float(right), "database": float(database), "communicated": float(communicated)}
        return due, UNHELPED if policy == "nothing" and right else ""


class Unjudged:
    """The goal of what is scored by its messages."""

    def outcome(self, instance: Any, need: NeedOutcome) -> Outcome:
        return Outcome(0, 0)


class TalkMaker:
    """The `Maker` of conversations (`Listening`). A result is {"end", "messages"}, as the package has them."""

    def __init__(self, benchmark: Tau2, settings: Settings) -> None:
        self.settings, self._benchmark = settings, benchmark
        self.line: UserLine | None = None
        native = settings.form == "native"
        self._dialects = {f"{name}": Native(d.tools()) if native else Hermes() for name, d in benchmark.domains.items()}

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = task.provenance["domain"]
        talk = Talk(name, self._benchmark.rules)
        return TalkJob(
            task,
            self._benchmark.domains[name],
            self._dialects[name],
            Unjudged(),
            user=partial(self._says, task.id) if self.settings.user else scripted_user,
            world=partial(World, talk),
            waits=True,
            talk=talk,
        )

    def episode(self, job: Job, sample: int, trace: Trace, cut: int = 0) -> Episode:
        assert isinstance(job, TalkJob) and job.talk is not None
        result = {"end": job.talk.end, "messages": job.talk.messages}
        return Episode(job.task.provenance["id"], sample, self.settings.form, result, trace.end, cut)

    def _says(self, task: str, persona: Persona, said: Exchange) -> str:
        """What the model that plays the user says next. Raises InfrastructureError where it says nothing."""
        if self.line is None:
            raise InfrastructureError("there is no line to the model that plays the user")
        conversation = [{"role": "system", "content": persona.intent}]
        conversation.append({"role": "user", "content": self._benchmark.rules["greeting"]})
        for text, answer in said:
            conversation += [{"role": "assistant", "content": text}, {"role": "user", "content": answer}]
        for number in range(USER_TRIES):
            request = Request(
                "user",
                conversation,
                max_tokens=USER_TOKENS,
                temperature=self._benchmark.rules["user_temperature"],
                top_p=1.0,
                random_seed=keyed_random(0, "user", task, len(said), number).getrandbits(31),
            )
            if text := self.line.ask(request).text.strip():
                return text
        raise InfrastructureError(f"the model that plays the user said nothing in {USER_TRIES} tries")


def scripted_user(persona: Persona, said: Exchange) -> str:
    """A user without a model, for policies with known scores: why it calls, one more text, and a stop."""
    return (persona.query, *SCRIPT)[len(said)]
