"""τ²-bench as a benchmark (rods.family.benchmarks.benchmarks): a policy serves customers of an
airline, of a shop and of a telephone company by their rules and tools, and a model plays the
customer; the last one's has tools of its own. Scores are the package's own: the database as the
ground truth's calls leave it, and what had to be said; or what is asserted of the world in the end.
No item of these domains is scored by a judge."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject
from rods.conversations import Persona, Rubric
from rods.dialects import Message
from rods.dialects.remote import Served, reply_text
from rods.dialects.tags import Hermes
from rods.environments.base import reference
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, Trace
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import Maker, Unjudged, messages, user_reply
from rods.family.benchmarks.folder import Episode, Score, Settings
from rods.family.benchmarks.tau2.conversation import Talk, TalkJob, World
from rods.family.benchmarks.tau2.domains import Domain
from rods.family.benchmarks.tau2.package import DECLARED, WHEEL, worker
from rods.family.benchmarks.workers import asked
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
    measures: Sequence[str] = ("official", "database", "communicated", "asserted", "called")
    data = WHEEL.facts

    @property
    def environment(self) -> str:
        return " ".join(domain.hash for domain in self.domains.values())

    def identity(self, tasks: Sequence[AnyTask]) -> JsonObject:
        played = dict.fromkeys(task.environment.hash for task in tasks)
        return super().identity(tasks) | {"environment": " ".join(played)}

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
        tools = domain.tools()
        # the others are the user's
        calls = tuple(Call(*call) for call in item["calls"] if call[0] in tools)
        dual = "user_tools" in self.rules["domains"][name]
        return OpenTask(
            reference(domain),
            "base",
            Persona(item["user"], item["opening"]),
            Rubric(
                (
                    "what is asserted holds"
                    if dual
                    else "the database is as the expected calls leave it",
                    *item["told"],
                ),
                calls,
            ),
            tuple(tools),
            split="test",
            # its first actions, by the item's name: others tell the user the same
            state={"entry": item["id"]} if dual else None,
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
        task = self.by_id[episode.task]
        about = task.provenance
        request = {"do": "score", "domain": about["kind"], "task": about["item"], **episode.result}
        try:
            measures = asked(worker(), request)
        # its calls take longer than is allowed, or cannot be made again
        except RuntimeError:
            measures = dict.fromkeys(
                ("official", "asserted") if task.state else self.measures[:3], 0.0
            )
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
        talk = Talk(name, task.provenance["item"], self._rules)
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
        """What the model that plays the user says next, behind the calls that it makes, if these
        reach no limit. Raises InfrastructureError where it says nothing."""
        while True:
            text, calls = user_reply(
                self.line,
                talk,
                task,
                sum(message["role"] == "user" for message in talk.messages),
                _seen(talk, persona),
                self._rules["domains"][talk.domain].get("user_tools", ()),
                temperature=self._rules["user_temperature"],
                top_p=1.0,
                max_tokens=USER_TOKENS,
            )
            if not (calls and talk.act(calls, text or None)):
                return text


def _seen(talk: Talk, persona: Persona) -> list[JsonObject]:
    """The conversation as the model that plays the user is asked to go on with it: it is the
    assistant there, and sees no calls but its own."""
    seen = [Message("system", persona.intent)]
    for message in talk.messages:
        content = message["content"]
        calls = message.get("tool_calls", ())
        if message["role"] == "user":
            written = [(call["name"], orjson.dumps(call["arguments"]).decode()) for call in calls]
            seen.append(Message("assistant", reply_text(content, written)))
        elif message["role"] == "assistant" and not calls:
            seen.append(Message("user", content))
        elif message.get("requestor"):
            seen.append(Message("tool", content))
    return messages(seen)
