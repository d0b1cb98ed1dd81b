"""One conversation of τ²-bench: who speaks when and how it ends, as in the package's orchestrator. Its messages are
recorded in the package's own form, which its evaluators read."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson

from rods.calls import Call
from rods.canonical import content_id
from rods.environments.base import Features, Result, Tool
from rods.environments.workers.worker import Overrun
from rods.episode import engine
from rods.episode.drivers import Job
from rods.family.benchmarks.tau2.native import Documented, Native
from rods.family.benchmarks.tau2.package import WHEEL, worker
from rods.faults import End
from rods.worlds.pinned import OnlyCalled

BEHAVIOUR = 1  # to be raised when equal calls may give other results
ENDS: dict[str, End] = {"user_stop": "finished", "max_steps": "step_limit", "too_many_errors": "step_limit"}


class Domain:
    """A domain as an environment: its tools, in the wheel's words."""

    features = Features(waits=True)

    def __init__(self, name: str, described: Mapping[str, Any]) -> None:
        self.name, self.system = f"tau2_{name}", described["system"]
        self._tools = {
            document["name"]: Documented(document["name"], name, document["description"], document=document)
            for document in described["tools"]
        }
        self.hash = content_id({"wheel": WHEEL.sha256, "behaviour": BEHAVIOUR, "domain": described})

    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def reset(self, state: Mapping[str, Any] | None) -> NoReturn:
        raise ValueError("its worlds begin with the wheel's database, and belong to a conversation")


class World(OnlyCalled):
    """The world of one conversation, in the worker's process."""

    def __init__(self, talk: "Talk") -> None:
        self.talk, self.made = talk, list[list[Any]]()

    def results(self, need: engine.NeedCalls) -> list[Result]:
        """Raises InfrastructureError where the process was killed; what a call itself overruns is the policy's."""
        calls = [[call.name, dict(call.arguments)] for call in need.calls]
        told = {"conversation": str(id(self)), "domain": self.talk.domain, "before": self.made, "calls": calls}
        try:
            answers = worker().call({"do": "call", **told})
        except (Overrun, RuntimeError) as error:
            return [Result(f"Error: {error}", error="timeout")] * len(calls)
        self.made += calls
        return [Result(text, error="tool" if failed else None) for text, failed in answers]

    def call(self, call: Call) -> Result:
        return self.results(engine.NeedCalls((call,)))[0]


@dataclass
class Talk:
    """What is said in one conversation, and why it ended (a `TerminationReason` of the package)."""

    domain: str
    rules: Mapping[str, Any]  # greeting, stops, max_steps, max_errors
    messages: list[dict[str, Any]] = field(default_factory=list)
    end: str = ""
    steps: int = 0
    errors: int = 0

    def say(self, role: str, content: str | None, calls: tuple[Call, ...] = ()) -> None:
        message: dict[str, Any] = {"role": role, "content": content}
        if calls:
            made = [
                {"id": self._id(place), "name": c.name, "arguments": dict(c.arguments)} for place, c in enumerate(calls)
            ]
            message["tool_calls"] = made
        self.messages.append(message)
        self.steps += 1

    def give(self, results: "list[Result]") -> None:
        """The results of the calls in the last message."""
        ids = [call["id"] for call in self.messages[-1]["tool_calls"]]
        for name, result in zip(ids, results, strict=True):
            failed = result.error is not None
            self.messages.append({"role": "tool", "id": name, "content": result.text, "error": failed})
            self.errors += failed
        self.steps += 1

    def over(self) -> bool:
        """Whether it has ended; limits count whenever no call waits for its result, and go before a stop, as there."""
        if self.steps >= self.rules["max_steps"]:
            self.end = "max_steps"
        if self.errors >= self.rules["max_errors"]:
            self.end = "too_many_errors"
        return bool(self.end)

    def _id(self, place: int) -> str:
        return f"call_{len(self.messages)}_{place}"


@dataclass(frozen=True, slots=True)
class TalkJob(Job):
    """A job that is a conversation."""

    talk: Talk | None = None

    def engine(self) -> Generator[engine.Request, Any, engine.Trace]:
        """The policy greets, the user speaks, and so on: until the user stops, or a limit is reached. A reply that
        cannot be read, or says nothing, breaks the package's runner: here the former is answered by a complaint and
        counts as an error, the latter ends the conversation."""
        assert self.talk is not None
        talk, dialect, task = self.talk, self.dialect, self.task
        tools = [self.environment.tools()[name] for name in task.tools]
        talk.messages.append({"role": "assistant", "content": talk.rules["greeting"]})
        shown = [
            engine.Message("system", dialect.system(tools, task.system)),
            engine.Message("assistant", dialect.answer(talk.rules["greeting"])),
        ]
        said: list[tuple[str, str]] = []
        turns: list[engine.TurnTrace] = []
        answered = 0  # messages up to the policy's latest

        def trace(end: End) -> engine.Trace:
            return engine.Trace(task.id, tuple(turns), end, task.expected, tuple(shown))

        while True:
            given = yield engine.NeedUser(tuple(said))
            text = given if isinstance(given, str) else given.text
            talk.say("user", text)
            if any(stop in text for stop in talk.rules["stops"]):
                talk.end = "user_stop"
            if talk.over():
                return trace(ENDS[talk.end])
            shown.append(engine.Message("user", dialect.user(text, ())))
            steps: list[engine.StepTrace] = []
            while True:
                reply: engine.Reply = yield engine.NeedText(tuple(shown), answered, len(turns))
                shown.append(engine.Message("assistant", reply.text))
                answered = len(shown)
                parsed = dialect.parse(reply.text)
                if reply.end != "stop" or not (parsed.error or parsed.calls or (parsed.answer or "").strip()):
                    turns.append(engine.TurnTrace((*steps, engine.StepTrace(reply.text))))
                    talk.end = "agent_error"
                    return trace("step_limit" if reply.end == "stop" else reply.end)
                if parsed.error is not None:
                    steps.append(engine.StepTrace(reply.text, error=parsed.error))
                    shown.append(engine.Message(*dialect.complaint(parsed.error)))
                    talk.steps, talk.errors = talk.steps + 2, talk.errors + 1
                elif parsed.calls:
                    talk.say("assistant", _beside(reply.text, dialect), parsed.calls)
                    results = list((yield engine.NeedCalls(parsed.calls, tuple(said))))
                    talk.give(results)
                    steps.append(engine.StepTrace(reply.text, parsed.calls, tuple(results)))
                    if any(result.error == "timeout" for result in results):
                        talk.end = "agent_error"
                    shown.append(engine.Message(*dialect.observation(parsed.calls, results)))
                else:
                    steps.append(engine.StepTrace(reply.text))
                    talk.say("assistant", parsed.answer)
                if talk.over() or not (parsed.error or parsed.calls):
                    break
            turns.append(engine.TurnTrace(tuple(steps)))
            if talk.end:
                return trace(ENDS.get(talk.end, "step_limit"))
            said.append((text, parsed.answer or ""))


def _beside(text: str, dialect: Any) -> str | None:
    """What a native reply says beside its calls, which the package's evaluators read, too."""
    return orjson.loads(text)["content"] if isinstance(dialect, Native) else None
