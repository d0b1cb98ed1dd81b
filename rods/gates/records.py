"""What gates answer with."""

from dataclasses import dataclass
from typing import Any

from rods.analysis.profile import Profile
from rods.environments.base import Results
from rods.faults import Gate, Verdict


@dataclass(frozen=True, slots=True)
class Reason:
    """What a gate objects to. `turn` and `call` (from 0) say where; None: the whole task, or the
    whole turn."""

    text: str
    turn: int | None = None
    call: int | None = None

    def __str__(self) -> str:
        if self.turn is None:
            return self.text
        return f"turn {self.turn}{'' if self.call is None else f', call {self.call}'}: {self.text}"


@dataclass(frozen=True, slots=True)
class Defect:
    """What a judge holds against a candidate: in the words of `turn` (from 0) when `query_fixable`,
    in the calls, or in how the task is built, when `gt_unfixable` (004 Appendix G). A request made
    in vain counts to the next turn, in which it is served."""

    verdict: Verdict
    reason: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class GateRejection:
    """A gate that refuses a task, and why."""

    gate: Gate
    reasons: tuple[Reason, ...]

    def as_json(self) -> dict[str, Any]:
        return {"gate": self.gate, "reasons": [str(reason) for reason in self.reasons]}


@dataclass(frozen=True, slots=True)
class Checked:
    """What one fresh run of a task's ground truth gave, and the gates that refuse the task (none:
    it is accepted).

    `results` is None when the ground truth could not be run at all (another environment, an illegal
    state), `profile` when it could not, or calls tools that the environment lacks."""

    results: Results | None
    profile: Profile | None
    rejections: tuple[GateRejection, ...]
