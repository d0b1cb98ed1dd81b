"""What an episode is judged by: turn by turn, by ground-truth calls, or once at the end, by checks
of the final state.

Ground truth (000 §3.4 and Appendix D, as BFCL's scorer): the state, compared by the environment's
own notion of equality, and the turn's expected results, which must all be among the results of the
episode so far (a multiset subset); or of these, what its user asked to know
(`rods.episode.asked`). A turn without ground-truth calls is resolved by an answer without any call.
Checks: named functions of the environment, asked of the state in which the episode left its world.
A rubric is judged by whoever plays."""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rods.calls import Call
from rods.conversations import Checks
from rods.environments.base import Environment, Instance
from rods.episode.asked import Asked, judged
from rods.episode.engine import NeedOutcome, NeedVerdict, Outcome, Verdict
from rods.errors import BrokenEnvironment, InfrastructureError, UserError
from rods.faults import NOT_EXECUTED
from rods.tasks import AnyTask, OpenTask, Task


class Goal(Protocol):
    """What the turns of a `Task` are judged by."""

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """What the turn earned in `instance`, which is compared and never changed."""


@runtime_checkable
class WholeGoal(Protocol):
    """What an `OpenTask` is judged by, once, at the end."""

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        """What the episode earned, which left its world in `instance`."""


def goal_of(environment: Environment, task: AnyTask) -> Goal | WholeGoal:
    """What the episodes of `task` are judged by, to be shared by them. Raises UserError for a
    rubric."""
    if isinstance(task, Task):
        return SharedGroundTruth(environment, task)
    assert isinstance(task, OpenTask)
    if isinstance(task.goal, Checks):
        return FinalState(task.goal)
    remedy = (
        "judge its rollouts in a trainer of your own and report them (`rods trainer observe`, kind "
        "rubric)"
    )
    raise UserError("nothing here judges by a rubric", where=f"task {task.id}", remedy=remedy)


class FinalState:
    """So many of the checks hold. A check that refuses to be asked (no such account, say) does not
    hold."""

    def __init__(self, goal: Checks) -> None:
        self.checks = goal.calls

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        """Raises InfrastructureError where a check could not be carried out, or is none."""
        failed = tuple(str(check) for check in self.checks if not holds(instance, check))
        return Outcome(len(self.checks) - len(failed), len(self.checks), failed)


def holds(instance: Instance, check: Call) -> bool:
    """Whether `check` is true of the world's state. Raises InfrastructureError where it could not
    be carried out, and BrokenEnvironment where it answers neither true nor false."""
    result = instance.call(check)
    if result.error in NOT_EXECUTED:
        raise InfrastructureError(f"the check {check} could not be asked: {result.text[:200]}")
    if result.error is None and type(result.value) is not bool:
        raise BrokenEnvironment(
            f"the check {check} answered neither true nor false: {result.text[:200]}"
        )
    return result.error is None and result.value is True


class GroundTruth:
    """The expected world and results after every turn of one task, shared by all of its rollouts.
    Raises Unsupported where worlds cannot fork, ValueError for an illegal initial state,
    InfrastructureError for a broken call."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self.calls = task.calls
        self.results: list[tuple[str, ...]] = []
        self._expected: list[tuple[Instance, Counter[str]]] = []
        instance = environment.reset(task.state)
        for calls in task.calls:
            results = [instance.call(call) for call in calls]
            if broken := next(
                (result.text for result in results if result.error in NOT_EXECUTED), None
            ):
                raise InfrastructureError(
                    f"the ground truth of task {task.id} could not be run: {broken}"
                )
            texts = tuple(result.text for result in results)
            self.results.append(texts)
            self._expected.append((instance.fork(), Counter(texts)))

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        if not self.calls[need.turn]:
            return Verdict(True, need.attempted == 0)
        if need.attempted == 0:
            return Verdict(instance.same_state(self._expected[need.turn][0]), False)
        return self.parts(instance, need.turn, need.results)

    def parts(self, instance: Instance, turn: int, seen: Sequence[str]) -> Verdict:
        """The state after `turn`, and its results among those `seen`, whatever was attempted."""
        world, texts = self._expected[turn]
        return Verdict(
            instance.same_state(world),
            all(seen.count(text) >= times for text, times in texts.items()),
        )


class SharedGroundTruth:
    """A `GroundTruth`, or `Asked`, as the task is judged, that is made when the first of the task's
    rollouts asks for a verdict. An environment that breaks or hangs over it then breaks those
    rollouts, each as an infrastructure failure, and not the making of the batch."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self.environment = environment
        self.task = task
        self._made: GroundTruth | Asked | InfrastructureError | None = None
        self._lock = threading.Lock()

    def make(self) -> GroundTruth | Asked | InfrastructureError:
        """Runs the ground truth, once. A failure is kept for all later verdicts."""
        with self._lock:
            if self._made is None:
                try:
                    every = judged(self.environment, self.task) == "all"
                    made = GroundTruth if every else Asked
                    self._made = made(self.environment, self.task)
                except InfrastructureError as error:
                    self._made = error
                except BaseException:  # it hung, and an alarm has ended it: once is enough
                    self.broken(
                        InfrastructureError(f"the ground truth of task {self.task.id} was cut off")
                    )
                    raise
            return self._made

    def broken(self, error: InfrastructureError) -> None:
        """Makes every later verdict raise `error`."""
        self._made = error

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """As `GroundTruth.verdict`. Raises InfrastructureError where that could not be made."""
        truth = self._made or self.make()
        if isinstance(truth, InfrastructureError):
            raise truth
        return truth.verdict(instance, need)
