"""The run object that policies drive, in one process."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog

from rods.buffers.checkpoints import MANIFEST, Checkpoints
from rods.buffers.lifecycle import fork
from rods.buffers.log.tail import read
from rods.buffers.merging import merger
from rods.buffers.run.creation import create_run
from rods.buffers.run.heartbeat import read_heartbeat
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import operation
from rods.config import Config, parse_config
from rods.console.progress import Progress
from rods.errors import DeadlineError, RefusedError, UserError
from rods.observations import Group
from rods.tasks import AnyTask
from rods.trainer import simulated, training_run
from rods.trainer.policy import Batch, TrainingStopped
from rods.trainer.simulated import SimulatedPolicy
from rods.trainer.training_run import TrainingRun
from rods.worlds import desk
from tests.environments import Late

TASKS = Late(lambda: desk.generate(3, 12, 4))


def make(folder: Path, **sections: Any) -> Run:
    values = {
        "policy": {"kind": "simulated"},
        "rollouts": {"rollouts_per_task": 4},
        "training": {"batch_tasks": 5, "steps": 100, "checkpoint_steps": 10}
        | sections.pop("training", {}),
        **sections,
    }
    config: Config = parse_config(values, where="test")
    return create_run(folder / "run", config, TASKS)


def drive(run: TrainingRun, policy: SimulatedPolicy, steps: int) -> list[tuple[Batch, list[Group]]]:
    done = []
    for _ in range(steps):
        batch = run.next_batch()
        groups = policy.groups(batch)
        run.record(batch, groups)
        policy.practise(groups)
        run.after_update()
        done.append((batch, groups))
    return done


def test_an_epoch_visits_every_task_and_its_last_batch_is_filled_from_the_front(
    tmp_path: Path,
) -> None:
    made = make(tmp_path)
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        batches = [batch for batch, _ in drive(run, policy, 6)]
    first = [slot.task.id for batch in batches[:3] for slot in batch.slots]
    assert set(first[:12]) == {task.id for task in TASKS if task.split == "train"}
    assert first[12:] == first[:3]
    assert [(batch.step, batch.epoch) for batch in batches] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 1),
        (5, 1),
        (6, 1),
    ]
    assert batches[3].order_hash != batches[0].order_hash


def test_stages_choose_types_and_reward_and_epochs_run_on(tmp_path: Path) -> None:
    stages = [
        {"types": ["base"], "reward": "format", "expand": False, "epochs": 2},
        {"types": ["base", "miss_func"], "epochs": 1},
    ]
    made = make(tmp_path, training={"batch_tasks": 3}, curriculum={"stages": stages})
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        seen = []
        while run.stopping is None:
            seen += drive(run, policy, 1)
        assert run.stopping == "finished"
    assert [(batch.epoch, batch.stage, batch.rules.reward) for batch, _ in seen] == [
        (0, 1, "format"),
        (1, 1, "format"),
        (2, 2, "progress"),
        (2, 2, "progress"),
    ]
    assert {slot.task.type for batch, _ in seen[:2] for slot in batch.slots} == {"base"}
    assert {slot.task.type for batch, _ in seen[2:] for slot in batch.slots} == {
        "base",
        "miss_func",
    }
    assert [group.range for _, groups in seen for group in groups[:1]] == [
        (0, 2),
        (0, 2),
        (0, 1),
        (0, 1),
    ]
    with TrainingRun(made) as run:
        assert run.finished  # known from the checkpoint, though `training.steps` is far


def test_a_step_is_durable_before_record_returns(tmp_path: Path) -> None:
    made = make(tmp_path)
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        batch = run.next_batch()
        run.record(batch, policy.groups(batch))
        closed = [
            record for record in read(made.path / "observations.jsonl") if record["kind"] == "step"
        ]
        assert [(record["step"], record["policy_step"], record["groups"]) for record in closed] == [
            (1, 0, 5)
        ]


def test_groups_of_other_tasks_are_refused(tmp_path: Path) -> None:
    with TrainingRun(make(tmp_path)) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        batch = run.next_batch()
        groups = policy.groups(batch)
        with pytest.raises(ValueError, match="not those of the batch"):
            run.record(batch, groups[::-1])
        run.record(batch, groups)
        with pytest.raises(ValueError, match="not the step that is due"):
            run.record(batch, groups)


def test_the_untrained_policy_is_checkpoint_0_and_later_ones_hold_the_position(
    tmp_path: Path,
) -> None:
    made = make(tmp_path)
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        drive(run, policy, 10)
        found = Checkpoints(made.path).named(run.trainer_log.live)
        skill = policy.skill
    assert [item.position.step for item in found] == [0, 10]
    position = found[1].position
    assert (position.attempt, position.epoch, position.cursor) == (1, 3, 1)
    assert position.curriculum["stage"] == 1 and position.random["order"] == 0
    assert orjson.loads((found[0].policy / "simulated.json").read_bytes())["skill"] == 0.3
    assert orjson.loads((found[1].policy / "simulated.json").read_bytes())["skill"] == skill != 0.3


def test_a_checkpoint_of_dropped_steps_is_never_resumed(tmp_path: Path) -> None:
    made = make(tmp_path)
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        drive(run, policy, 20)
        run.trainer_log.start(12)  # somebody went back, beyond the checkpoint of step 20
    with TrainingRun(made) as run:
        assert run.resumed is not None and run.resumed.position.step == 10


def test_another_order_than_the_checkpoints_is_refused(tmp_path: Path) -> None:
    made = make(tmp_path)
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        drive(run, policy, 10)
    manifest = made.path / "checkpoints" / "step_00000010.a1" / MANIFEST
    manifest.write_bytes(
        orjson.dumps({**orjson.loads(manifest.read_bytes()), "order_hash": "other"})
    )
    with TrainingRun(made) as run, pytest.raises(RefusedError, match="another order"):
        run.begin(SimulatedPolicy(run.config))


def test_a_fork_may_take_the_weights_along(tmp_path: Path) -> None:
    parent = make(tmp_path)
    with TrainingRun(parent) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        drive(run, policy, 10)
        source = Checkpoints(parent.path).newest(run.trainer_log.live)
    assert source is not None
    child = fork(parent, tmp_path / "child")
    Checkpoints(child.path).adopt(source)
    with TrainingRun(child) as run:
        taken = SimulatedPolicy(run.config)
        run.begin(taken)
        assert taken.skill == policy.skill != run.config.policy.skill
        drive(run, taken, 1)
    with TrainingRun(child) as run:
        assert run.resumed is not None and run.resumed.position.step == 0


def test_a_stop_between_batches_takes_a_checkpoint_first(tmp_path: Path) -> None:
    made = make(tmp_path)
    asked = False
    with TrainingRun(made, lambda: asked) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        drive(run, policy, 4)
        asked = True
        with pytest.raises(TrainingStopped):
            run.next_batch()
    with TrainingRun(made) as run:
        assert run.resumed is not None and run.resumed.position.step == 4


def test_a_kill_right_after_the_last_checkpoint_leaves_the_tracker_of_the_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later start writes it: the run is finished."""
    made = make(tmp_path, training={"steps": 7})
    write = Checkpoints.write

    def killed(self: Checkpoints, position: Any, save: Any) -> Any:
        written = write(self, position, save)
        if position.step == 7:
            raise KeyboardInterrupt
        return written

    monkeypatch.setattr(Checkpoints, "write", killed)
    with TrainingRun(made) as run, pytest.raises(KeyboardInterrupt):
        simulated.train(run)
    with TrainingRun(made) as run:
        assert run.finished and run.step == 7
    assert orjson.loads((made.path / "tracker.json").read_bytes())["step"] == 7


