"""τ²-bench as a benchmark (rods.family.benchmarks.benchmarks): a policy serves customers of an
airline and of a shop by their rules and tools, and a model plays the customer. Scores are the
package's own: the database as the ground truth's calls leave it, and what had to be said. No item
of these domains is scored by a judge.

Who speaks when and how a conversation ends is as in the package's orchestrator. Messages are
recorded in the package's own form, which its evaluators read.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NoReturn

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen
from rods.conversations import Persona, Rubric
from rods.dialects import Message
from rods.dialects.remote import Served
from rods.dialects.tags import Hermes
from rods.environments.base import Features, Result, Tool, Tools, reference
from rods.environments.workers.worker import Overrun
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, NeedCalls, NeedText, NeedUser, Reply, Request, Trace
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import ItemJob, Maker, Unjudged, user_text
from rods.family.benchmarks.folder import Episode, Score, Settings
from rods.family.benchmarks.tau2.package import DECLARED, WHEEL, worker
from rods.faults import End
from rods.tasks import AnyTask, OpenTask
from rods.worlds.pinned import OnlyCalled


class World(OnlyCalled):
    """The world of one conversation, in the worker's process."""

    def __init__(self, talk: "Talk") -> None:
        self.talk = talk
        self.calls = list[list[Any]]()

    def results(self, need: NeedCalls) -> list[Result]:
        """Raises InfrastructureError where the process was killed; what a call itself overruns is
        the policy's."""
        calls = [[call.name, dict(call.arguments)] for call in need.calls]
        request = {
            "conversation": str(id(self)),
            "domain": self.talk.domain,
            "before": self.calls,
            "calls": calls,
        }
        try:
            answers = worker().call({"do": "call", **request})
        except (Overrun, RuntimeError) as error:
            return [Result(f"Error: {error}", error="timeout")] * len(calls)
        self.calls += calls
        return [Result(text, error="tool" if failed else None) for text, failed in answers]

    def call(self, call: Call) -> Result:
        return self.results(NeedCalls((call,)))[0]


@dataclass
class Talk:
    """What is said in one conversation, and why it ended (a `TerminationReason` of the package).
    `rules`: greeting, stops, max_steps and max_errors. `trouble`: what broke that is not the
    policy's."""

    domain: str
    rules: JsonMapping
    messages: list[JsonObject] = field(default_factory=list)
    end: str = ""
    steps: int = 0
    errors: int = 0
    trouble: str = ""

    def say(self, role: str, content: str | None, calls: tuple[Call, ...] = ()) -> None:
        name = f"call_{len(self.messages)}"
        message = {"role": role, "content": content}
        listed = [
            {"id": f"{name}_{n}", "name": c.name, "arguments": dict(c.arguments)}
            for n, c in enumerate(calls)
        ]
        self.messages.append(message | ({"tool_calls": listed} if listed else {}))
        self.steps += 1

    def give(self, results: list[Result]) -> None:
        """The results of the calls in the last message."""
        for call, result in zip(self.messages[-1]["tool_calls"], results, strict=True):
            failed = result.error is not None
            self.messages.append(
                {"role": "tool", "id": call["id"], "content": result.text, "error": failed}
            )
            self.errors += failed
            self.end = "agent_error" if result.error == "timeout" else self.end
        self.steps += 1

    def over(self) -> bool:
        """Whether it has ended; limits count whenever no call waits for its result, and go before a
        stop, as there."""
        if self.steps >= self.rules["max_steps"]:
            self.end = "max_steps"
        if self.errors >= self.rules["max_errors"]:
            self.end = "too_many_errors"
        return bool(self.end)


@frozen
class TalkJob(ItemJob):
    """A job whose `own` is a conversation."""

    def engine(self) -> Generator[Request, Any, Trace]:
        """The policy greets, the user speaks, and so on: until the user stops, or a limit is
        reached. A reply that cannot be read, or says nothing, breaks the package's runner: here
        the former is answered by a complaint and counts as an error, the latter ends the
        conversation."""
        talk: Talk = self.own
        dialect = self.dialect
        task = self.task
        greeting = talk.rules["greeting"]
        talk.messages.append({"role": "assistant", "content": greeting})
        tools = [self.environment.tools()[name] for name in task.tools]
        prompt = [
            Message("system", dialect.system(tools, task.system), dialect.beside(tools)),
            Message("assistant", dialect.answer(greeting)),
        ]
        exchanges: list[tuple[str, str]] = []
        answered = 0  # messages up to the policy's latest
        end: End | None = None  # of a reply that was cut
        while True:
            turn = yield NeedUser(tuple(exchanges))
            text = turn if isinstance(turn, str) else turn.text
            talk.say("user", text)
            talk.end = "user_stop" if any(stop in text for stop in talk.rules["stops"]) else ""
            if talk.over():
                break
            prompt.append(Message("user", dialect.user(text, ())))
            answer = None
            while answer is None and not talk.over():
                reply: Reply = yield NeedText(tuple(prompt), answered, len(exchanges))
                prompt.append(Message("assistant", reply.text))
                answered = len(prompt)
                if reply.end != "stop":
                    end = reply.end
                    talk.end = "agent_error"
                    break
                parsed = dialect.parse(reply.text)
                if not (parsed.error or parsed.calls or (parsed.answer or "").strip()):
                    talk.end = "agent_error"
                elif parsed.error is not None:
                    prompt.append(Message(*dialect.complaint(parsed.error)))
                    talk.steps += 2
                    talk.errors += 1
                elif parsed.calls:
                    beside = (
                        orjson.loads(reply.text)["content"] if isinstance(dialect, Served) else None
                    )
                    talk.say("assistant", beside, parsed.calls)
                    results = list((yield NeedCalls(parsed.calls, tuple(exchanges))))
                    talk.give(results)
                    prompt.extend(dialect.observation(parsed.calls, results))
                else:
                    answer = parsed.answer or ""
                    talk.say("assistant", answer)
            if talk.over():
                break
            exchanges.append((text, answer or ""))
        end = end or ("finished" if talk.end == "user_stop" else "step_limit")
        return Trace(task.id, (), end, task.expected, tuple(prompt))


BEHAVIOUR = 1  # to be raised when equal calls may give other results


@frozen
class Documented(Tool):
    """A tool with the package's own document."""

    document: JsonMapping = field(default_factory=dict)

    def schema(self) -> JsonObject:
        return dict(self.document)


class Domain:
    """A domain as an environment: its tools, in the wheel's words. Its worlds belong to a
    conversation."""

    features = Features(waits=True)

    def __init__(self, name: str, described: JsonMapping) -> None:
        self.name = f"tau2_{name}"
        self.system = described["system"]
        tools = (
            Documented(one["name"], name, one["description"], document=one)
            for one in described["tools"]
        )
        self._tools = {tool.name: tool for tool in tools}
        self.hash = content_id({"wheel": WHEEL.sha256, "behaviour": BEHAVIOUR, "domain": described})

    def tools(self) -> Tools:
        return self._tools

    def reset(self, state: JsonMapping | None) -> NoReturn:
        raise ValueError("its worlds begin with the wheel's database, and belong to a conversation")


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
