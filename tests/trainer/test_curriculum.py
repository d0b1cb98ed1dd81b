from rods.config import Curriculum, Stage
from trainer.curriculum import stage, stage_of


def test_epochs_run_on_across_stages() -> None:
    curriculum = Curriculum(stages=(Stage(epochs=2, reward="format", expand=False), Stage(epochs=1), Stage(epochs=0)))
    assert [stage_of(curriculum, epoch) for epoch in range(6)] == [1, 1, 2, 3, 3, 3]
    assert stage(curriculum, 1).reward == "format"


def test_a_curriculum_with_bounded_stages_ends() -> None:
    curriculum = Curriculum(stages=(Stage(epochs=1), Stage(epochs=2)))
    assert [stage_of(curriculum, epoch) for epoch in range(5)] == [1, 2, 2, None, None]
