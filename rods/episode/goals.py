"""Judges a turn by its ground-truth calls: the state of the environment and the results that were seen.

000 §3.4 and Appendix D, as BFCL's scorer reads both: the state is compared by the
environment's own notion of equality, and the turn's expected results must all be among the results of the episode so
far (a multiset subset). A turn without ground-truth calls is resolved by an answer without any call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from rods.environments.base import Environment, Instance
from rods.episode.engine import NeedVerdict, Verdict
from rods.errors import InfrastructureError
from rods.faults import NOT_EXECUTED
from rods.tasks import Task


class Goal(Protocol):
    """What an episode is judged by."""

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """What the turn earned in `instance`, which is compared and never changed."""
        ...


class GroundTruth:
    """The expected world and results after every turn of one task, made once and shared by all of its rollouts.

    Needs an environment that can fork; raises Unsupported otherwise, ValueError for an illegal initial state,
    InfrastructureError when a call could not be carried out.
    """

    def __init__(self, environment: Environment, task: Task) -> None:
        self.calls = task.calls
        self.results: list[tuple[str, ...]] = []
        self._expected: list[tuple[Instance, Counter[str]]] = []
        instance = environment.reset(task.state)
        for calls in task.calls:
            found = [instance.call(call) for call in calls]
            if broken := next((result.text for result in found if result.error in NOT_EXECUTED), None):
                raise InfrastructureError(f"the ground truth of task {task.id} could not be run: {broken}")
            texts = tuple(result.text for result in found)
            self.results.append(texts)
            self._expected.append((instance.fork(), Counter(texts)))

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """What the turn earned in `instance`, which is compared and never changed."""
        if not self.calls[need.turn]:
            return Verdict(True, need.attempted == 0)
        if need.attempted == 0:
            return Verdict(instance.same_state(self._expected[need.turn][0]), False)
        return self.parts(instance, need.turn, need.results)

    def parts(self, instance: Instance, turn: int, seen: Sequence[str]) -> Verdict:
        """The two comparisons of `turn` alone, whatever was attempted: the state, and its results among those
        `seen`."""
        world, texts = self._expected[turn]
        return Verdict(instance.same_state(world), all(seen.count(text) >= times for text, times in texts.items()))


class SharedGroundTruth:
    """A `GroundTruth` that is made when the first of the task's rollouts asks for a verdict. An environment that breaks
    or hangs over it then breaks those rollouts, each as an infrastructure failure, and not the making of the batch."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self.environment, self.task = environment, task
        self._made: GroundTruth | InfrastructureError | None = None
        self._lock = threading.Lock()

    def make(self) -> None:
        """Runs the ground truth, once. A failure is kept for all later verdicts."""
        with self._lock:
            if self._made is None:
                try:
                    self._made = GroundTruth(self.environment, self.task)
                except InfrastructureError as error:
                    self._made = error
                except BaseException:  # it hung, and an alarm has ended it: once is enough
                    self.broken(InfrastructureError(f"the ground truth of task {self.task.id} was cut off"))
                    raise

    def broken(self, error: InfrastructureError) -> None:
        """Makes every later verdict raise `error`."""
        self._made = error

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """As `GroundTruth.verdict`. Raises InfrastructureError where that could not be made."""
        if self._made is None:
            self.make()
        if isinstance(self._made, InfrastructureError):
            raise self._made
        assert self._made is not None
        return self._made.verdict(instance, need)
