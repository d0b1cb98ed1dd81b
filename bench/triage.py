"""What `rods triage` says of tasks whose defects are known, and of BFCL's own.

Claim: of tasks of desk and of the library that `rods init` makes, with seeded defects, 20 that are
broken in six ways, 20 that need what nobody says in two, 20 that are beyond the simulated policy
(of the library, half are chains of many turns), 20 that hints teach it and 20 that it solves, nine
tenths and more are put where they belong; hardly one of the tasks as they were is called broken or
unfair. Anchor: the seeding. Command: `python -m bench.triage`, with `--seed N` for other tasks.

The policy makes its calls in the worlds. In a turn that it does not resolve it calls what is wanted
with another value, or leaves a call out; where words mean another thing than the ground truth, it
takes what they mean, until a rung tells the values.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.figures import Figure, run
from rods import dialects
from rods.analysis.containment import Text, leaves
from rods.calls import Call
from rods.canonical import keyed_random
from rods.config import Config
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.environments.loading import Environments
from rods.episode.drivers import ground_truth
from rods.episode.engine import MAX_STEPS, Trace
from rods.family.new_world.verbs import init
from rods.family.triage.diagnoses import FAULTY, Played, diagnose, in_words
from rods.family.triage.executed import Executed, execute, otherwise
from rods.family.triage.playing import LIFT, By, Rung, climb, drawn
from rods.family.triage.rungs import LAST, VALUES
from rods.gates.similarity import SimilarityIndex
from rods.players import Players
from rods.tasks import Task, asked, read_tasks
from rods.trainer.simulated import WIDTH, difficulty, turn_chance
from rods.worlds import desk
from rods.worlds.bfcl import tasks as bfcl_tasks

SEED = 20_269
EACH = 20
POOL = 800
SAMPLES = 4
SKILL = 0.3
TOP = SKILL + LAST * LIFT  # of the skill, where everything is told
SURE = 2 * WIDTH  # from a difficulty, in which a turn is nearly always, or never, resolved
RARELY = 0.02  # of the rollouts of a task
MOSTLY = 0.7
TURNS = 12  # of a chain, which are too many
HERMES = dialects.load("hermes")
Defect = Callable[[Task, random.Random], Task | None]


@dataclass(frozen=True)
class World:
    """How defects are seeded into the tasks of a world. `new`: arguments that a user alone can
    know; `things`: those that name a thing, and `nothing`, which names none; `once`: what can be
    done only once; `secret`: a call whose value nobody says, and the words for it."""

    tasks: Callable[[int], list[Task]]
    new: Sequence[str]
    things: Sequence[str]
    nothing: object
    once: Sequence[str]
    secret: Call
    words: str


def desk_tasks(seed: int) -> list[Task]:
    return desk.generate(seed, 2 * POOL, 0)


def library_tasks(seed: int) -> list[Task]:
    """Variants of the library's own, as the daemon accepts them, each on its own."""
    own = [task for task in read_tasks(Path("tasks.jsonl")) if isinstance(task, Task)]
    own = [task for task in own if task.split == "train"]
    threads = ThreadPoolExecutor(1)
    world = Environments().load("world.py:environment")
    author = ProceduralAuthor.of(world, threads)
    pipeline = Pipeline(Config(), SimilarityIndex(), threads)

    async def written() -> list[Task]:
        found: list[Task] = []
        for number in range(POOL):
            root = own[number % len(own)]
            job = Assignment(f"{seed}-{number}", 0, root, root, 1)
            made = await pipeline.write(job, author, world, lambda _: [], lambda _: None)
            if isinstance(made, Task):
                both = replace(made, provenance={}), with_another_book(made)
                found += [task for task in both if task is not None]
        return found

    try:
        return asyncio.run(written())
    finally:
        threads.shutdown()


def with_another_book(variant: Task) -> Task | None:
    """A task in which one more book is asked for before "it" is lent or moved: that is meant."""
    task = replace(variant, provenance={})
    first, last = task.calls[0], task.calls[-1]
    numbers = [call.arguments["book"] for call in last if call.name in ("lend", "move_book")]
    free = [
        (int(number), book["title"])
        for number, book in (task.state or {}).get("books", {}).items()
        if book["borrower"] is None and int(number) not in numbers
    ]
    short = task.type in ("base", "long_context") and len(task.calls) == 2
    if not (short and numbers and free) or " it " not in task.script[-1]:
        return None
    number, title = free[0]
    instead = {"book": number}
    there = [
        Call(call.name, {name: instead.get(name, value) for name, value in call.arguments.items()})
        for call in last
    ]
    both = changed(
        task,
        script=(task.script[0], f"And where is {title}?", task.script[1]),
        calls=(first, (Call("find_book", {"title": title}),), tuple(there)),
    )
    executed = execute(PLAYERS, both)
    return None if executed.broken or executed.ambiguous else both


