"""One conversation of τ²-bench: who speaks when and how it ends, as in the package's orchestrator.
Its messages are recorded in the package's own form, which its evaluators read."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen, only
from rods.dialects import Message
from rods.dialects.remote import Served
from rods.environments.base import Result
from rods.episode.engine import NeedCalls, NeedText, NeedUser, Reply, Request, Trace
from rods.family.benchmarks.episodes import ItemJob
from rods.family.benchmarks.tau2.package import worker
from rods.family.benchmarks.workers import asked
from rods.faults import End
from rods.worlds.pinned import OnlyCalled


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
