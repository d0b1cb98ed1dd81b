"""τ²-bench as a benchmark (rods.family.benchmarks.benchmarks): a policy serves customers of an
airline, of a shop and of a telephone company by their rules and tools, and a model plays the
customer; the last one's has tools of its own. Scores are the package's own: the database as the
ground truth's calls leave it, and what had to be said; or what is asserted of the world in the end.
No item of these domains is scored by a judge.

Who speaks when and how it ends is as in the package's orchestrator. Messages are recorded in the
package's own form, which its evaluators read."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen, only
from rods.conversations import Persona, Rubric
from rods.dialects import Message
from rods.dialects.remote import Served, reply_text
from rods.dialects.tags import Hermes
from rods.environments.base import Result, Tool, reference
from rods.episode.drivers import Job
from rods.episode.engine import Exchange, NeedCalls, NeedText, NeedUser, Reply, Request, Trace
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.episodes import (
    ItemJob,
    Maker,
    OwnWorlds,
    Unjudged,
    messages,
    user_reply,
)
from rods.family.benchmarks.folder import Episode, Score
from rods.family.benchmarks.tau2.package import DECLARED, WHEEL, worker
from rods.family.benchmarks.workers import asked
from rods.faults import End
from rods.tasks import AnyTask, OpenTask
from rods.worlds.pinned import OnlyCalled

BEHAVIOUR = 1  # to be raised when equal calls may give other results
USER_TOKENS = 2048  # of one text of the user's


@frozen
class Documented(Tool):
    """A tool with the package's own document."""

    document: JsonMapping = field(default_factory=dict)

    def schema(self) -> JsonObject:
        return dict(self.document)


def _domain(name: str, described: JsonMapping) -> OwnWorlds:
    """A domain as an environment: its tools, in the wheel's words."""
    tools = {
        one["name"]: Documented(one["name"], name, one["description"], document=one)
        for one in described["tools"]
    }
    facts = {"wheel": WHEEL.sha256, "behaviour": BEHAVIOUR, "domain": described}
    return OwnWorlds(f"tau2_{name}", content_id(facts), tools)


class World(OnlyCalled):
    """The world of one conversation, in the worker's process."""

    def __init__(self, talk: "Talk") -> None:
        self.talk = talk

    def results(self, need: NeedCalls) -> list[Result]:
        """Raises InfrastructureError where the machine is at fault; what a call itself overruns is
        the policy's."""
        try:
            return self.talk.results(need.calls, "assistant")
        except RuntimeError as error:
            return [Result(f"Error: {error}", error="timeout")] * len(need.calls)

    def call(self, call: Call) -> Result:
        return self.results(NeedCalls((call,)))[0]


@dataclass
class Talk:
    """What is said in one conversation about `item`, and why it ended (a `TerminationReason` of the
    package). `rules`: greeting, stops, max_steps and max_errors. `made`: the calls of both sides,
    by message. `trouble`: what broke that is not the policy's."""

    domain: str
    item: str
    rules: JsonMapping
    made: list[JsonObject] = field(default_factory=list)
    messages: list[JsonObject] = field(default_factory=list)
    end: str = ""
    steps: int = 0
    errors: int = 0
    trouble: str = ""

    def results(self, calls: Sequence[Call], requestor: str) -> list[Result]:
        """What `calls` give. Raises RuntimeError, InfrastructureError."""
        made = {
            "requestor": requestor,
            "calls": [[call.name, dict(call.arguments)] for call in calls],
        }
        request = {
            "do": "call",
            "conversation": str(id(self)),
            "domain": self.domain,
            "task": self.item,
            "before": self.made,
            **made,
        }
        answers = asked(worker(), request)
        self.made.append(made)
        return [
            Result(text, error="tool" if failed else None)
            for _, (text, failed) in zip(calls, answers, strict=True)
        ]

    def act(self, calls: tuple[Call, ...], beside: str | None) -> bool:
        """The user's calls, and their results. Whether it is the user's turn again. Raises what
        `results` raises: then the player broke, not the policy."""
        self.say("user", beside, calls)
        self.give(self.results(calls, "user"))
        return not self.over()

    def say(self, role: str, content: str | None, calls: tuple[Call, ...] = ()) -> None:
        name = f"call_{len(self.messages)}"
        message = {"role": role, "content": content}
        requestor = {"requestor": "user"} if role == "user" else {}  # the other is the default
        listed = [
            {"id": f"{name}_{n}", "name": c.name, "arguments": dict(c.arguments), **requestor}
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
                | only(call, ("requestor",))
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
            text = yield NeedUser(tuple(exchanges))
            if talk.over():  # behind calls of the user's
                break
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


class TalkMaker(Maker):
    """The `Maker` of conversations. A result is {"end", "messages"}, as the package has them,
    which itself knows native calls alone."""

    benchmark: "Tau2"

    def job(self, task: AnyTask, before: Episode | None = None) -> Job:
        name = task.provenance["kind"]
        talk = Talk(name, task.provenance["item"], self.benchmark.rules)
        return TalkJob(
            task,
            self.benchmark.domains[name],
            Served() if self.settings.form == "native" else Hermes(),
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
                self.benchmark.rules["domains"][talk.domain].get("user_tools", ()),
                temperature=self.benchmark.rules["user_temperature"],
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
    makes = TalkMaker

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
    def domains(self) -> dict[str, OwnWorlds]:
        return {name: _domain(name, described) for name, described in self.rules["domains"].items()}

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
        described = self.rules["domains"][name]
        # the others are the user's
        calls = tuple(Call(*call) for call in item["calls"] if call[0] in tools)
        dual = "user_tools" in described
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
            system=described["system"],
            provenance={
                "id": f"{name}_{item['id']}",
                "version": WHEEL.named,
                "kind": name,
                "item": item["id"],
                "told": item["told"],
            },
        )

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
