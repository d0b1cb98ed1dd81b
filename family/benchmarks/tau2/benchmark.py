"""τ²-bench as a benchmark (rods.family.benchmarks.benchmarks): a policy serves customers of an
airline and of a shop by their rules and tools, and a model plays the customer. Scores are the
package's own: the database as the ground truth's calls leave it, and what had to be said. No item
of these domains is scored by a judge."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from rods.calls import Call
from rods.canonical import JsonMapping
from rods.conversations import Persona, Rubric
from rods.dialects.remote import Served
from rods.dialects.tags import Hermes
from rods.environments.base import reference
from rods.environments.workers.worker import Overrun
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, Trace
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import Maker, Unjudged, user_text
from rods.family.benchmarks.folder import Episode, Score, Settings
from rods.family.benchmarks.tau2.conversation import Talk, TalkJob, World
from rods.family.benchmarks.tau2.domains import Domain
from rods.family.benchmarks.tau2.package import DECLARED, WHEEL, worker
from rods.tasks import AnyTask, OpenTask

USER_TOKENS = 2048  # of one text of the user's


class Tau2(Benchmark):
    """The benchmark (rods.family.benchmarks.contract). The kind of a task is its domain; its
    provenance has its id there (`item`), and what has to be `told`; its persona's intent is the
    whole prompt of who plays it."""

    name = "tau2"
    title = "τ²-bench"
    kinds = DECLARED["domains"]
    needs = {"user": kinds}
    measures: Sequence[str] = ("official", "database", "communicated")
    data = WHEEL.facts

    @property
    def environment(self) -> str:
        return " ".join(domain.hash for domain in self.domains.values())

    @cached_property
    def rules(self) -> JsonMapping:
        """What the package says of its domains, and of how a conversation goes."""
        rules: JsonMapping = worker().open()
        return rules

    @cached_property
    def domains(self) -> dict[str, Domain]:
        return {name: Domain(name, described) for name, described in self.rules["domains"].items()}

    @cached_property
    def by_id(self) -> dict[str, OpenTask]:
        tasks = (
            self._task(name, item)
            for name in self.domains
            for item in self.rules["domains"][name]["tasks"]
        )
        return {self.identifier(task): task for task in tasks}

    def _task(self, name: str, item: JsonMapping) -> OpenTask:
        domain = self.domains[name]
        calls = tuple(Call(*call) for call in item["calls"])
        return OpenTask(
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
                "kind": name,
                "item": item["id"],
                "told": item["told"],
            },
        )

    def maker(self, settings: Settings) -> "TalkMaker":
        return TalkMaker(self, settings)

    def score(self, episode: Episode) -> Score:
        about = self.by_id[episode.task].provenance
        request = {"do": "score", "domain": about["kind"], "task": about["item"], **episode.result}
        try:
            measures = worker().call(request)
        # its calls take longer than is allowed, or cannot be made again
        except (Overrun, RuntimeError):
            measures = dict.fromkeys(self.measures, 0.0)
        return Score(about["kind"], measures)


class TalkMaker(Maker):
    """The `Maker` of conversations. A result is {"end", "messages"}, as the package has them."""

    def __init__(self, benchmark: Tau2, settings: Settings) -> None:
        super().__init__(settings)
        self._rules = benchmark.rules
        self._domains = benchmark.domains
        # the package itself knows native calls alone
        self._dialect = Served() if settings.form == "native" else Hermes()

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = task.provenance["kind"]
        talk = Talk(name, self._rules)
        return TalkJob(
            task,
            self._domains[name],
            self._dialect,
            Unjudged(),
            user=partial(self._says, talk, task.id),
            world=partial(World, talk),
            waits=True,
            own=talk,
        )

    def result(self, job: Job, trace: Trace) -> Any:
        assert isinstance(job, TalkJob)
        return {"end": job.own.end, "messages": job.own.messages}

    def _says(self, talk: Talk, task: str, persona: Persona, said: Exchange) -> str:
        """What the model that plays the user says next. Raises InfrastructureError where it says
        nothing."""
        conversation = [("system", persona.intent), ("user", self._rules["greeting"])]
        for text, answer in said:
            conversation += [("assistant", text), ("user", answer)]
        return user_text(
            self.line,
            talk,
            task,
            len(said),
            conversation,
            temperature=self._rules["user_temperature"],
            top_p=1.0,
            max_tokens=USER_TOKENS,
        )