@pytest.mark.parametrize(
    ("seconds", "dear", "taken"),
    [(1e-9, 0, [0, 1, 2, 3]), (1e-9, 1e9, [0]), (0.0, 0, [0]), (600.0, 0, [0])],
)
def test_a_checkpoint_is_due_by_time_but_no_dearer_than_a_share_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, dear: float, taken: list[int]
) -> None:
    monkeypatch.setattr(training_run, "SPACING", dear)
    made = make(tmp_path, operation={"checkpoint_seconds": seconds})
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        drive(run, policy, 3)
    log = read(made.path / operation("trainer"))
    assert [int(each["folder"][5:13]) for each in log if each["kind"] == "checkpoint"] == taken


def test_a_missed_lockstep_deadline_is_told_and_an_error_after_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(merger, "PATIENCE", 0.05)
    made = make(tmp_path, sync="lockstep", operation={"deadline_seconds": 2.0})
    # another test of this process may have asked for errors alone
    bare = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    monkeypatch.setattr(merger, "log", bare)
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        drive(run, policy, 3)
        with pytest.raises(DeadlineError):
            run.next_batch()
    said = [
        line
        for line in "".join(capfd.readouterr()).splitlines()
        if "waiting for the daemon" in line
    ]
    assert len(said) == 1 and f"rods-daemon {made.path}" in said[0] and "2.0" in said[0]
    with TrainingRun(made) as run:
        assert run.resumed is not None and run.resumed.position.step == 3


def test_a_long_preparation_says_how_long_it_takes_here(tmp_path: Path) -> None:
    made = make(tmp_path)
    with TrainingRun(made) as run:
        run.preparing("warm start", 0.1)
        began, first = run._preparing or (0.0, 0.0)
        run._preparing = (began - 120.0, first)  # what was done since took two minutes, at least
        run.preparing("warm start", 0.3)
        while "left" not in (beat := read_heartbeat(made.path, "trainer")):
            time.sleep(0.05)
        assert beat["left"] >= 7 * 60
        said = Progress(made.path).preparing()
    assert said.startswith("warm start 30 %, about ") and said.endswith(" min left")


