"""`rods env generate`: worlds that are drawn by chance, controlled, and the tasks in them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from console.output import print_json
from rods.commands import Json

if TYPE_CHECKING:
    from rods.config import Sandbox
    from worlds.generated.scenarios import Mode

Conversation = Annotated[
    Literal["told", "asked", "both"], Parameter(help="Whether users say everything at once, are asked, or both.")
]
LowestTier = Annotated[
    Literal["limits", "landlock", "bubblewrap"], Parameter(help="What the sandbox must reach (docs/sandbox.md).")
]


def made_so(mode: Conversation, lowest_tier: LowestTier) -> tuple[tuple[Mode, ...], Sandbox]:
    """What these options mean: the modes of tasks, and the sandbox in which worlds are controlled."""
    from worlds.generated.growing import CONFINED

    return ("told", "asked") if mode == "both" else (mode,), CONFINED.model_copy(update={"lowest_tier": lowest_tier})


def generate_worlds(
    folder: Annotated[Path, Parameter(help="Where to write environments/ and tasks.jsonl.")],
    /,
    *,
    worlds: Annotated[PositiveInt, Parameter(help="How many worlds to draw.")] = 10,
    scenarios: Annotated[PositiveInt, Parameter(help="How many scenarios to draw in each.")] = 20,
    requests: Annotated[PositiveInt, Parameter(help="How many requests a scenario has at most.")] = 4,
    held_out: Annotated[
        NonNegativeInt, Parameter(help="How many of the worlds, the last ones, have their tasks held out.")
    ] = 0,
    held_out_topics: Annotated[
        tuple[str, ...], Parameter(help="Topics whose worlds are held out as well.", negative=(), consume_multiple=True)
    ] = (),
    topics: Annotated[
        tuple[str, ...], Parameter(help="Topics of the worlds. All when left out.", negative=(), consume_multiple=True)
    ] = (),
    small: Annotated[
        bool, Parameter(help="Two kinds of things with one attribute each, and no places.", negative=())
    ] = False,
    mode: Conversation = "told",
    random_seed: Annotated[NonNegativeInt, Parameter(help="What all is drawn from.")] = 0,
    lowest_tier: LowestTier = "landlock",
    as_json: Json = False,
) -> int:
    """Draw worlds and scenarios by chance, hold them to their controls, and write those that pass. Exits 1 where no
    task is left."""
    from rods.errors import UserError
    from rods.tasks import OpenTask, Split, task_lines
    from worlds.generated.growing import grow
    from worlds.generated.skeletons import draw_skeleton, topic_names

    for option, named in (("--topics", topics), ("--held-out-topics", held_out_topics)):
        if unknown := set(named) - set(topic_names()):
            what = f"no topic is called {', '.join(sorted(unknown))}"
            raise UserError(what, where=option, remedy=f"there are {', '.join(topic_names())}")
    modes, sandbox = made_so(mode, lowest_tier)
    tasks: list[OpenTask] = []
    refused: dict[str, list[str]] = {}
    dropped: Counter[str] = Counter()
    for number in range(worlds):
        apart = number >= worlds - held_out or draw_skeleton(random_seed, number, topics).topic in held_out_topics
        split: Split = "test" if apart else "train"
        grown = grow(folder, random_seed, number, scenarios, modes, split, sandbox, (1, requests), topics, small)
        if not grown.report.ok:
            refused[grown.name] = [str(fault) for fault in grown.report.faults]
        tasks += grown.tasks
        dropped += grown.dropped
        if not as_json:
            print(f"{grown.name} ({grown.skeleton.topic}): {len(grown.tasks)} tasks", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.jsonl").write_bytes(task_lines(tasks))
    if as_json:
        print_json({"worlds": worlds - len(refused), "refused": refused, "tasks": len(tasks), "dropped": dropped})
        return 0 if tasks else 1
    for name, faults in refused.items():
        print(f"{name} refused: {'; '.join(faults)}")
    print(f"{worlds - len(refused)} of {worlds} worlds, {len(tasks)} tasks in {folder / 'tasks.jsonl'}")
    if dropped:
        print(f"  dropped: {', '.join(f'{count} {control}' for control, count in dropped.most_common())}")
    return 0 if tasks else 1
