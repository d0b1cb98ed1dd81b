"""Whether ground truths fit the policy's context, by the policy's own tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rods.config import Config, parse_config
from rods.dialects.tags import Hermes
from rods.episode.drivers import Job, ground_truth, run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.episode.goals import goal_of
from rods.faults import Reason
from rods.gates.ground_truth import Room
from rods.tasks import Task
from tests.environments import desk_tasks, load
from tests.word_tokenizer import write_word_tokenizer


def settings(folder: Path, most: int, **policy: Any) -> Config:
    values = {
        "policy": {"kind": "transformers", "model": str(folder), "dialect": "hermes", **policy},
        "rollouts": {"max_context_tokens": most},
    }
    return parse_config(values, where="test")


def words(task: Task) -> list[int]:
    """The words of the whole conversation by the end of each turn."""
    job = Job(task, load("desk"), Hermes(), goal_of(load("desk"), task))
    ends: dict[int, int] = {}
    for need, reply in ground_truth(job):
        said = [message.content for message in need.messages]
        ends[need.turn] = sum(len(text.split()) for text in (*said, reply))
    return list(ends.values())


@pytest.fixture(scope="module")
def task() -> Task:
    return next(task for task in desk_tasks(7, 12, 4) if len(task.calls) > 2 and all(task.calls))


def test_the_ground_truths_episode_is_resolved_in_every_turn(task: Task) -> None:
    job = Job(task, load("desk"), Hermes(), goal_of(load("desk"), task))
    replies = [reply for _, reply in ground_truth(job)]
    assert len(replies) == 2 * len(task.calls), "the calls of a turn in one reply, then an answer"

    def complete(waiting: Any) -> list[Reply]:
        assert all(isinstance(need, NeedText) for _, need in waiting)
        return [Reply(replies.pop(0)) for _ in waiting]

    (trace,) = run_lockstep([job], complete)
    assert trace.resolved == trace.expected and trace.end == "finished"


def test_a_ground_truth_that_has_no_room_is_refused_with_the_turn(
    tmp_path: Path, task: Task
) -> None:
    folder = write_word_tokenizer(tmp_path / "model")
    ends = words(task)

    def reasons(most: int) -> list[Reason]:
        room = Room.of(settings(folder, most))
        assert room is not None
        return room.reasons(load("desk"), task)

    assert reasons(ends[-1]) == []
    (reason,) = reasons(ends[-1] - 1)
    assert reason.turn == len(ends) - 1 and f"{ends[-1]:,} tokens" in str(reason)
    (reason,) = reasons(ends[0])
    assert reason.turn == 1


def test_given_tasks_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    folder = write_word_tokenizer(tmp_path / "model")
    tasks = [task for task in desk_tasks(7, 12, 4) if task.split == "train"]
    sizes = sorted(words(task)[-1] for task in tasks)
    least, most = Room.of(settings(folder, sizes[0])), Room.of(settings(folder, sizes[-1]))
    assert least is not None and most is not None
    assert most.cramped(tasks, load) == ""
    over = sum(size > sizes[0] for size in sizes)
    assert f"the ground truths of {over} of {len(tasks)} training tasks" in least.cramped(
        tasks, load
    )


def test_where_nobody_can_count_nothing_is_refused(tmp_path: Path) -> None:
    assert Room.of(settings(tmp_path / "elsewhere", 16)) is None
    (tmp_path / "tokenizer.json").write_text("{}")
    assert Room.of(settings(tmp_path, 16)) is None
    nano = replace_policy(settings(tmp_path, 16))
    assert Room.of(nano) is None


def replace_policy(config: Config) -> Config:
    return config.model_copy(update={"policy": parse_config({}, where="test").policy})
