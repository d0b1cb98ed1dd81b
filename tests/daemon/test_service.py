"""The service beside a trainer: what is picked when, what is dropped, how it starts, waits and
stops."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import tomli_w

from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.heartbeat import heartbeat_path
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, POOL
from rods.calls import Call
from rods.environments.base import reference
from rods.rules.tracker import Tracker
from rods.tasks import Task
from rods.worlds import desk
from tests.buffers.world import SyncDaemonLog
from tests.console.conftest import rods
from tests.daemon.runs import (
    VALUES,
    Daemon,
    Trainer,
    dying_at,
    epochs,
    idle,
    make_run,
    rejected,
    seeds,
    until,
    variants,
)
from tests.environments import load

PATIENCE = 60.0  # seconds to a stop on a busy machine; what holds it up does so for longer
ALL = ["base", "long_context", "miss_func", "miss_param"]


@pytest.mark.slow
def test_verify_finds_no_fault_beside_a_daemon_that_writes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    looks = 0
    with Daemon(run.path), Trainer(run) as trainer:
        for _ in range(4):
            trainer.play(1)
            done = False
            while not done:  # the look before the last begins while the step's seeds are written
                done = idle(run.path, trainer.step) or paused(run.path)
                assert not verify(run.path).problems
                looks += 1
    assert looks > 3


def test_variants_are_staged_injected_and_agree_with_the_rules(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Daemon(run.path) as daemon, Trainer(run) as trainer:
        for _ in range(7):
            trainer.play(1)
            until(lambda: idle(run.path, trainer.step) or paused(run.path))
        code, _, _ = daemon.stop()
    assert code == 0
    finished = {record["pick"]: record for record in seeds(run.path, "finished")}
    staged = {record["task"]["id"]: record for record in variants(run.path)}
    assert len(staged) >= 8 and all(
        one["accepted"] == [] or set(one["accepted"]) <= set(staged) for one in finished.values()
    )
    for record in staged.values():
        task = Task.from_json(record["task"])
        seed = next(one for one in seeds(run.path, "picked") if one["pick"] == record["pick"])
        assert (
            task.provenance["seed"] == seed["task"]
            and task.type == seed["type"]
            and task.split == "train"
        )
        assert 0.2 <= seed["why"]["mean"] <= 0.85 and seed["why"]["variance"] > 0
    assert sum(record["counts"]["injected"] for record in epochs(run.path)) > 0
    report = verify(run.path, replay=True)
    assert report.ok, list(report.lines())


def paused(path: Path) -> bool:
    return state(path) == "staging full"


def state(path: Path) -> str:
    beat = path / "heartbeat.daemon.json"
    return str(orjson.loads(beat.read_bytes()).get("state")) if beat.exists() else ""


def test_it_waits_for_the_run_folder_and_says_so(tmp_path: Path) -> None:
    with Daemon(tmp_path / "run") as daemon:
        said = daemon.stderr.readline()
        run = make_run(tmp_path / "run")
        with Trainer(run) as trainer:
            trainer.play(1)
            until(lambda: idle(run.path, 1))
        code, _, _ = daemon.stop()
    assert code == 0 and "waiting for the run folder" in said and "rods trainer new" in said


def test_it_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    with Daemon(tmp_path / "none") as daemon:
        daemon.stderr.readline()
        code, seconds, _ = daemon.stop(signal.SIGINT)
    assert code == 0 and seconds < PATIENCE


def test_with_a_configuration_it_makes_the_run_itself(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps({**VALUES, "data": {"tasks": "desk", "train": 8, "held_out": 4}}))
    with Daemon(tmp_path / "run", "--config", str(file)) as daemon:
        until(lambda: (tmp_path / "run" / "heartbeat.daemon.json").exists())
        daemon.stop()
    other = file.read_text().replace("train = 8", "train = 9")
    file.write_text(other)
    with Daemon(tmp_path / "run", "--config", str(file)) as daemon:
        code, errors = daemon.ended()
    assert code == 3 and "data.train: 8 → 9" in errors and "Traceback" not in errors


def test_a_second_daemon_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Daemon(run.path) as first:
        until(lambda: (run.path / "heartbeat.daemon.json").exists())
        with Daemon(run.path) as second:
            code, errors = second.ended()
        assert code == 3
        assert str(first.process.pid) in errors and "Traceback" not in errors


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_within_seconds_and_what_was_in_flight_is_done_after_a_restart(
    tmp_path: Path, number: int
) -> None:
    run = make_run(
        tmp_path / "run", {"sync": "lockstep", "selection": {"seeds_per_step": 8, "groups": [ALL]}}
    )
    with Trainer(run) as trainer:
        trainer.play(3)
        with dying_at(run.path, 1, number) as daemon:
            code, errors = daemon.ended(PATIENCE)
        assert code == 0 and "Traceback" not in errors
        assert len(seeds(run.path, "finished")) < sum(
            record["picks"] for record in seeds(run.path, "considered")
        )
        with Daemon(run.path):
            until(lambda: idle(run.path, 3))
    picks = [record["pick"] for record in seeds(run.path, "picked")]
    assert sorted(record["pick"] for record in seeds(run.path, "finished")) == sorted(picks)
    assert len({(record["pick"], record["index"]) for record in variants(run.path)}) == len(
        variants(run.path)
    )


def test_a_library_that_takes_signals_for_itself_does_not_spoil_the_end(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Daemon(run.path, program="tests.daemon.taken_signals") as daemon, Trainer(run) as trainer:
        trainer.play(1)
        until(lambda: idle(run.path, 1))
        code, _, errors = daemon.stop()
    assert code == 0, (code, errors)


def test_a_daemon_that_starts_late_picks_from_the_newest_step_only(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Trainer(run) as trainer:
        trainer.play(12)
        with Daemon(run.path):
            until(lambda: idle(run.path, 12))
    assert [record["step"] for record in seeds(run.path, "considered")] == [12]


@pytest.mark.slow
def test_a_step_number_is_never_picked_twice_however_the_trainer_rewinds(tmp_path: Path) -> None:
    # a daemon that sees every single step pauses nowhere
    run = make_run(tmp_path / "run", {"pool": {"staging_epochs": 0.0}})
    with Daemon(run.path):
        with Trainer(run) as trainer:
            trainer.play(5)
            until(lambda: idle(run.path, 5))
        considered = [record["step"] for record in seeds(run.path, "considered")]
        with Trainer(run, from_step=2) as trainer:
            for _ in range(3):
                trainer.play(1)
                time.sleep(0.1)
            assert [record["step"] for record in seeds(run.path, "considered")] == considered
            trainer.play(1)
            until(lambda: idle(run.path, 6))
    steps = [record["step"] for record in seeds(run.path, "considered")]
    assert steps == sorted(set(steps)) and steps[-1] == 6


@pytest.mark.slow
def test_when_the_trainer_is_faster_older_picks_are_dropped_with_a_reason(tmp_path: Path) -> None:
    many = {"seeds_per_step": 8, "groups": [ALL], "exclusion_steps": 0}
    run = make_run(tmp_path / "run", {"selection": many, "pool": {"staging_epochs": 0.0}})
    with Daemon(run.path), Trainer(run) as trainer:
        until(lambda: (run.path / "heartbeat.daemon.json").exists())
        trainer.play(60, pause=0.03)
        until(lambda: idle(run.path, 60))
    finished = seeds(run.path, "finished")
    dropped = [record for record in finished if record["dropped_stale"] is not None]
    assert dropped and all(
        "trainer had reached step" in record["dropped_stale"] for record in dropped
    )
    assert all(record["accepted"] == [] for record in dropped)
    assert any(record["accepted"] for record in finished)
    last = seeds(run.path, "considered")[-1]["step"]
    assert {
        record["step"] for record in finished if record["accepted"] and record["step"] >= last - 1
    }


@pytest.mark.slow
def test_in_lockstep_a_step_that_finds_staging_full_has_no_seed_however_fast_variants_are_written(
    tmp_path: Path,
) -> None:
    rules = {"staging_epochs": 0.5, "inject_fraction": 0.2}
    many = {"seeds_per_step": 4, "groups": [ALL], "exclusion_steps": 0, "max_generation": 0}
    told = []
    for workers in (1, 4):
        values = {
            "sync": "lockstep",
            "pool": rules,
            "selection": many,
            "operation": {"workers": workers},
        }
        run = make_run(tmp_path / str(workers), {**values, "training": {"steps": 12}})
        with Daemon(run.path), Trainer(run) as trainer:
            trainer.play(12)
            until(lambda: state(run.path) == "run finished")  # noqa: B023
            assert idle(run.path, 12), "no step waits for what was written before it"
        written = [record["step"] for record in variants(run.path)]
        decided = [record["step"] for record in read(run.path / POOL) if "expanded" in record]
        full = []
        for step in range(1, 13):
            staged = sum(at < step for at in written) - sum(at < step for at in decided)
            active = next(
                record["counts"]["active"]
                for record in reversed(epochs(run.path))
                if record["step"] < step
            )
            full.append(staged > 0.5 * 0.2 * active)
        considered = [record["picks"] for record in seeds(run.path, "considered")]
        assert [picks == 0 for picks in considered] == full and 2 < sum(full) < 10
        told.append([(record["pick"], record["score"]) for record in seeds(run.path, "picked")])
    assert told[0] == told[1]


@pytest.mark.slow
def test_unfinished_picks_are_stale_after_a_long_absence_and_run_again_after_a_short_one(
    tmp_path: Path,
) -> None:
    for absence, dropped in ((1, False), (4, True)):
        run = make_run(
            tmp_path / f"run{absence}", {"selection": {"seeds_per_step": 8, "groups": [ALL]}}
        )
        with Trainer(run) as trainer:
            trainer.play(1)
            with dying_at(run.path, 1) as daemon:
                assert daemon.ended()[0] == -signal.SIGKILL
            left = {record["pick"] for record in seeds(run.path, "picked")}
            left -= {record["pick"] for record in seeds(run.path, "finished")}
            assert left
            trainer.play(absence)
            with Daemon(run.path):
                until(lambda: idle(run.path, 1 + absence))  # noqa: B023
        staged = {record["pick"] for record in variants(run.path)}
        for record in seeds(run.path, "finished"):
            if record["pick"] in left and record["pick"] not in staged:
                assert (record["dropped_stale"] is not None) == dropped


def test_it_pauses_while_staging_is_full_and_goes_on_when_it_is_not(tmp_path: Path) -> None:
    few = {"seeds_per_step": 4, "groups": [ALL]}
    run = make_run(
        tmp_path / "run",
        {"pool": {"staging_epochs": 0.5, "inject_fraction": 0.2}, "selection": few},
    )
    with Daemon(run.path), Trainer(run) as trainer:
        trainer.play(1)
        until(lambda: len(variants(run.path)) > 2)  # 0.5 injections of 0.2 × 24 tasks
        until(lambda: paused(run.path))
        trainer.play(1)
        time.sleep(0.3)
        assert [record["step"] for record in seeds(run.path, "considered")] == [1]
        trainer.play(2)  # with a merge between, which injects what was staged
        until(lambda: idle(run.path, 4))
    considered = [record["step"] for record in seeds(run.path, "considered")]
    assert considered[0] == 1 and considered[-1] == 4 and 2 not in considered


def test_it_says_that_no_task_is_a_seed(tmp_path: Path) -> None:
    high = {"zones": {"boundary_low": 0.998, "boundary_high": 0.999}}
    run = make_run(tmp_path / "run", high)
    with Daemon(run.path), Trainer(run) as trainer:
        trainer.play(1)
        until(lambda: state(run.path) == "no seeds")
        assert [record["picks"] for record in seeds(run.path, "considered")] == [0]
        assert "no seeds" in rods("status", run.path).stdout


@pytest.mark.slow
def test_stages_that_do_not_expand_are_considered_without_picks(tmp_path: Path) -> None:
    stages = [{"expand": False, "epochs": 1}, {"expand": True}]
    run = make_run(tmp_path / "run", {"sync": "lockstep", "curriculum": {"stages": stages}})
    with Trainer(run, stage=1) as trainer, Daemon(run.path):
        trainer.play(3)
        until(lambda: idle(run.path, 3))
        assert [record["picks"] for record in seeds(run.path, "considered")] == [0, 0, 0]
        trainer.stage = 2
        trainer.play(1)
        until(lambda: idle(run.path, 4))
    assert seeds(run.path, "considered")[-1]["picks"] > 0


STATIC = {"static": True, "max_generated": 36, "inject_fraction": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["lockstep", "free"])
def test_a_static_pool_is_filled_from_the_boundary_of_the_opening_epoch_and_then_frozen(
    tmp_path: Path, sync: str
) -> None:
    run = make_run(tmp_path / "run", {"sync": sync, "pool": STATIC})
    with Trainer(run) as trainer, Daemon(run.path):
        trainer.play(25)
        until(lambda: idle(run.path, 25))
    boundary = boundary_of(run, 3)
    picked = seeds(run.path, "picked")
    assert {record["step"] for record in picked} == {3} and len(boundary) > 3
    assert {record["task"] for record in picked} == boundary
    counts = [record["counts"] for record in epochs(run.path)]
    assert [one["injected"] for one in counts] == [0, 36] + [0] * (len(counts) - 2) and len(
        counts
    ) >= 4
    assert [one["generated"] for one in counts[1:]] == [36] * (len(counts) - 1)
    assert not any(one["retired"] for one in counts)
    by_seed = Counter(record["pick"] for record in variants(run.path))
    # they take turns
    # of one nothing comes that the gates pass
    assert len(by_seed) >= len(boundary) - 1
    assert max(by_seed.values()) - min(by_seed.values()) <= 3
    report = verify(run.path, replay=True)
    assert report.ok, list(report.lines())


def boundary_of(run: Run, steps: int) -> set[str]:
    """The tasks at the boundary after so many steps, but for those whose rollouts all earned the
    same: they are no seeds (`selection.skip_zero_variance`)."""
    groups = [
        one
        for one in read(run.path / OBSERVATIONS)
        if one["kind"] == "group" and one["step"] <= steps
    ]
    tracker = Tracker(run.config.zones)
    tracker.apply(groups)
    earned: dict[str, set[int]] = {}
    for group in groups:
        rewards = {one["resolved"] for one in group["rollouts"]}
        earned[group["task"]] = earned.get(group["task"], set()) | rewards
    return {task for task in earned if tracker.zone(task) == "boundary" and len(earned[task]) > 1}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("sync", ["lockstep", "free"])
def test_a_static_pool_goes_on_filling_after_kills_and_comes_out_the_same(
    tmp_path: Path, sync: str
) -> None:
    pools = []
    kills: tuple[int, ...]
    for name, kills in (("calm", ()), ("killed", (1, 12, 25))):
        run = make_run(tmp_path / name, {"sync": sync, "pool": STATIC})
        with Trainer(run) as trainer:
            trainer.play(3)
            for many in kills:
                with dying_at(run.path, many) as daemon:
                    assert daemon.ended()[0] == -signal.SIGKILL
                assert len(variants(run.path)) == many and not seeds(run.path, "finished")
            with Daemon(run.path):
                trainer.play(1)
            opened = trainer.epoch
        assert opened.counts["generated"] == 36
        pools.append(sorted(slot.task_id for slot in opened.slots))
        report = verify(run.path)
        assert report.ok, list(report.lines())
    assert pools[0] == pools[1]


@pytest.mark.slow
def test_a_static_pool_is_written_once_whatever_a_rewound_trainer_does(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"pool": STATIC})
    orders = []
    with Daemon(run.path):
        for from_step in (None, 1, 4, 0):
            with Trainer(run, from_step) as trainer:
                trainer.play(5 - trainer.step)
                orders.append(trainer.epoch.order_hash)
    assert len(set(orders)) == 1 and {record["step"] for record in seeds(run.path, "picked")} == {3}
    assert len(variants(run.path)) == 36
    report = verify(run.path)
    assert report.ok, list(report.lines())


@pytest.mark.slow
def test_a_daemon_killed_while_it_finishes_a_static_pool_only_finishes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"pool": STATIC})
    with Trainer(run) as trainer:
        trainer.play(3)
        with dying_at(run.path, 20) as daemon:
            assert daemon.ended()[0] == -signal.SIGKILL
        written = [record["task"]["id"] for record in variants(run.path)]
        first = seeds(run.path, "picked")[0]["pick"]
        # finished would be the first of the picks, once all tries are over
        with SyncDaemonLog(run) as log:
            log.finished(first, list(log.state.unfinished[first].variants.values()), 0)
        with Daemon(run.path):
            trainer.play(1)
        assert trainer.epoch.counts["generated"] == len(written) < 36
    assert [record["task"]["id"] for record in variants(run.path)] == written
    report = verify(run.path)
    assert report.ok, list(report.lines())


@pytest.mark.slow
def test_a_static_pool_that_cannot_be_filled_ends_with_a_record_and_a_warning(
    tmp_path: Path,
) -> None:
    changes = {"pool": STATIC, "gates": {"max_string": 1}, "operation": {"log_level": "warning"}}
    run = make_run(tmp_path / "run", changes)
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        trainer.play(4)
        _, _, errors = daemon.stop()
    made = trainer.epoch.counts["generated"]
    assert made < 36 and "static pool incomplete" in errors and "tries in a row gave none" in errors
    assert all(
        record["why"].startswith(f"{made} of 36 variants of")
        for record in seeds(run.path, "finished")
    )
    report = verify(run.path)
    assert report.ok, list(report.lines())


@pytest.mark.slow
def test_a_static_pool_belongs_to_the_first_stage_that_expands(tmp_path: Path) -> None:
    stages = [{"expand": False, "epochs": 1}, {"epochs": 1}, {"expand": False, "epochs": 1}, {}]
    run = make_run(tmp_path / "run", {"pool": STATIC, "curriculum": {"stages": stages}})
    with Trainer(run, stage=1) as trainer, Daemon(run.path):
        for stage in (2, 3, 4):
            trainer.play(3)
            trainer.stage = stage
        trainer.play(12)
    assert {record["step"] for record in seeds(run.path, "picked")} == {6}
    injected = [record["counts"]["injected"] for record in epochs(run.path)]
    # none in a stage that does not expand
    assert injected[:4] == [0, 0, 0, 36] and not any(injected[4:])


def test_it_says_that_the_run_is_finished(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"training": {"batch_tasks": 4, "steps": 2}})
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        trainer.play(1)
        until(lambda: idle(run.path, 1))
        assert state(run.path) != "run finished"
        trainer.play(1)
        until(lambda: state(run.path) == "run finished")
        _, _, errors = daemon.stop()
    assert errors.count("the run is finished: ") == 1 and "this daemon stays" in errors
    assert errors.count('"run finished"') == 1 and idle(run.path, 2)


def test_it_leaves_when_the_trainer_has_been_gone_for_long(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", {"operation": {"poll_seconds": 0.02, "idle_exit_seconds": 0.4}}
    )
    with Trainer(run) as trainer:
        trainer.play(1)
    with Daemon(run.path) as daemon:
        code, errors = daemon.ended()
    assert code == 0 and "no living trainer" in errors
    assert idle(run.path, 1)  # not before its work was done


def test_it_stops_even_while_a_file_system_does_not_answer(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", {"operation": {"poll_seconds": 0.02, "idle_exit_seconds": 600.0}}
    )
    os.mkfifo(heartbeat_path(run.path, "trainer"))  # opening it waits for a writer that never comes
    with Daemon(run.path) as daemon:
        until(lambda: (run.path / "heartbeat.daemon.json").exists())
        time.sleep(0.2)  # it looks for the trainer now
        code, _, errors = daemon.stop()
    assert code == 0, errors


def test_an_environment_without_a_catalogue_is_finished_as_no_prompts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", tasks=toy_tasks())
    with Trainer(run) as trainer, Daemon(run.path):
        trainer.play(2)
        until(lambda: idle(run.path, 2))
    finished = seeds(run.path, "finished")
    assert finished and {record["why"] for record in finished} == {"no_prompts"}
    assert {(record["stage"], record["error"]) for record in rejected(run.path)} == {
        ("plan", "no_prompts")
    }


def toy_tasks() -> list[Task]:
    toy = load("tests.rods.toy_environment:environment")
    return [
        Task(
            reference(toy),
            "base",
            (
                f"Count the {thing} for me, all {number} of them, please.",
                "And what is the total of everything now?",
            ),
            ((Call("count", {"name": thing, "amount": number}),), (Call("total"),)),
            ("count", "total"),
        )
        for number, thing in enumerate(
            ("apples", "pears", "plums", "nuts", "figs", "dates", "limes", "kiwis"), 3
        )
    ]


def test_a_world_that_raises_costs_its_seeds_and_not_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising = reference(load("tests.daemon.raising_environment:environment"))
    good = desk.generate(7, 4, 0)
    bad = desk.generate(8, 4, 0)
    run = make_run(
        tmp_path / "run",
        tasks=[*good, *(replace(task, environment=raising, id="") for task in bad)],
    )
    monkeypatch.setenv("RAISING", "1")
    with Daemon(run.path) as daemon:
        monkeypatch.delenv("RAISING")
        with Trainer(run) as trainer:
            trainer.play(2)
            until(lambda: idle(run.path, 2))
        code, _, _ = daemon.stop()
    assert code == 0 and variants(run.path)
    broken = [
        record for record in seeds(run.path, "finished") if record["why"] == "pipeline_exception"
    ]
    assert broken and all(record["discarded"] == 1 for record in broken)
    evidence = [
        record["evidence"]
        for record in rejected(run.path)
        if record["error"] == "pipeline_exception"
    ]
    assert evidence and all("RuntimeError: a bug in" in text for text in evidence)


def test_a_full_disk_ends_it_with_one_line_and_the_same_command_continues(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Trainer(run) as trainer:
        trainer.play(1)
        # files may not grow further, as on a full disk
        with Daemon(run.path, file_bytes=15_000) as daemon:
            code, errors = daemon.ended()
        assert code == 1 and "Traceback" not in errors
        assert errors.strip().splitlines()[-1].startswith(f"rods-daemon: {run.path}")
        with Daemon(run.path):
            until(lambda: idle(run.path, 1))
    report = verify(run.path)
    assert report.ok, list(report.lines())
