"""A schedule of others' tasks, by its two calls and its log."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from pydantic import ValidationError

from rods.buffers.log.record_bytes import record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.commands import run
from rods.console.main import application
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_USER, CorruptLogError, RefusedError, UserError
from rods.family.schedule.rows import ScheduledTask
from rods.family.schedule.schedule import LOG, Schedule, open_schedule
from rods.family.schedule.standings import Rules

FEW = Rules(batch_tasks=4, window=6)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Twenty prompts of two domains: even ones are sums, odd ones are not."""
    file = tmp_path / "prompts.jsonl"
    rows = [
        {"prompt": f"What is {number} and {number}?", "domain": ("sums", "words")[number % 2]}
        for number in range(20)
    ]
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return file


def shown(*arguments: object) -> int:
    return run(application(), ["trainer", "schedule", *map(str, arguments)])


def earned(step: int, batch: Sequence[ScheduledTask]) -> dict[str, list[float]]:
    """What a policy earns that learns a bit each step, by chance."""
    rng = random.Random(step)
    return {task.id: [float(rng.random() < step / 20) for _ in range(4)] for task in batch}


def steps(schedule: Schedule, last: int) -> list[list[str]]:
    """Trains up to step `last`; the ids of each batch."""
    drawn = []
    for step in range(schedule.step + 1, last + 1):
        batch = schedule.draw(step)
        drawn.append([task.id for task in batch])
        schedule.observe(step, earned(step, batch))
    return drawn


