"""Which stage of the curriculum an epoch belongs to (004 §4, Appendix J).

Epoch numbers run on across stages, so the stage of an epoch is a function of the configuration alone. Stages end after
their number of epochs.
"""

from __future__ import annotations

from rods.config import Curriculum, Stage


def stage_of(curriculum: Curriculum, epoch: int) -> int | None:
    """The stage (from 1) of `epoch` (from 0); None after the last stage's last epoch."""
    first = 0
    for number, stage in enumerate(curriculum.stages, start=1):
        if stage.epochs == 0 or epoch < first + stage.epochs:
            return number
        first += stage.epochs
    return None


def stage(curriculum: Curriculum, number: int) -> Stage:
    """The configuration of stage `number`, counted from 1."""
    return curriculum.stages[number - 1]
