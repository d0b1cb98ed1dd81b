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
from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from rods.calls import Call, ReadsJudged
from rods.conversations import Checks
from rods.environments.base import Environment, Instance, Result, opened
from rods.episode.asked import Asked, Position, judged
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
    `reads` says which of the results have to be shown (`Features.reads_judged`). Raises Unsupported
    where worlds cannot fork, ValueError for an illegal initial state, InfrastructureError for a
    broken call."""

    def __init__(self, environment: Environment, task: Task, reads: ReadsJudged = "all") -> None:
        self.calls = task.calls
        self.needed: list[Collection[tuple[str, int]]] = []  # a turn's results, and how often
        self._worlds: list[Instance] = []
        self._state_alone = reads == "state"
        results: list[list[Result]] = []
        changed = set[Position]()  # calls that changed the state
        tools = environment.tools()
        looks = environment.features.reads.union(name for name in tools if tools[name].reads)
        instance = opened(environment, task)
        for turn, calls in enumerate(task.calls):
            results.append([])
            for index, call in enumerate(calls):
                watched = reads == "asked" and call.name not in looks
                before = instance.fork() if watched else instance
                result = instance.call(call)
                if result.error in NOT_EXECUTED:
                    raise InfrastructureError(
                        f"the ground truth of task {task.id} could not be run: {result.text}"
                    )
                if watched and not instance.same_state(before):
                    changed.add((turn, index))
                results[turn].append(result)
            self.needed.append(Counter(result.text for result in results[turn]).items())
            self._worlds.append(instance.fork())
        self._asked = Asked(environment, task, results, changed) if reads == "asked" else None

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        if not self.calls[need.turn]:
            return Verdict(True, need.attempted == 0)
        parts = self.parts(instance, need.turn, need.results)
        if parts.response:
            return parts if need.attempted else Verdict(parts.state, False)
        asked = self._asked
        enough = self._state_alone or (asked is not None and asked.answered(need))
        return Verdict(parts.state, need.attempted > 0 and enough)

    def parts(self, instance: Instance, turn: int, seen: Sequence[str]) -> Verdict:
        """The state after `turn`, and its results among those `seen`, whatever was attempted."""
        shown = all(seen.count(text) >= times for text, times in self.needed[turn])
        return Verdict(instance.same_state(self._worlds[turn]), shown)


class SharedGroundTruth:
    """A `GroundTruth`, as the task is judged, that is made when the first of the task's rollouts
    asks for a verdict. An environment that breaks or hangs over it then breaks those
    rollouts, each as an infrastructure failure, and not the making of the batch."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self.environment = environment
        self.task = task
        self._made: GroundTruth | InfrastructureError | None = None
        self._lock = threading.Lock()

    def make(self) -> GroundTruth | InfrastructureError:
        """Runs the ground truth, once. A failure is kept for all later verdicts."""
        with self._lock:
            if self._made is None:
                try:
                    reads = judged(self.environment, self.task)
                    self._made = GroundTruth(self.environment, self.task, reads)
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
