"""A policy in local weights, on BFCL's protocol or a training dialect: the trainer's rollout engine (torch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation.endpoint import Slot
from evaluation.episodes import Maker
from evaluation.journal import Episode
from evaluation.settings import COLDEST, Settings
from rods.canonical import keyed_random
from rods.config import Operation, Rollouts
from trainer.engines.local import LocalEngine


class WeightsPolicy:
    """Runs batches of `in_flight` episodes. Native tool calls are parsed by servers, so there are none here."""

    def __init__(self, folder: Path, maker: Maker, in_flight: int, max_context: int, operation: Operation) -> None:
        self.maker, self.in_flight = maker, in_flight
        settings: Settings = maker.settings
        limits = Rollouts(
            temperature=max(settings.temperature, COLDEST),
            top_p=settings.top_p,
            max_reply_tokens=settings.max_tokens,
            max_context_tokens=max_context,
        )
        self.engine = LocalEngine.load_alone(folder, limits, operation, "transformers")

    def run(self, slots: Sequence[Slot], done: Callable[[Episode], None], asked: Callable[[], bool]) -> None:
        """Runs `slots` and hands every finished episode to `done`. Begins no other batch when `asked` says to stop."""
        for first in range(0, len(slots), self.in_flight):
            if asked():
                return
            part = slots[first : first + self.in_flight]
            jobs = [self.maker.job(task) for task, _ in part]
            key = keyed_random(0, "evaluation", *(f"{task.id} {sample}" for task, sample in part)).getrandbits(63)
            played = self.engine.rollouts(jobs, random_seed=key, greedy=self.maker.settings.greedy)
            for job, (_, sample), one in zip(jobs, part, played, strict=True):
                if one.trace.end != "infrastructure":
                    done(self.maker.episode(job, sample, one.trace))
