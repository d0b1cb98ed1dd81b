"""`rods-train sft --config FILE --out FOLDER`: supervised warm-up of a base model on ground-truth demonstrations.

A base model that cannot write the dialect earns nothing, and GRPO then learns nothing. This shows it the training tasks
of a configuration, resolved, and writes a folder that `policy.model` can name. `--export FILE` writes the same
demonstrations in the common chat format, for any other tool; with it `--out` may be left out.

Held-out tasks are never shown.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Annotated

import orjson
from cyclopts import Parameter

from rods.canonical import keyed_random
from rods.config import Config, read_config
from rods.environments.loading import Environments
from rods.episode.engine import Trace
from rods.errors import UserError
from trainer.demonstrations import as_chat, demonstrate
from worlds.sources import load_tasks


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
    tasks = [task for task in load_tasks(settings.data, config.parent) if task.split == "train"]
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
    import torch  # late: the export needs none of it

    from trainer import optimizers, precision
    from trainer.engines.local import Engine
    from trainer.supervised import encode, fit, in_batches

    precision.settle_threads(config.operation)
    engine = Engine.load(Path(config.policy.model), config.rollouts)
    model, chat = engine.model, engine.chat
    if torch.cuda.is_available():
        model.to("cuda")
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
        optimizers.make("adamw", model, learning_rate),
        steps=steps,
        warm_up=max(1, steps // 10),
        progress=said,
        bf16=precision.bf16(config.operation),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    chat.tokenizer.save_pretrained(out)
