"""Which components of an evolving interface are shown: a fold over the labels of closed steps (002
§3.3, eq. 14–15).

A component appears when the share of its labels in the last `curriculum.evolve_steps` steps comes
to `evolve_above`, and goes when it falls below `evolve_below`. After a step at most one changes,
the one farthest beyond its threshold, of those that the step's own stage lets come and go. The same
labels give the same versions, whoever folds them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rods.canonical import JsonMapping, JsonObject, frozen, rounded
from rods.family.seal.settings import Component, SealCurriculum
from rods.faults import Label
from rods.files import module_table
from rods.rules.curriculum import stage_rules
from rods.rules.step_folds import StepFold

COMPONENTS = module_table(__file__, "components.toml")
# Which labels call for a component.
ANSWERS: Mapping[str, frozenset[Label]] = {
    name: frozenset(part["labels"]) for name, part in COMPONENTS.items()
}


@frozen
class Change:
    """A component appears or goes with the next step: its labels made up `share` of the `labels`
    that were given."""

    component: Component
    shown: bool
    share: float  # rounded to 12 decimals
    labels: int


class Evolution(StepFold):
    """The fold. `shown`: the components that the next step shows, of those that its stage lets come
    and go."""

    def __init__(self, curriculum: Any) -> None:
        self._curriculum = curriculum
        self.key = curriculum.model_dump(include=set(SealCurriculum.model_fields))
        self._any = any(stage.evolving for stage in curriculum.stages)
        self._profile: list[Counter[str]] = []  # labels of the last steps, the latest last
        self.shown: frozenset[Component] = frozenset()

    def state(self) -> Any:
        """The whole state as JSON, for `load`."""
        return [sorted(self.shown), [dict(sorted(counts.items())) for counts in self._profile]]

    def load(self, state: Any) -> None:
        """Replaces the whole state by what `state` returned."""
        self.shown = frozenset(state[0])
        self._profile = list(map(Counter, state[1]))

    def closing(self, groups: Sequence[JsonMapping]) -> JsonObject:
        """`evolved`: what a step with these groups (as recorded) changes; nothing where it changes
        nothing."""
        change = self._change(groups, self._with(groups)) if self._any else None
        return {} if change is None else {"evolved": asdict(change)}

    def apply(self, step: int, groups: Sequence[JsonMapping]) -> None:
        """Folds a closed step."""
        if not self._any:
            return
        profile = self._with(groups)
        if change := self._change(groups, profile):
            self.shown ^= {change.component}
        self._profile = profile

    def _with(self, groups: Sequence[JsonMapping]) -> list[Counter[str]]:
        labels = (
            label
            for group in groups
            for rollout in group["rollouts"]
            for label in rollout.get("labels", ())
        )
        return [*self._profile, Counter(labels)][-self._curriculum.evolve_steps :]

    def _change(
        self, groups: Sequence[JsonMapping], profile: Sequence[Counter[str]]
    ) -> Change | None:
        counts = sum(profile, Counter[str]())
        if not (total := counts.total()) or not groups:
            return None
        changes: list[tuple[float, Change]] = []
        stage = stage_rules(self._curriculum, groups[0]["stage"])
        for component in stage.evolving:
            share = rounded(sum(counts[label] for label in ANSWERS[component]) / total)
            present = component in self.shown
            beyond = (
                self._curriculum.evolve_below - share
                if present
                else share - self._curriculum.evolve_above
            )
            if beyond > 0 or (beyond == 0 and not present):
                changes.append((rounded(beyond), Change(component, not present, share, total)))
        # of equal ones the first
        return max(changes, key=lambda change: change[0])[1] if changes else None
