"""Plays the rungs of the ladder: each is an evaluation of the tasks that no lower rung has settled,
with the hints in their system prompts, by the program that evaluates files of tasks. What it has
recorded, it is the one to go on with. The simulated policy says nothing and is drawn."""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rods.buffers.log.disk import replace
from rods.buffers.log.tail import read
from rods.console.main import programs
from rods.episode.engine import Trace
from rods.errors import EXIT_OK, RefusedError, UserError
from rods.family.triage.checks import Executed
from rods.family.triage.diagnosis import Played, in_words, otherwise, settled
from rods.family.triage.rungs import LAST, VALUES, hinted
from rods.faults import INVALID_ENDS
from rods.functions import named_function
from rods.players import Players
from rods.tasks import Task, read_tasks, task_lines
from rods.trainer import simulated

# how much a rung raises the skill of a simulated policy: assumed, not measured
LIFT = 0.1
EPISODES = "episodes.jsonl"  # of an evaluation
By = Mapping[str, Played]  # by the id of the task
Rung = Callable[[int, Sequence[Task]], By]


class Stopped(Exception):
    """An evaluation did not come to its end; `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def climb(
    tasks: Mapping[str, Task], executed: Mapping[str, Executed], play: Rung
) -> dict[str, dict[int, Played]]:
    """What became of every task at every rung that it needed."""
    played: dict[str, dict[int, Played]] = {name: {} for name in tasks}
    for rung in range(LAST + 1):
        left = [task for name, task in tasks.items() if not settled(executed[name], played[name])]
        for name, at in play(rung, left).items():
            played[name][rung] = at
    return played


class Simulated:
    """The rungs of a simulated policy. What follows from nothing it does not know until a rung
    tells it."""

    def __init__(self, executed: Mapping[str, Executed], skill: float, samples: int) -> None:
        self.executed = executed
        self.skill = skill
        self.samples = samples

    def __call__(self, rung: int, tasks: Sequence[Task]) -> By:
        return {task.id: self._played(rung, task) for task in tasks}

    def _played(self, rung: int, task: Task) -> Played:
        chance = simulated.turn_chance(task, self.skill + LIFT * rung)
        if self.executed[task.id].certain and rung < VALUES:
            chance = 0.0
        keys = (("triage", task.id, rung, index) for index in range(self.samples))
        solved = sum(simulated.rollout(task, chance, "binary", *key).binary for key in keys)
        return Played(self.samples, solved, rollouts=self.samples)


class Evaluated:
    """The rungs of a policy that the options of `rods eval run` name, each in a folder of its own
    below `folder`. The tasks of a rung are written once: later starts go on with them."""

    def __init__(
        self,
        folder: Path,
        players: Players,
        executed: Mapping[str, Executed],
        samples: int,
        options: Sequence[str],
    ) -> None:
        if "eval" not in programs():
            raise UserError(
                "nothing that is installed plays a file of tasks",
                where="rods triage",
                remedy="install the folder of rods/family with `rods eval`, or play nobody: "
                "--samples 0",
            )
        target = programs()["eval"][0].replace(".__main__:main", ".main:run")
        self.evaluate: Callable[[list[str]], int] = named_function(target, where="rods eval")
        self.folder = folder
        self.players = players
        self.executed = executed
        self.options = ["--samples", str(samples), *options]
        self.samples = samples

    def __call__(self, rung: int, tasks: Sequence[Task]) -> By:
        """Raises Stopped where the evaluation was, RefusedError for a folder of other tasks."""
        file = self.folder / f"rung_{rung}.jsonl"
        originals = {self._hinted(task, rung).id: task for task in tasks}
        if not file.exists():
            if not tasks:
                return {}
            self.folder.mkdir(parents=True, exist_ok=True)
            replace(file, task_lines([self._hinted(task, rung) for task in tasks]))
        written = {task.id for task in read_tasks(file)}
        # lost rollouts are played again at a later start, and may settle a task then
        if rung == 0 and written != originals.keys():
            raise RefusedError(
                "holds other tasks than those that are triaged now",
                where=file,
                remedy="name a new folder with --out",
            )
        folder = self.folder / f"rung_{rung}"
        with contextlib.redirect_stdout(sys.stderr):
            code = self.evaluate(["run", str(folder), "--tasks", str(file), *self.options])
        if code != EXIT_OK:
            raise Stopped(code)
        traces: dict[str, dict[int, Trace]] = {name: {} for name in originals}
        for record in read(folder / EPISODES):
            if record["kind"] == "episode" and record["task"] in traces:
                trace = Trace.from_json(json.loads(record["result"])["trace"])
                traces[record["task"]][record["sample"]] = trace
        return {
            originals[name].id: self._played(originals[name], [*by_sample.values()])
            for name, by_sample in traces.items()
            if name in written
        }

    def _hinted(self, task: Task, rung: int) -> Task:
        results = self.executed[task.id].results
        assert results is not None  # what has none is settled before anybody plays it
        tools = self.players.environments.load(task.environment.name).tools()
        return hinted(tools, task, results, rung)

    def _played(self, task: Task, traces: Sequence[Trace]) -> Played:
        valid = [trace for trace in traces if trace.end not in INVALID_ENDS]
        solved = sum(trace.binary for trace in valid)
        told = sum(in_words(task, trace) for trace in valid)
        other = sum(otherwise(task, self.executed[task.id], trace) for trace in valid)
        return Played(len(valid), solved, told, other, self.samples)