def test_a_batch_has_rows_of_the_source_each_once(prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        batch = schedule.draw(1)
        assert len({task.id for task in batch}) == 4
        assert all(task.row["prompt"].startswith("What is") for task in batch)
        assert all(task.domain == task.row["domain"] for task in batch)
        assert schedule.draw(1) == batch
        assert len(schedule.draw(2, 20)) == 20  # what is under way is drawn where nothing else is


def test_the_same_rewards_are_the_same_draws_and_the_log_says_so(
    prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = []
    for name in ("one", "two"):
        with open_schedule(tmp_path / name, prompts, FEW) as schedule:
            batches.append(steps(schedule, 12))
    assert batches[0] == batches[1]
    assert (tmp_path / "one" / LOG).read_bytes() == (tmp_path / "two" / LOG).read_bytes()
    assert shown(tmp_path / "one", "--replay") == EXIT_OK
    assert "each draw follows from the log" in capsys.readouterr().out
    with open_schedule(
        tmp_path / "other", prompts, FEW.model_copy(update={"random_seed": 1})
    ) as other:
        assert steps(other, 12) != batches[0]


def test_a_kill_at_any_record_changes_no_draw(prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "whole", prompts, FEW) as schedule:
        batches = steps(schedule, 6)
    lines = (tmp_path / "whole" / LOG).read_bytes().splitlines(keepends=True)
    for kept in range(len(lines)):
        folder = tmp_path / f"cut{kept}"
        folder.mkdir()
        torn = b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2]
        (folder / LOG).write_bytes(torn)
        with open_schedule(folder, prompts, FEW) as schedule:
            assert steps(schedule, 6) == batches[schedule_step(lines[:kept]) :]
        assert (folder / LOG).read_bytes() == b"".join(lines)


def schedule_step(lines: Sequence[bytes]) -> int:
    return sum(b'"kind":"rewarded"' in line for line in lines)


TRAINER = """
import os, signal, sys
from pathlib import Path
from rods.family.schedule.schedule import open_schedule
from tests.family.schedule.test_schedule import FEW, earned
with open_schedule(sys.argv[1], sys.argv[2], FEW) as schedule:
    for step in range(schedule.step + 1, 5):
        batch = schedule.draw(step)
        if step == 3 and not Path(sys.argv[3]).exists():
            Path(sys.argv[3]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        schedule.observe(step, earned(step, batch))
"""


def test_a_killed_trainer_goes_on_between_draw_and_observe(prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "whole", prompts, FEW) as schedule:
        steps(schedule, 4)
    argv = [sys.executable, "-c", TRAINER, str(tmp_path / "s"), str(prompts), str(tmp_path / "k")]
    ends = [subprocess.run(argv, check=False).returncode for _ in range(2)]
    assert ends == [-signal.SIGKILL, 0]
    assert (tmp_path / "s" / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()


def test_a_trainer_that_goes_back_draws_the_same_again(
    prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        batches = steps(schedule, 8)
    with open_schedule(tmp_path / "s", prompts, FEW, from_step=5) as schedule:
        assert schedule.step == 5
        assert steps(schedule, 8) == batches[5:]
    assert shown(tmp_path / "s", "--replay", "--json") == EXIT_OK
    assert json.loads(capsys.readouterr().out)["step"] == 8
    with pytest.raises(RefusedError, match="step 9 has no rewards"):
        open_schedule(tmp_path / "s", prompts, FEW, from_step=9)
    open_schedule(tmp_path / "s", prompts, FEW).close()  # and what was refused holds nothing


def test_a_trainer_goes_back_to_a_step_whose_rewards_were_lost(
    prompts: Path, tmp_path: Path
) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        batches = [schedule.draw(step) for step in (1, 2, 3)]
        schedule.observe(1, earned(1, batches[0]))
        schedule.observe(3, earned(3, batches[2]), policy_step=1)
    with open_schedule(tmp_path / "s", prompts, FEW, from_step=2) as schedule:
        assert schedule.draw(2) == batches[1]
        schedule.observe(3, earned(3, schedule.draw(3)))
    for beyond in (4, -1):
        with pytest.raises(RefusedError, match="no rewards on record → go back to one from 0 to 3"):
            open_schedule(tmp_path / "s", prompts, FEW, from_step=beyond)


def test_a_step_drawn_ahead_is_on_record_as_it_was(prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        first = schedule.draw(1)
        ahead = schedule.draw(2)
        assert not {task.id for task in first} & {task.id for task in ahead}
        schedule.observe(1, earned(1, first))
        assert schedule.draw(2) == ahead
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        assert schedule.draw(2) == ahead
        assert schedule.observe(2, earned(2, ahead), policy_step=0)
    assert shown(tmp_path / "s", "--replay") == EXIT_OK


def test_a_draw_that_does_not_follow_is_found(
    prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("rods.family.schedule.standings.SHARPNESS", 30)
        with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
            steps(schedule, 12)
    assert shown(tmp_path / "s", "--replay") == EXIT_FAILED


def test_rewards_are_taken_once_and_bad_ones_not_at_all(prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        batch = schedule.draw(1)
        name = batch[0].id
        refused: list[tuple[Mapping[str, Sequence[object]], type[UserError], str]] = [
            ({"nobody": [1.0]}, UserError, "was not drawn"),
            ({name: [1.5]}, UserError, "outside its range"),
            ({name: [float("nan")]}, UserError, f"task {name}"),
            ({name: ["x"]}, UserError, f"task {name}"),
            ({name: ["1", "0"]}, UserError, "must be real number, not str"),
            ({name: "10"}, UserError, f"task {name}"),
            ([1.0], UserError, "rewards are a list"),  # type: ignore[list-item]
        ]
        for rewards, kind, words in refused:
            with pytest.raises(kind, match=words):
                schedule.observe(1, rewards)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="policy_step is 1"):
            schedule.observe(1, {name: [1.0]}, policy_step=1)
        with pytest.raises(RefusedError, match="step 2 was not drawn"):
            schedule.observe(2, {name: [1.0]})
        with pytest.raises(RefusedError, match="step 3 is not next"):
            schedule.draw(3)
        assert schedule.draw(1, 5) == batch
        with pytest.raises(UserError, match="21 tasks of 20"):
            schedule.draw(2, 21)
        assert schedule.step == 0
        assert schedule.observe(1, {name: [1, 0.5, None]})
        assert not schedule.observe(1, {name: [1.0, 0.5, None]})
        with pytest.raises(RefusedError, match="other rewards"):
            schedule.observe(1, {name: [0.0, 0.5, None]})
        assert schedule.history.standings.tasks[name].groups[0].valid == 2


def test_a_reward_is_beyond_its_range_by_no_rounding_of_floats(
    prompts: Path, tmp_path: Path
) -> None:
    total = np.float32(0)
    for weight in (0.05, 0.6, 0.15, 0.2):  # of four reward functions that give 1
        total += np.float32(weight)
    assert total > 1
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        name = schedule.draw(1)[0].id
        with pytest.raises(UserError, match="outside its range"):
            schedule.observe(1, {name: [1.000001]})
        schedule.observe(1, {name: [float(total), 1.0, 1.0, -1e-9]})
        assert schedule.history.standings.tasks[name].groups[0].mean == 750_000


@pytest.mark.parametrize("wrong", ["1", 1.0, [1], np.float64(1)])
def test_what_is_no_integer_is_named(wrong: Any, prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        schedule.draw(1)
        calls: list[tuple[str, Callable[[], object]]] = [
            ("step", lambda: schedule.draw(wrong)),
            ("n", lambda: schedule.draw(2, wrong)),
            ("step", lambda: schedule.observe(wrong, {})),
            ("policy_step", lambda: schedule.observe(1, {}, wrong)),
        ]
        for name, call in calls:
            with pytest.raises(UserError, match=f"^{name} is .* → give an integer"):
                call()
    with pytest.raises(UserError, match=r"^from_step"):
        open_schedule(tmp_path / "s", prompts, FEW, from_step=wrong)


def test_steps_and_rewards_may_be_numpys(prompts: Path, tmp_path: Path) -> None:
    one: Any = np.int64(1)
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        batch = schedule.draw(one, np.int64(2))  # type: ignore[arg-type]
        assert len(batch) == 2
        assert schedule.observe(one, {batch[0].id: np.array([1, 0])}, np.int64(0))  # type: ignore
        assert not schedule.observe(1, {batch[0].id: [1.0, 0.0]})
    with open_schedule(tmp_path / "s", prompts, FEW, from_step=one) as schedule:
        assert schedule.step == 1


def test_a_log_that_begins_with_no_rules_is_named(
    prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(LogWriter(tmp_path / LOG)) as log:
        log.append([record("start", attempt=1, from_step=0)])
    with pytest.raises(CorruptLogError, match="no rules"):
        open_schedule(tmp_path, prompts, FEW)
    assert shown(tmp_path) == EXIT_USER
    assert "schedule.jsonl, record 1: start says what cannot be" in capsys.readouterr().err


def test_a_group_of_which_most_broke_says_nothing(prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        batch = schedule.draw(1)
        schedule.observe(1, {batch[0].id: [0.0, None, None], batch[1].id: [], batch[2].id: [None]})
        assert not any(each.step for each in schedule.history.standings.tasks.values())


def test_other_rules_tasks_and_owners_are_refused(prompts: Path, tmp_path: Path) -> None:
    with open_schedule(tmp_path / "s", prompts, FEW) as schedule:
        steps(schedule, 2)
        with pytest.raises(RefusedError, match="is being written by"):
            open_schedule(tmp_path / "s", prompts, FEW)
    with pytest.raises(RefusedError, match="other rules"):
        open_schedule(tmp_path / "s", prompts, FEW.model_copy(update={"window": 7}))
    with pytest.raises(RefusedError, match="other rules, or of other tasks"):
        open_schedule(tmp_path / "s", [{"prompt": "another"}], FEW)
    with pytest.raises(ValidationError, match="targe"):
        Rules(targe=0.5)  # type: ignore[call-arg]
    with pytest.raises(UserError, match="no task is of the domain 'chess'"):
        open_schedule(tmp_path / "t", prompts, Rules(shares={"chess": 0.5}))
    assert shown(tmp_path / "none") == EXIT_USER
    assert [each["kind"] for each in read(tmp_path / "s" / LOG)][:2] == ["schedule", "scheduled"]
