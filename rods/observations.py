"""What a trainer reports of its rollouts: one `Rollout` an episode, one `Group` a task and step (DESIGN §4).

Progress is kept as two integers so that means are exact (DESIGN §5.2). A rollout is *valid* when it was neither cut by
length nor hit by an infrastructure failure; a group with fewer than half of its rollouts valid is logged, not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

End = Literal["finished", "step_limit", "length", "context", "infrastructure"]
CUT_ENDS = frozenset({"length", "context"})  # truncated: left out of zone statistics, may mark a task `truncated`
INVALID_ENDS = CUT_ENDS | {"infrastructure"}
RewardKind = Literal["progress", "binary", "format", "format_codes"]
Role = Literal["active", "retest"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode's earnings. `resolved` of `expected` turns (integers); `binary` 0 or 1; `format` in the range of its
    kind; `reward` is what the trainer trained on, None where it must not count (infrastructure)."""

    resolved: int
    expected: int
    binary: int
    format: float
    reward: float | None
    end: End

    @property
    def valid(self) -> bool:
        return self.end not in INVALID_ENDS

    def as_json(self) -> dict[str, Any]:
        return {
            "resolved": self.resolved,
            "expected": self.expected,
            "binary": self.binary,
            "format": self.format,
            "reward": self.reward,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one task in one step. `range` is the reward's (lowest, highest) value."""

    task: str
    stage: int
    interface: str
    reward: RewardKind
    range: tuple[float, float]
    rollouts: tuple[Rollout, ...]
    role: Role = "active"

    @property
    def counted(self) -> bool:
        return 2 * sum(rollout.valid for rollout in self.rollouts) >= len(self.rollouts)

    @property
    def truncated(self) -> bool:
        """Half or more of the rollouts were cut by length: never a seed, never retired as too hard (DESIGN §5.7)."""
        return 2 * sum(rollout.end in CUT_ENDS for rollout in self.rollouts) >= len(self.rollouts)

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "role": self.role,
            "stage": self.stage,
            "interface": self.interface,
            "reward": {"kind": self.reward, "range": list(self.range)},
            "rollouts": [rollout.as_json() for rollout in self.rollouts],
        }

    @staticmethod
    def from_json(record: dict[str, Any]) -> Group:
        """Raises ValueError naming the field at fault."""
        try:
            reward = record["reward"]
            rollouts = tuple(
                Rollout(
                    int(item["resolved"]),
                    int(item["expected"]),
                    int(item["binary"]),
                    float(item.get("format", 0.0)),
                    None if item.get("reward") is None else float(item["reward"]),
                    item["end"],
                )
                for item in record["rollouts"]
            )
            low, high = reward["range"]
            group = Group(
                str(record["task"]),
                int(record.get("stage", 3)),
                str(record.get("interface", "identity")),
                reward["kind"],
                (float(low), float(high)),
                rollouts,
                record.get("role", "active"),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"a group lacks or misshapes {error}") from error
        if not rollouts:
            raise ValueError("a group needs at least one rollout")
        for rollout in rollouts:
            if not 0 <= rollout.resolved <= rollout.expected or rollout.expected < 1:
                raise ValueError(f"resolved {rollout.resolved} of {rollout.expected} turns is impossible")
            if rollout.end not in INVALID_ENDS | {"finished", "step_limit"}:
                raise ValueError(f"unknown end reason {rollout.end!r}")
        if group.reward not in ("progress", "binary", "format", "format_codes"):
            raise ValueError(f"unknown reward kind {group.reward!r}")
        return group
