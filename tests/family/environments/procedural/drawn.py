"""Tasks in a few drawn worlds, for tests that need some quickly. Of all controls they pass one:
something is to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rods.environments import addressed
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.family.environments.checking.scenarios import Validated
from rods.family.environments.procedural.operations import assembled
from rods.family.environments.procedural.scenarios import CONFINED, Mode, draw_scenario, task
from rods.family.environments.procedural.skeletons import draw_skeleton
from rods.tasks import OpenTask, Split, task_lines


def drawn_tasks(
    folder: Path, worlds: int, each: int, modes: Sequence[Mode] = ("told",), held_out: int = 0
) -> list[OpenTask]:
    """Those of up to `each` scenarios in `worlds` worlds, the last `held_out` of them held out;
    worlds are below `folder`, and the tasks, which call them as one does who stands there, in its
    tasks.jsonl."""
    found: list[OpenTask] = []
    with Environments(CONFINED) as environments:
        for number in range(worlds):
            skeleton = draw_skeleton(5, number)
            name = addressed.keep(assembled(skeleton), folder)
            environment = environments.load(f"{folder}/{name}")
            for place in range(each):
                scenario = draw_scenario(skeleton, environment, 5, place)
                if scenario is None:
                    continue
                start = environment.reset(dict(scenario.state))
                if not all(holds(start, check) for check in scenario.checks):
                    split: Split = "train" if number < worlds - held_out else "test"
                    mode = modes[place % len(modes)]
                    found.append(task(skeleton, environment, scenario, Validated(()), mode, split))
    (folder / "tasks.jsonl").write_bytes(task_lines(found))
    return found
