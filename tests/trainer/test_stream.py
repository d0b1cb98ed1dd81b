"""A run as two calls: what a step has is the same whenever it is drawn, and what was earned is on
record once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

import rods
from rods.buffers.audit.verify import verify
from rods.buffers.merging import merger
from rods.buffers.run.run import Run
from rods.buffers.state import RunState, read_state
from rods.canonical import keyed_random
from rods.errors import DeadlineError, RefusedError, UserError
from rods.observations import Group, Rollout
from rods.rules.order import batch as batch_of, steps_per_epoch
from rods.trainer.adapters import conformance
from rods.trainer.adapters.conformance import CARRIED, run_beside_daemon
from rods.trainer.adapters.stream import DrawnTask, open_stream
from tests.parts import ROOT

RODS = (sys.executable, "-m", "rods.console")
CONFIG = conformance.CONFIG.replace('sync = "lockstep"', "").replace("train = 8", "train = 6")
STEPS = 8


def group(drawn: DrawnTask, resolved: int = 1) -> dict[str, Any]:
    rollouts = [{"resolved": done, "expected": drawn.task.expected} for done in (resolved, 0)]
    return {"task": drawn.task.id, "rollouts": rollouts}


def groups(batch: tuple[DrawnTask, ...], resolved: int = 1) -> list[dict[str, Any]]:
    return [group(drawn, resolved) for drawn in batch]


def fresh(tmp_path: Path, config: str = CONFIG) -> Path:
    (tmp_path / "run.toml").write_text(config)
    open_stream(tmp_path / "run", config=tmp_path / "run.toml").close()
    return tmp_path / "run"


def test_a_batch_depends_on_nothing_but_what_is_on_record(tmp_path: Path) -> None:
    path = fresh(tmp_path)
    with open_stream(path) as stream:
        first = stream.draw(1)
        assert stream.draw(1) == first == stream.draw(1, 4) and [
            drawn.place for drawn in first
        ] == [0, 1, 2, 3]
        # ahead of the first one's rewards: of six tasks, filled from the front
        second = stream.draw(2)
        assert [drawn.task.id for drawn in second[2:]] == [drawn.task.id for drawn in first[:2]]
        assert stream.observe(1, groups(first))
    with open_stream(path) as again:  # as after a kill: what was drawn ahead is drawn again
        assert (again.step, again.draw(2), again.draw(1)) == (1, second, first)
        assert again.observe(2, groups(second)) and again.step == 2
        third = again.draw(3)
        assert {drawn.epoch for drawn in first + second} == {0} and {
            drawn.epoch for drawn in third
        } == {1}
        assert again.draw(1) == first  # of an epoch that is over
        assert again.draw(3) == third
    assert verify(path).ok


def test_a_batch_may_have_any_size_and_the_next_one_begins_where_it_ends(tmp_path: Path) -> None:
    path = fresh(tmp_path)
    with open_stream(path) as stream:
        order = [drawn.task.id for drawn in stream.draw(1, 6)]
        assert len(set(order)) == 6
    with open_stream(path) as stream:
        one = stream.draw(1, 1)
        more = stream.draw(1, 2)  # further ones, as a trainer asks for that throws groups away
        assert more[:1] == one and stream.draw(1, 1) == one and stream.draw(1) == more
        two = stream.draw(2, 3)
        assert [drawn.task.id for drawn in more + two] == order[:5]
        with pytest.raises(
            RefusedError,
            match="2 tasks were drawn for step 1, not 3, and it is closed, or not the last",
        ):
            stream.draw(1, 3)
        stream.observe(1, groups(more[1:]))  # one got lost, and its place is taken all the same
        stream.observe(2, groups(two))
        three = stream.draw(3)
        assert [drawn.task.id for drawn in three] == [order[5], *order[:3]]
    for _ in range(2):
        with open_stream(path) as stream:
            assert (stream.draw(1), stream.draw(2), stream.draw(3)) == (more, two, three)
            with pytest.raises(RefusedError, match="2 tasks were drawn for step 1, not 4"):
                stream.draw(1, 4)
    with open_stream(path, from_step=1) as stream:
        # that it had three no longer counts
        assert stream.draw(2)[0] == two[0] and len(stream.draw(2)) == 4
    closed = [
        record
        for record in read_state(Run.open(path)).records("observations.jsonl")
        if record["kind"] == "step"
    ]
    assert [record["drawn"] for record in closed] == [2, 3]
    assert verify(path).ok


def test_sizes_are_known_behind_a_snapshot_too(tmp_path: Path) -> None:
    path = fresh(
        tmp_path,
        CONFIG.replace("poll_seconds = 0.05", "poll_seconds = 0.05, log_part_bytes = 4096"),
    )
    drawn = []
    with open_stream(path) as stream:
        for step in range(1, 16):
            drawn.append(stream.draw(step, 1 + step % 3))
            stream.observe(step, groups(drawn[-1]))
        following = stream.draw(16)
    with open_stream(path) as stream:
        assert stream.log.state.tail.snapshot > 0
        assert (
            stream.draw(16) == following and [stream.draw(step) for step in range(1, 16)] == drawn
        )


def test_steps_come_in_order_and_an_epoch_opens_behind_the_last_step_before_it(
    tmp_path: Path,
) -> None:
    with open_stream(fresh(tmp_path)) as stream:
        with pytest.raises(RefusedError, match="step 2 is drawn before step 1 → draw step 1 first"):
            stream.draw(2)
        with pytest.raises(RefusedError, match="step 1 was not drawn → draw it first"):
            stream.observe(1, [])
        for step, n in ((0, 1), (True, 1), (1, 0), (1, "4"), (1, 10**9), (10**30, 1)):
            with pytest.raises(UserError, match="give a whole number from 1"):
                stream.draw(step, n)  # type: ignore[arg-type]
        one = stream.draw(1)
        two = stream.draw(2)
        with pytest.raises(
            RefusedError, match="step 3 opens epoch 1, and step 1 is not closed → observe it first"
        ):
            stream.draw(3)
        with pytest.raises(RefusedError, match="step 2 does not follow step 0"):
            stream.observe(2, groups(two))
        assert stream.observe(1, groups(one)) and stream.observe(2, groups(two)) and stream.draw(3)


def test_an_identical_step_is_done_and_another_one_is_refused(tmp_path: Path) -> None:
    path = fresh(tmp_path)
    with open_stream(path) as stream:
        batch = stream.draw(1)
        given = groups(batch)
        assert stream.observe(1, given)
        assert not stream.observe(1, given[::-1])  # in whatever order they ended
    with open_stream(path) as stream:
        assert not stream.observe(1, given)
        for other in (given[1:], groups(batch, 0)):
            with pytest.raises(
                RefusedError, match=r"recorded with other contents → .* an attempt from step 0"
            ):
                stream.observe(1, other)
    with pytest.raises(
        RefusedError, match="cannot continue from step 5: the log's last live step is 1"
    ):
        open_stream(path, from_step=5)
    with open_stream(path, from_step=0) as stream:
        assert stream.draw(1) == batch and stream.observe(1, groups(batch, 0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda given: [*given, given[0]], "group 4: task '.*' is reported twice"),
        (
            lambda given: [{**given[0], "task": "unknown"}],
            "group 0: task 'unknown' was not drawn for this step",
        ),
        (lambda given: [{**given[0], "task": []}], "was not drawn for this step"),
        (lambda given: [{**given[0], "place": 3}], "at place 3 is reported twice"),
        (lambda given: [given[0], 5], "group 1: a group is 5 → give a Group, or a mapping"),
        (
            lambda given: [{**given[0], "rollouts": [{"resolved": 9, "expected": 1}]}],
            "group 0: .*impossible",
        ),
        (lambda given: [], "step 1 has no groups"),
    ],
)
def test_what_is_no_report_of_a_step_is_told_and_not_recorded(
    tmp_path: Path, change: Any, words: str
) -> None:
    with open_stream(fresh(tmp_path)) as stream:
        given = groups(stream.draw(1))
        with pytest.raises(UserError, match=words):
            stream.observe(1, change(given))
        with pytest.raises(UserError, match="policy_step is 1 in step 1"):
            stream.observe(1, given, policy_step=1)
        assert stream.step == 0 and stream.observe(1, given)


def test_a_task_that_has_two_places_is_told_apart_by_place_and_a_role_is_that_of_the_draw(
    tmp_path: Path,
) -> None:
    with open_stream(fresh(tmp_path)) as stream:
        batch = stream.draw(1, 7)
        assert batch[0].task is batch[6].task
        stream.observe(
            1,
            [
                {**group(drawn, int(drawn.place == 6)), "place": drawn.place}
                for drawn in batch[::-1]
            ],
        )
        (again,) = stream.draw(2, 1)
        solved = Rollout(again.task.expected, again.task.expected, 1, 0.0, 1.0, "finished")
        stream.observe(
            2, [Group(again.task.id, 1, "identity", "progress", (0.0, 1.0), (solved,), "retest")]
        )
        first, second = RunState(stream.run).steps()
    assert [first.groups[index].rollouts[0].resolved for index in (0, 6)] == [0, 1]
    assert [each.role for each in second.groups] == ["active"]


def test_late_groups_count_up_to_the_bound_of_staleness(tmp_path: Path) -> None:
    path = fresh(tmp_path, CONFIG + "zones = { max_staleness = 1 }\n")
    with open_stream(path) as stream:
        for step, late in ((1, 0), (2, 1), (3, 2)):
            batch = stream.draw(step, 6)
            before = stream.log.state.tracker.window(batch[0].task.id)
            counted = before.groups if before else 0
            stream.observe(step, groups(batch), policy_step=step - 1 - late)
            after = stream.log.state.tracker.window(batch[0].task.id)
            assert after is not None and after.groups == counted + (late <= 1)
    assert verify(path).ok


def test_in_lockstep_an_epoch_waits_for_the_daemon_and_says_so_until_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merger, "PATIENCE", 0.05)
    config = conformance.CONFIG.replace("deadline_seconds = 120", "deadline_seconds = 0.5")
    with structlog.testing.capture_logs() as told, open_stream(fresh(tmp_path, config)) as stream:
        for step in (1, 2):
            stream.observe(step, groups(stream.draw(step)))
        with pytest.raises(DeadlineError, match="start `rods-daemon"):
            stream.draw(3)
        assert stream.step == 2
    waits = [each for each in told if each["event"] == "waiting for the daemon"]
    assert [(each["step"], each["command"]) for each in waits] == [
        (2, f"rods-daemon {tmp_path / 'run'}")
    ]


def test_a_run_whose_epochs_nobody_can_foresee_is_refused_and_the_curriculum_has_an_end(
    tmp_path: Path,
) -> None:
    stages = '[[curriculum.stages]]\nuntil = "plateau"\n[[curriculum.stages]]\n'
    with pytest.raises(RefusedError, match="ends on a plateau"):
        fresh(tmp_path, CONFIG + stages)
    (tmp_path / "other").mkdir()
    with open_stream(
        fresh(tmp_path / "other", CONFIG + "[[curriculum.stages]]\nepochs = 1\n")
    ) as stream:
        stream.observe(1, groups(stream.draw(1, 6)))
        with pytest.raises(UserError, match="the curriculum ends before epoch 1"):
            stream.draw(2)


def earned(step: int, place: int, task: Any) -> list[Rollout]:
    chance = keyed_random(0, "rewards", step, place, task.id)
    resolved = [chance.randint(0, task.expected) for _ in range(4)]
    return [
        Rollout(one, task.expected, int(one == task.expected), 0.0, one / task.expected, "finished")
        for one in resolved
    ]


def by_stream(path: Path) -> None:
    with rods.open_stream(path) as stream:
        for step in range(1, STEPS + 1):
            drawn = stream.draw(step)
            groups = []
            for one in drawn:
                rollouts = tuple(earned(step, one.place, one.task))
                groups.append(Group(one.task.id, 1, "identity", "progress", (0.0, 1.0), rollouts))
            stream.observe(step, groups)


def by_records(path: Path) -> None:
    step = 0
    epoch = 0
    while step < STEPS:
        slots = rods.merge(path, epoch=epoch).tasks
        epoch = epoch + 1
        for index in range(min(steps_per_epoch(len(slots), 4), STEPS - step)):
            step += 1
            lines: list[dict[str, Any]] = [
                {
                    "task": task.id,
                    "role": role,
                    "rollouts": [one.as_json() for one in earned(step, place, task)],
                }
                for place, (role, task) in enumerate(batch_of(slots, 4, index))
            ]
            list(rods.observe(path, [*lines, {"end_step": step}]))


def by_training(path: Path) -> None:
    with rods.open_training(path, lambda messages: "No.") as training:
        for batch in training:
            training.record(
                batch, [earned(batch.step, slot.index, slot.task) for slot in batch.slots]
            )


@pytest.mark.slow
def test_all_ways_of_being_the_trainer_make_one_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        conformance, "CONFIG", conformance.CONFIG.replace("steps = 100", f"steps = {STEPS}")
    )
    told = []
    for way in (by_stream, by_records, by_training):
        with run_beside_daemon(tmp_path / way.__name__) as job:
            path = Path(job(STEPS).run)
            way(path)
            assert verify(path).ok
            state = RunState(Run.open(path))
            steps = [
                (step.step, step.epoch, [each.as_json() for each in step.groups])
                for step in state.steps()
            ]
            pool = [{**record, **dict.fromkeys(CARRIED)} for record in state.decisions()]
            told.append((steps, pool))
    assert told[0] == told[1] == told[2]
    assert len(told[0][0]) == STEPS and any(record["kind"] == "injected" for record in told[0][1])


def test_a_rollout_that_broke_needs_no_turns_and_a_group_takes_an_array(tmp_path: Path) -> None:
    with open_stream(fresh(tmp_path)) as stream:
        first, *others = stream.draw(1)
        broken = {
            **group(first, 1),
            "rollouts": [*group(first)["rollouts"], {"end": "infrastructure"}],
        }
        array = others[0].group(np.array([0.25, 1.0], np.float32), (-1.0, 1.0))
        stream.observe(1, [broken, array, others[1].group([None, 0.5]), others[2].group([])])
        (step,) = RunState(stream.run).steps()
        for wrong in ("lost", 0.5, [[0.5, 1.0]]):
            with pytest.raises(UserError, match=r"rewards are .* → give a list of numbers"):
                first.group(wrong)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="group 0: resolved is None"):
            stream.observe(
                2, [{"task": stream.draw(2)[0].task.id, "rollouts": [{"end": "finished"}]}]
            )
    by_task = {each.task: [(one.end, one.reward) for one in each.rollouts] for each in step.groups}
    progress = 1 / first.task.expected
    assert by_task[first.task.id] == [
        ("finished", progress),
        ("finished", 0.0),
        ("infrastructure", None),
    ]
    assert by_task[others[0].task.id] == [("finished", 0.25), ("finished", 1.0)]
    assert by_task[others[1].task.id] == [("infrastructure", None), ("finished", 0.5)]
    assert by_task[others[2].task.id] == [("infrastructure", None)]


def said(captured: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What was said on standard error; nothing was on standard output."""
    out, err = captured.readouterr()
    assert out == ""
    return [json.loads(line) for line in err.splitlines()]


