import orjson
import pytest

from rods.config import Curriculum, Stage
from rods.errors import UserError
from rods.rules.curriculum import Course, scheduled, stage_rules, variation


def test_epochs_run_on_across_stages() -> None:
    curriculum = Curriculum(
        stages=(Stage(epochs=2, reward="format", expand=False), Stage(epochs=1), Stage(epochs=0))
    )
    assert [scheduled(curriculum, epoch) for epoch in range(6)] == [1, 1, 2, 3, 3, 3]
    assert stage_rules(curriculum, 1).reward == "format"


def test_a_curriculum_with_bounded_stages_ends() -> None:
    curriculum = Curriculum(stages=(Stage(epochs=1), Stage(epochs=2)))
    assert [scheduled(curriculum, epoch) for epoch in range(5)] == [1, 2, 2, None, None]


PLATEAU = Curriculum(
    stages=(Stage(until="plateau", reward="format", expand=False), Stage(epochs=2)),
    plateau_epochs=1,
    plateau_after=1,
)
DEFAULT = Curriculum(stages=PLATEAU.stages)


def _through(
    scores: list[float], norms: list[float], rules: Curriculum = PLATEAU
) -> list[tuple[int, str]]:
    """(stage of the next epoch, why it changed) after each epoch; every epoch has the same gradient
    norms."""
    course = Course()
    seen = []
    for score in scores:
        for norm in norms:
            course = course.stepped(norm)
        following, why = course.epoch_over(rules, score if course.validates(rules) else None)
        assert following is not None
        course = following
        seen.append((course.stage, why))
    return seen


def test_a_stage_ends_once_validation_gains_too_little_and_gradients_are_stable() -> None:
    seen = _through([0.2, 0.3, 0.35, 0.355, 0.9], [1.0, 1.2, 0.9])
    assert [number for number, _ in seen] == [1, 1, 1, 2, 2]
    assert seen[3][1] == "validation 0.350 → 0.355, gradient norms vary by 0.12"
    assert not any(why for place, (_, why) in enumerate(seen) if place != 3)


def test_a_run_that_improves_slowly_is_not_over() -> None:
    """0.262 → 0.267 is less than a plateau's 1 % and no end; what goes on so has left the band."""
    slowly = [0.262 + 0.005 * epoch for epoch in range(40)]
    assert {stage for stage, _ in _through(slowly, [1.0], DEFAULT)} == {1}
    falling = [0.5 - 0.004 * epoch for epoch in range(40)]
    assert {stage for stage, _ in _through(falling, [1.0], DEFAULT)} == {1}


def test_a_plateau_lasts_for_epochs_in_a_row() -> None:
    level = [0.1, 0.2, 0.3, 0.4, 0.5, 0.505, 0.497, 0.502]
    seen = _through(level, [1.0], DEFAULT)
    assert [stage for stage, _ in seen] == [1] * 7 + [2]
    assert seen[-1][1] == "validation 0.500 → 0.505, 0.497, 0.502, gradient norms vary by 0.00"
    broken = [0.1, 0.2, 0.3, 0.4, 0.5, 0.505, 0.52, 0.502, 0.503, 0.504]
    assert [stage for stage, _ in _through(broken, [1.0], DEFAULT)] == [1] * 10


def test_a_plateau_ends_no_stage_in_its_first_epochs() -> None:
    assert [stage for stage, _ in _through([0.3] * 5, [1.0], DEFAULT)] == [1, 1, 1, 1, 2]
    longer = DEFAULT.model_copy(update={"plateau_after": 7})
    assert [stage for stage, _ in _through([0.3] * 7, [1.0], longer)] == [1] * 6 + [2]


def test_unstable_gradients_keep_a_stage_going() -> None:
    assert [number for number, _ in _through([0.2, 0.2, 0.2], [0.1, 5.0, 0.1])] == [1, 1, 1]


def test_a_score_that_falls_is_no_plateau() -> None:
    assert [number for number, _ in _through([0.5, 0.4, 0.3, 0.305], [1.0])] == [1, 1, 1, 2]
    # 1 % is not less than 1 %
    assert [number for number, _ in _through([0.5, 0.51, 0.519], [1.0])] == [1, 1, 2]


def test_an_epoch_without_a_score_ends_no_stage() -> None:
    course = Course(scores=(0.3, 0.305), norms=(1.0, 1.0))
    following, why = course.epoch_over(PLATEAU, None)
    assert following is not None and (following.stage, following.scores, why) == (
        1,
        (0.3, 0.305),
        "",
    )


def test_a_norm_that_is_not_finite_is_not_stable_also_after_a_checkpoint() -> None:
    course = Course(scores=(0.4,)).stepped(float("nan")).stepped(1.0)
    restored = Course.restored(orjson.loads(orjson.dumps(course.as_json())))
    assert restored == course and restored.norms == (None, 1.0)
    assert variation(restored.norms) == float("inf")
    following, why = restored.epoch_over(PLATEAU, 0.4)
    assert following is not None and (following.stage, why) == (1, "")


def test_an_epoch_on_record_decides_about_its_stage() -> None:
    """Validated again after a kill, a score may differ where arithmetic is not deterministic."""
    course = Course(epochs=3, scores=(0.4,), norms=(1.0,))
    stays = course.epoch_over(PLATEAU, 0.4, recorded=1)
    moves = course.epoch_over(PLATEAU, 0.9, recorded=2)
    assert stays == (Course(1, 4, (0.4, 0.4)), "")
    assert moves == (Course(2), "as recorded")


def test_a_plateau_stage_ends_at_the_latest_after_its_epochs() -> None:
    rules = Curriculum(stages=(Stage(until="plateau", epochs=2), Stage(epochs=0)))
    assert _through([0.1, 0.5], [1.0], rules) == [(1, ""), (2, "after 2 epochs")]


def test_the_last_stage_ends_the_curriculum() -> None:
    course, why = Course(stage=2, epochs=1).epoch_over(PLATEAU, None)
    assert course is None and why == "after 2 epochs"
    assert Course(stage=2, epochs=1).at_end(PLATEAU) and not Course(stage=2).at_end(PLATEAU)


def test_a_course_survives_a_checkpoint() -> None:
    course = Course(2, 3, (0.1, 0.25), (1.5, 2.5))
    assert Course.restored(course.as_json()) == course


def test_a_schedule_with_a_plateau_cannot_be_told_from_epoch_numbers() -> None:
    with pytest.raises(UserError, match="stage 1 ends on a plateau"):
        scheduled(PLATEAU, 0)


def test_norms_that_do_not_vary_are_stable() -> None:
    assert variation([2.0, 2.0]) == variation([]) == variation([0.0, 0.0]) == 0.0
    assert variation([1.0, 3.0]) == pytest.approx(0.5)
