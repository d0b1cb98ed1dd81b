"""Tools that give the same: for the look-ups of a ground truth, other tools whose results hold what
its later calls take from it, or what it shows. Found by calling them, in forks of the world in
which the look-up is made; no name is believed."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from rods.analysis.containment import leaves
from rods.analysis.flows import Output, infer
from rods.analysis.plausible_calls import (
    SHOWN,
    KnownValues,
    attempts,
    plausible,
    visible,
    world_before,
)
from rods.environments.base import Environment, Results
from rods.episode.asked import Position, judged, shown
from rods.gates.ground_truth import run
from rods.tasks import Task

PLACES = 2  # of each tool that are looked into
SOME = 6  # notes of one check


class Twins:
    """What was found in tasks, one after the other."""

    def __init__(self) -> None:
        self._looked = Counter[str]()
        self._pairs: dict[frozenset[str], str] = {}

    def look(self, environment: Environment, task: Task, where: str) -> None:
        """Looks into a task whose ground truth runs. Raises what its world does."""
        tools = environment.tools()
        places = [
            (turn, index)
            for turn, calls in enumerate(task.calls)
            for index, call in enumerate(calls)
            if tools[call.name].reads is not False and self._looked[call.name] < PLACES
        ]
        if not places or not environment.features.fork:
            return
        results = run(environment, task)
        every = judged(environment, task) == "all"
        for turn, index in places:
            name = task.calls[turn][index].name
            self._looked[name] += 1
            for other, what in _others(environment, task, results, (turn, index)):
                rule = (
                    'only the first counts, unless its goal has "reads": "asked"'
                    if every
                    else "either is a way"
                )
                text = f"{name} and {other} both give {what} ({where}, turn {turn}): {rule}"
                self._pairs.setdefault(frozenset((name, other)), text)

    def notes(self) -> list[str]:
        return [*self._pairs.values()][:SOME]


def _others(
    environment: Environment, task: Task, results: Results, place: Position
) -> Iterator[tuple[str, str]]:
    """The tools that give the same as the call at `place`, each with what that is."""
    turn, index = place
    call = task.calls[turn][index]
    taken = {
        name: later.arguments[name]
        for calls, sources in zip(
            task.calls, infer(environment.tools(), task, results), strict=True
        )
        for later, flows in zip(calls, sources, strict=True)
        for name, flow in flows.items()
        if flow.origin == place
    }
    world = world_before(environment, task, turn, index)
    pool = KnownValues()
    for number in range(turn + 1):
        pool.add_text(task.script[number])
        for made, result in zip(task.calls[number], results[number], strict=True):
            pool.add_all(leaves(dict(made.arguments)))
            if number < turn:
                pool.add_all(leaves(result.value))
    offered = [
        replace(tool, bounded=True)
        for tool in visible(environment, task, turn)
        if tool.name != call.name
        and (tool.reads or (tool.bounded and not environment.features.waits))
    ]
    found = set[str]()
    for tried in attempts(world, plausible(offered, pool, SHOWN)):
        output = Output(place, tried.call, tried.result)
        alike = (
            all(output.has(name, value) for name, value in taken.items())
            if taken
            else shown((call, results[turn][index]), [(tried.call, tried.result)])
        )
        if alike and tried.call.name not in found and tried.world.same_state(world):
            found.add(tried.call.name)
            what = ", ".join(f"{name}={value!r:.40}" for name, value in taken.items())
            yield tried.call.name, what or "the same"