def test_a_long_preparation_can_be_stopped(tmp_path: Path) -> None:
    asked = False
    with TrainingRun(make(tmp_path), lambda: asked) as run:
        run.preparing("warm start", 0.25)
        asked = True
        with pytest.raises(TrainingStopped):
            run.preparing("warm start", 0.5)


def test_traces_are_kept_for_every_nth_step_within_their_bytes(tmp_path: Path) -> None:
    made = make(tmp_path, operation={"trace_every": 3, "trace_bytes": 300})
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        run.begin(policy)
        for _ in range(9):
            batch = run.next_batch()
            assert batch.traced == (batch.step % 3 == 1)
            run.record(
                batch,
                policy.groups(batch),
                [{"slot": 0, "text": "words " * 20}] * 3 if batch.traced else (),
            )
            run.after_update()
    kept = sorted(path.name for path in (made.path / "traces").iterdir())
    assert kept and kept[-1] == "step_00000007.a1.jsonl.gz"
    assert sum((made.path / "traces" / name).stat().st_size for name in kept) <= 300


AT_ONCE = {"plateau_epochs": 1, "plateau_after": 1}  # a plateau is one epoch


def test_a_plateau_of_the_validation_score_ends_a_stage_at_the_same_epoch_stopped_or_not(
    tmp_path: Path,
) -> None:
    stages = [{"until": "plateau", "expand": False}, {"expand": False}]
    settings = {
        "training": {"batch_tasks": 4, "steps": 40, "checkpoint_steps": 1},
        "policy": {"kind": "simulated", "skill": 0.6, "growth": 0.1},
        "curriculum": {"stages": stages, "plateau": 0.05, **AT_ONCE},
    }
    orders = []
    for name, limits in (("whole", [0]), ("parted", [7, 5, 0])):
        made = make(tmp_path / name, **settings)
        for limit in limits:
            operation = made.config.operation.model_copy(update={"step_limit": limit})
            again = Run.open(made.path, made.config.model_copy(update={"operation": operation}))
            with TrainingRun(again) as run:
                simulated.train(run)
        orders.append(
            {
                one["epoch"]: one["stage"]
                for one in read(made.path / "pool.jsonl")
                if one["kind"] == "epoch"
            }
        )
    assert orders[0] == orders[1]
    reached = [orders[0][epoch] for epoch in sorted(orders[0])]
    assert reached[:2] == [1, 1] and reached[-1] == 2 and reached.count(1) > 2


def test_a_plateau_needs_validation_tasks(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no task has the split 'validation'"):
        create_run(
            tmp_path / "run",
            parse_config(
                {
                    "policy": {"kind": "simulated"},
                    "training": {"batch_tasks": 2},
                    "curriculum": {"stages": [{"until": "plateau"}]},
                },
                where="test",
            ),
            [task for task in TASKS if task.split == "train"],
        )


def test_a_stage_on_record_stands_when_validation_comes_out_otherwise_after_a_kill(
    tmp_path: Path,
) -> None:
    """As it may on a GPU: the kill came between the merge and the next checkpoint."""
    stages = [{"until": "plateau", "expand": False}, {"epochs": 1}]
    made = make(
        tmp_path,
        training={"batch_tasks": 6, "checkpoint_steps": 2},
        curriculum={"stages": stages, **AT_ONCE},
    )

    class Moody(SimulatedPolicy):
        scores = iter((0.5, 0.5, 0.9))

        def validate(self, tasks: Sequence[AnyTask]) -> list[float | None]:
            return [next(self.scores)]

    with TrainingRun(made) as run:
        policy = Moody(run.config)
        run.begin(policy)
        drive(run, policy, 4)  # two epochs
        assert run.next_batch().stage == 2  # 0.5 → 0.5, and never recorded
    with TrainingRun(made) as run:
        assert run.resumed is not None and run.resumed.position.step == 4
        policy = Moody(run.config)
        run.begin(policy)
        assert run.next_batch().stage == 2  # though 0.5 → 0.9
    with pytest.raises(StopIteration):
        next(Moody.scores)


@pytest.mark.parametrize("checkpoint_steps", [3, 10])
def test_the_end_of_the_last_plateau_is_remembered(tmp_path: Path, checkpoint_steps: int) -> None:
    """Also where the step has its checkpoint already: another start could validate otherwise."""
    training = {"batch_tasks": 4, "checkpoint_steps": checkpoint_steps}
    made = make(
        tmp_path,
        training=training,
        curriculum={"stages": [{"until": "plateau", "expand": False}], **AT_ONCE},
    )

    class Still(SimulatedPolicy):
        def validate(self, tasks: Sequence[AnyTask]) -> list[float | None]:
            return [0.5]

    with TrainingRun(made) as run:
        policy = Still(run.config)
        run.begin(policy)
        with pytest.raises(TrainingStopped, match="finished"):
            drive(run, policy, 60)
        last = run.step
    assert last == 6  # two epochs
    with TrainingRun(made) as run:
        assert (
            run.finished and run.step == last and run.resumed is not None and run.resumed.intact()
        )
