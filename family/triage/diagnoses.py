"""Why a task of reward zero is hopeless: a pure function of what the execution of its ground truth
has shown and of what rollouts with hints have earned."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Literal

from rods.analysis.containment import Text, values_in
from rods.calls import Call
from rods.canonical import JsonObject, frozen, present
from rods.episode.engine import Trace, TurnTrace
from rods.family.triage.executed import Executed
from rods.family.triage.rungs import LAST, NAMES, VALUES
from rods.tasks import Task

# solved: without a hint; sound: nothing is wrong with it, and nobody has played it; undecided: too
# little is known
Diagnosis = Literal[
    "broken", "unfair", "format only", "teachable", "beyond reach", "solved", "sound", "undecided"
]
FAULTY: frozenset[Diagnosis] = frozenset({"broken", "unfair"})


@frozen
class Played:
    """Rollouts of a task at one rung: how many were neither cut nor lost, how many of those
    resolved all turns, how many told the right calls in words alone, and how many made a call that
    is as right by the words."""

    rollouts: int
    valid: int
    solved: int
    in_words: int = 0
    otherwise: int = 0

    @property
    def counts(self) -> bool:
        """Whether half of the rollouts or more are valid."""
        return 2 * self.valid >= self.rollouts


def solved_at(played: Mapping[int, Played]) -> int | None:
    """The lowest rung at which a rollout resolved everything."""
    return min((rung for rung, at in played.items() if at.solved), default=None)


def settled(executed: Executed, played: Mapping[int, Played]) -> bool:
    """Whether no further rung has to be played."""
    return bool(
        executed.broken
        or executed.lost
        or solved_at(played) is not None
        or any(at.in_words or not at.counts for rung, at in played.items() if rung == 0)
    )


def diagnose(task: Task, executed: Executed, played: Mapping[int, Played]) -> JsonObject:
    """The finding about `task`, as docs/triage.md has it; `played` is empty where nobody has played
    it."""
    return {
        "task": task.id,
        "type": task.type,
        **conclusion(executed, played),
        "executed": asdict(replace(executed, results=None)),
        "played": {str(number): asdict(at) for number, at in played.items()},
    }


def conclusion(executed: Executed, played: Mapping[int, Played]) -> JsonObject:
    """The part of the finding that follows from the rest."""
    rung = solved_at(played)
    diagnosis, what, evidence = _diagnosed(executed, played, rung)
    at = f" at rung {rung}" * (diagnosis == "teachable")
    return {
        "diagnosis": diagnosis,
        "fault": diagnosis in FAULTY,
        **present(rung=rung),
        "what": f"{diagnosis}{at}: {what}",
        "evidence": [*map(str, evidence)],
    }


def _diagnosed(
    executed: Executed, played: Mapping[int, Played], rung: int | None
) -> tuple[Diagnosis, str, Sequence[object]]:
    """The diagnosis, why, and what was seen."""
    notes = (*executed.unsaid, *executed.ambiguous)
    if executed.lost:
        return "undecided", "its world broke", [executed.lost]
    if executed.broken:
        return "broken", "its ground truth does not hold", executed.broken
    if rung == 0:
        return "solved", "it needs no hint", ()
    teaches = f"it is solved once this is told: {NAMES[rung or 0]}"
    if rung and rung < VALUES:
        return "teachable", teaches, ()
    if 0 in played and played[0].in_words:
        return "format only", "the right calls are told in words, in no form that is read", ()
    if any(at.otherwise for below, at in played.items() if below < VALUES):
        what = "rollouts took other values, which fit the words as well"
        return "broken", what, executed.ambiguous
    if executed.certain or (rung and executed.unsaid):
        what = "nobody says and nothing shows what it needs"
        return "unfair", what, executed.certain or executed.unsaid
    if rung:
        return "teachable", teaches, ()
    if not played:
        return "sound", "its ground truth holds; nobody has played it", notes
    if LAST not in played or not all(at.counts for at in played.values()):
        return "undecided", "too many rollouts were cut or lost", notes
    return "beyond reach", "it is not solved when everything is told", notes


def in_words(task: Task, trace: Trace) -> bool:
    """Whether an episode told the right calls in words, and in no form that is read: in every turn
    that has calls and was not resolved, no call was made, and the texts name each tool with all of
    its values."""
    missed = [
        (calls, turn)
        for calls, turn in zip(task.calls, trace.turns, strict=False)
        if calls and not (turn.verdict is not None and turn.verdict.resolved)
    ]
    return (
        len(trace.turns) == len(task.calls)
        and bool(missed)
        and all(_told(calls, turn) for calls, turn in missed)
    )


def _told(calls: Sequence[Call], turn: TurnTrace) -> bool:
    text = Text.of("\n".join(step.text for step in turn.steps))
    return not turn.pairs and all(
        text.contains_exact(call.name) and all(map(text.covers, values_in(call.arguments)))
        for call in calls
    )
