"""Do variants that tell what a rung of triage taught help a policy to learn? nano on desk tasks
with regions, by a warm start to which hints mean something.

Claim: GRPO gains more held-out progress in the hopeless region where variants tell what a rung
taught (`operation.triage.rung_seeds`) than plain RODS gains, which is the anchor, at equally many
rollouts. Anchors: the conditions *RODS* and *static data* of experiments/rungs/conditions.toml, in
the configuration of experiments/nano. Command: `python -m bench.nano_rungs` (all conditions, ten
random seeds), with the options of `python -m bench.nano_loop`, whose runs it makes.

The warm start differs from nano's: half of the demonstrations are of tasks that tell a rung, in the
system prompt as triage does or in the requests as variants do, and in these the teacher makes no
mistake. Lockstep has no triage, which takes as long as it takes. So in the condition *rung seeds*
the starting policy triages the originals before the run, by `rods triage`; the daemon's own code
writes the variants, which wait for the first merge; and the run has as many steps less as the
triage had rollouts. All else is equal, and so is what a run is scored on.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import tomli_w

from bench.nano_loop import (
    LOOP,
    ROOT,
    Line,
    Study,
    Values,
    by_condition,
    command,
    identity,
    main,
    measured,
    signed,
)
from rods import dialects
from rods.buffers.log.disk import replace as replace_file
from rods.buffers.log.record_bytes import Record, now, record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.creation import open_or_create
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import POOL
from rods.canonical import keyed_random
from rods.composing.catalogue import catalogue_for
from rods.config import Config, parse_config
from rods.daemon.service import Service
from rods.episode.engine import Trace
from rods.evaluation.scoring import estimate
from rods.family.triage.extension import TRIAGE
from rods.family.triage.findings import FINDINGS
from rods.family.triage.rung_seeds import RungSeeds, staged, with_rung
from rods.family.triage.rungs import VALUES, hinted
from rods.files import user_cache
from rods.gates.ground_truth import replayed
from rods.tasks import Task, task_lines
from rods.worlds import desk
from rods.worlds.desk.generator import REGION_TYPES, Size, fresh_tasks
from rods.worlds.sources import load_tasks

STEPS = 32  # of RODS and of static data
TOLD: tuple[Size, ...] = ("small", "long")  # what is demonstrated with a rung told
SAMPLES = 4  # rollouts of a task at each rung
CHUNK = 512  # demonstrations written at a time
TAUGHT = "rung seeds"  # the condition with triage


class Rungs(Study):
    """The study in experiments/rungs."""

    def base(self, name: str) -> Path:
        return LOOP.base(name)

    def changes(self, name: str) -> Sequence[Values]:
        training = {"steps": STEPS, "checkpoint_steps": STEPS}
        return [{"training": training}, *super().changes(name)]

    def warm_starts(self) -> Iterator[Values]:
        warm_started(parse_config(self.configuration(self.anchor, 1), where=str(self.folder)))
        return iter(())


STUDY = Rungs(ROOT / "experiments" / "rungs", "nano_rungs")


def warm_started(config: Config) -> Path:
    """The folder of the policy that all runs begin with; made first if the cache lacks it."""
    # torch, which a look at the table does not need
    from rods.trainer.chat import Chat
    from rods.trainer.nano import model as network, warm_start
    from rods.trainer.nano.supervised import encode

    folder = user_cache() / "nano" / f"{'-'.join(TOLD)}-told-{warm_start.recipe(config)}"
    if not (folder / "config.json").exists():
        shown = demonstrations(config)
        first = [next(shown) for _ in range(-(-warm_start.VOCABULARY_TASKS // CHUNK))]
        messages = [message for traces in first for trace in traces for message in trace.messages]
        texts = ((" " * (one.role != "assistant")) + one.content for one in messages)
        chat = Chat(network.build_tokenizer(texts), Path("nano"))
        encoded = (
            [encode(chat, trace) for trace in traces] for traces in itertools.chain(first, shown)
        )
        policy = warm_start.trained(config, chat, encoded)
        chat.tokenizer.save_pretrained(folder)
        policy.save_pretrained(folder)
    return folder


def demonstrations(config: Config) -> Iterator[list[Trace]]:
    """Endless demonstrations, `CHUNK` at a time: nano's own, and as many that tell a rung."""
    from rods.trainer.nano.teacher import Teacher
    from rods.trainer.nano.warm_start import shown

    environment = desk.environment()
    catalogue = catalogue_for(environment)
    dialect = dialects.load(config.policy.dialect)
    seed = config.random_seeds.policy
    plain = [(size, types, careless, False) for size, types, careless in shown(config)]
    telling = [(size, REGION_TYPES, 0.0, True) for size in TOLD]
    teachers = [
        (
            Teacher(catalogue, environment, dialect, careless),
            fresh_tasks(seed, "told" if told else "warm start", types, size),
            told,
        )
        for size, types, careless, told in (*plain, *telling)
    ]
    for number in itertools.count():
        rng = keyed_random(seed, "teacher", number)
        yield [
            trace
            for teacher, tasks, told in teachers
            for trace in teacher.demonstrate(
                [
                    telling_a_rung(task, rng.randrange(1, VALUES), rng.random() < 0.5)
                    if told
                    else task
                    for task, _ in itertools.islice(tasks, CHUNK // len(teachers))
                ],
                rng,
            )
        ]


def telling_a_rung(task: Task, rung: int, in_requests: bool) -> Task:
    """`task` with the words of `rung`, as variants or as triage tell them."""
    environment = desk.environment()
    if in_requests:
        return replace(task, id="", script=with_rung(environment, task, task.script, rung))
    results, _ = replayed(environment, task)
    assert results is not None
    return hinted(environment.tools(), task, results, rung)


def measured_taught(path: Path, condition: str, seed: int, values: Values) -> Line:
    """As `measured`, from the policy of this study; with what triage found, and what came of
    it, where there was one."""
    folder = warm_started(parse_config(values, where=condition))
    policy = {**values["policy"], "kind": "transformers", "model": str(folder)}
    begun: Values = {**values, "policy": policy}
    if condition != TAUGHT:
        line = measured(path, condition, seed, begun)
        return {**line, "identity": identity(values)}
    regions, findings = triaged(path, values, folder)
    spent = sum(at["rollouts"] for one in findings for at in one["played"].values())
    a_step = values["training"]["batch_tasks"] * values["rollouts"]["rollouts_per_task"]
    steps = values["training"]["steps"] - math.ceil(spent / a_step)
    begun["training"] = {**values["training"], "steps": steps, "checkpoint_steps": steps}
    told = stage(path, begun, findings)
    line = measured(path, condition, seed, begun)
    merged = {entry["task"] for entry in read(path / POOL) if entry["kind"] == "injected"}
    return {
        **line,
        "identity": identity(values),
        "triage": {
            "rollouts": spent,
            "steps": steps,
            "found": dict(Counter(f"{regions[one['task']]}: {said(one)}" for one in findings)),
            "written": len(told),
            "injected": len(told & merged),
        },
    }


def said(finding: Record) -> str:
    """A finding in a word, with its rung where it is teachable."""
    return str(finding["what"]).partition(":")[0]


def triaged(path: Path, values: Values, policy: Path) -> tuple[dict[str, str], list[Record]]:
    """The regions of the originals, and what `rods triage` finds of them, played by the starting
    policy."""
    tasks = path.with_suffix(".jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    own = parse_config(values, where=str(path))
    given = load_tasks(own.data, Path(), train_needed=True)
    originals = [task for task in given if task.split == "train"]
    replace_file(tasks, task_lines(originals))
    out = path.with_suffix(".triage")
    limits = own.rollouts
    options: list[object] = ["--weights", policy, "--protocol", own.policy.dialect]
    options += ["--threads", 1, "--max-tokens", limits.max_reply_tokens]
    options += ["--max-context", limits.max_context_tokens]
    command("triage", tasks, "--out", out, "--samples", SAMPLES, "--", *options)
    findings = [json.loads(line) for line in (out / FINDINGS).read_text().splitlines()]
    return {task.id: task.provenance["region"] for task in originals}, findings


class Before(Service):
    """A daemon before the first epoch, when nothing is active and so nothing fills staging."""

    stalled = False


def stage(path: Path, values: Values, findings: Sequence[Record]) -> set[str]:
    """Makes the run, puts the findings on record, and has the daemon's code write what a rung
    taught; the ids of these variants. What stands there already stays."""
    config = path.with_suffix(".toml")
    config.write_text(tomli_w.dumps(values), encoding="utf-8")
    run = open_or_create(path, config)
    if not [*read(path / TRIAGE)]:
        entries = [
            record("triaged", epoch=0, policy=[], time=now(), **finding) for finding in findings
        ]
        with closing(LogWriter(path / TRIAGE)) as log:
            log.append(entries)
    asyncio.run(_write(run))
    return {task.id for _, _, task in staged(run)}


async def _write(run: Run) -> None:
    with ThreadPoolExecutor(1) as threads:
        service = Before(run, threads)
        async with service.writers:
            seeds = RungSeeds(service, [*read(run.path / TRIAGE)])
            while jobs := seeds.due(service.watch.state):
                for job in jobs:
                    await job()
        service.log.close()


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """Gains by condition, in all and in the hopeless region, and what rung seeds gained over each,
    as Markdown."""
    by_name = by_condition(lines)
    mine = by_name.get(TAUGHT, {})
    columns = ["condition", "seeds", "start, hopeless", "gained", "gained, hopeless"]
    columns += ["rung seeds over it", "rung seeds over it, hopeless"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name in study.conditions:
        if not (every := by_name.get(name)):
            continue
        starts = [line["start"]["hopeless"] for line in every.values()]
        cells = [name, str(len(every)), f"{sum(starts) / len(starts):.3f}"]
        for part in ("all", "hopeless"):
            gains = [line["end"][part] - line["start"][part] for line in every.values()]
            cells.append(signed(estimate(gains)))
        both = sorted(every.keys() & mine.keys())
        for part in ("all", "hopeless"):
            over = [mine[seed]["end"][part] - every[seed]["end"][part] for seed in both]
            cells.append(signed(estimate(over)) if over and name != TAUGHT else "")
        yield f"| {' | '.join(cells)} |"
    if mine:
        yield ""
        yield triage_line([line["triage"] for line in mine.values()])


def triage_line(runs: Sequence[Line]) -> str:
    """What triage found in all runs, and what came of it in one, on average."""
    found = Counter[str]()
    for run in runs:
        found.update(run["found"])
    parts = ", ".join(f"{what} {count}" for what, count in found.most_common())
    names = ("rollouts", "steps", "written", "injected")
    means = {name: sum(run[name] for run in runs) / len(runs) for name in names}
    return f"Triage: {parts}. A run: {', '.join(f'{name} {at:.1f}' for name, at in means.items())}."


if __name__ == "__main__":
    main(STUDY, table, quick=("RODS", TAUGHT), train=measured_taught)
