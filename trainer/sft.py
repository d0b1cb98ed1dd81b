"""`rods-train sft --config FILE --out FOLDER`: supervised learning on demonstrations, before GRPO.

A base model that cannot write the dialect earns nothing, and GRPO then learns nothing. This trains it on the training
tasks of a configuration, each played by its known solution or by a teacher (trainer/demonstrations.py), and writes a
folder that `policy.model` can name. `--export FILE` writes the same demonstrations in the common chat format, for any
other tool; with it `--out` may be left out. Held-out tasks are never used.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter
from cyclopts.types import PositiveFloat, PositiveInt

from rods.canonical import keyed_random
from rods.config import Config, read_config
from rods.environments.loading import Environments
from rods.episode.engine import Message, Trace
from rods.errors import UserError
from rods.tasks import AnyTask
from trainer.demonstrations import demonstrate, fault, taught
from worlds.sources import beside, load_tasks


@dataclass(frozen=True, slots=True)
class _Learning:
    """How the demonstrations are shown, as the command line says."""

    passes: float
    sequences: int
    learning_rate: float
    rounds: bool


def warm_up(
    *,
    config: Annotated[Path, Parameter(help="the run's configuration: data, policy.model, dialect")],
    out: Annotated[Path | None, Parameter(help="where the warmed-up policy goes: a new folder")] = None,
    export: Annotated[Path | None, Parameter(help="JSON lines of the demonstrations in the chat format")] = None,
    teacher: Annotated[
        Path | None, Parameter(help="imitate the episodes of this folder of `rods-eval run --tasks`, not ground truth")
    ] = None,
    least: Annotated[float, Parameter(help="with --teacher: the share of its goal that an episode has earned")] = 0.0,
    rounds: Annotated[bool, Parameter(negative="", help="a sample for each reply, not for each conversation")] = False,
    passes: Annotated[PositiveFloat, Parameter(help="how often each sample is shown")] = 2.0,
    sequences: Annotated[PositiveInt, Parameter(help="samples a step")] = 8,
    learning_rate: Annotated[PositiveFloat, Parameter(help="AdamW's, at its peak")] = 1e-5,
) -> None:
    """Supervised learning on ground truth, or on a teacher's episodes. Raises UserError."""
    if out is None and export is None:
        raise UserError("nothing to do", where="sft", remedy="give --out, --export, or both")
    settings = read_config(config)
    tasks = [task for task in load_tasks(settings.data, config.parent) if task.split == "train"]
    if teacher is None:
        with Environments(settings.operation.sandbox, beside(settings.data, config.parent)) as environments:
            traces = demonstrate(tasks, settings.policy, environments)
    else:
        traces = _imitable(taught(teacher, tasks, settings.policy.dialect), tasks, least, teacher)
    if export is not None:
        by_id = {task.id: task for task in tasks}
        lines = [
            orjson.dumps(line)
            for trace in traces
            for line in (as_rounds if rounds else as_chat)(by_id[trace.task], trace)
        ]
        export.write_bytes(b"".join(line + b"\n" for line in lines))
    if out is not None:
        _train(settings, traces, out, _Learning(passes, sequences, learning_rate, rounds))


def _imitable(traces: Sequence[Trace], tasks: Sequence[AnyTask], least: float, folder: Path) -> list[Trace]:
    """Those of a teacher's episodes that are imitated; says how many are not and why."""
    guards = {task.id: int(task.provenance.get("guards", 0)) for task in tasks}
    faults = [fault(trace, least, guards[trace.task]) for trace in traces]
    kept = [trace for trace, found in zip(traces, faults, strict=True) if found is None]
    left_out = Counter(found for found in faults if found is not None)
    why = f" ({', '.join(f'{count} {name}' for name, count in left_out.most_common())})" if left_out else ""
    print(f"{len(kept)} of {len(traces)} episodes of the teacher are imitated{why}", file=sys.stderr)
    if not kept:
        raise UserError(
            "no episode to imitate", where=str(folder), remedy="let the teacher play the training tasks of --config"
        )
    return kept


def _train(config: Config, traces: Sequence[Trace], out: Path, learning: _Learning) -> None:
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
    from trainer.supervised import encode, encode_rounds, fit, in_batches

    engine = LocalEngine.load_alone(Path(config.policy.model), config.rollouts, config.operation, config.policy.kind)
    model, chat, size = engine.model, engine.chat, learning.sequences
    encoded = [
        one for trace in traces for one in (encode_rounds(chat, trace) if learning.rounds else [encode(chat, trace)])
    ]
    fitting = [pair for pair in encoded if len(pair[0]) <= config.rollouts.max_context_tokens]
    if not fitting:
        raise UserError(
            f"0 of {len(encoded)} samples fit the context",
            where="rollouts.max_context_tokens",
            remedy="raise it, or give other tasks",
        )
    if len(fitting) < len(encoded):
        print(f"{len(encoded) - len(fitting)} samples do not fit the context and are left out", file=sys.stderr)
    rng = keyed_random(config.random_seeds.policy, "sft")
    steps = max(1, math.ceil(learning.passes * math.ceil(len(fitting) / size)))

    def said(step: int, of: int, loss: float) -> None:
        if step in (1, of) or step % 10 == 0:
            print(f"step {step} of {of}: loss {loss:.3f}", file=sys.stderr, flush=True)

    model.train()
    fit(
        model,
        in_batches(chat.pad, itertools.repeat(fitting), size, rng, rest=True),
        torch_settings.make_optimizer("adamw", model, learning.learning_rate),
        steps=steps,
        warm_up=max(1, steps // 10),
        progress=said,
        bf16=engine.bf16,
        micro_batch=config.operation.micro_batch,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    chat.tokenizer.save_pretrained(out)


def as_chat(task: AnyTask, trace: Trace) -> list[dict[str, Any]]:
    """The demonstration in the common chat format, one line: {"messages": [{"role", "content"}, …], …}."""
    return [{"messages": _messages(trace.messages), **_about(task)}]


def as_rounds(task: AnyTask, trace: Trace) -> list[dict[str, Any]]:
    """A line for each reply, the only one to learn of it: {"prompt": [messages], "completion": [the reply], …}."""
    return [
        {"prompt": _messages(trace.messages[:place]), "completion": _messages([message]), **_about(task)}
        for place, message in enumerate(trace.messages)
        if message.role == "assistant"
    ]


def _messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _about(task: AnyTask) -> dict[str, str]:
    return {"task": task.id, "type": task.type, "split": task.split}
