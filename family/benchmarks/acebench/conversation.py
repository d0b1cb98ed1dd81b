"""An episode of an agent of ACEBench: what was said, and who is asked next; the package's own loop
says so (`official`)."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.calls import Call
from rods.canonical import frozen
from rods.dialects import Message
from rods.environments.base import Result
from rods.environments.workers.worker import Worker
from rods.episode.engine import NeedCalls, NeedText, NeedUser, Reply, Trace
from rods.family.benchmarks.acebench.official import OPENING
from rods.family.benchmarks.episodes import ItemJob
from rods.family.benchmarks.workers import asked
from rods.faults import End
from rods.worlds.pinned import OnlyCalled

# characters of a reply that are read; the package looks for calls by a pattern that is quadratic in
# them
TEXT = 32_768


@dataclass
class Talk:
    """What was said in an episode, who is asked next and reads what. `ahead`: what is known of that
    beforehand. `over`: reading the policy's texts exceeds the worker's bounds."""

    item: str
    ahead: list[list[Any]]
    asks: str = ""
    messages: Sequence[Sequence[str]] = ()
    policy: list[str] = field(default_factory=list)
    user: list[str] = field(default_factory=list)
    end: End = "finished"
    over: bool = False
    trouble: str = ""

    def goes_on(self) -> bool:
        """Takes what is known to come next, as far as it is."""
        if not self.ahead:
            return False
        self.asks, messages = self.ahead.pop(0)
        opening = self.user[0] if self.user else OPENING
        self.messages = [(role, text.replace(OPENING, opening)) for role, text in messages]
        return True


class World(OnlyCalled):
    """What an agent has changed so far, in the worker's process: it is made of what was said."""

    def __init__(self, talk: Talk, worker: Worker) -> None:
        self.talk = talk
        self._worker = worker

    def results(self, need: NeedCalls) -> list[Result]:
        """Says in the talk who is asked next. Raises InfrastructureError where the machine is at
        fault; what the reading of a text itself overruns is the policy's."""
        talk = self.talk
        request = {"do": "next", "item": talk.item, "policy": talk.policy, "user": talk.user}
        try:
            talk.asks, talk.messages, end = asked(self._worker, request)
        except RuntimeError:
            talk.asks, end = "", "step_limit"
            talk.over = True
        talk.end = end or talk.end
        return []

    def call(self, call: Call) -> Result:
        raise NotImplementedError


@frozen
class TalkJob(ItemJob):
    """A job in which each prompt stands for itself; its `own` is the conversation."""

    def engine(self) -> Generator[Any, Any, Trace]:
        talk: Talk = self.own
        end = None
        prompt = tuple[Message, ...]()
        talk.goes_on()
        while talk.asks:
            if talk.asks == "user":
                talk.user.append((yield NeedUser(())))
            else:
                prompt = tuple(
                    Message(role, text)  # type: ignore[arg-type]
                    for role, text in talk.messages
                )
                reply: Reply = yield NeedText(prompt, 0, len(talk.policy))
                if reply.end != "stop":
                    end = reply.end
                    break
                talk.policy.append(reply.text[:TEXT])
            if not talk.goes_on():
                yield NeedCalls(())  # the package says what comes next
        return Trace(self.task.id, (), end or talk.end, self.task.expected, prompt)