WORLDS: Mapping[str, World] = {
    "desk": World(
        desk_tasks,
        ("amount", "hour", "text", "title", "copy"),
        ("event", "bill", "mail"),
        "z999",
        ("pay_bill", "cancel_event"),
        Call("add_income", {"account": "events", "amount": 7345}),
        "And put the usual into events.",
    ),
    "the library": World(
        library_tasks,
        ("days", "title", "name"),
        ("book",),
        999,
        ("lend", "give_back", "add_member", "add_book", "move_book"),
        Call("add_member", {"name": "Quillon"}),
        "And make a card for our new colleague.",
    ),
}


def changed(task: Task, **changes: object) -> Task:
    """`task` with changes, as difficult as it was."""
    root = {"root": task.provenance.get("root", task.id)}
    return replace(task, id="", provenance=root, **changes)  # type: ignore[arg-type]


def with_last(task: Task, call: Call) -> Task:
    """`task` whose last call is another one."""
    *earlier, last = task.calls
    return changed(task, calls=(*earlier, (*last[:-1], call)))


def fails(task: Task, rng: random.Random, world: World) -> Task | None:
    """The last call is given a thing that is not there."""
    call = task.calls[-1][-1] if task.calls[-1] else None
    things = [name for name in call.arguments if name in world.things] if call else []
    if call is None or not things:
        return None
    return with_last(task, Call(call.name, {**call.arguments, things[0]: world.nothing}))


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


def twice(task: Task, rng: random.Random, world: World) -> Task | None:
    """The first thing that is done is done again, though it can be done only once."""
    once = [call for call in task.calls[0] if call.name in world.once]
    if not once or len(task.calls) < 2:
        return None
    first, *rest, last = task.calls
    return changed(task, calls=(first, *rest, (*last, once[0])))


def state_gone(task: Task, rng: random.Random) -> Task | None:
    """The world is empty."""
    return changed(task, state=None) if task.state is not None else None


def means_another(task: Task, rng: random.Random) -> Task | None:
    """The ground truth means something by words that fit what was met after it as well, or rather:
    what every reader takes them for."""
    if difficulty(task) > SKILL - SURE:  # whoever resolves nothing takes it for nothing
        return None
    for turn, calls in list(enumerate(task.calls))[1:]:
        words = Text.of(asked(task, turn))
        early = itertools.chain(*task.calls[:turn])
        met = dict.fromkeys(pair for call in early for pair in leaves(call.arguments))
        for index, call in enumerate(calls):
            for name, value in call.arguments.items():
                for other in met:
                    if other[0] == name and other[1] != value and not words.covers(value):
                        instead = Call(call.name, {**call.arguments, name: other[1]})
                        turns = list(task.calls)
                        turns[turn] = (*calls[:index], instead, *calls[index + 1 :])
                        spoilt = changed(task, calls=tuple(turns))
                        doubts = execute(PLAYERS, spoilt).ambiguous
                        if any((one.turn, one.call) == (turn, index) for one in doubts):
                            return spoilt
    return None


def kept_back(task: Task, rng: random.Random, world: World) -> Task | None:
    """The words that say a value say that it is the usual one."""
    if difficulty(task) > TOP - SURE:  # it might be called beyond reach as well
        return None
    places = [
        (turn, value)
        for turn, calls in enumerate(task.calls)
        for call in calls
        for name, value in call.arguments.items()
        if name in world.new and " ".join(task.script).count(str(value)) == 1
    ]
    for turn, value in rng.sample(places, len(places)):
        text = re.sub(rf"\b{re.escape(str(value))}\b", "the usual", task.script[turn])
        script = (*task.script[:turn], text, *task.script[turn + 1 :])
        if script != task.script and str(value) not in f"{script} {task.state}":
            return changed(task, script=script)
    return None


