"""A batch as the episodes to roll out, and its samples as groups, traces and the input of an advantage hook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rods import dialects
from rods.analysis.failures import failed_calls
from rods.config import Config
from rods.environments.loading import Environments
from rods.episode.diagnosis import diagnose
from rods.episode.drivers import Job
from rods.episode.engine import Trace
from rods.episode.rewards import score
from rods.observations import EpisodeReward, Group, Rollout
from rods.players import Players
from rods.tasks import AnyTask, Task
from trainer.advantages import RolloutView, turn_spans
from trainer.policy import Batch

if TYPE_CHECKING:
    from trainer.engines.base import Sample  # imports torch


def jobs(batch: Batch, config: Config, players: Players) -> list[Job]:
    """The episodes of a batch, slot by slot, with the prompt and through the interface of its stage."""
    dialect = dialects.load(config.policy.dialect, batch.rules.prompt)
    count, interface = config.rollouts.rollouts_per_task, batch.interface
    longest = config.rollouts.max_steps
    every = [(slot, players.job(slot.task, dialect, interface=interface, max_steps=longest)) for slot in batch.slots]
    return [job for slot, job in every for job in [replace(job, head=slot.head)] * count]


def scoring_jobs(tasks: Sequence[AnyTask], config: Config, players: Players) -> list[Job]:
    """One episode a task for validation and held-out scores: the prompt of the last stage, the identity interface."""
    dialect = dialects.load(config.policy.dialect, config.curriculum.stages[-1].prompt)
    return [players.job(task, dialect, max_steps=config.rollouts.max_steps) for task in tasks]


def groups(
    batch: Batch, played: Sequence[Sequence[Trace | Rollout]], config: Config, environments: Environments
) -> list[Group]:
    """What the slots of a batch earned, of each slot what was `played` (or is a record already): rewards, the labels of
    turns, and the calls that tools refused where a stage asks for that."""
    mining = config.mines(batch.stage)
    return [
        batch.group(
            slot,
            [
                earned(one, slot.task, batch.reward, environments, mining=mining) if isinstance(one, Trace) else one
                for one in played[slot.index]
            ],
        )
        for slot in batch.slots
    ]


def by_slot(batch: Batch, samples: Sequence[Sample]) -> list[list[Trace]]:
    """The traces of a batch's samples, slot by slot."""
    count = len(samples) // len(batch.slots)
    traces = [sample.trace for sample in samples]
    return [traces[start : start + count] for start in range(0, len(traces), count)]


def earned(trace: Trace, task: AnyTask, kind: EpisodeReward, environments: Environments, *, mining: bool) -> Rollout:
    """The record of an episode: its reward by `kind`, and with `mining` its failed calls; of a task with turns of its
    own their labels, how many had a call, and how many replies they took."""
    steps = [step for turn in trace.turns for step in turn.steps]
    made = (pair for step in steps for pair in zip(step.calls, step.results, strict=True)) if mining else ()
    failures = failed_calls(made)
    if not isinstance(task, Task):  # judged at the end: what is expected are no turns
        return replace(score(trace, kind, ()), failures=failures)
    return replace(
        score(trace, kind, task.calls[trace.head :]),
        labels=diagnose(trace, task, environments.load(task.environment.name)),
        failures=failures,
        calling=sum(any(step.calls for step in turn.steps) for turn in trace.turns),
        replies=len(steps),
    )


def rollout_views(batch: Batch, recorded: Sequence[Group], samples: Sequence[Sample]) -> tuple[RolloutView, ...]:
    """The samples of a batch as an advantage hook gets them."""
    count = len(samples) // len(batch.slots)
    return tuple(
        RolloutView(
            batch.slots[index // count].task,
            batch.slots[index // count].role,
            recorded[index // count].rollouts[index % count],
            sample.trace,
            turn_spans(sample.trace, sample.spans),
            max(1, len(sample.completion_ids)),
            tuple(sample.spans),
        )
        for index, sample in enumerate(samples)
    )


def traces(batch: Batch, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """The samples of a batch as JSON objects for people, with the token spans of the replies."""
    count = len(samples) // len(batch.slots)
    return [
        {"slot": index // count, "rollout": index % count, "spans": sample.spans, **sample.trace.as_json()}
        for index, sample in enumerate(samples)
    ]
