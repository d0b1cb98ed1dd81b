"""What `rods admit` says of tasks whose defects are known, of sound ones, and of those that people
wrote.

Claim: of tasks of desk and of BFCL with one seeded defect each, at least 95 % of each kind are
named with it, and refused but for what is left to a reader; none of the sound ones is refused; two
cores judge 2,000 tasks a minute and more. Anchor: the seeding; sound are variants as the daemon
accepts them. Command: `python -m bench.admit`, with `--quick` for a few of each.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from bench.figures import Figure, run
from bench.fixtures.corruptions import Corruptions
from bench.gates import accepted
from bench.triage import changed, tool_gone, with_last
from rods.calls import Call
from rods.canonical import keyed_random
from rods.config import Config, Data
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.admit.admitting import Admitting, Line
from rods.family.admit.task_faults import OF_TASTE
from rods.tasks import AnyTask, Task, task_lines, write_task_file
from rods.worlds import desk
from rods.worlds.bfcl import tasks as bfcl_tasks

FULL = 120  # sound variants of each world; a third of them is left as it is
QUICK = 24
load = Environments().load
Defect = Callable[[Task, random.Random], Task | bytes | None]


def fails(task: Task, rng: random.Random) -> Task | None:
    """The last call lacks what it needs."""
    return with_last(task, Call(task.calls[-1][-1].name, {"zz": 1})) if task.calls[-1] else None


def too_long(task: Task, rng: random.Random) -> Task | None:
    """A text of a call, and of the words, is longer than a policy writes."""
    places = [
        (turn, index, name, value)
        for turn, calls in enumerate(task.calls)
        for index, call in enumerate(calls)
        for name, value in call.arguments.items()
        if isinstance(value, str)
    ]
    if not places:
        return None
    turn, index, name, value = rng.choice(places)
    turns = [list(calls) for calls in task.calls]
    call = turns[turn][index]
    turns[turn][index] = Call(call.name, {**call.arguments, name: value + " and more" * 40})
    return changed(task, calls=tuple(map(tuple, turns)))


def leaking(task: Task, rng: random.Random) -> Task | None:
    turn = rng.choice([turn for turn, calls in enumerate(task.calls) if calls])
    text = f"{task.script[turn]} Call the {task.calls[turn][-1].name} function with {{}}."
    return changed(task, script=(*task.script[:turn], text, *task.script[turn + 1 :]))


def kept_back(task: Task, rng: random.Random) -> Task | None:
    """The words do not say a text of several words that a call has."""
    places = [
        (turn, value)
        for turn, calls in enumerate(task.calls)
        for call in calls
        for value in call.arguments.values()
        if isinstance(value, str) and " " in value
    ]
    for turn, value in rng.sample(places, len(places)):
        script = [text.replace(value, "the usual") for text in task.script]
        results = str(task.provenance["results"]) + str(task.state)
        if script[turn] != task.script[turn] and value not in results:
            return changed(task, script=tuple(script))
    return None


def again(task: Task, rng: random.Random) -> Task | None:
    """What a turn asks is asked for once more, at the end, where nothing changes by it."""
    if not task.calls[-1] or task.later_tools:
        return None
    return changed(
        task, script=(*task.script, task.script[-1]), calls=(*task.calls, task.calls[-1])
    )


def other_version(task: Task, rng: random.Random) -> Task:
    return changed(task, environment=replace(task.environment, hash="0" * 20))


def expects_nothing(task: Task, rng: random.Random) -> Task:
    return changed(task, calls=((),) * len(task.calls), later_tools={}, type="base")


def cut_short(task: Task, rng: random.Random) -> bytes:
    """A line that was cut, lacks a field, or has one of another type."""
    line = task_lines([task]).rstrip()
    record = task.as_json()
    del record["id"]
    return rng.choice(
        [
            line[: len(line) // 2],
            orjson.dumps({key: value for key, value in record.items() if key != "tools"}),
            orjson.dumps({**record, "tools": "all"}),
        ]
    )


def unjudged(task: Task, rng: random.Random) -> Task | None:
    """Nothing of what a turn asks to know is judged, and no call of it changes anything."""
    return changed(task, reads="state") if _reading(task, alone=True) else None


def half_judged(task: Task, rng: random.Random) -> Task | None:
    """The same, where a turn asks to know something beside what it changes."""
    return changed(task, reads="state") if _reading(task, alone=False) else None


def _reading(task: Task, *, alone: bool) -> bool:
    """Whether some turn has calls that read only (`alone`), or, if not, calls of both kinds, of
    which the last reads; and, where not alone, no turn has only such that read."""
    environment = load(task.environment.name)
    world = environment.reset(task.state)
    turns = []
    for calls in task.calls:
        reads = []
        for call in calls:
            before = world.fork()
            world.call(call)
            reads.append(world.same_state(before))
        turns.append(reads)
    only = any(reads and all(reads) for reads in turns)
    mixed = any(reads and reads[-1] and not all(reads) for reads in turns)
    return only if alone else mixed and not only


def seeds_of(
    environment: Environment, variants: Sequence[Task]
) -> Mapping[str, Callable[[Task, random.Random], Task | bytes | None]]:
    """How each kind of fault is seeded."""
    corruptions = Corruptions(environment, variants)
    return {
        "record": cut_short,
        "world": other_version,
        "replay": fails,
        "tools": tool_gone,
        "arguments": too_long,
        "leaks": leaking,
        "grounding": kept_back,
        "repeats": again,
        "idle": unjudged,
        "idle (no calls)": expects_nothing,
        "near_miss": half_judged,
        "replay (stale)": lambda task, rng: corruptions.corrupt(task, "stale state", rng),
    }


def cpu() -> float:
    """CPU seconds of this process and of those that have ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def judged(name: str, lines: Sequence[bytes], given: Sequence[AnyTask] = ()) -> list[Line]:
    """The lines of a file, judged on all cores."""
    with tempfile.TemporaryDirectory() as folder, Environments() as environments:
        file = Path(folder) / "theirs.jsonl"
        file.write_bytes(b"\n".join(lines))
        config = Config(data=Data(tasks="none"))
        ways = config.operation.model_copy(update={"compute": "processes"})
        config = config.model_copy(update={"operation": ways})
        gate = Admitting(config, Path(folder), environments.load(name), given)
        return asyncio.run(gate.judged(gate.read(file)))


