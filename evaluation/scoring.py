"""Statistics of held-out scores: means with intervals, and differences paired over the same tasks,
which removes what makes tasks easy or hard. The task is the unit: rollouts of one task are averaged
first, and the standard error is taken over tasks. Intervals are 95 %. Those of means are Wilson's
and lie in [0, 1]; those of differences are Student's t, cut to [-1, 1]."""

import math
from collections.abc import Iterable, Mapping, Sequence

from rods.canonical import JsonMapping, JsonObject, frozen, only
from rods.observations import Rollout

NORMAL = 1.959964  # the 0.975 quantile of the normal distribution
FEW = 10  # tasks below which an interval is said to rest on too few


@frozen
class Estimate:
    """A mean over `tasks` tasks, its standard error, and its 95 % interval [low, high]."""

    mean: float
    standard_error: float
    low: float
    high: float
    tasks: int

    def as_json(self) -> JsonObject:
        """JSON has no infinity: the interval of a single task is null."""
        finite = math.isfinite(self.standard_error)
        return {
            "mean": self.mean,
            "standard_error": self.standard_error if finite else None,
            "interval": [self.low, self.high] if finite else None,
            "tasks": self.tasks,
        }


def share(values: Sequence[float]) -> Estimate:
    """The mean of `values` in [0, 1], one a task. Raises ValueError for none.

    The interval is Wilson's, of as many verdicts as have the scatter of `values`: for verdicts (0
    or 1) that is Wilson's own, for progress it is narrower. The scatter is taken with two zeros and
    two ones added (Agresti and Coull's), so that two equal values claim little. Student's t would
    leave [0, 1], and with two verdicts covers the truth in half of the cases at best."""
    if not values:
        raise ValueError("no task to average")
    count = len(values)
    square = NORMAL**2
    mean = math.fsum(values) / count
    added = [*values, 0.0, 0.0, 1.0, 1.0]
    middle = math.fsum(added) / len(added)
    scatter = math.fsum((value - middle) ** 2 for value in added) / len(added)
    verdicts = count * middle * (1 - middle) / scatter
    centre = (mean + square / (2 * verdicts)) / (1 + square / verdicts)
    half = (
        NORMAL
        / (1 + square / verdicts)
        * math.sqrt(mean * (1 - mean) / verdicts + square / (4 * verdicts**2))
    )
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values)) / count
    return Estimate(mean, error, max(0.0, centre - half), min(1.0, centre + half), count)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of differences in [-1, 1], one a task (or a random seed). Raises ValueError for
    none.

    Below two the interval is infinite. Where all are equal, a share of 1 - 0.05^(1/count) of the
    tasks may still be otherwise without one of them having been drawn, and the interval says so.
    """
    if not values:
        raise ValueError("no task to average")
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, math.inf, -math.inf, math.inf, count)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    half = t_quantile(count - 1) * error
    low = max(-1.0, mean - half)
    high = min(1.0, mean + half)
    if len(set(values)) == 1:
        unseen = 1 - 0.05 ** (1 / count)
        low = mean - unseen * (mean + 1)
        high = mean + unseen * (1 - mean)
    return Estimate(mean, error, low, high, count)


def paired(before: Mapping[str, float], after: Mapping[str, float]) -> Estimate:
    """The mean of after − before over tasks. Raises ValueError when the two do not score the same
    tasks."""
    if before.keys() != after.keys():
        raise ValueError(
            f"not paired: {len(before.keys() ^ after.keys())} tasks were scored only once"
        )
    return estimate([after[task] - before[task] for task in sorted(before)])


def differences(
    before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> dict[str, JsonObject]:
    """`paired` as JSON by measure, of those that both have, over the tasks that both score."""
    pairs = {}
    for measure in (measure for measure in before if measure in after):
        old = before[measure]
        new = after[measure]
        if both := old.keys() & new.keys():
            pairs[measure] = paired(only(old, both), only(new, both)).as_json()
    return pairs


def by_task(
    measures: Sequence[str], played: Iterable[tuple[str, Mapping[str, float]]]
) -> dict[str, dict[str, float]]:
    """The mean over the rollouts of each task, by measure and task. `played`: the task of each
    rollout, and what it scores in those measures that it has."""
    values: dict[str, dict[str, list[float]]] = {measure: {} for measure in measures}
    for task, scores in played:
        for measure in measures:
            if measure in scores:
                values[measure].setdefault(task, []).append(scores[measure])
    means = (
        {task: math.fsum(scores) / len(scores) for task, scores in tasks.items()}
        for tasks in values.values()
    )
    return dict(zip(values, means, strict=True))


def rollout_scores(rollouts: Iterable[tuple[str, Rollout]]) -> dict[str, dict[str, float]]:
    """`by_task` of what training sees in rollouts: `progress`, the share of turns resolved, and
    `solved`, whether all of them are."""
    scores = (
        (task, {"progress": play.resolved / play.expected, "solved": play.binary})
        for task, play in rollouts
    )
    return by_task(("progress", "solved"), scores)


def too_few(tasks: int) -> str:
    """What to say of an interval over so many tasks; empty where they are enough."""
    return (
        ""
        if tasks >= FEW
        else f"{tasks} {'task' if tasks == 1 else 'tasks'}: too few to tell policies apart"
    )


COMPARED = (
    "Held-out progress reward: {start[progress][mean]:.3f} at step {start[step]}, "
    "{end[progress][mean]:.3f} at step {end[step]}; paired difference "
    "{difference[progress][mean]:+.3f} over "
)
ALONE = COMPARED + "1 task, too few for an interval."
INTERVAL = COMPARED + (
    "{difference[progress][tasks]} tasks, 95 % interval [{difference[progress][interval][0]:+.3f}, "
    "{difference[progress][interval][1]:+.3f}], which {verdict}."
)


def compared_sentence(heldout: JsonMapping) -> str:
    """Start, end and the paired difference with its interval, and whether that excludes zero. One
    task has none."""
    difference = heldout["difference"]["progress"]
    if difference["interval"] is None:
        return ALONE.format(**heldout)
    low, high = difference["interval"]
    verdict = "lies above 0" if low > 0 else "lies below 0" if high < 0 else "includes 0"
    if few := too_few(difference["tasks"]):
        verdict += f" ({few})"
    return INTERVAL.format(**heldout, verdict=verdict)


def t_quantile(freedom: int) -> float:
    """The 0.975 quantile of Student's t with `freedom` ≥ 1 degrees of freedom."""
    from scipy.special import stdtrit  # late: 0.2 s that a command line's help need not take

    return float(stdtrit(freedom, 0.975))
