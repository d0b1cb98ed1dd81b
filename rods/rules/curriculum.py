"""Which stage of the curriculum comes next, and why (004 §4, Appendix J; 000 §3.2 and Remark 3.1).

A stage ends after its number of epochs, or, with `until = "plateau"`, once the validation scores of
the last `curriculum.plateau_epochs` epochs all lie closer than `curriculum.plateau` to the one
before them, while the gradient norms of the last epoch's steps varied by no more than
`curriculum.gradient_variation`; not before `curriculum.plateau_after` epochs. A score that climbs
slowly leaves that band, one that falls by more is no plateau either, and a norm that is not finite
is not stable."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from rods.canonical import JsonMapping, JsonObject, frozen, rounded
from rods.config import Config, Curriculum, Stage
from rods.errors import UserError
from rods.observations import FORMAT_REWARDS


@frozen
class Course:
    """Where a run stands in its curriculum; kept in every checkpoint.

    `stage` counts from 1, `epochs` are those of the stage that are over, `scores` the mean
    validation rewards at their ends, `norms` the gradient norms of the open epoch's steps (None:
    not finite, which JSON cannot say)."""

    stage: int = 1
    epochs: int = 0
    scores: tuple[float, ...] = ()
    norms: tuple[float | None, ...] = ()

    @staticmethod
    def restored(state: JsonMapping) -> "Course":
        """From a checkpoint's curriculum state; the beginning where it has none (weights taken over
        by a fork)."""
        if not state:
            return Course()
        return Course(
            int(state["stage"]), int(state["epochs"]), tuple(state["scores"]), tuple(state["norms"])
        )

    def as_json(self) -> JsonObject:
        return asdict(self)

    def stepped(self, norm: float | None) -> "Course":
        """After one more step of the open epoch, whose gradient had this norm (None: the policy has
        no gradients)."""
        if norm is None:
            return self
        return replace(self, norms=(*self.norms, norm if math.isfinite(norm) else None))

    def validates(self, curriculum: Curriculum) -> bool:
        """Whether the end of the open epoch asks for a validation."""
        return stage_rules(curriculum, self.stage).until == "plateau"

    def epoch_over(
        self, curriculum: Curriculum, score: float | None, recorded: int | None = None
    ) -> "tuple[Course | None, str]":
        """The course in the next epoch, and why it changes stage ("" where it does not). None: the
        curriculum is over. `score`: the mean validation reward where `validates` asked for it; None
        if nothing could be scored. `recorded`: the next epoch's stage where its merge is on record:
        validating again may come out otherwise."""
        scores = self.scores if score is None else (*self.scores, score)
        ended = replace(self, epochs=self.epochs + 1, scores=scores, norms=())
        # what the rule is asked of: this epoch's norms; no scores where this epoch has none
        judged = replace(ended, norms=self.norms, scores=() if score is None else scores)
        why = _why_over(stage_rules(curriculum, self.stage), curriculum, judged)
        if recorded is not None:
            moves = recorded != self.stage
            return (Course(recorded), why or "as recorded") if moves else (ended, "")
        if not why:
            return ended, ""
        if self.stage == len(curriculum.stages):
            return None, why
        return Course(self.stage + 1), why

    def at_end(self, curriculum: Curriculum) -> bool:
        """Whether the end of the open epoch is known to be the end of the run, without a
        validation."""
        epochs = stage_rules(curriculum, self.stage).epochs  # 0: no number ends it
        last = self.stage == len(curriculum.stages)
        return last and epochs > 0 and self.epochs + 1 >= epochs


def _why_over(rules: Stage, curriculum: Curriculum, course: Course) -> str:
    if rules.epochs and course.epochs >= rules.epochs:
        return f"after {rules.epochs} epochs"
    before, *last = course.scores[-1 - curriculum.plateau_epochs :] or (0.0,)
    early = len(last) < curriculum.plateau_epochs or course.epochs < curriculum.plateau_after
    if rules.until == "epochs" or early:
        return ""
    changed = max(rounded(abs(score - before)) for score in last)
    spread = variation(course.norms)
    if changed >= curriculum.plateau or spread > curriculum.gradient_variation:
        return ""
    scores = ", ".join(f"{score:.3f}" for score in last)
    return f"validation {before:.3f} → {scores}, gradient norms vary by {spread:.2f}"


def variation(norms: Sequence[float | None]) -> float:
    """The coefficient of variation, std ÷ mean; 0 for fewer than two or a mean of 0, infinite if
    one is not finite."""
    finite = [norm for norm in norms if norm is not None]
    if len(finite) < len(norms):
        return math.inf
    mean = statistics.fmean(finite) if finite else 0.0
    return statistics.pstdev(finite) / mean if mean > 0 else 0.0


def scheduled(curriculum: Curriculum, epoch: int) -> int | None:
    """The stage (from 1) of `epoch` (from 0) where all stages end by schedule; None after the last
    one's last epoch. Raises UserError where a stage ends on a plateau: who trains must say which
    stage it is."""
    first = 0
    for number, stage in enumerate(curriculum.stages, start=1):
        if stage.until == "plateau":
            raise UserError(
                f"stage {number} ends on a plateau", where=f"epoch {epoch}", remedy="name the stage"
            )
        if stage.epochs == 0 or epoch < first + stage.epochs:
            return number
        first += stage.epochs
    return None


def selects(stage: Stage) -> bool:
    """Whether seeds are picked in this stage: it expands, and its reward is not a format reward."""
    return stage.expand and stage.reward not in FORMAT_REWARDS


def writes(config: Config) -> bool:
    """Whether seeds are picked in any stage, so that somebody has to write."""
    return config.selection.seeds_per_step > 0 and any(map(selects, config.curriculum.stages))


def opening(curriculum: Curriculum, stages: Iterable[int]) -> int | None:
    """The first epoch (from 0) that picks seeds, given the stage of each epoch; None while there is
    none. A static pool is written from its boundary (004 Appendix R)."""
    return next(
        (number for number, stage in enumerate(stages) if selects(stage_rules(curriculum, stage))),
        None,
    )


def stage_rules(curriculum: Curriculum, number: int) -> Stage:
    """The rules of stage `number`, counted from 1; a number beyond the last stage means the
    last."""
    return curriculum.stages[min(max(number, 1), len(curriculum.stages)) - 1]
