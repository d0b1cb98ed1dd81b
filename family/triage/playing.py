"""Plays the rungs of the ladder: each is an evaluation of the tasks that no lower rung has settled,
with the hints in their system prompts, by the program that evaluates files of tasks. What it has
recorded, it is the one to go on with. The simulated policy says nothing and is drawn."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rods.buffers.log.disk import replace
from rods.console.played import traces_of
from rods.errors import RefusedError
from rods.family.triage.diagnoses import Played, in_words, settled
from rods.family.triage.executed import Executed, otherwise
from rods.family.triage.rungs import LAST, VALUES, hinted
from rods.faults import INVALID_ENDS
from rods.players import Players
from rods.tasks import Task, read_tasks, task_lines
from rods.trainer import simulated

# how much a rung raises the skill of a simulated policy: assumed, not measured
LIFT = 0.1
By = Mapping[str, Played]  # by the id of the task
Rung = Callable[[int, Sequence[Task]], By]


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


def drawn(executed: Mapping[str, Executed], skill: float, samples: int) -> Rung:
    """The rungs of a simulated policy. What follows from nothing it does not know until a rung
    tells it."""

    def play(rung: int, tasks: Sequence[Task]) -> By:
        played = {}
        for task in tasks:
            hidden = executed[task.id].certain and rung < VALUES
            chance = 0.0 if hidden else simulated.turn_chance(task, skill + LIFT * rung)
            key = "triage", task.id, rung
            solved = sum(
                simulated.rollout(task, chance, "binary", *key, index).binary
                for index in range(samples)
            )
            played[task.id] = Played(samples, samples, solved)
        return played

    return play


def evaluated(
    folder: Path,
    players: Players,
    executed: Mapping[str, Executed],
    samples: int,
    options: Sequence[str],
) -> Rung:
    """The rungs of a policy that the options of `rods eval run` name, each in a folder of its own
    below `folder`. The tasks of a rung are written once: later starts go on with them, and play
    others in the folder `later`. A completion that is none is a lost rollout. A rung raises as
    `traces_of` does."""

    def told(task: Task, rung: int) -> Task:
        results = executed[task.id].results
        assert results is not None  # what has none is settled before anybody plays it
        tools = players.environments.load(task.environment.name).tools()
        return hinted(tools, task, results, rung)

    def play(rung: int, tasks: Sequence[Task]) -> By:
        file = folder / f"rung_{rung}.jsonl"
        if not file.exists():
            if not tasks:
                return {}
            folder.mkdir(parents=True, exist_ok=True)
            replace(file, task_lines([told(task, rung) for task in tasks]))
        originals = {told(task, rung).id: task for task in tasks}
        written = {task.id for task in read_tasks(file)}
        # of higher rungs: lost rollouts are played again at a later start, and may settle a task
        if rung == 0 and written != originals.keys():
            what = "holds other tasks than those that are triaged now"
            raise RefusedError(what, where=file, remedy="name a new folder by --out")
        # the likeliest rollout again and again would tell nothing
        given = "--samples", str(samples), "--temperature", "1", "--lost-share", "1", *options
        episodes, _ = traces_of(file, given)
        # an endpoint may answer now what it did not when lower rungs were played
        later = [task for name, task in originals.items() if name not in written]
        beside = evaluated(folder / "later", players, executed, samples, options)
        played = dict(beside(rung, later)) if later else {}
        for name in originals.keys() & written:
            task = originals[name]
            valid = [trace for trace in episodes.get(name, ()) if trace.end not in INVALID_ENDS]
            played[task.id] = Played(
                samples,
                len(valid),
                sum(trace.binary for trace in valid),
                sum(in_words(task, trace) for trace in valid),
                sum(otherwise(players, task, executed[task.id], trace) for trace in valid),
            )
        return played

    return play
