"""Does keeping the cache across turns pay? Tokens a second of the trainer's own rollouts.

Claim: 1.5 times as many as generating afresh each turn, with the same tokens. Anchor: `generate` of
transformers on each conversation so far, batched and padded on the left, as a plain training loop
does. Command: `python -m bench.rollout_engine [--model FOLDER]`.

The same greedy episodes of desk with the same weights (the demonstration's nano, an untrained Llama
of its size with `--quick`, or `--model FOLDER`, rolled out as in the recipe for a CPU), both ways.
Both give the same tokens in float32; the bench stops with an error when they do not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.figures import Figure, run
from rods import dialects
from rods.config import Config, read_config
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.episode.goals import GroundTruth
from rods.trainer.engines.base import Conversation, Sample
from rods.trainer.engines.local import LocalEngine
from rods.trainer.nano.warm_start import warm_started
from rods.worlds import desk

load = Environments().load

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "console" / "demo.toml"
RECIPE = ROOT / "experiments" / "training" / "cpu.toml"
ROUNDS = 3


def measure(quick: bool, model: str = "") -> list[Figure]:
    """Tokens a second (of the policy's own words) both ways, the median of paired rounds."""
    torch.set_num_threads(1)
    config = read_config(RECIPE if model else DEMO)
    if quick and not model:
        policy = config.policy.model_copy(update={"warm_start_steps": 30})
        config = config.model_copy(update={"policy": policy})
    engine = LocalEngine.load(Path(model) if model else warm_started(config), config.rollouts)
    engine.model.eval()
    jobs = _jobs(config, 12 if quick or model else 48)
    ratios = []
    speeds = []
    for _ in range(1 if quick else ROUNDS):
        ours, seconds = _timed(lambda: engine.rollouts(jobs, random_seed=1, greedy=True))
        theirs, longer = _timed(lambda: _afresh(engine, jobs))
        if [one.completion_ids for one in ours] != [one.completion_ids for one in theirs]:
            raise RuntimeError("the two ways of generating gave different tokens")
        tokens = sum(sum(one.env_mask) for one in ours)
        ratios.append(longer / seconds)
        speeds.append((tokens / seconds, tokens / longer))
    middle = sorted(ratios)[len(ratios) // 2]
    fast, slow = speeds[ratios.index(middle)]
    return [
        Figure(
            "rollouts of desk episodes, ours", fast, "tokens/s", "generating afresh each turn", slow
        ),
        Figure("ours over generating afresh, same tokens", middle, "×", reach=1.5),
    ]


def _jobs(config: Config, count: int) -> list[Job]:
    world = load("desk")
    dialect = dialects.load(config.policy.dialect)
    tasks = desk.generate(5, count, 0, "small")
    return [
        Job(task, world, dialect, GroundTruth(world, task), max_steps=config.rollouts.max_steps)
        for task in tasks
    ]


def _timed(work: Any) -> tuple[list[Sample], float]:
    began = time.perf_counter()
    done = work()
    return done, time.perf_counter() - began


def _afresh(engine: LocalEngine, jobs: Sequence[Job]) -> list[Sample]:
    """The same episodes without a cache between turns."""
    conversations = [Conversation() for _ in jobs]
    chat = engine.chat
    limits = engine.limits

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        for job, need in waiting:
            conversations[job].ask(chat, need)
        rooms = [conversations[job].room(limits) for job, _ in waiting]
        rows = [conversations[job].prompt + conversations[job].completion for job, _ in waiting]
        width = max(map(len, rows))
        ids = torch.tensor([[chat.pad] * (width - len(row)) + row for row in rows])
        seen = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        with torch.inference_mode():
            made = engine.model.generate(
                input_ids=ids,
                attention_mask=seen,
                max_new_tokens=max(max(rooms), 1),
                do_sample=False,
                eos_token_id=sorted(chat.ends),
                pad_token_id=chat.pad,
            )
        replies = []
        for (job, _), room, row in zip(waiting, rooms, made[:, width:].tolist(), strict=True):
            if room < 1:
                replies.append(Reply("", "context"))
                continue
            end = next(
                (place for place, token in enumerate(row) if token in chat.ends), len(row) - 1
            )
            replies.append(conversations[job].take(chat, row[: min(end + 1, room)], limits))
        return replies

    traces = run_lockstep(jobs, complete)
    return [
        conversation.sample(trace)
        for conversation, trace in zip(conversations, traces, strict=True)
    ]


if __name__ == "__main__":
    run(measure, model="a folder with weights and tokenizer, instead of nano")
