"""Tools that give the same: for the look-ups of a ground truth, other tools whose results hold what
later calls take from them, or what they show; and arguments of its other calls that may have any
value, since nothing of the state shows it. Found by calling them, in forks of the world in which
the call is made; no name is believed."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, starmap

from rods.analysis.containment import leaves, values_in
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import tried_after, visible, world_before
from rods.calls import Call
from rods.environments.base import Environment
from rods.episode.asked import fed, judged, shown
from rods.gates.ground_truth import run
from rods.model_json import mapped
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
        every = judged(environment, task) == "all"
        rule = 'only the first counts, unless "reads" is "asked"' if every else "either is a way"
        for turn, calls in enumerate(task.calls if environment.features.fork else ()):
            for index, call in enumerate(calls):
                self._looked[call.name] += 1
                if self._looked[call.name] <= PLACES:
                    for other, what in _others(environment, task, turn, index):
                        text = f"{call.name} and {other} both give {what} ({where}, turn {turn})"
                        self._pairs.setdefault(frozenset((call.name, other)), f"{text}: {rule}")
                    for name in () if every else _unseen(environment, task, turn, index):
                        text = f"{call.name} with any {name} leaves the same ({where}, turn {turn}"
                        text += "): a wrong one counts as right, unless the state shows more"
                        self._pairs.setdefault(frozenset((call.name, name)), text)

    def notes(self) -> list[str]:
        return [*self._pairs.values()][:SOME]


def _unseen(environment: Environment, task: Task, turn: int, index: int) -> Iterator[str]:
    """The arguments of a ground-truth call that may hold other texts: the state reads the same
    then, and so does the result, or the call is seen to change something."""
    call = task.calls[turn][index]
    if environment.tools()[call.name].reads:
        return
    before = world_before(environment, task, turn, index)
    world = before.fork()
    given = world.call(call).text
    for name, value in call.arguments.items():
        texts = {leaf: f"{leaf} z" for leaf in values_in(value) if isinstance(leaf, str)}
        other = mapped(value, lambda leaf: texts.get(leaf, leaf))  # noqa: B023 -- called at once
        fork = before.fork()
        text = fork.call(Call(call.name, {**call.arguments, name: other})).text
        if texts and fork.same_state(world) and (text == given or not world.same_state(before)):
            yield name


def _others(
    environment: Environment, task: Task, turn: int, index: int
) -> Iterator[tuple[str, str]]:
    """The tools that give the same as a ground-truth call, each with what that is."""
    call = task.calls[turn][index]
    world = world_before(environment, task, turn, index)
    before = world.fork()
    pair = (call, world.call(call))
    given = values_in(call.arguments)
    if not world.same_state(before):
        return
    taken = [
        (name, value)
        for (_, _, name, value), origin in fed(environment, task, run(environment, task)).items()
        if origin == (turn, index)
    ]
    waits = environment.features.waits
    offered = [
        replace(tool, bounded=True)
        for tool in visible(environment, task, turn)
        if tool.name != call.name and (tool.reads if waits else tool.bounded)
    ]
    calls = [*chain(*task.calls[:turn]), *task.calls[turn][:index]]
    texts = task.script[: turn + 1]
    for form in (str, str.casefold):  # "Monday", "monday"
        said = [("", form(name)) for text in texts for name in NAME.findall(text)]
        values = [*leaves(call.arguments), *said, *leaves(task.state, keys=True)]
        for tried in tried_after(environment, task.state, calls, texts, offered, values):
            output = Output((turn, index), tried.call, tried.result)
            alike = (
                all(starmap(output.has, taken))
                if taken
                else tried.result.text == pair[1].text
                or shown(
                    pair, [(tried.call, tried.result)], set(), lambda says: all(map(says, given))
                )
            )
            if alike and tried.world.same_state(before):
                what = ", ".join(f"{name}={value!r:.40}" for name, value in taken)
                yield tried.call.name, what or "the same"
