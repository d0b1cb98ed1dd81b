"""What was played of a batch as groups, as traces, and as the input of an advantage hook."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rods.canonical import Json, JsonMapping, JsonObject
from rods.config import Config
from rods.episode.diagnosis import diagnose
from rods.episode.engine import Trace
from rods.episode.rewards import score
from rods.extension import Door
from rods.observations import EpisodeReward, Group, Rollout
from rods.players import Players
from rods.tasks import AnyTask, Task
from rods.trainer.advantages import RolloutView, turn_spans
from rods.trainer.policy import Batch

if TYPE_CHECKING:
    from rods.trainer.engines.base import Sample  # imports torch

T = TypeVar("T")
# further fields of the record of an episode, in a stage (from 1) of a run (000)
EPISODE_FIELDS: Door[Callable[[Trace, Config, int], JsonMapping]] = Door("episode_fields")


def groups(
    batch: Batch, played: Sequence[Sequence[Trace | Rollout]], config: Config, players: Players
) -> list[Group]:
    """The group of each slot of a batch, from the episodes `played` there: rewards, labels of
    turns, and what features add. An episode that is a record already is taken as it is."""

    def record(episode: Trace | Rollout, task: AnyTask) -> Rollout:
        if isinstance(episode, Rollout):
            return episode
        added = dict[str, Json]()
        for fields in EPISODE_FIELDS:
            added |= fields(episode, config, batch.stage)
        return rollout_record(episode, task, batch.rules.reward, players, added)

    return [
        batch.group(slot, [record(episode, slot.task) for episode in episodes])
        for slot, episodes in zip(batch.slots, played, strict=True)
    ]


def by_slot(batch: Batch, played: Sequence[T]) -> list[Sequence[T]]:
    """What was played of a batch, in the order of `Players.jobs`: a sequence for each slot."""
    size = len(played) // len(batch.slots)
    return [played[start : start + size] for start in range(0, len(played), size)]


def rollout_record(
    trace: Trace,
    task: AnyTask,
    kind: EpisodeReward,
    players: Players,
    fields: JsonMapping | None = None,
) -> Rollout:
    """The record of an episode: its reward by `kind`, and the `fields` of features. Where the
    task has turns of its own, also their labels, how many made a call, and how many replies."""
    replies = [reply for turn in trace.turns for reply in turn.steps]
    if not isinstance(task, Task):  # an open task: judged at its end, not turn by turn
        return replace(score(trace, kind, ()), added=fields or {})
    return replace(
        score(trace, kind, task.calls),
        labels=diagnose(trace, task, players.environments.load(task.environment.name)),
        added=fields or {},
        calling=sum(any(step.calls for step in turn.steps) for turn in trace.turns),
        replies=len(replies),
    )


def rollout_views(
    batch: Batch, groups: Sequence[Group], samples: "Sequence[Sample]"
) -> tuple[RolloutView, ...]:
    """The samples of a batch as an advantage hook gets them, without those of groups that were
    replaced."""
    views = []
    for slot, group, played in zip(batch.slots, groups, by_slot(batch, samples), strict=True):
        for rollout, sample in () if group.replaced else zip(group.rollouts, played, strict=True):
            trace = sample.trace
            replies = tuple(sample.spans)
            tokens = max(1, len(sample.completion_ids))
            turns = turn_spans(trace, replies)
            views.append(RolloutView(slot.task, slot.role, rollout, trace, turns, tokens, replies))
    return tuple(views)


def traces(batch: Batch, samples: "Sequence[Sample]") -> list[JsonObject]:
    """The samples of a batch as JSON objects for people, with the token spans of the replies."""
    return [
        {"slot": slot, "rollout": index, "spans": sample.spans, **sample.trace.as_json()}
        for slot, played in enumerate(by_slot(batch, samples))
        for index, sample in enumerate(played)
    ]
