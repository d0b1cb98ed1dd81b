"""An episode that a tool loop of somebody else drives: it calls a tool, or answers the user, one
thing at a time.

World, user and verdicts are those of any other episode. Such loops end with the first reply that
calls no tool, so a policy speaks to the user by a tool more, `ANSWER`, which returns what the user
says next.
"""

import sys

from rods.calls import Call
from rods.canonical import JsonMapping
from rods.dialects.tags import Hermes
from rods.environments.base import Environment, Parameter, Tool
from rods.episode.drivers import Job, Running
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.tasks import AnyTask

HEARS = "Answer the user, and hear what they say next: nothing where that was all."
ANSWER = Tool(
    "answer", "", HEARS, (Parameter("text", {"type": "string"}, "what you say to the user"),)
)
# of what Hermes shows of a result
OPENING = "<tool_response>\n"
CLOSING = "\n</tool_response>"


class ToolLoop:
    """One episode of `task` in `environment`. Raises UserError for a task that is judged by a
    rubric."""

    def __init__(self, environment: Environment, task: AnyTask) -> None:
        goal = goal_of(environment, task)
        self._running = Running(Job(task, environment, Hermes(), goal, max_steps=sys.maxsize))
        self._state = self._running.advance(None)

    def call(self, name: str, arguments: JsonMapping) -> str:
        """What the tool answers, or why it cannot be called; where the tool is `ANSWER`, what the
        user says next, empty where that was all."""
        text = (
            str(arguments.get("text"))
            if name == ANSWER.name
            else Hermes().write([Call(name, arguments)])
        )
        return self.reply(text)

    def reply(self, text: str) -> str:
        """The same for a reply in plain words. One that only looks like a call is no answer."""
        if isinstance(self._state, NeedText):
            self._state = self._running.advance(Reply(text))
        heard = self._state.messages[-1].content if isinstance(self._state, NeedText) else ""
        return heard.removeprefix(OPENING).removesuffix(CLOSING)

    def trace(self) -> Trace:
        """The episode, which is over now: a turn that was not answered is not resolved."""
        state = (
            self._running.advance(Reply("", "length"))
            if isinstance(self._state, NeedText)
            else self._state
        )
        assert isinstance(state, Trace)
        return state