def secret(task: Task, rng: random.Random, world: World) -> Task | None:
    """The last turn asks for one thing more, and does not say which."""
    if world.secret.name not in task.tools or task.later_tools or difficulty(task) > TOP - SURE:
        return None
    *earlier, last = task.calls
    script = (*task.script[:-1], f"{task.script[-1]} {world.words}")
    more = changed(task, script=script, calls=(*earlier, (*last, world.secret)))
    return None if execute(PLAYERS, more).broken else more


def chained(task: Task, rng: random.Random) -> Task | None:
    """Of turns that the policy resolves more often than not where everything is told, and of which
    it never resolves all: books are put elsewhere one after the other."""
    books = (task.state or {}).get("books", {})
    if task.type not in ("base", "long_context") or not 0.4 < turn_chance(task, TOP) < 0.6:
        return None
    moves = [
        (number, book["title"], shelf)
        for shelf in ("attic", "cellar", "window")
        for number, book in books.items()
    ][: TURNS - len(task.calls)]
    calls = [
        (Call("find_book", {"title": title}), Call("move_book", {"book": int(number), "shelf": to}))
        for number, title, to in moves
    ]
    texts = [f"Then please put {title} on the {to} shelf." for _, title, to in moves]
    return changed(task, script=(*task.script, *texts), calls=(*task.calls, *calls))


def seeded(world: World, seed: int) -> Iterator[tuple[Task, Task, str]]:
    """Tasks with those whose calls their words mean, and the diagnosis that they are to have, no
    two of one task."""
    rng = random.Random(seed)
    left = world.tasks(seed)
    named = [partial(fails, world=world), partial(twice, world=world)]
    broken: list[Callable[..., Task | None]] = [*named, tool_gone, too_late, state_gone]
    broken.append(means_another)
    unfair = [partial(kept_back, world=world), partial(secret, world=world)]
    for number in range(EACH):
        spoil = partial(broken[number % len(broken)], rng=rng)
        yield *taken(left, spoil, partial(tool_gone, rng=rng)), "broken"
        yield *taken(left, partial(unfair[number % len(unfair)], rng=rng)), "unfair"
    chains = EACH // 2 if world is WORLDS["the library"] else 0
    for number in range(EACH):
        change = partial(chained, rng=rng) if number < chains else never
        yield *taken(left, change), "beyond reach"
    for _ in range(EACH):
        yield *taken(left, taught), "teachable"
        yield *taken(left, mostly), "solved"


def chance(task: Task, skill: float) -> float:
    """That a rollout resolves all turns."""
    return turn_chance(task, skill) ** sum(map(bool, task.calls))


def never(task: Task) -> Task | None:
    """The task as it is, where hardly a rollout resolves it even when all is told."""
    return task if chance(task, TOP) < RARELY else None


def taught(task: Task) -> Task | None:
    """The same, where hardly one does without a hint, and most do then."""
    return task if chance(task, SKILL) < RARELY and chance(task, TOP) > MOSTLY else None


def mostly(task: Task) -> Task | None:
    """The same, where most do without a hint."""
    return task if chance(task, SKILL) > MOSTLY else None


def taken(
    left: list[Task],
    change: Callable[[Task], Task | None],
    other_change: Callable[[Task], Task | None] | None = None,
) -> tuple[Task, Task]:
    """The first of `left` that can be changed so, or, where none can, in another way, as that makes
    it and as it was; it is then left out."""
    for task in left:
        if (other := change(task)) is not None:
            left.remove(task)
            whole = len(other.script) == len(task.script)
            return other, task if whole else other  # of a chain, whose words mean its calls
    if other_change is None:
        raise LookupError("too few tasks")
    return taken(left, other_change)


def really(meant: Mapping[str, Task], executed: Mapping[str, Executed]) -> Rung:
    """The rungs of the simulated policy, whose calls are made. `meant`: by id the task whose calls
    the words mean."""

    def play(rung: int, tasks: Sequence[Task]) -> By:
        return {task.id: played(task, rung) for task in tasks}

    def played(task: Task, rung: int) -> Played:
        traces = [episode(task, rung, sample) for sample in range(SAMPLES)]
        return Played(
            SAMPLES,
            SAMPLES,
            sum(trace.binary for trace in traces),
            sum(in_words(task, trace) for trace in traces),
            sum(otherwise(PLAYERS, task, executed[task.id], trace) for trace in traces),
        )

    def episode(task: Task, rung: int, sample: int) -> Trace:
        rng = keyed_random(SEED, "plays", task.id, rung, sample)
        chance = turn_chance(task, SKILL + LIFT * rung)
        told = task.calls if rung >= VALUES else known(task, meant[task.id])
        made = [one if rng.random() < chance else slip(one, task, rng) for one in told]
        job = PLAYERS.job(task, HERMES, max_steps=MAX_STEPS)
        playing = ground_truth(replace(job, task=replace(task, id="", calls=tuple(made))))
        try:
            while True:
                next(playing)
        except StopIteration as stop:
            trace: Trace = stop.value
            return trace

    return play


