"""What a turn earned, judged by ground-truth calls: the state of the world and the results that were seen.

000 §3.4 and Appendix D, with BFCL's reading of both (FACTS of the benchmark): the state is compared by the
environment's own notion of equality, and the turn's expected results must all be among the results of the episode so
far (a multiset subset). A turn without ground-truth calls is resolved by an answer without any call.
"""

from __future__ import annotations

from collections import Counter

from rods.environments.base import Environment, Instance
from rods.episodes import NeedVerdict, Verdict
from rods.tasks import Task


class GroundTruth:
    """The expected world and results after every turn of one task, made once and shared by all of its rollouts.

    Needs an environment that can fork; raises Unsupported otherwise, ValueError for an illegal initial state.
    """

    def __init__(self, environment: Environment, task: Task) -> None:
        self.expected: list[tuple[Instance, Counter[str]] | None] = []
        self.results: list[tuple[str, ...]] = []
        instance = environment.reset(task.state)
        for calls in task.calls:
            texts = tuple(instance.call(call).text for call in calls)
            self.results.append(texts)
            self.expected.append((instance.fork(), Counter(texts)) if calls else None)

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """What the turn earned in `instance`, which is compared and never changed."""
        expected = self.expected[need.turn]
        if expected is None:
            return Verdict(True, need.attempted == 0)
        world, texts = expected
        response = need.attempted > 0 and not texts - Counter(need.results)
        return Verdict(instance.same_state(world), response)
