"""Tasks with a played user, through a whole run: rolled out, recorded, steered by, inspected, and
checked again."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.calls import Call
from rods.config import parse_config
from rods.conversations import Rubric, Script
from rods.daemon.watching import Watch
from rods.episode.drivers import run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.errors import UserError
from rods.family.page.inspect import inspect
from rods.tasks import AnyTask, OpenTask, Task
from rods.trainer import batches
from rods.trainer.simulated import SimulatedPolicy
from rods.trainer.training_run import TrainingRun
from rods.worlds import desk
from tests.rods.episode.test_open_episodes import ASK, DONE, FIND, GOOD, TAGS, TASK, WHICH, WRONG

BAD = [ASK, FIND, WHICH, WRONG, DONE]
PLAYED = replace(TASK, id="")
SCRIPTED = [task for task in desk.generate(3, 12, 0) if task.type == "base"][:1]


def made(folder: Path, tasks: Sequence[AnyTask], **stage: object) -> Run:
    values = {
        "policy": {"kind": "simulated", "dialect": "tags"},
        "rollouts": {"rollouts_per_task": 2},
        "training": {"batch_tasks": len(tasks), "steps": 3, "checkpoint_steps": 1},
        "operation": {"trace_every": 1},
        "curriculum": {"stages": [stage]},
    }
    return create_run(folder / "run", parse_config(values, where="test"), tasks)


def trained(run: Run, steps: int = 2) -> None:
    """Every group of the persona's has one rollout that pays the bill as it is asked, and one that
    takes the wrong account; whatever else is asked is answered without a call."""
    with TrainingRun(run) as training:
        training.begin(SimulatedPolicy(run.config))
        for _ in range(steps):
            batch = training.next_batch()
            given = run.players.jobs(batch.tasks, run.config, batch.rules, batch.interface)
            left = [
                iter((GOOD, BAD)[place % 2] if job.task.id == PLAYED.id else [DONE] * 9)
                for place, job in enumerate(given)
            ]

            def complete(waiting: Sequence[tuple[int, NeedText]], left: list = left) -> list[Reply]:
                return [Reply(next(left[place])) for place, _ in waiting]

            traces = run_lockstep(given, complete)
            played = [traces[start : start + 2] for start in range(0, len(traces), 2)]
            groups = batches.groups(batch, played, run.config, run.players)
            kept = [
                {"slot": place // 2, "rollout": place % 2, **one.as_json()}
                for place, one in enumerate(traces)
            ]
            training.record(batch, groups, kept if batch.traced else ())
            training.after_update()


def test_a_run_with_a_played_user_is_steered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path, [PLAYED, *SCRIPTED])
    trained(run)
    state = read_state(run)
    window = state.tracker.window(PLAYED.id)
    assert window is not None and (window.mean, window.zone, window.count) == (0.75, "boundary", 2)
    found = verify(run.path, replay=True)
    assert not found.problems and found.counts["judged episodes"] == 4
    inspect(run.path, PLAYED.id)
    shown = capsys.readouterr().out
    for line in (
        "user: Please pay a bill for me.",
        "wants: Pay the bill of falcon",
        "knows vendor: It is the one of",
    ):
        assert line in shown
    assert "check     account_holds(account='cash', amount=40)" in shown
    watch = Watch(run)
    watch.look(0)
    assert set(watch.active) == {SCRIPTED[0].id}  # nothing writes variants of the other


def test_a_trace_that_was_changed_is_found(tmp_path: Path) -> None:
    run = made(tmp_path, [PLAYED])
    trained(run, 1)
    (file,) = (run.path / "traces").glob("step_*.gz")
    good, bad = (orjson.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines())
    better = {**bad, "outcome": {**bad["outcome"], "passed": 2, "notes": []}, "resolved": 2}
    file.write_bytes(gzip.compress(orjson.dumps(good) + b"\n" + orjson.dumps(better) + b"\n"))
    told = "\n".join(map(str, verify(run.path, replay=True).problems))
    assert "it resolved 1 of 2, its trace 2 of 2" in told
    assert Trace.from_json(better).resolved == 2


def test_what_cannot_be_trained_on_is_refused_with_the_task(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=f"goal of task {PLAYED.id} fails: the reward toolrl compares calls"
    ):
        made(tmp_path, [PLAYED], reward="toolrl")
    checked = replace(PLAYED, state={}, id="")
    # nothing is paid there, so the checks do not hold
    assert [*made(tmp_path, [checked]).tasks] == [checked]
    rubric = replace(PLAYED, user=Script(("Hello.",)), goal=Rubric(("It is polite.",)), id="")
    run = made(tmp_path / "judged", [rubric])
    with pytest.raises(UserError, match=r"cannot be judged without a model|nothing here judges"):
        trained(run, 1)


def test_the_run_folder_holds_the_task_as_it_was_given(tmp_path: Path) -> None:
    run = made(tmp_path, [PLAYED, *SCRIPTED])
    again = Run.open(run.path)
    assert [*again.tasks] == [PLAYED, *SCRIPTED]
    assert isinstance(again.tasks[0], OpenTask) and isinstance(again.tasks[1], Task)
    assert Call("bill_is_paid", {"bill": "i13"}) in again.tasks[0].goal_calls
    assert TAGS.name == run.config.policy.dialect
