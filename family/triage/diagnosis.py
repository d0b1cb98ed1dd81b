"""Why a task of reward zero is hopeless: a pure function of what the execution of its ground truth
has shown and of what rollouts with hints have earned."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from rods.analysis.containment import Text, values_in
from rods.calls import Call
from rods.canonical import JsonObject, Texts, frozen
from rods.episode.engine import Trace, TurnTrace
from rods.family.triage.checks import Executed
from rods.family.triage.rungs import LAST, NAMES, VALUES
from rods.observations import present
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

    valid: int = 0
    solved: int = 0
    in_words: int = 0
    otherwise: int = 0
    rollouts: int = 0

    @property
    def counts(self) -> bool:
        """Whether half of the rollouts or more are valid."""
        return self.valid > 0 and 2 * self.valid >= self.rollouts


@frozen
class Triaged:
    """What was found of one task. `rung`: the lowest at which it was solved; `what`: why, in words;
    `evidence`: what was seen."""

    task: str
    type: str
    diagnosis: Diagnosis
    what: str
    rung: int | None = None
    evidence: Texts = ()
    played: Mapping[int, Played] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        rollouts = {
            str(rung): {"solved": at.solved, "valid": at.valid, "rollouts": at.rollouts}
            for rung, at in self.played.items()
        }
        return {
            "task": self.task,
            "type": self.type,
            "diagnosis": self.diagnosis,
            "fault": self.diagnosis in FAULTY,
            **present(rung=self.rung),
            "what": self.what,
            "evidence": list(self.evidence),
            "played": rollouts,
        }


def solved_at(played: Mapping[int, Played]) -> int | None:
    """The lowest rung at which a rollout resolved everything."""
    return min((rung for rung, at in played.items() if at.solved), default=None)


def settled(executed: Executed, played: Mapping[int, Played]) -> bool:
    """Whether no further rung has to be played."""
    return bool(
        executed.broken
        or executed.lost
        or solved_at(played) is not None
        or (0 in played and (played[0].in_words or not played[0].counts))
    )


def diagnose(task: Task, executed: Executed, played: Mapping[int, Played]) -> Triaged:
    """The diagnosis of `task`; `played` is empty where nobody has played it."""
    rung = solved_at(played)

    def found(diagnosis: Diagnosis, what: str, evidence: Sequence[str] = ()) -> Triaged:
        return Triaged(task.id, task.type, diagnosis, what, rung, tuple(evidence), dict(played))

    if executed.lost:
        return found("undecided", "its world broke", [executed.lost])
    if executed.broken:
        return found("broken", "its ground truth does not hold", executed.broken)
    if rung == 0:
        return found("solved", "it needs no hint")
    if rung is not None and rung < VALUES:
        return found("teachable", f"it is solved once {NAMES[rung]} is told")
    if played and played[0].in_words:
        return found("format only", "the right calls are told in words, in no form that is read")
    if any(at.otherwise for untold, at in played.items() if untold < VALUES):
        what = "rollouts took other values, which fit the words as well"
        return found("broken", what, [*map(str, executed.ambiguous)])
    if rung is not None and executed.unsaid:
        return found("unfair", "only what nobody says or shows makes it solvable", executed.unsaid)
    if executed.certain:
        return found("unfair", "nobody says and nothing shows what it needs", executed.certain)
    if rung is not None:
        return found("teachable", f"it is solved once {NAMES[rung]} are told")
    notes = (*executed.unsaid, *map(str, executed.ambiguous))
    if not played:
        return found("sound", "its ground truth holds; nobody has played it", notes)
    if not all(at.counts for at in played.values()) or LAST not in played:
        return found("undecided", "too many rollouts were cut or lost", notes)
    return found("beyond reach", "it is not solved when everything is told", notes)


def in_words(task: Task, trace: Trace) -> bool:
    """Whether an episode told the right calls in words, and in no form that is read: in every turn
    that has calls and was not resolved, no call was made, and the texts name each tool with all of
    its values."""
    pairs = [*zip(task.calls, trace.turns, strict=False)]
    missed = [pair for pair in pairs if pair[0] and not _resolved(pair[1])]
    return (
        len(pairs) == len(task.calls)
        and bool(missed)
        and all(_told(calls, turn) for calls, turn in missed)
    )


def _resolved(turn: TurnTrace) -> bool:
    return turn.verdict is not None and turn.verdict.resolved


def _told(calls: Sequence[Call], turn: TurnTrace) -> bool:
    text = Text.of("\n".join(step.text for step in turn.steps))
    return not turn.pairs and all(
        text.contains_exact(call.name) and all(map(text.covers, values_in(call.arguments)))
        for call in calls
    )


def otherwise(task: Task, executed: Executed, trace: Trace) -> bool:
    """Whether an episode made a call in the place of one for which other values fit the words as
    well: of the same tool, in the same turn, with success."""
    for reason in executed.ambiguous:
        assert reason.turn is not None and reason.call is not None
        wanted = task.calls[reason.turn][reason.call]
        pairs = [pair for turn in trace.turns[reason.turn :][:1] for pair in turn.pairs]
        made = [call for call, result in pairs if call.name == wanted.name and not result.error]
        if made and wanted not in made:
            return True
    return False
