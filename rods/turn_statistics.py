"""What the records of groups say of turns: their labels, and how rollouts went about them."""

from collections import Counter
from collections.abc import Iterable, Mapping

from rods.canonical import JsonMapping, frozen
from rods.faults import INVALID_ENDS


def label_counts(records: Iterable[JsonMapping]) -> Counter[str]:
    """How many turns of the rollouts in `records`, of groups, have each label."""
    rollouts = (rollout for record in records for rollout in record["rollouts"])
    return Counter(label for rollout in rollouts for label in rollout.get("labels") or ())


@frozen
class Dynamics:
    """How valid rollouts went about their turns (000 Appendix F.1): of so many `turns` that their
    tasks have, `calling` had a call, and they took so many `replies`. Rollouts that do not say are
    left out."""

    turns: int = 0
    calling: int = 0
    replies: int = 0

    def __add__(self, other: "Dynamics") -> "Dynamics":
        return Dynamics(
            self.turns + other.turns, self.calling + other.calling, self.replies + other.replies
        )

    @property
    def calling_share(self) -> float | None:
        """Share of turns with a call; None where nobody has said."""
        return self.calling / self.turns if self.turns else None

    @property
    def replies_a_turn(self) -> float | None:
        return self.replies / self.turns if self.turns else None

    def words(self) -> str:
        """Both in words, where there are turns."""
        return (
            f"{self.calling_share:.0%} of turns with a call, {self.replies_a_turn:.2f} replies a "
            f"turn"
        )


def dynamics(records: Iterable[JsonMapping]) -> Dynamics:
    """That of the rollouts in `records`, of groups, together."""
    turns = calling = replies = 0
    for record in records:
        if record["reward"]["kind"] == "value":  # says nothing of turns
            continue
        for rollout in record["rollouts"]:
            counted = rollout.get("calling") is not None and rollout.get("replies") is not None
            if counted and rollout["end"] not in INVALID_ENDS:
                turns = turns + rollout["expected"]
                calling = calling + rollout["calling"]
                replies += rollout["replies"]
    return Dynamics(turns, calling, replies)


def shares(counts: Mapping[str, int]) -> str:
    """Counts in words, the commonest first: "54 % pass, 20 % state mismatch"."""
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(
        f"{100 * count / total:.0f} % {name.replace('_', ' ')}" for name, count in ordered
    )
