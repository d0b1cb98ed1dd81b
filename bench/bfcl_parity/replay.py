"""Our executor and verdicts against the official ones, every turn of them, and both speeds.

Replays the 800 ground truths and then mutated rollouts. For each turn the result texts, the state
check and the response check are compared; for each rollout the official verdict and the
abstention-strict one. Times are CPU seconds of two processes of the same kind that take turns, and
the figures are medians over rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bench.bfcl_parity import oracle, speed
from bench.bfcl_parity.mutations import MutatedRollout, Mutations
from rods.calls import Call
from rods.episode.engine import NeedVerdict, Verdict
from rods.episode.goals import GroundTruth
from rods.family.benchmarks.bfcl.scorer import start
from rods.tasks import Task
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.tasks import tasks
from rods.worlds.bfcl.verdicts import official_verdict, strict_verdict
from rods.worlds.bfcl.world import environment

MUTATIONS = 10_000
ROUNDS = 9
SHOWN = 20  # mismatches that are listed in full
_BATCH = 200


@dataclass(frozen=True, slots=True)
class Mismatch:
    task: str
    kinds: tuple[str, ...]
    what: str
    ours: Any
    official: Any
    calls: list[list[list[str]]]


@dataclass(slots=True)
class Parity:
    """What was compared and found. `leaks` are rollouts that differ only because the official
    worlds of policy and ground truth share objects (`oracle`); with these kept apart they are
    equal."""

    rollouts: int = 0
    turns: int = 0
    calls: int = 0
    failing: int = 0
    strict_failing: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    leaks: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def equal(self) -> int:
        return self.rollouts - len(self.mismatches)

    def as_json(self) -> dict[str, Any]:
        return {
            "rollouts": self.rollouts,
            "turns": self.turns,
            "calls": self.calls,
            "equal": self.equal,
            "failing": self.failing,
            "strict_failing": self.strict_failing,
            "kinds": dict(self.kinds),
            "official_leaks": self.leaks,
            "mismatches": [asdict(mismatch) for mismatch in self.mismatches[:SHOWN]],
        }


@dataclass(frozen=True, slots=True)
class ParityReport:
    """`environment` is the hash of ours; `speeds` by name, None when they were left out."""

    environment: str
    ground_truths: Parity
    mutations: Parity
    speeds: dict[str, Any] | None

    @property
    def ok(self) -> bool:
        return not self.ground_truths.mismatches and not self.mutations.mismatches

    def as_json(self) -> dict[str, Any]:
        return {
            "package": wheel.PACKAGE,
            "version": wheel.VERSION,
            "sha256": wheel.SHA256,
            "environment": self.environment,
            "equal": self.ok,
            "ground_truths": self.ground_truths.as_json(),
            "mutations": self.mutations.as_json(),
            "speeds": self.speeds,
        }

    def lines(self) -> list[str]:
        """What a person reads."""
        found = [f"{wheel.PACKAGE} {wheel.VERSION}, environment {self.environment}"]
        for name, parity in (
            ("ground truths", self.ground_truths),
            ("mutated rollouts", self.mutations),
        ):
            if parity.rollouts:
                found.append(
                    f"{name}: {parity.equal} of {parity.rollouts} equal in every turn "
                    f"({parity.turns} turns, "
                    f"{parity.calls} calls; {parity.failing} fail the official check, "
                    f"{parity.strict_failing} the "
                    f"strict one; {parity.leaks} told apart only by objects that the official "
                    f"worlds share)"
                )
            found += [
                f"  DIFFERS {m.task} {m.kinds} {m.what}: {m.ours!r} / {m.official!r}"
                for m in parity.mismatches[:5]
            ]
        for name, figure in (self.speeds or {}).items():
            found.append(
                f"{name}: {figure['ours']:,.0f} {figure['unit']}, official "
                f"{figure['official']:,.0f}: "
                f"{figure['ratio']:.1f} times"
            )
        return found


def replay(
    mutations: int = MUTATIONS,
    *,
    random_seed: int = 0,
    rounds: int = ROUNDS,
    cache: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> ParityReport:
    """Compares everything; `rounds` 0 leaves the speeds out. Raises UserError when the data are
    missing.

    `say` is told of progress, a line at a time.
    """
    found = tasks(cache)
    say = say or (lambda line: None)
    comparison = _Comparison(wheel.path(cache))
    try:
        truths = (MutatedRollout(task, ("ground truth",), _as_written(task)) for task in found)
        ground_truths = comparison.compare(truths)
        say(f"ground truths: {ground_truths.equal} of {ground_truths.rollouts} equal")
        mutated = Parity()
        rollouts = Mutations(found, random_seed).take(mutations)
        while batch := list(islice(rollouts, 10 * _BATCH)):
            comparison.compare(batch, mutated)
            say(f"mutated rollouts: {mutated.equal} of {mutated.rollouts} equal")
        speeds = speed.compare(comparison.oracle, wheel.path(cache), rounds) if rounds else None
    finally:
        comparison.oracle.close()
    return ParityReport(comparison.bfcl.hash, ground_truths, mutated, speeds)


def _as_written(task: Task) -> list[list[list[Call]]]:
    """The ground truth of `task` as a rollout, one step a turn."""
    return [[list(turn)] if turn else [] for turn in task.calls]


class _Comparison:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.bfcl = environment(file.parent)
        self.oracle = start(oracle.ORACLE)
        self.goals: dict[str, GroundTruth] = {}

    def compare(self, rollouts: Iterable[MutatedRollout], parity: Parity | None = None) -> Parity:
        parity = parity or Parity()
        waiting = iter(rollouts)
        while batch := list(islice(waiting, _BATCH)):
            judged = self._ask(batch)
            for rollout, theirs in zip(batch, judged, strict=True):
                ours = self._ours(rollout, oracle.digest)
                parity.rollouts += 1
                parity.turns += len(rollout.turns)
                parity.calls += sum(len(step) for turn in rollout.turns for step in turn)
                parity.failing += not theirs["official"]
                parity.strict_failing += not theirs["strict"]
                parity.kinds.update(rollout.kinds)
                if ours == theirs:
                    continue
                if ours == self._ask([rollout], isolated=True)[0]:
                    parity.leaks += 1
                    continue
                parity.mismatches.append(self._explain(rollout, len(parity.mismatches) < SHOWN))
        return parity

    def _ask(self, rollouts: Sequence[MutatedRollout], **options: bool) -> list[dict[str, Any]]:
        asked = [[rollout.task.provenance["id"], rollout.as_text()] for rollout in rollouts]
        answer: list[dict[str, Any]] = self.oracle.call(
            {"do": "judge", "wheel": str(self.file), "rollouts": asked, **options}
        )
        return answer

    def _ours(
        self, rollout: MutatedRollout, form: Callable[[Sequence[str]], Any]
    ) -> dict[str, Any]:
        """The oracle's record, from our executor, goal and verdicts."""
        task = rollout.task
        goal = self._goal(task)
        world = self.bfcl.reset(task.state)
        so_far: list[str] = []
        outcomes: list[dict[str, Any]] = []
        verdicts: list[Verdict] = []
        for turn, steps in enumerate(rollout.turns):
            mine = [world.call(call).text for step in steps for call in step]
            so_far += mine
            attempted = sum(map(len, steps))
            verdicts.append(goal.verdict(world, NeedVerdict(turn, so_far, attempted)))
            parts = goal.parts(world, turn, so_far)
            outcomes.append(
                {
                    "empty": attempted == 0,
                    "state": parts.state,
                    "response": parts.response,
                    "results": form(mine),
                    "expected": form(tuple(Counter(dict(goal.needed[turn])).elements())),
                }
            )
        return {
            "turns": outcomes,
            "official": official_verdict(task, verdicts),
            "strict": strict_verdict(task, verdicts),
        }

    def _goal(self, task: Task) -> GroundTruth:
        if task.id not in self.goals:
            self.goals[task.id] = GroundTruth(self.bfcl, task)
        return self.goals[task.id]

    def _explain(self, rollout: MutatedRollout, closely: bool) -> Mismatch:
        """Runs the rollout once more with full texts and names the first difference."""
        found = ("not looked into", None, None)
        if closely:
            theirs = self._ask([rollout], texts=True)[0]
            found = next(
                _differences(self._ours(rollout, list), theirs), ("not reproduced", None, None)
            )
        return Mismatch(rollout.task.provenance["id"], rollout.kinds, *found, rollout.as_text())


def _differences(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for turn, (mine, other) in enumerate(zip(ours["turns"], theirs["turns"], strict=True)):
        for key in ("expected", "results", "state", "response", "empty"):
            if mine[key] != other[key]:
                pairs = (
                    zip(mine[key], other[key], strict=False) if isinstance(mine[key], list) else ()
                )
                one, two = next(
                    (pair for pair in pairs if pair[0] != pair[1]), (mine[key], other[key])
                )
                yield f"turn {turn} {key}", one, two
    for key in ("official", "strict"):
        if ours[key] != theirs[key]:
            yield key, ours[key], theirs[key]
