"""When a variant leaves the pool and when it comes back (004 §3.4, Appendices B.1 and J): pure
rules over standings. A variant's standing counts only groups of steps after it was admitted or,
once revived, after it was retired. docs/design.md has a table."""

from collections.abc import Iterable
from typing import Literal

from rods.canonical import frozen
from rods.config import PoolRules
from rods.rules.tracker import Standing

Rule = Literal["burn_in", "drift_mastered", "drift_too_hard", "truncated", "unsampled", "capacity"]
TOO_HARD: frozenset[Rule] = frozenset({"burn_in", "drift_too_hard"})  # what re-tests may bring back


@frozen
class Decision:
    """A task changes its place, and the numbers that say why."""

    task: str
    rule: Rule | Literal["retest"]
    groups: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @staticmethod
    def of(task: str, rule: Rule | Literal["retest"], standing: Standing) -> "Decision":
        return Decision(task, rule, standing.groups, standing.mean, standing.variance)


def revived(task: str, standing: Standing) -> Decision | None:
    """A re-test of a task that was retired as too hard came out in the boundary zone."""
    return Decision.of(task, "retest", standing) if standing.latest == "boundary" else None


def burn_in(task: str, standing: Standing, before: int, rules: PoolRules) -> Decision | None:
    """Layer 1: the first rewards of a new variant are too low. It is asked once, at the first merge
    by which `burn_in_observations` groups have counted, more perhaps than the window holds;
    `before` of them had counted at the merge before."""
    if (
        standing.switched
        or not rules.burn_in
        or not before < rules.burn_in_observations <= standing.counted
    ):
        return None
    if standing.latest == "truncated" or standing.mean >= rules.burn_in_below:
        return None
    return Decision.of(task, "burn_in", standing)


def drift(task: str, standing: Standing, rules: PoolRules) -> Decision | None:
    """Layer 2: the mean of the last few groups has left for the mastered or the unsolvable side.
    The paper takes the window's; with that a variant seen once at one half stays for eight groups
    of 1 (docs/synthesis.md has figures)."""
    if not rules.drift or standing.counted < max(1, rules.drift_observations):
        return None
    groups, mean = standing.recent(rules.drift_groups)
    if mean > rules.mastered_above:
        return Decision(task, "drift_mastered", groups, mean, standing.variance)
    if mean < rules.too_hard_below and standing.latest != "truncated":
        return Decision(task, "drift_too_hard", groups, mean, standing.variance)
    return None


def truncated(task: str, standing: Standing, rules: PoolRules) -> Decision | None:
    """The last `truncated_groups` groups that said anything were all cut by length, which the other
    rules never hold against a variant; not asked where that is 0."""
    if not 0 < rules.truncated_groups <= standing.cut:
        return None
    return Decision.of(task, "truncated", standing)


def unsampled(
    task: str,
    standing: Standing,
    admitted: int,
    last_step: int | None,
    epoch: int,
    first_step: int,
    rules: PoolRules,
) -> Decision | None:
    """No closed group, counted or not, in the last `unsampled_epochs` epochs, all of which the
    variant was active in; not asked where that is 0. `epoch` is about to open, `first_step` is the
    first step of those epochs, `admitted` the epoch that admitted it."""
    if epoch - admitted < rules.unsampled_epochs:
        return None
    if last_step is not None and last_step >= first_step:
        return None
    return Decision.of(task, "unsampled", standing)


def capacity(observed: Iterable[tuple[str, Standing]], excess: int) -> list[Decision]:
    """Layer 3: the `excess` observed variants with the lowest window variance, ties by id. Where no
    group of one has counted, it is 0."""
    ranked = sorted(observed, key=lambda variant: (variant[1].variance, variant[0]))
    return [Decision.of(task, "capacity", standing) for task, standing in ranked[: max(0, excess)]]
