import math
import random

import pytest

from evaluation.scoring import estimate, paired, share, t_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"),  # a printed table of Student's t, two-sided 95 %
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045), (120, 1.980), (1000, 1.962)],
)
def test_t_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=6e-4)


def test_an_estimate_has_the_standard_error_over_tasks() -> None:
    found = estimate([0.0, 0.5, 1.0, 0.5])
    assert found.mean == 0.5
    assert found.standard_error == pytest.approx(math.sqrt(0.5 / 3 / 4))
    assert found.high - found.mean == pytest.approx(3.182 * found.standard_error, rel=1e-3)


def test_pairing_removes_what_makes_tasks_easy_or_hard() -> None:
    rng = random.Random(1)
    before = {f"t{i}": rng.random() for i in range(50)}
    after = {task: value + 0.1 + rng.gauss(0, 0.01) for task, value in before.items()}
    found = paired(before, after)
    assert found.low < 0.1 < found.high
    assert found.high - found.low < 0.01  # unpaired it would be about 0.2


def test_the_interval_covers_the_truth_about_19_times_in_20() -> None:
    rng = random.Random(2)
    covered = 0
    for _ in range(1000):
        found = estimate([rng.gauss(0.3, 0.2) for _ in range(12)])
        covered += found.low <= 0.3 <= found.high
    assert 925 <= covered <= 972


def test_scores_of_different_tasks_are_not_paired() -> None:
    with pytest.raises(ValueError, match="1 tasks were scored only once"):
        paired({"a": 1.0, "b": 0.0}, {"a": 1.0})


def test_one_task_has_no_interval() -> None:
    assert estimate([0.5]).high == math.inf
    with pytest.raises(ValueError, match="no task"):
        estimate([])


@pytest.mark.parametrize(
    ("valid", "tasks", "low", "high"),  # Wilson's intervals, as printed for 0/10, 5/10, 20/263 and 10/10
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (20, 263, 0.0498, 0.1145), (10, 10, 0.7225, 1.0)],
)
def test_verdicts_have_wilson_s_interval(valid: int, tasks: int, low: float, high: float) -> None:
    found = share([1.0] * valid + [0.0] * (tasks - valid))
    assert (found.mean, found.tasks) == (valid / tasks, tasks)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
