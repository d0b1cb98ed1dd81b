"""Has a language model write variants of a few seeds, and says what became of them: `rods doctor
--synthesis`.

A trial is a run folder of its own. No policy is trained: every seed is played once with rewards
that disagree, so that it lies at the boundary, and the daemon's service then writes for all of
them, in this process. So a trial that was killed goes on where it stopped, and whatever it cost
stands in the folder's logs.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import fmean

from rods import logs
from rods.buffers.log.record_bytes import Record
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, LOGS, REJECTED, SEEDS, usage
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.buffers.usage import costs
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, keyed_random
from rods.config import (
    DRAWN_SLOTS,
    Config,
    Curriculum,
    Data,
    Endpoint,
    PolicySettings,
    PoolRules,
    Rollouts,
    Selection,
    Training,
)
from rods.config.sections import SECTIONS
from rods.daemon.authors.procedural import IN_FLIGHT
from rods.daemon.service import Service
from rods.daemon.static_pool import service_of
from rods.errors import UserError, say
from rods.observations import Group, Rollout
from rods.rules.order import batch
from rods.tasks import TASK_TYPES, AnyTask, Task
from rods.worlds.sources import load_tasks

BATCH = 20  # tasks a step at most, all of which are picked
SOLVED = (0, 1) * 2  # of its turns, by the rollouts of a group: they disagree
UNFIT = re.compile(r"[^\w.-]+")


def trial_run(
    home: Path, endpoint: Endpoint, seeds: int, config: Config | None, folder: Path
) -> Run:
    """The trial's run in `home`, created or found again: `seeds` training tasks of `config` (BFCL's
    without one), as many of each type as can be, with all held-out ones. Pipeline, gates and the
    rest are those of `config`. Raises UserError where there are fewer tasks. `folder` is what
    `data.tasks` is relative to."""
    config = config or Config(data=Data(tasks="bfcl"))
    tasks = load_tasks(config.data, folder)
    rng = keyed_random(config.random_seeds.order, "trial")
    queues = [
        [task for task in tasks if task.split == "train" and task.type == type]
        for type in TASK_TYPES
    ]
    for queue in queues:
        rng.shuffle(queue)
    mixed = [task for row in zip_longest(*queues) for task in row if task is not None]
    if not 0 < seeds <= len(mixed):
        raise UserError(
            f"there are {len(mixed)} training tasks, not {seeds}",
            where="--seeds",
            remedy="ask for fewer",
        )
    chosen = [*mixed[:seeds], *(task for task in tasks if task.split != "train")]
    size = next(size for size in range(BATCH, 0, -1) if seeds % size == 0)
    sections = SECTIONS.providers()
    wanted = config.model_copy(
        update={
            "sync": "lockstep",
            "policy": PolicySettings(kind="simulated"),
            "rollouts": Rollouts(rollouts_per_task=len(SOLVED)),
            "training": Training(batch_tasks=size),
            "curriculum": Curriculum(),
            **{
                key: default
                for name, drawn in DRAWN_SLOTS.providers().items()
                if drawn.slots(config)
                for key, default in sections.get(name, {}).items()
            },
            "selection": Selection(seeds_per_step=size, groups=(TASK_TYPES,)),
            "pool": PoolRules(staging_epochs=0),  # nothing is merged, and all are to be tried
            "pipeline": config.pipeline.model_copy(update={"author": "llm"}),
            "operation": config.operation.model_copy(
                update={"endpoints": (endpoint,), "log_level": "error"}
            ),
        }
    )
    key = content_id([wanted.identity(), [task.id for task in chosen]])[:8]
    return create_run(home / f"synthesis-{UNFIT.sub('_', endpoint.model)}-{key}", wanted, chosen)


def play(run: Run) -> int:
    """One epoch of steps, every group of which disagrees, as far as it was not played yet; returns
    the last step."""
    with TrainerLog(run) as trainer:
        trainer.start()
        epoch = trainer.merge(0, 1)
        size = run.config.training.batch_tasks
        steps = len(epoch.slots) // size
        for step in range(trainer.state.last_step + 1, steps + 1):
            slots = batch(epoch.slots, size, step - 1)
            trainer.write_step(
                step, 0, [_disagreeing(trainer.task(slot.task_id)) for slot in slots]
            )
    return steps


def _disagreeing(task: AnyTask) -> Group:
    turns = task.expected
    rollouts = tuple(
        Rollout(done * turns, turns, done, 0.0, float(done), "finished") for done in SOLVED
    )
    return Group(task.id, 1, "identity", "progress", (0.0, 1.0), rollouts)


async def synthesise(
    run: Run, limit: float = float("inf"), watch: Callable[[Service], None] = lambda _: None
) -> None:
    """Plays an epoch and serves until every pick of it is finished, or for `limit` seconds. `watch`
    is called about ten times a second."""
    logs.configure("daemon", run.config.operation.log_level, folder=run.path / LOGS)
    steps = await asyncio.to_thread(play, run)
    stop = asyncio.Event()
    began = time.monotonic()
    with ThreadPoolExecutor(IN_FLIGHT + 1) as threads:
        service = service_of(run, threads)
        serving = asyncio.create_task(service.serve(stop))
        while not serving.done() and time.monotonic() - began < limit:
            await asyncio.sleep(0.1)
            if service.log.state.done(steps):
                break
            watch(service)
        stop.set()
        await serving


def telling() -> Callable[[Service], None]:
    """A watch for people: says on standard error how many seeds are left, whenever that has
    changed."""
    left = 0

    def tell(service: Service) -> None:
        nonlocal left
        if left != (left := len(service.log.state.unfinished)):
            say(f"{left} seeds are being written for or wait", aside=True)

    return tell


@dataclass(slots=True)
class SynthesisTrial:
    """What a trial's logs say."""

    run: Run

    def records(self, log: str, kind: str) -> list[Record]:
        return [record for record in RunState(self.run).records(log) if record["kind"] == kind]

    def executable(self) -> set[str]:
        """The picks for which some candidate had a ground truth that runs: its calls, made again
        here in a fresh world of its own, all succeed. What words, judge or neighbours then said
        against it does not count."""
        environment_of = {task.id: task.environment.name for task in self.run.tasks}
        name_of = {
            record["pick"]: environment_of[record["task"]]
            for record in self.records(SEEDS, "picked")
        }
        picks = {record["pick"] for record in self.records(EXPANDED, "expanded")}
        for record in self.records(REJECTED, "rejected"):
            raw = json.loads(record["raw"]) if record["raw"] else {}
            if (
                record["pick"] not in picks
                and isinstance(raw, dict)
                and self._runs(name_of[record["pick"]], raw)
            ):
                picks.add(record["pick"])
        return picks

    def _runs(self, environment: str, raw: JsonMapping) -> bool:
        """Whether `raw`, a candidate as far as it had been written, has calls and all of them
        succeed."""
        turns: Sequence[Sequence[Call]] = [
            list(map(Call.from_json, turn)) for turn in raw.get("calls", ())
        ]
        if "goal" in raw:
            turns = Task.from_json(dict(raw)).calls
        calls = [call for turn in turns for call in turn]
        if not calls:
            return False
        instance = self.run.environments.load(environment).reset(raw["state"])
        return all(instance.call(call).error is None for call in calls)

    def as_json(self) -> JsonObject:
        """The yield: what became of the seeds, what failed at which stage, what the calls came
        to."""
        finished = self.records(SEEDS, "finished")
        calls: dict[str, list[Record]] = {}
        for call in self.records(usage("daemon"), "call"):
            calls.setdefault(call["stage"], []).append(call)
        failed = Counter(
            f"{record['stage']}: {record['error']}" for record in self.records(REJECTED, "rejected")
        )
        spent = costs(self.run.path)
        accepted = len(self.records(EXPANDED, "expanded"))
        tokens = sum(stage.tokens_in + stage.tokens_out for stage in spent.stages.values())

        def a_variant(total: float, digits: int | None = None) -> float | None:
            return round(total / accepted, digits) if accepted else None

        return {
            "data": self.run.config.data.tasks,
            "seeds": len(self.records(SEEDS, "picked")),
            "finished": len(finished),
            "executable": len(self.executable()),
            "accepted": accepted,
            "calls_per_variant": a_variant(sum(map(len, calls.values())), 1),
            "tokens_per_variant": a_variant(tokens),
            "seconds_per_variant": a_variant(sum(spent.busy.values()), 1),
            "failures": dict(sorted(failed.items())),
            "stages": {stage: _usage(usages) for stage, usages in calls.items()},
        }


def lines(figures: JsonMapping) -> Iterator[str]:
    """The yield in words."""
    yield (
        f"{figures['finished']} of {figures['seeds']} seeds of {figures['data']} are finished: "
        f"{figures['executable']} came to a ground truth that runs, {figures['accepted']} to a "
        f"variant"
    )
    if figures["accepted"]:
        yield (
            f"a variant took {figures['calls_per_variant']} calls, "
            f"{figures['tokens_per_variant']} tokens and {figures['seconds_per_variant']} s"
        )
    for failure, count in figures["failures"].items():
        yield f"  {count} × {failure}"


def _usage(calls: list[Record]) -> JsonObject:
    return {
        "calls": len(calls),
        "constrained": sum(call["constrained"] for call in calls),
        "cut": sum(call["outcome"] == "length" for call in calls),
        **{
            name: round(fmean(call[name] for call in calls)) for name in ("tokens_in", "tokens_out")
        },
        "seconds": round(fmean(call["seconds"] for call in calls), 2),
    }