def test_a_stream_says_where_it_begins_that_it_goes_back_and_where_it_ends(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = fresh(tmp_path, CONFIG)
    with open_stream(path) as stream:
        stream.observe(1, groups(stream.draw(1)))
    capfd.readouterr()
    with open_stream(path, from_step=0):
        back = said(capfd)
    closed = said(capfd)
    about = {"step": 0, "steps": stream.steps}
    assert [(each["level"], each["event"]) for each in back + closed] == [
        ("warning", "going back: the later steps no longer count"), ("info", "closed")
    ]  # fmt: skip
    assert {**back[0], **about, "attempt": 3, "on_record": 1, "key": "from_step"} == back[0]
    assert {**closed[0], **about} == closed[0]


def test_a_run_that_names_another_policy_is_told_and_status_shows_whose_it_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for kind, told in (("simulated", 1), ("external", 0)):
        (tmp_path / kind).mkdir()
        config = CONFIG.replace('"external"', f'"{kind}"')
        path = fresh(tmp_path / kind, config)
        warned = [
            each
            for each in said(capfd)
            if each["event"] == f"status and reports call this policy {kind}"
        ]
        assert [each["key"] for each in warned] == told * ['policy.kind = "external"']
        shown = subprocess.run(
            [*RODS, "status", str(path)], capture_output=True, text=True, check=True
        ).stdout
        assert re.search(rf"^  policy   {kind} .*conformance$", shown, re.MULTILINE)


def test_what_a_stream_says_goes_where_its_program_has_sent_its_events(tmp_path: Path) -> None:
    path = fresh(tmp_path)
    with structlog.testing.capture_logs() as told, open_stream(path):
        pass
    assert [each["event"] for each in told][-2:] == ["start", "closed"]


@pytest.mark.slow
def test_a_program_that_ends_without_closing_its_stream_gives_the_run_back(tmp_path: Path) -> None:
    path = fresh(tmp_path)
    code = f"import rods; stream = rods.open_stream({str(path)!r}); stream.draw(1)"
    subprocess.run([sys.executable, "-c", code], check=True)
    shown = subprocess.run(
        [*RODS, "status", str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert "trainer  stopped" in shown


def test_a_stream_needs_no_torch() -> None:
    code = (
        "import sys, rods; rods.open_stream; print([m for m in ('torch', 'transformers') if m in "
        "sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "[]\n"
    )


@pytest.mark.needs("new_world")
@pytest.mark.slow
def test_the_loop_of_the_page_is_a_whole_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "trainers.md").read_text()
    loop = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    assert len(loop.partition("with ")[2].splitlines()) <= 15
    folder = tmp_path / "library"
    subprocess.run([*RODS, "init", str(folder)], check=True)
    config = (folder / "run.toml").read_text()
    simulated = re.search(r"^\[policy\]\n.*?\n\n", config, re.MULTILINE | re.DOTALL)
    external = re.search(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert simulated is not None and external is not None
    config = config.replace(simulated[0], external[1] + "\n").replace("steps = 60", "steps = 24")
    (folder / "run.toml").write_text(config)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "rods.daemon", "runs/loop"], cwd=folder, stderr=subprocess.DEVNULL
    )
    try:
        killed = subprocess.Popen([sys.executable, "-c", loop], cwd=folder)
        own = folder / "checkpoint.json"
        while killed.poll() is None and not (own.exists() and json.loads(own.read_text())[0] >= 7):
            time.sleep(0.01)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
        subprocess.run([sys.executable, "-c", loop], cwd=folder, check=True, timeout=240)
    finally:
        daemon.terminate()
        daemon.wait()
    subprocess.run([*RODS, "verify", "runs/loop"], cwd=folder, check=True)
    state = read_state(Run.open(folder / "runs" / "loop"))
    assert state.last_step == 24 and len(state.pool.injected) > 0
    shown = subprocess.run(
        [*RODS, "status"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    assert "external policy two replies" in shown


def test_steps_beyond_the_end_are_recorded_and_warned_about_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with open_stream(fresh(tmp_path)) as stream:
        for step in range(1, stream.steps + 3):
            stream.observe(step, groups(stream.draw(step)))
        assert stream.step == stream.steps + 2
    assert "".join(capfd.readouterr()).count("the run is over") == 1


def test_a_group_in_place_of_the_list_and_a_reward_of_no_kind_are_told_what_to_do(
    tmp_path: Path,
) -> None:
    with open_stream(fresh(tmp_path)) as stream:
        batch = stream.draw(1)
        with pytest.raises(UserError, match="groups is one mapping → give a list of groups"):
            stream.observe(1, groups(batch)[0])  # type: ignore[arg-type]
        with pytest.raises(
            UserError, match=r"resolved is None; .*, unless the group has a `reward`"
        ):
            stream.observe(1, [{"task": batch[0].task.id, "rollouts": [{"reward": 0.4}]}])
    with pytest.raises(UserError, match="in Python config=FILE"):
        open_stream(tmp_path / "none")
