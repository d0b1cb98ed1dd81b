"""A daemon's service in this process, over seeds that are all at the boundary, and what its logs say afterwards.

Every task given is picked once (lockstep, so nothing is dropped) and written by whoever the configuration names. For
tests of the language-model author and the benches that measure it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from buffers.log.records import Record
from buffers.log.tail import read
from buffers.run.run import Run
from buffers.trainer_log import TrainerLog
from daemon.authors.procedural import IN_FLIGHT
from daemon.service import Service
from rods import logs
from rods.calls import Call
from rods.config import parse_config
from rods.observations import Group, Rollout
from rods.rules.order import batch
from rods.runfolder import EXPANDED, LOGS, REJECTED, SEEDS, usage
from rods.tasks import Task
from tests.environments import load
from worlds import bfcl, desk

BATCH = 20  # tasks a step at most, all of which are picked
ALL = ["base", "long_context", "miss_func", "miss_param"]
HELD_OUT = 12


def seeds(count: int, random_seed: int = 7) -> list[Task]:
    """`count` training tasks, half of BFCL and half of desk, all four types in each half; and a few held-out ones."""
    half = count // 2
    found = [task for task in bfcl.tasks() if task.split == "train"]
    quarters = [[task for task in found if task.type == type] for type in ALL]
    official = [task for row in zip(*quarters, strict=True) for task in row][:half]
    made = desk.generate(random_seed, count - len(official), HELD_OUT)
    train = [task for task in made if task.split == "train"]
    return [*official, *train, *(task for task in made if task.split != "train")]


def make_run(path: Path, tasks: Sequence[Task], endpoints: Sequence[dict[str, Any]], **sections: Any) -> Run:
    """A run in which a language model writes. `sections` are merged over what is needed for that."""
    count = sum(task.split == "train" for task in tasks)
    size = next(size for size in range(BATCH, 0, -1) if count % size == 0)
    values: dict[str, Any] = {
        "sync": "lockstep",
        "policy": {"kind": "simulated"},
        "rollouts": {"rollouts_per_task": 4},
        "training": {"batch_tasks": size},
        "selection": {"seeds_per_step": size, "groups": [ALL]},
        "pipeline": {"author": "llm"},
        "operation": {"poll_seconds": 0.05, "endpoints": list(endpoints), "log_level": "error"},
    }
    for section, keys in sections.items():
        values[section] = {**values.get(section, {}), **keys} if isinstance(keys, dict) else keys
    return Run.create(path, parse_config(values, where="test"), list(tasks))


@dataclass(slots=True)
class Ended:
    """What a service left behind. `left` are asyncio tasks that outlived it; `memory` is resident MB by picks done."""

    path: Path
    seconds: float
    left: list[str]
    memory: list[tuple[int, float]] = field(default_factory=list)

    def records(self, log: str, kind: str) -> list[Record]:
        return [record for record in read(self.path / log) if record["kind"] == kind]

    @property
    def tasks(self) -> list[Task]:
        return Run.open(self.path).tasks

    @property
    def picked(self) -> list[Record]:
        return self.records(SEEDS, "picked")

    @property
    def finished(self) -> list[Record]:
        return self.records(SEEDS, "finished")

    @property
    def variants(self) -> list[Task]:
        return [Task.from_json(record["task"]) for record in self.records(EXPANDED, "expanded")]

    @property
    def rejected(self) -> list[Record]:
        return self.records(REJECTED, "rejected")

    @property
    def calls(self) -> list[Record]:
        return self.records(usage("daemon"), "call")

    def whys(self) -> Counter[str]:
        """What became of the picks: `accepted`, or the last reason."""
        return Counter(record["why"] or "accepted" for record in self.finished)

    def executable(self) -> set[str]:
        """The picks for which some candidate had a ground truth that runs: its calls, made again here in a fresh world
        of its own, all succeed. What words, judge or neighbours then said against it does not count."""
        environment_of = {task.id: task.environment.name for task in self.tasks}
        name_of = {record["pick"]: environment_of[record["task"]] for record in self.picked}
        found = {record["pick"] for record in self.records(EXPANDED, "expanded")}
        for record in self.rejected:
            raw = json.loads(record["raw"]) if record["raw"] else {}
            if record["pick"] not in found and isinstance(raw, dict) and _runs(name_of[record["pick"]], raw):
                found.add(record["pick"])
        return found

    def check(self, picks: int) -> None:
        """Every pick ended, once, as accepted or with a reason; nothing is lost, doubled or left running."""
        picked, finished = [record["pick"] for record in self.picked], [record["pick"] for record in self.finished]
        assert len(picked) == len(set(picked)) == picks
        assert sorted(finished) == sorted(picked), "a seed was lost, or ended twice"
        accepted = [task for record in self.finished for task in record["accepted"]]
        assert sorted(accepted) == sorted(task.id for task in self.variants) and len(set(accepted)) == len(accepted)
        told = {record["pick"] for record in self.rejected}
        for record in self.finished:
            assert bool(record["accepted"]) != bool(record["why"])
            assert record["accepted"] or record["pick"] in told, "discarded without a recorded candidate"
        assert self.left == []


def _runs(environment: str, raw: dict[str, Any]) -> bool:
    """Whether `raw`, a candidate as far as it had been written, has calls and all of them succeed."""
    turns = [list(map(Call.from_json, turn)) for turn in raw.get("calls", ())]
    if "goal" in raw:
        turns = [list(turn) for turn in Task.from_json(raw).calls]
    calls = [call for turn in turns for call in turn]
    if not calls:
        return False
    instance = load(environment).reset(raw["state"])
    return all(instance.call(call).error is None for call in calls)


def play(run: Run) -> int:
    """One epoch of steps, every group of which disagrees; returns the last step."""
    with TrainerLog(run) as trainer:
        trainer.start()
        epoch = trainer.merge(0, 1)
        size = run.config.training.batch_tasks
        steps = len(epoch.slots) // size
        for step in range(1, steps + 1):
            slots = batch(epoch.slots, size, step - 1)
            trainer.write_step(step, 0, [disagreeing(trainer.task(slot.task_id)) for slot in slots])
    return steps


def disagreeing(task: Task) -> Group:
    turns = task.expected_turns
    rollouts = tuple(Rollout(done, turns, int(done == turns), 0.0, done / turns, "finished") for done in (0, turns) * 2)
    return Group(task.id, 1, "identity", "progress", (0.0, 1.0), rollouts)


async def synthesise(run: Run, limit: float = float("inf")) -> Ended:
    """Plays an epoch and serves until every pick of it is finished, or for `limit` seconds."""
    logs.configure("daemon", run.config.operation.log_level, folder=run.path / LOGS)
    steps = await asyncio.to_thread(play, run)
    before = asyncio.all_tasks()
    stop, began, memory = asyncio.Event(), time.monotonic(), []
    with ThreadPoolExecutor(IN_FLIGHT + 1) as threads:
        service = Service(run, threads)
        serving = asyncio.create_task(service.serve(stop))
        done = -1
        while not serving.done() and time.monotonic() - began < limit:
            await asyncio.sleep(0.1)
            state = service.log.state
            waiting = len(state.unfinished)
            if state.last_considered >= steps and not waiting:
                break
            if done != (done := len(service.queue)):
                memory.append((done, resident()))
        stop.set()
        await serving
    seconds = time.monotonic() - began
    await asyncio.sleep(0)
    left = [str(task) for task in asyncio.all_tasks() - before]
    return Ended(run.path, seconds, left, memory)


def resident() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
