"""What a turn earned, judged by ground-truth calls: the state of the world and the results that were seen.

000 §3.4 and Appendix D, with BFCL's reading of both (FACTS of the benchmark): the state is compared by the
environment's own notion of equality, and the turn's expected results must all be among the results of the episode so
far (a multiset subset). A turn without ground-truth calls is resolved by an answer without any call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rods.environments.base import Environment, Instance
from rods.episodes import NeedVerdict, Verdict
from rods.tasks import Task


class GroundTruth:
    """The expected world and results after every turn of one task, made once and shared by all of its rollouts.

    Needs an environment that can fork; raises Unsupported otherwise, ValueError for an illegal initial state.
    """

    def __init__(self, environment: Environment, task: Task) -> None:
        self.calls = task.calls
        self.results: list[tuple[str, ...]] = []
        self._expected: list[tuple[Instance, Counter[str]]] = []
        instance = environment.reset(task.state)
        for calls in task.calls:
            texts = tuple(instance.call(call).text for call in calls)
            self.results.append(texts)
            self._expected.append((instance.fork(), Counter(texts)))

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """What the turn earned in `instance`, which is compared and never changed."""
        if not self.calls[need.turn]:
            return Verdict(True, need.attempted == 0)
        if need.attempted == 0:
            return Verdict(instance.same_state(self._expected[need.turn][0]), False)
        return self.parts(instance, need.turn, need.results)

    def parts(self, instance: Instance, turn: int, seen: Sequence[str]) -> Verdict:
        """The two comparisons of `turn` alone, whatever was attempted: the state, and its results among those
        `seen`."""
        world, texts = self._expected[turn]
        return Verdict(instance.same_state(world), all(seen.count(text) >= times for text, times in texts.items()))
