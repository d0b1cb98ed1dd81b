"""What `rods triage` says of tasks whose defects are known, and of BFCL's own.

Claim: of desk's tasks with seeded defects, 20 that are broken in five ways, 20 whose words keep a
value to themselves, 20 that are beyond the simulated policy, 20 that hints teach it and 20 that it
solves, nine tenths and more are put where they belong; hardly one of the tasks as they were is
called broken or unfair. Anchor: the seeding. Command: `python -m bench.triage`, with `--seed N` for
other tasks.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from bench.figures import Figure, run
from rods.calls import Call
from rods.environments.loading import Environments
from rods.family.triage.diagnoses import FAULTY, diagnose
from rods.family.triage.executed import Executed, execute
from rods.family.triage.playing import LIFT, climb, drawn
from rods.family.triage.rungs import LAST
from rods.players import Players
from rods.tasks import Task
from rods.trainer.simulated import WIDTH, difficulty
from rods.worlds import desk
from rods.worlds.bfcl import tasks as bfcl_tasks

SEED = 20_269
EACH = 20
POOL = 800
SAMPLES = 4
SKILL = 0.3
SURE = 2 * WIDTH  # from a difficulty, in which a turn is nearly always, or never, resolved
NEW = ("amount", "hour", "text", "title", "copy")  # arguments that a user alone can know
Defect = Callable[[Task, random.Random], Task | None]


def changed(task: Task, **changes: object) -> Task:
    return replace(task, id="", provenance={}, **changes)  # type: ignore[arg-type]


def with_last(task: Task, call: Call) -> Task:
    """`task` whose last call is another one."""
    *earlier, last = task.calls
    return changed(task, calls=(*earlier, (*last[:-1], call)))


def fails(task: Task, rng: random.Random) -> Task | None:
    """The last call is given a thing that is not there."""
    call = task.calls[-1][-1] if task.calls[-1] else None
    things = [name for name in call.arguments if name in ("event", "bill", "mail")] if call else []
    if call is None or not things:
        return None
    return with_last(task, Call(call.name, {**call.arguments, things[0]: "z999"}))


def tool_gone(task: Task, rng: random.Random) -> Task | None:
    """A tool that is needed is not among those that may be called."""
    if task.later_tools:
        return None
    gone = rng.choice(task.goal_calls).name
    return changed(task, tools=tuple(name for name in task.tools if name != gone))


def too_late(task: Task, rng: random.Random) -> Task | None:
    """A tool that is needed is held out until a turn after its call."""
    names = [call.name for call in task.calls[0]]
    later = {name for calls in task.calls[1:] for name in (call.name for call in calls)}
    alone = [name for name in names if name not in later]
    if task.later_tools or not alone:
        return None
    return changed(task, later_tools={len(task.calls) - 1: (alone[0],)})


def twice(task: Task, rng: random.Random) -> Task | None:
    """The first thing that is done is done again, though it can be done only once."""
    once = [call for call in task.calls[0] if call.name in ("pay_bill", "cancel_event")]
    if not once or len(task.calls) < 2:
        return None
    first, *rest, last = task.calls
    return changed(task, calls=(first, *rest, (*last, once[0])))


def state_gone(task: Task, rng: random.Random) -> Task | None:
    """The world is empty."""
    return changed(task, state=None) if task.state is not None else None


def kept_back(task: Task, rng: random.Random) -> Task | None:
    """The words that say a value say that it is the usual one."""
    places = [
        (turn, value)
        for turn, calls in enumerate(task.calls)
        for call in calls
        for name, value in call.arguments.items()
        if name in NEW and " ".join(task.script).count(str(value)) == 1
    ]
    for turn, value in rng.sample(places, len(places)):
        text = re.sub(rf"\b{re.escape(str(value))}\b", "the usual", task.script[turn])
        script = (*task.script[:turn], text, *task.script[turn + 1 :])
        if script != task.script and str(value) not in " ".join(script):
            return changed(task, script=script)
    return None


BROKEN: Sequence[Defect] = (fails, tool_gone, too_late, twice, state_gone)


def seeded(seed: int) -> Iterator[tuple[Task, str]]:
    """Tasks with the diagnosis that they are to have, no two of one task."""
    rng = random.Random(seed)
    left = [*desk.generate(seed, POOL, 0)]
    for number in range(EACH):
        yield taken(left, partial(broken, defect=BROKEN[number % len(BROKEN)], rng=rng)), "broken"
        yield taken(left, partial(kept_back, rng=rng)), "unfair"
    top = SKILL + LAST * LIFT
    for low, high, diagnosis in (
        (top + SURE, 9.0, "beyond reach"),
        (SKILL + SURE, top - SURE / 2, "teachable"),
        (-9.0, SKILL - SURE, "solved"),
    ):
        for _ in range(EACH):
            yield taken(left, partial(between, low=low, high=high)), diagnosis


def broken(task: Task, defect: Defect, rng: random.Random) -> Task | None:
    return defect(task, rng)


def between(task: Task, low: float, high: float) -> Task | None:
    """The task as it is, where its difficulty lies there."""
    return task if low < difficulty(task) < high else None


def taken(left: list[Task], change: Callable[[Task], Task | None]) -> Task:
    """The first of `left` that can be changed so, which is then left out of it."""
    for task in left:
        if (other := change(task)) is not None:
            left.remove(task)
            return other
    raise LookupError("too few tasks")


def triaged(tasks: Sequence[Task], *, plays: bool) -> tuple[dict[str, str], float]:
    """Diagnoses by task, and the seconds that executing took."""
    began = time.process_time()
    players = Players(Environments())
    executed: dict[str, Executed] = {task.id: execute(players, task) for task in tasks}
    seconds = time.process_time() - began
    by_id = {task.id: task for task in tasks}
    played = climb(by_id, executed, drawn(executed, SKILL, SAMPLES)) if plays else {}
    return {
        name: diagnose(task, executed[name], played.get(name, {}))["diagnosis"]
        for name, task in by_id.items()
    }, seconds


def measure(quick: bool, seed: str = str(SEED)) -> list[Figure]:
    """The share of seeded tasks that are put where they belong, alarms over sound ones, and what
    BFCL's own are."""
    labels = [(task, label) for task, label in seeded(int(seed))]
    found, _ = triaged([task for task, _ in labels], plays=True)
    pairs = Counter((label, found[task.id]) for task, label in labels)
    for (label, diagnosis), count in sorted(pairs.items()):
        print(f"  {label:13} called {diagnosis:13} {count}")
    figures = [
        Figure(
            f"{label}: of {EACH} put where they belong",
            pairs[label, label] / EACH,
            "share",
            reach=0.9,
        )
        for label in dict.fromkeys(label for _, label in labels)
    ]
    sound = [*desk.generate(int(seed) + 1, 100 if quick else 400, 0)]
    found, _ = triaged(sound, plays=False)
    alarms = sum(diagnosis in FAULTY for diagnosis in found.values())
    figures.append(
        Figure(f"of {len(sound)} sound tasks called faulty", alarms / len(sound), "share")
    )
    given = [*bfcl_tasks()][:: 20 if quick else 1]
    for plays, who in ((False, "nobody"), (True, "the simulated policy")):
        found, seconds = triaged(given, plays=plays)
        counts = Counter(found.values())
        for diagnosis, count in counts.most_common():
            figures.append(Figure(f"BFCL, played by {who}: {diagnosis}", count, f"of {len(given)}"))
    figures.append(Figure("BFCL: CPU time", 1000 * seconds / len(given), "ms a task"))
    return figures


if __name__ == "__main__":
    run(measure, seed="the random seed of tasks and defects")