def figures_of(name: str, size: int) -> Iterator[Figure]:
    variants = accepted(name, size)
    sound = variants[::3]
    others = [task for number, task in enumerate(variants) if number % 3]
    lines = [task_lines([task]).rstrip() for task in sound]
    wanted = ["sound"] * len(sound)
    for kind, seed in seeds_of(load(name), variants).items():
        for task in others:
            if (spoilt := seed(task, keyed_random(1, kind, task.id))) is not None:
                whole = spoilt if isinstance(spoilt, bytes) else task_lines([spoilt]).rstrip()
                lines.append(whole)
                wanted.append(kind)
    # other tasks by a text of their own for the system prompt, of the same requests and calls
    copies = [changed(task, system="Be brief.") for task in sound]
    lines += [task_lines([task]).rstrip() for task in copies]
    wanted += ["duplicates"] * len(copies)
    held_out = others[: len(others) // 2]
    lines += [task_lines([changed(task, system="Be brief.")]).rstrip() for task in held_out]
    wanted += ["contamination"] * len(held_out)
    began = time.monotonic(), cpu()
    result = judged(name, lines, [replace(task, split="test") for task in held_out])
    seconds, spent = time.monotonic() - began[0], cpu() - began[1]
    pairs = [
        (kind.partition(" (")[0], kind, line) for kind, line in zip(wanted, result, strict=True)
    ]
    for kind in dict.fromkeys(wanted):
        own = [(name, line) for name, full, line in pairs if full == kind]
        if kind == "sound":
            verdicts = Counter(line.verdict for _, line in own)
            print(f"  {name}: sound {dict(verdicts)}")
            refused = verdicts["refused"] + verdicts["undecided"]
            what = f"{name}: sound tasks refused, of {len(own)}"
            yield Figure(what, refused, "", reach=0, higher=False)
        else:
            shares = {
                "named": sum(bool(line.reasons.get(fault)) for fault, line in own) / len(own),
                "refused": sum(line.verdict == "refused" for _, line in own) / len(own),
            }
            for how, share in shares.items():
                what = f"{name}: {kind} {how}, of {len(own)}"
                left = how == "refused" and kind in (*OF_TASTE, "grounding")
                reach = None if left else 0.95
                yield Figure(what, share, "share", "the seeding", reach=reach)
    cores = len(os.sched_getaffinity(0))
    what = f"{name}: {len(lines)} tasks on {cores} cores, starting included"
    yield Figure(what, 60 * len(lines) / seconds, "a minute")
    what = f"{name}: the same by the CPU time of all processes, were two cores free"
    yield Figure(what, 120 * len(lines) / spent, "a minute", reach=2000)


def given(name: str, tasks: Sequence[Task], step: int) -> Iterator[Figure]:
    """What is found in tasks that people or generators wrote, as they are."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "given.jsonl"
        write_task_file(tasks[::step], file)
        lines = judged(name, file.read_bytes().split(b"\n"))
    counts = Counter(line.verdict for line in lines)
    kinds = Counter(kind for line in lines for kind in line.certain)
    doubts = Counter(kind for line in lines if line.verdict == "doubtful" for kind in line.kinds)
    for what, count in (*counts.items(), *kinds.most_common()):
        yield Figure(f"given, {name}: {what}", count, f"of {len(lines)}")
    for what, count in doubts.most_common():
        yield Figure(f"given, {name}: doubtful for {what}", count, f"of {len(lines)}")


def measure(quick: bool) -> list[Figure]:
    size = QUICK if quick else FULL
    step = 20 if quick else 1
    figures = [figure for name in ("desk", "bfcl") for figure in figures_of(name, size)]
    figures += given("desk", desk.generate(7, 400, 400), step)
    figures += given("bfcl", [*bfcl_tasks()], step)
    return figures


if __name__ == "__main__":
    run(measure)
