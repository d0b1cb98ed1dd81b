"""Tools that give the same: for the look-ups of a ground truth, other tools whose results hold what
later calls take from them, or what they show. Found by calling them, in forks of the world in which
the look-up is made; no name is believed."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from rods.analysis.containment import leaves
from rods.analysis.flows import Output, infer
from rods.analysis.plausible_calls import tried_after, visible, world_before
from rods.environments.base import Environment, Results
from rods.episode.asked import Position, judged, shown
from rods.gates.ground_truth import run
from rods.tasks import Task

PLACES = 2  # of each tool that are looked into
SOME = 6  # notes of one check
NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")  # inside of a sentence, "Monday"


class Twins:
    """What was found in tasks, one after the other."""

    def __init__(self) -> None:
        self._looked = Counter[str]()
        self._pairs: dict[frozenset[str], str] = {}

    def look(self, environment: Environment, task: Task, where: str) -> None:
        """Looks into a task whose ground truth runs. Raises what its world does."""
        if not environment.features.fork:
            return
        results = run(environment, task)
        every = judged(environment, task) == "all"
        rule = 'only the first counts, unless "reads" is "asked"' if every else "either is a way"
        for turn, calls in enumerate(task.calls):
            for index, call in enumerate(calls):
                self._looked[call.name] += 1
                if self._looked[call.name] > PLACES:
                    continue
                for other, what in _others(environment, task, results, (turn, index)):
                    text = f"{call.name} and {other} both give {what} ({where}, turn {turn})"
                    self._pairs.setdefault(frozenset((call.name, other)), f"{text}: {rule}")

    def notes(self) -> list[str]:
        return [*self._pairs.values()][:SOME]


def _others(
    environment: Environment, task: Task, results: Results, place: Position
) -> Iterator[tuple[str, str]]:
    """The tools that give the same as the call at `place`, each with what that is."""
    turn, index = place
    call = task.calls[turn][index]
    world = world_before(environment, task, turn, index)
    before = world.fork()
    world.call(call)
    if not world.same_state(before):
        return
    taken = {
        name: later.arguments[name]
        for calls, sources in zip(
            task.calls, infer(environment.tools(), task, results), strict=True
        )
        for later, flows in zip(calls, sources, strict=True)
        for name, flow in flows.items()
        if flow.origin == place
    }
    offered = [
        replace(tool, bounded=True)
        for tool in visible(environment, task, turn)
        if tool.name != call.name and (tool.reads if environment.features.waits else tool.bounded)
    ]
    texts = task.script[: turn + 1]
    names = [name for text in texts for name in NAME.findall(text)]
    for form in (str, str.casefold):  # "Monday", "monday"
        said = [("", form(name)) for name in names]
        for tried in tried_after(
            environment,
            task.state,
            [*itertools.chain(*task.calls[:turn]), *task.calls[turn][:index]],
            texts,
            offered,
            [*leaves(dict(call.arguments)), *said, *leaves(task.state, keys=True)],
        ):
            output = Output(place, tried.call, tried.result)
            alike = (
                all(output.has(name, value) for name, value in taken.items())
                if taken
                else shown((call, results[turn][index]), [(tried.call, tried.result)])
            )
            if alike and tried.world.same_state(before):
                what = ", ".join(f"{name}={value!r:.40}" for name, value in taken.items())
                yield tried.call.name, what or "the same"