def known(task: Task, words: Task) -> list[tuple[Call, ...]]:
    """The calls that the words of a task mean, without those of which they keep a value back."""
    texts = zip(map(Text.of, task.script), map(Text.of, words.script), strict=True)
    return [
        tuple(call for call in calls if not _kept_back(call, now, before))
        for calls, (now, before) in zip(words.calls, texts, strict=True)
    ]


def _kept_back(call: Call, now: Text, before: Text) -> bool:
    return any(before.covers(leaf) and not now.covers(leaf) for _, leaf in leaves(call.arguments))


def slip(calls: Sequence[Call], task: Task, rng: random.Random) -> tuple[Call, ...]:
    """The calls with another value in the last of them, which is met elsewhere in the task where
    there is one, or without it."""
    if not calls:
        return ()
    call = calls[-1]
    others = [
        Call(call.name, {**call.arguments, name: value})
        for one in task.goal_calls
        for name, value in one.arguments.items()
        if name in call.arguments and call.arguments[name] != value
    ]
    instead = [rng.choice(others)] if others else []
    return (*calls[:-1], *instead)


def triaged(
    tasks: Sequence[Task], meant: Mapping[str, Task], *, plays: bool
) -> tuple[dict[str, str], float]:
    """Diagnoses by task, and the seconds that executing took."""
    began = time.process_time()
    executed: dict[str, Executed] = {task.id: execute(PLAYERS, task) for task in tasks}
    seconds = time.process_time() - began
    by_id = {task.id: task for task in tasks}
    rung = really(meant, executed) if meant else drawn(executed, SKILL, SAMPLES)
    played = climb(by_id, executed, rung) if plays else {}
    return {
        name: str(diagnose(task, executed[name], played.get(name, {}))["diagnosis"])
        for name, task in by_id.items()
    }, seconds


def of_world(name: str, seed: int, sound: int) -> Iterator[Figure]:
    """The share of a world's seeded tasks that are put where they belong, and alarms over those
    that are as they were."""
    world = WORLDS[name]
    labels = [*seeded(world, seed)]
    meant = {task.id: words for task, words, _ in labels}
    found, _ = triaged([task for task, _, _ in labels], meant, plays=True)
    pairs = Counter((label, found[task.id]) for task, _, label in labels)
    for (label, diagnosis), count in sorted(pairs.items()):
        print(f"  {name}: {label:13} called {diagnosis:13} {count}")
    for label in dict.fromkeys(label for _, _, label in labels):
        what = f"{name}, {label}: of {EACH} put where they belong"
        yield Figure(what, pairs[label, label] / EACH, "share", reach=0.9)
    own = world.tasks(seed + 1)[:sound]
    for plays in (False, True) if own else ():
        found, _ = triaged(own, {task.id: task for task in own}, plays=plays)
        alarms = sum(diagnosis in FAULTY for diagnosis in found.values())
        who = "the simulated policy" if plays else "nobody"
        what = f"{name}: of {len(own)} sound tasks, played by {who}, called faulty"
        yield Figure(what, alarms / len(own), "share")


def measure(quick: bool, seed: str = str(SEED)) -> list[Figure]:
    """Both worlds, and what BFCL's own tasks are."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        init(Path(folder))
        with chdir(folder):  # from which the library is found
            for name in WORLDS:
                figures += of_world(name, int(seed), 40 if quick else 400)
    given = [*bfcl_tasks()][:: 20 if quick else 1]
    for plays, who in ((False, "nobody"), (True, "the simulated policy")):
        found, seconds = triaged(given, {}, plays=plays)
        counts = Counter(found.values())
        for diagnosis, count in counts.most_common():
            figures.append(Figure(f"BFCL, played by {who}: {diagnosis}", count, f"of {len(given)}"))
    figures.append(Figure("BFCL: CPU time", 1000 * seconds / len(given), "ms a task"))
    return figures


PLAYERS = Players(Environments())

if __name__ == "__main__":
    run(measure, seed="the random seed of tasks and defects")
