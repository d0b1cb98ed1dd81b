"""Plays from a trace what a model has said there: the results of calls, the user's texts, the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rods.calls import Call
from rods.conversations import Persona, UserText
from rods.environments.base import Instance, Result
from rods.episode.engine import Exchange, NeedCalls, NeedOutcome, Outcome, Trace
from rods.errors import InfrastructureError
from rods.players.models import Stateless, unasked


class RecordedWorld(Stateless):
    """An instance that answers each call with what it got at the time."""

    def __init__(self, trace: Trace) -> None:
        steps = [step for turn in trace.turns for step in turn.steps]
        made = (pair for step in steps for pair in zip(step.calls, step.results, strict=True))
        self._left = [(call, result) for call, result in made if result.error != "unknown_tool"]

    def results(self, need: NeedCalls) -> Sequence[Result]:
        return [self.call(call) for call in need.calls]

    def call(self, call: Call) -> Result:
        if not self._left or self._left[0][0] != call:
            raise InfrastructureError(f"the trace has no result of {call}")
        return self._left.pop(0)[1]


class RecordedUser:
    """Says what the user of the trace said, and gives what it gave."""

    def __init__(self, trace: Trace) -> None:
        self.texts: list[str] = []
        self.rewards = [turn.steps[-1].reward if turn.steps else None for turn in trace.turns]
        place = 1  # after the system message
        for turn in trace.turns:
            self.texts.append(trace.messages[place].content)
            place += 1 + sum(1 + bool(step.calls or step.error) for step in turn.steps)

    def __call__(self, persona: Persona, said: Exchange) -> UserText:
        return UserText(self.texts[len(said)] if len(said) < len(self.texts) else "", self.rewards[len(said) - 1])


class RecordedOutcome:
    """The verdict of the trace, where a model had to be asked for it."""

    def __init__(self, trace: Trace) -> None:
        self._outcome = trace.outcome

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        if (clear := unasked(need)) is not None:
            return clear
        if self._outcome is None:
            raise InfrastructureError("the trace has no verdict")
        return self._outcome
