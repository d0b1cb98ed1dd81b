import math
import random
import statistics
from collections.abc import Callable

import pytest

from rods.evaluation.scoring import FEW, estimate, paired, share, t_quantile, too_few


@pytest.mark.parametrize(
    ("freedom", "quantile"),  # a printed table of Student's t, two-sided 95 %
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (9, 2.262),
        (29, 2.045),
        (120, 1.980),
        (1000, 1.962),
    ],
)
def test_t_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=6e-4)


def test_an_estimate_has_the_standard_error_over_tasks() -> None:
    found = estimate([0.0, 0.25, 0.5, 0.25])
    assert found.mean == 0.25
    assert found.standard_error == pytest.approx(math.sqrt(0.125 / 3 / 4))
    assert found.high - found.mean == pytest.approx(3.182 * found.standard_error, rel=1e-3)


def test_pairing_removes_what_makes_tasks_easy_or_hard() -> None:
    rng = random.Random(1)
    before = {f"t{i}": rng.random() for i in range(50)}
    after = {task: value + 0.1 + rng.gauss(0, 0.01) for task, value in before.items()}
    found = paired(before, after)
    assert found.low < 0.1 < found.high
    assert found.high - found.low < 0.01  # unpaired it would be about 0.2


def test_the_interval_of_differences_covers_the_truth_about_19_times_in_20() -> None:
    rng = random.Random(2)
    covered = 0
    for _ in range(1000):
        found = estimate([rng.gauss(0.3, 0.2) for _ in range(12)])
        covered += found.low <= 0.3 <= found.high
    assert 925 <= covered <= 972


def test_scores_of_different_tasks_are_not_paired() -> None:
    with pytest.raises(ValueError, match="1 tasks were scored only once"):
        paired({"a": 1.0, "b": 0.0}, {"a": 1.0})


CHANCES: dict[str, tuple[Callable[[random.Random], float], float]] = {
    "verdicts": (lambda rng: float(rng.random() < 0.5), 0.5),
    "verdicts, mostly 1": (lambda rng: float(rng.random() < 0.9), 0.9),
    "turns of three": (lambda rng: rng.choice((0.0, 1 / 3, 2 / 3, 1.0)), 0.5),
    "rarely a turn": (lambda rng: rng.choice((*[0.0] * 9, 1 / 3)), 1 / 30),
    "nearly alike": (lambda rng: rng.uniform(0.4, 0.6), 0.5),
    "nothing or all": (lambda rng: rng.betavariate(0.3, 0.3), 0.5),
}


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("tasks", [2, 5, 20, 100])
def test_the_interval_of_a_score_stays_inside_and_covers_the_truth_with_few_tasks_too(
    chance: str, tasks: int
) -> None:
    draw, truth = CHANCES[chance]
    rng = random.Random(tasks)
    found = [share([draw(rng) for _ in range(tasks)]) for _ in range(1000)]
    assert all(0 <= one.low <= one.mean <= one.high <= 1 for one in found)
    # Student's t: down to 0.18
    assert statistics.fmean(one.low <= truth <= one.high for one in found) >= 0.91


def test_with_many_tasks_a_score_s_interval_is_student_s() -> None:
    rng = random.Random(3)
    values = [rng.choice((0.0, 1 / 3, 2 / 3, 1.0)) for _ in range(2000)]
    ours = share(values)
    normal = estimate(values)
    assert (ours.low, ours.high) == pytest.approx((normal.low, normal.high), abs=1e-3)
    assert ours.standard_error == pytest.approx(normal.standard_error, rel=1e-3)


def test_differences_stay_between_minus_1_and_1_and_equal_ones_are_no_certainty() -> None:
    found = estimate([0.0, 1.0])
    assert (found.low, found.high) == (-1.0, 1.0)
    alike = estimate([0.0] * 3)
    assert (alike.low, alike.high) == pytest.approx((-0.632, 0.632), abs=1e-3)  # 1 - 0.05^(1/3)
    assert estimate([0.0] * 1000).high < 0.003
    assert too_few(1).startswith("1 task:") and too_few(FEW - 1) and not too_few(FEW)


def test_one_task_has_no_interval() -> None:
    assert estimate([0.5]).high == math.inf
    with pytest.raises(ValueError, match="no task"):
        estimate([])


@pytest.mark.parametrize(
    # Wilson's intervals, as printed for 0/10, 5/10, 20/263 and 10/10
    ("valid", "tasks", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (20, 263, 0.0498, 0.1145),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_verdicts_have_wilson_s_interval(valid: int, tasks: int, low: float, high: float) -> None:
    found = share([1.0] * valid + [0.0] * (tasks - valid))
    assert (found.mean, found.tasks) == (valid / tasks, tasks)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
