"""Random calls of a world, cut somewhere: a copy made there, and worlds of their own that make the
same calls."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from rods.calls import Call
from rods.environments.base import Environment, Instance, Result

Draw = Callable[[random.Random, Sequence[Result]], Call]  # the next call, after these results


def agreed(environment: Environment, draw: Draw, sequences: int) -> Counter[bool]:
    """Asserts for so many sequences that both branches give the results of worlds that were never
    copied, and are equal to them and to each other when those are. Returns how many branches were
    equal to each other, and how many not."""
    found: Counter[bool] = Counter()
    for number in range(sequences):
        chance = random.Random(number)
        world = environment.reset(None)
        before: list[tuple[Call, Result]] = []
        _go_on(world, draw, chance, before, chance.randrange(5))
        branches = (world, world.fork())
        seed = chance.randrange(10**6)
        made = (before, list(before))
        # every other copy goes on as its origin does
        chances = (random.Random(seed), random.Random(seed + number % 2))
        for which in chance.sample((0, 0, 0, 1, 1, 1), 6):
            _go_on(branches[which], draw, chances[which], made[which], 1)
        alone = (environment.reset(None), environment.reset(None))
        for branch, own, calls in zip(branches, alone, made, strict=True):
            assert [own.call(call) for call, _ in calls] == [result for _, result in calls], number
            assert branch.same_state(own), number
        equal = branches[0].same_state(branches[1])
        assert equal == alone[0].same_state(alone[1]), number
        assert equal or number % 2, number
        found[equal] += 1
    return found


def _go_on(
    world: Instance, draw: Draw, chance: random.Random, made: list[tuple[Call, Result]], count: int
) -> None:
    for _ in range(count):
        call = draw(chance, [result for _, result in made])
        made.append((call, world.call(call)))
