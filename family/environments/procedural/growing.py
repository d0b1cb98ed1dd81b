"""Grows worlds and the tasks in them: draws, writes, controls, and says what was dropped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.checking.scenarios import Scenario, Validated, reasons, validate
from rods.family.environments.checking.worlds import check_world
from rods.family.environments.procedural.operations import assembled, plan
from rods.family.environments.procedural.scenarios import REQUESTS, Mode, draw_scenario, task
from rods.family.environments.procedural.skeletons import Skeleton, draw_skeleton, draw_state
from rods.tasks import OpenTask, Split
from rods.worlds.checking import CheckReport

CONFINED = Sandbox(workers=1, seconds=10.0)  # a busy machine's clock is no fault of a world
STATES = 2  # in which a world is controlled, beside the empty one


@dataclass(slots=True)
class Grown:
    """One world: its `name`, what its controls said (`report`), its tasks, and how many scenarios were dropped by the
    control that they failed ("drawing": the world accepted too few changes)."""

    name: str
    skeleton: Skeleton
    report: CheckReport
    tasks: list[OpenTask] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def drawn(
    skeleton: Skeleton,
    environment: Environment,
    random_seed: int,
    count: int,
    requests: tuple[int, int] = REQUESTS,
) -> Iterator[tuple[int, Scenario, Validated] | None]:
    """`count` scenarios with what their controls found; None for one that could not be drawn."""
    for number in range(count):
        scenario = draw_scenario(skeleton, environment, random_seed, number, requests)
        yield None if scenario is None else (number, scenario, validate(environment, scenario, random_seed))


def grow(
    folder: Path,
    random_seed: int,
    number: int,
    scenarios: int,
    modes: Sequence[Mode] = ("told",),
    split: Split = "train",
    sandbox: Sandbox = CONFINED,
    requests: tuple[int, int] = REQUESTS,
    topics: Sequence[str] = (),
    small: bool = False,
) -> Grown:
    """World `number` of a random seed (`topics` and `small`: as in `draw_skeleton`), kept below `folder`, with the
    tasks of those of its `scenarios` that pass all controls, in turn of the `modes`; none where the world itself fails
    one. Each has at least and at most so many `requests`. Its code runs confined as `sandbox` says."""
    skeleton = draw_skeleton(random_seed, number, topics, small)
    name = addressed.keep(assembled(skeleton), folder)
    states = [draw_state(skeleton, random_seed, "control", each) for each in range(STATES)]
    with Environments(sandbox) as environments:
        place = f"{folder}/{name}"
        grown = Grown(name, skeleton, check_world(place, plan(skeleton), states, environments, random_seed=random_seed))
        if not grown.report.ok:
            return grown
        environment = environments.load(place)
        for found in drawn(skeleton, environment, random_seed, scenarios, requests):
            if found is None:
                grown.dropped["drawing"] += 1
            elif found[2].faults:
                grown.dropped.update([next(reasons(found[2]))])
            else:
                origin: dict[str, Any] = {"random_seed": random_seed, "world": number, "scenario": found[0]}
                origin |= {**({"topics": list(topics)} if topics else {}), **({"small": True} if small else {})}
                mode = modes[found[0] % len(modes)]
                grown.tasks.append(task(skeleton, environment, found[1], found[2], mode, split, origin))
    return grown
