"""An episode that a tool loop of somebody else drives: it calls a tool, or answers the user, one
thing at a time.

World, user and verdicts are those of any other episode. Such loops end with the first reply that
calls no tool, so a policy speaks to the user by a tool more, `ANSWER`, which returns what the user
says next.
"""

import sys

from rods.calls import Call
from rods.canonical import JsonMapping
from rods.dialects.remote import Served
from rods.environments.base import Environment, Parameter, Tool
from rods.episode.drivers import Job, Running
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.tasks import AnyTask

HEARS = "Answer the user, and hear what they say next: nothing where that was all."
ANSWER = Tool(
    "answer", "", HEARS, (Parameter("text", {"type": "string"}, "what you say to the user"),)
)


class ToolLoop:
    """One episode of `task` in `environment`. Raises UserError for a task that is judged by a
    rubric."""

    def __init__(self, environment: Environment, task: AnyTask) -> None:
        goal = goal_of(environment, task)
        self._running = Running(Job(task, environment, Served(), goal, max_steps=sys.maxsize))
        self._state = self._running.advance(None)

    def call(self, name: str, arguments: JsonMapping) -> str:
        """What the tool answers, or why it cannot be called; where the tool is `ANSWER`, what the
        user says next, empty where that was all."""
        if name == ANSWER.name:
            return self.reply(str(arguments.get("text")))
        return self._heard(Served().write([Call(name, arguments)]))

    def reply(self, text: str) -> str:
        """The same for a reply in plain words."""
        return self._heard(Served().answer(text))

    def _heard(self, reply: str) -> str:
        if isinstance(self._state, NeedText):
            self._state = self._running.advance(Reply(reply))
        return self._state.messages[-1].content if isinstance(self._state, NeedText) else ""

    def trace(self) -> Trace:
        """The episode, which is over now: a turn that was not answered is not resolved."""
        state = (
            self._running.advance(Reply("", "length"))
            if isinstance(self._state, NeedText)
            else self._state
        )
        assert isinstance(state, Trace)
        return state
