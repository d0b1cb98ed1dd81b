"""`rods-train sft --config FILE --out FOLDER`: supervised warm-up of a base model on ground-truth demonstrations.

A base model that cannot write the dialect earns nothing, and GRPO then learns nothing. This shows it the training tasks
of a configuration, resolved, and writes a folder that `policy.model` can name. `--export FILE` writes the same
demonstrations in the common chat format, for any other tool; with it `--out` may be left out.

Held-out tasks are never shown.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from pathlib import Path

import orjson

from rods.canonical import keyed_random
from rods.config import Config, read_config
from rods.environments.loading import Environments
from rods.episode.engine import Trace
from rods.errors import EXIT_OK, UserError
from trainer.demonstrations import as_chat, demonstrate
from worlds.sources import load_tasks


def run(arguments: list[str]) -> int:
    """The verb; returns the exit code. Raises UserError."""
    parser = argparse.ArgumentParser(prog="rods-train sft", description="Supervised warm-up on ground truth.")
    parser.add_argument(
        "--config", type=Path, required=True, help="the run's configuration: data, policy.model, dialect"
    )
    parser.add_argument("--out", type=Path, help="where the warmed-up policy goes: a new folder")
    parser.add_argument("--export", type=Path, help="JSON lines of the demonstrations in the chat format")
    parser.add_argument("--passes", type=float, default=2.0, help="how often each task is shown (default 2)")
    parser.add_argument("--sequences", type=int, default=8, help="demonstrations a step (default 8)")
    parser.add_argument("--learning-rate", type=float, default=1e-5, help="AdamW's, at its peak (default 1e-5)")
    asked = parser.parse_args(arguments)
    if asked.out is None and asked.export is None:
        parser.error("nothing to do: give --out, --export, or both")
    config = read_config(asked.config)
    tasks = [task for task in load_tasks(config.data, asked.config.parent) if task.split == "train"]
    traces = demonstrate(tasks, config.policy, Environments(config.operation.sandbox))
    if asked.export is not None:
        lines = [orjson.dumps(as_chat(task, trace)) for task, trace in zip(tasks, traces, strict=True)]
        asked.export.write_bytes(b"".join(line + b"\n" for line in lines))
    if asked.out is not None:
        _train(config, traces, asked)
    return EXIT_OK


def _train(config: Config, traces: list[Trace], asked: argparse.Namespace) -> None:
    if config.policy.kind != "transformers":
        raise UserError(
            f"a policy of kind {config.policy.kind!r} has no base model to warm up",
            where="policy.kind",
            remedy='use kind = "transformers" and name the folder in policy.model',
        )
    if asked.out.exists():
        raise UserError("is there already", where=str(asked.out), remedy="name a new folder")
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
    if len(fitting) < asked.sequences:
        raise UserError(
            f"{len(fitting)} of {len(encoded)} demonstrations fit the context; a step needs {asked.sequences}",
            where="rollouts.max_context_tokens",
            remedy="raise it, give more tasks, or lower --sequences",
        )
    if len(fitting) < len(encoded):
        print(f"{len(encoded) - len(fitting)} demonstrations do not fit the context and are left out", file=sys.stderr)
    rng = keyed_random(config.random_seeds.policy, "sft")
    steps = max(1, math.ceil(asked.passes * (len(fitting) // asked.sequences)))

    def said(step: int, of: int, loss: float) -> None:
        if step in (1, of) or step % 10 == 0:
            print(f"step {step} of {of}: loss {loss:.3f}", file=sys.stderr, flush=True)

    model.train()
    fit(
        model,
        in_batches(chat.pad, itertools.repeat(fitting), asked.sequences, rng),
        optimizers.make("adamw", model, asked.learning_rate),
        steps=steps,
        warm_up=max(1, steps // 10),
        progress=said,
        bf16=precision.bf16(config.operation),
    )
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(asked.out)
    chat.tokenizer.save_pretrained(asked.out)
