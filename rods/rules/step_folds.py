"""What features remember of the closed steps of a run, beside the tracker."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from rods.canonical import Json, JsonMapping, JsonObject, present
from rods.extension import Door
from rods.observations import Record

if TYPE_CHECKING:  # to load the configuration is to load features, which import this
    from rods.config import Config

Place = Literal["status", "checkpoint", "gauges", "notes"]  # where figures of a fold stand


class StepFold(Protocol):
    """A pure function of the records of the live closed steps."""

    # the settings that it depends on: snapshots keep its state as long as this stays the same
    key: Json

    def apply(self, step: int, groups: Sequence[Record]) -> None:
        """Folds a live closed step: the records of its groups, in order, none that damage took."""

    def closing(self, groups: Sequence[Record]) -> JsonMapping:
        """The fields of this step's closing record, were it closed with these groups; `verify`
        derives them again. Called before `apply`, and changes nothing."""
        return {}

    def state(self) -> Json:
        """The whole state, for `load`."""

    def load(self, state: Json) -> None:
        """Replaces the whole state by what `state` returned. May raise ValueError for what it never
        returns."""

    def figures(self, place: Place) -> JsonMapping:
        """What is said of the fold as it stands: `status`, fields of tracker.json and `rods
        status`; `checkpoint`, what a start from there has to come to; `gauges`, numbers by name for
        dashboards; `notes`, sentences for people, by name."""
        return {}


# a new fold over the steps of a run with this configuration; None where it needs none
STEP_FOLDS: Door[Callable[["Config"], StepFold | None]] = Door("step_folds")


def new_folds(config: "Config") -> dict[str, StepFold]:
    """The folds of a run with this configuration, by the feature's name."""
    folds = {name: begin(config) for name, begin in STEP_FOLDS.providers().items()}
    return present(**folds)


def closing_fields(folds: Mapping[str, StepFold], groups: Sequence[Record]) -> JsonObject:
    """What features add to the closing record of a step with these groups."""
    return {key: value for fold in folds.values() for key, value in fold.closing(groups).items()}
