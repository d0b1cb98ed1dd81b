"""`rods-train sft --config FILE --out FOLDER`: supervised warm-up of a base model on ground-truth demonstrations.

A base model that cannot write the dialect earns nothing, and GRPO then learns nothing. This trains it on the training
tasks of a configuration, each played by its ground truth, and writes a folder that `policy.model` can name. `--export
FILE` writes the same demonstrations in the common chat format, for any other tool; with it `--out` may be left out.
Held-out tasks are never used.

A demonstration writes one call a reply, so that a value which a call returns is in the conversation before it is used.
Where no call is right it says so: it asks for what is missing, or says that there is no tool for it.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from rods import dialects
from rods.canonical import keyed_random
from rods.config import Config, PolicySettings, read_config
from rods.dialects.base import Dialect
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import GroundTruth
from rods.errors import UserError
from rods.tasks import Task, scripted
from worlds.sources import load_tasks

DONE = "Done."
ASK = "I need one more detail before I can do that. Could you tell me?"
LACK = "I have no tool for that at the moment."


def warm_up(
    *,
    config: Annotated[Path, Parameter(help="the run's configuration: data, policy.model, dialect")],
    out: Annotated[Path | None, Parameter(help="where the warmed-up policy goes: a new folder")] = None,
    export: Annotated[Path | None, Parameter(help="JSON lines of the demonstrations in the chat format")] = None,
    passes: Annotated[float, Parameter(help="how often each task is shown")] = 2.0,
    sequences: Annotated[int, Parameter(help="demonstrations a step")] = 8,
    learning_rate: Annotated[float, Parameter(help="AdamW's, at its peak")] = 1e-5,
) -> None:
    """Supervised warm-up of a base model on ground truth. Raises UserError."""
    if out is None and export is None:
        raise UserError("nothing to do", where="sft", remedy="give --out, --export, or both")
    settings = read_config(config)
    tasks = [
        scripted(task, "a demonstration") for task in load_tasks(settings.data, config.parent) if task.split == "train"
    ]
    traces = demonstrate(tasks, settings.policy, Environments(settings.operation.sandbox))
    if export is not None:
        lines = [orjson.dumps(as_chat(task, trace)) for task, trace in zip(tasks, traces, strict=True)]
        export.write_bytes(b"".join(line + b"\n" for line in lines))
    if out is not None:
        _train(settings, traces, out, passes, sequences, learning_rate)


def _train(config: Config, traces: list[Trace], out: Path, passes: float, sequences: int, learning_rate: float) -> None:
    if config.policy.kind != "transformers":
        raise UserError(
            f"a policy of kind {config.policy.kind!r} has no base model to warm up",
            where="policy.kind",
            remedy='use kind = "transformers" and name the folder in policy.model',
        )
    if out.exists():
        raise UserError("is there already", where=str(out), remedy="name a new folder")
    from trainer import torch_settings
    from trainer.engines.local import LocalEngine
    from trainer.supervised import encode, fit, in_batches

    engine = LocalEngine.load_alone(Path(config.policy.model), config.rollouts, config.operation, config.policy.kind)
    model, chat = engine.model, engine.chat
    encoded = [encode(chat, trace) for trace in traces]
    fitting = [pair for pair in encoded if len(pair[0]) <= config.rollouts.max_context_tokens]
    if len(fitting) < sequences:
        raise UserError(
            f"{len(fitting)} of {len(encoded)} demonstrations fit the context; a step needs {sequences}",
            where="rollouts.max_context_tokens",
            remedy="raise it, give more tasks, or lower --sequences",
        )
    if len(fitting) < len(encoded):
        print(f"{len(encoded) - len(fitting)} demonstrations do not fit the context and are left out", file=sys.stderr)
    rng = keyed_random(config.random_seeds.policy, "sft")
    steps = max(1, math.ceil(passes * (len(fitting) // sequences)))

    def said(step: int, of: int, loss: float) -> None:
        if step in (1, of) or step % 10 == 0:
            print(f"step {step} of {of}: loss {loss:.3f}", file=sys.stderr, flush=True)

    model.train()
    fit(
        model,
        in_batches(chat.pad, itertools.repeat(fitting), sequences, rng),
        torch_settings.make_optimizer("adamw", model, learning_rate),
        steps=steps,
        warm_up=max(1, steps // 10),
        progress=said,
        bf16=engine.bf16,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    chat.tokenizer.save_pretrained(out)


def demonstrate(tasks: Sequence[Task], policy: PolicySettings, environments: Environments) -> list[Trace]:
    """One resolved episode a task. Raises UserError for a task whose ground truth does not resolve its turns."""
    dialect = dialects.load(policy.dialect)
    plans = [_replies(task, dialect) for task in tasks]
    jobs = []
    for task in tasks:
        world = environments.load(task.environment.name)
        longest = max(len(calls) for calls in task.calls) + 1
        jobs.append(Job(task, world, dialect, GroundTruth(world, task), max_steps=longest))

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(next(plans[job])) for job, _ in waiting]

    traces = run_lockstep(jobs, complete)
    for task, trace in zip(tasks, traces, strict=True):
        if not trace.binary:
            turn = next(
                (place for place, one in enumerate(trace.turns) if not (one.verdict and one.verdict.resolved)), 0
            )
            raise UserError(
                f"the ground truth does not resolve turn {turn}",
                where=f"task {task.id}",
                remedy="`rods data check FILE` says why",
            )
    return traces


def as_chat(task: Task, trace: Trace) -> dict[str, Any]:
    """The demonstration in the common chat format: {"messages": [{"role", "content"}, …], …}."""
    messages = [{"role": message.role, "content": message.content} for message in trace.messages]
    return {"messages": messages, "task": task.id, "type": task.type, "split": task.split}


def _replies(task: Task, dialect: Dialect) -> Iterator[str]:
    for calls in task.calls:
        for call in calls:
            yield dialect.write([call])
        lacking = LACK if task.type == "miss_func" else ASK
        yield dialect.answer(DONE if calls else lacking)
