"""τ²-bench as a benchmark (rods.family.benchmarks.benchmarks): a policy serves customers of an
airline and of a shop by their rules and tools, and a model plays the customer. Scores are the
package's own: the database as the ground truth's calls leave it, and what had to be said. No item
of these domains is scored by a judge."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from rods.calls import Call
from rods.conversations import Persona, Rubric
from rods.dialects.tags import Hermes
from rods.environments.base import reference
from rods.environments.workers.worker import Overrun
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, Trace
from rods.family.benchmarks.contract import Benchmark, Known, Need
from rods.family.benchmarks.episodes import Maker, Unjudged, user_text
from rods.family.benchmarks.folder import Episode, Form, Score, Settings
from rods.family.benchmarks.tau2.conversation import Talk, TalkJob, World
from rods.family.benchmarks.tau2.domains import Domain, Native
from rods.family.benchmarks.tau2.package import DECLARED, WHEEL, worker
from rods.tasks import AnyTask, OpenTask

UNHELPED = "the ground truth changes nothing, and nothing has to be said"
USER_TOKENS = 2048  # of one text of the user's
SCRIPT = ("Please go on.", "###STOP###")  # what the scripted user says after its reason for calling


class Tau2(Benchmark):
    """The benchmark (rods.family.benchmarks.contract). The kind of a task is its domain; its
    provenance has its id there (`item`), and what has to be `told`; its persona's intent is the
    whole prompt of who plays it."""

    name = "tau2"
    title = "τ²-bench"
    kinds: Sequence[str] = DECLARED["domains"]
    needs: Mapping[Need, Sequence[str]] = {"user": kinds}
    measures: Sequence[str] = ("official", "database", "communicated")
    data: Mapping[str, str] = WHEEL.facts

    @property
    def environment(self) -> str:
        return " ".join(domain.hash for domain in self.domains.values())

    @cached_property
    def rules(self) -> Mapping[str, Any]:
        """What the package says of its domains, and of how a conversation goes."""
        rules: Mapping[str, Any] = worker().open()
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

    def _task(self, name: str, item: Mapping[str, Any]) -> OpenTask:
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

    @cached_property
    def _unchanged(self) -> Mapping[str, Sequence[str]]:
        """By domain, the items whose ground truth leaves the database as it was."""
        unchanged: Mapping[str, Sequence[str]] = worker().call({"do": "unchanged"})
        return unchanged

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

    def known(self, task: AnyTask, turn: int, policy: Known) -> Sequence[Call] | str | None:
        about = task.provenance
        if turn == 1 and policy != "nothing":
            return f"I have to tell you: {'; '.join(about['told'])}" if about["told"] else ()
        fault = DECLARED["faults"][about["kind"]] if policy == "fault" else {}
        calls = *task.goal_calls, *(Call(name, arguments) for name, arguments in fault.items())
        return () if turn or policy == "nothing" else calls

    def due(self, task: AnyTask, policy: Known, form: Form) -> tuple[Mapping[str, float], str]:
        about = task.provenance
        still = about["item"] in self._unchanged[about["kind"]]
        database = still if policy == "nothing" else policy == "truth"
        communicated = policy != "nothing" or not about["told"]
        due = {
            "official": float(database and communicated),
            "database": float(database),
            "communicated": float(communicated),
        }
        return due, UNHELPED if policy == "nothing" and due["official"] else ""


class TalkMaker(Maker):
    """The `Maker` of conversations. A result is {"end", "messages"}, as the package has them."""

    def __init__(self, benchmark: Tau2, settings: Settings) -> None:
        super().__init__(settings)
        self._rules = benchmark.rules
        self._domains = benchmark.domains
        native = settings.form == "native"
        self._dialects = {
            name: Native(domain.tools()) if native else Hermes()
            for name, domain in self._domains.items()
        }

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = task.provenance["kind"]
        talk = Talk(name, self._rules)
        return TalkJob(
            task,
            self._domains[name],
            self._dialects[name],
            Unjudged(),
            user=partial(self._says, talk, task.id) if self.settings.user else scripted_user,
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


def scripted_user(persona: Persona, said: Exchange) -> str:
    """A user without a model, for policies with known scores: why it calls, one more text, and a
    stop."""
    return (persona.query, *SCRIPT)[len(said)]
