"""How far prompt, history and random seed move one policy's score.

Claim: none; differences between methods that are smaller than these are no differences between
methods unless all three were equal (the card of a score says so). Anchor: the score with the prompt
and the history of its training. Command: `python -m bench.score_spread` (nano, as `make demo` warms
it up, some minutes); `--weights FOLDER` for another model with a chat template, such as
SmolLM2-135M-Instruct (hours on a CPU); `--tasks N`.

The same held-out desk tasks are played with three prompts, under two history rules, with five
random seeds of the draws: 30 scores. *Whole* shows all earlier messages; *answers* leaves out calls
and results of earlier turns, as many chat products do. nano knows one dialect, so its prompts
differ in the order of the tools and by a sentence before them; other models get three system
prompts of this project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev

from bench.figures import Figure, run
from rods import dialects
from rods.canonical import keyed_random
from rods.config import Operation, PolicySettings, Rollouts, Sandbox, read_config
from rods.dialects import Dialect, Message
from rods.dialects.compact import Compact
from rods.environments.base import Tool
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.episode.goals import goal_of
from rods.tasks import AnyTask
from rods.trainer.engines import local
from rods.trainer.engines.local import LocalEngine
from rods.trainer.nano.warm_start import warm_started
from rods.worlds.sources import load_tasks

DEMO = Path(__file__).parent.parent / "console" / "demo.toml"
SEEDS = 5
History = Callable[[Sequence[Message]], Sequence[Message]]


class Reversed(Compact):
    """The tools in reverse order."""

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        return super().system(tools[::-1], guidelines)


class Introduced(Compact):
    """A sentence before the tools."""

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        return f"Do what the user asks. {super().system(tools, guidelines)}"


def whole(messages: Sequence[Message]) -> Sequence[Message]:
    return messages


def answers(messages: Sequence[Message]) -> Sequence[Message]:
    """Of earlier turns what the user said and the reply that ended the turn."""
    last = max(place for place, message in enumerate(messages) if message.role == "user")
    follows = [*(message.role for message in messages[1:]), "user"]
    earlier = [
        message
        for message, after in zip(messages[:last], follows, strict=False)
        if message.role in ("system", "user") or (message.role == "assistant" and after == "user")
    ]
    return [*earlier, *messages[last:]]


HISTORIES: dict[str, History] = {"whole": whole, "answers": answers}


def measure(quick: bool, weights: str = "", tasks: str = "") -> list[Figure]:
    """The scores of one policy (mean progress) and how they spread."""
    config = read_config(DEMO)
    folder = Path(weights) if weights else warm_started(config)
    limits = Rollouts(max_reply_tokens=256, max_context_tokens=4096) if weights else config.rollouts
    kind: dict[str, str] = {"kind": "transformers", "dialect": "hermes"} if weights else {}
    policy = PolicySettings.model_validate({"model": str(folder), **kind})
    engine = LocalEngine.load_alone(folder, limits, Operation(threads=1), policy)
    held_out = [task for task in load_tasks(config.data, DEMO.parent) if task.split != "train"]
    held_out = held_out[: int(tasks or (8 if quick else 100))]
    prompts = _prompts(bool(weights))
    seeds = 2 if quick else SEEDS
    first = next(iter(prompts))
    cells = {
        (prompt, history): scores(
            engine, limits, prompts[prompt], HISTORIES[history], held_out, seeds
        )
        for prompt, history in product(prompts, HISTORIES)
    }
    means = {cell: fmean(found) for cell, found in cells.items()}
    trained = means[first, "whole"]
    by_prompt = [_extent([means[prompt, history] for prompt in prompts]) for history in HISTORIES]
    by_history = [_extent([means[prompt, history] for history in HISTORIES]) for prompt in prompts]
    return [
        *(
            Figure(
                f"{prompt}, {history} history: score of {len(held_out)} tasks",
                mean,
                "",
                "as trained",
                trained,
            )
            for (prompt, history), mean in means.items()
        ),
        *(
            Figure(
                f"{what}: largest less smallest, at most (and on average {fmean(found):.3f})",
                max(found),
                "",
            )
            for what, found in (
                ("three prompts", by_prompt),
                ("two histories", by_history),
                (f"{seeds} random seeds", list(map(_extent, cells.values()))),
                (
                    f"all {len(cells) * seeds} scores",
                    [_extent([one for found in cells.values() for one in found])],
                ),
            )
        ),
        Figure(
            "standard deviation between random seeds, on average",
            fmean(map(stdev, cells.values())),
            "",
        ),
    ]


def scores(
    engine: LocalEngine,
    limits: Rollouts,
    dialect: Dialect,
    history: History,
    tasks: Sequence[AnyTask],
    seeds: int,
) -> list[float]:
    """The mean progress of `tasks` by random seed, one episode each, every reply asked for with the
    history rendered anew. Seeds are played together; a draw is keyed by its episode's place, so
    each seed has draws of its own."""
    environments = Environments(Sandbox())
    jobs = []
    for task in tasks:
        environment = environments.load(task.environment.name)
        goal = goal_of(environment, task)
        jobs.append(Job(task, environment, dialect, goal, max_steps=limits.max_steps))
    asked = 0

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        nonlocal asked
        asked += 1
        key = keyed_random(0, "score spread", asked).getrandbits(63)
        needs = {place: NeedText(history(need.messages), 0, need.turn) for place, need in waiting}
        return replies(engine, needs, key)

    earned = [trace.resolved / trace.expected for trace in run_lockstep(jobs * seeds, complete)]
    return [
        fmean(earned[first : first + len(tasks)]) for first in range(0, len(earned), len(tasks))
    ]


def _prompts(other: bool) -> dict[str, Dialect]:
    """The three prompts; the first one is what the policy was trained with, where it was."""
    if other:
        return {
            "tags": dialects.load("tags"),
            "tags, resourceful": dialects.load("tags", "resourceful"),
            "hermes": dialects.load("hermes"),
        }
    return {
        "compact": Compact(),
        "compact, tools reversed": Reversed(),
        "compact, a sentence before": Introduced(),
    }


def _extent(values: Sequence[float]) -> float:
    return max(values) - min(values)


def replies(engine: LocalEngine, needs: Mapping[int, NeedText], random_seed: int) -> list[Reply]:
    """One reply for each of `needs`, whose messages are rendered whole. Draws are keyed by
    (random_seed, key in `needs`)."""
    batch = local._Batch(engine, list(needs), random_seed, greedy=False)
    batch.handed = 1
    with engine._computing():
        written = batch.complete(list(enumerate(needs.values())))
    return [reply for reply in written if reply is not None]


if __name__ == "__main__":
    run(
        measure,
        weights="a folder with a model and a chat template; default: nano",
        tasks="held-out tasks",
    )
