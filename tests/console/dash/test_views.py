"""What the page is told: the numbers of the other readers, by cursors that mean the same to every
server."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import tomllib
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from docs.generate.recorded_run import core
from rods.buffers.log.record_bytes import record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import (
    CONFIG,
    EXPANDED,
    MANIFEST,
    OBSERVATIONS,
    POOL,
    REJECTED,
    usage,
)
from rods.buffers.state import RunState, read_state
from rods.buffers.trainer_log import TrainerLog
from rods.console.events import PROCESSES
from rods.errors import RodsError, UserError
from rods.family.page.dash import unpacked
from rods.family.page.follower import Follower
from rods.family.page.page_file import export_page
from rods.family.page.server import Registry
from rods.faults import LABELS, Gate
from rods.rules.zones import ZONES, moments, zone_of
from tests.console.conftest import rods
from tests.console.test_report import seeds
from tests.console.test_verbs import said_json
from tests.daemon.runs import until
from tests.records import filled
from tests.trainer.runs import command, write_config


def ask(path: Path, view: str, **query: object) -> Any:
    """The answer of a server that has just been started, once it has read the history."""
    registry = Registry([path])
    with registry.follower("latest").whole():
        pass
    return json.loads(
        json.dumps(
            registry.answer("latest", view, {key: str(value) for key, value in query.items()})
        )
    )


def test_status_is_what_rods_status_says(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said_json(capsys, "status", finished_run)
    found = ask(finished_run, "status")
    del told["run"]
    assert {name: found[name] for name in told} == told
    assert found["condition"] == "finished"


def test_the_first_view_has_held_out_progress_once_both_ends_are_scored(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    shutil.rmtree(run / "eval", ignore_errors=True)
    assert ask(run, "status")["heldout"] is None
    scores = said_json(capsys, "trainer", "score", run)
    assert ask(run, "status")["heldout"]["difference"] == scores["difference"]


def test_variety_is_of_the_active_variants(finished_run: Path) -> None:
    active = read_state(Run.open(finished_run)).active.values()
    told = ask(finished_run, "status")["variety"]
    generations = Counter(str(member.generation) for member in active if member.generated)
    assert {name: row["variants"] for name, row in told["generations"].items()} == generations
    assert generations and all(0 <= row["alike"] <= 1 for row in told["generations"].values())


def test_steps_and_groups_are_those_on_record(finished_run: Path) -> None:
    run = Run.open(finished_run)
    active = read_state(run).active
    counted = Counter[tuple[int, str]]()
    told = []
    for one in RunState(run).steps():
        for group in one.groups:
            found = moments(group, "progress")
            assert found is not None
            counted[one.step, zone_of(found.mean, run.config.zones)] += 1
            told += [(group.task, found.mean)] if group.task in active else []
    columns = ask(finished_run, "steps")["columns"]
    assert columns["step"] == list(range(1, 15))
    for zone in ZONES:
        assert columns[zone] == [counted[step, zone] for step in columns["step"]]
    dots = ask(finished_run, "boundary")["dots"]
    latest = dict(told)
    assert {dot[0]: dot[1] for dot in dots} == {task: latest[task] for task in latest}


def test_a_cursor_goes_on_where_it_stood_whoever_answers(finished_run: Path) -> None:
    whole = ask(finished_run, "steps")
    seqs = Follower(finished_run)
    with seqs.whole():
        seventh = int(seqs.steps["seq"][6])
    rest = ask(finished_run, "steps", after=f"1.{seventh}")
    assert rest["columns"]["step"] == whole["columns"]["step"][7:] and not rest["reset"]
    again = ask(finished_run, "steps", after=whole["cursor"])
    assert again["columns"]["step"] == [] and again["cursor"] == whole["cursor"]
    with pytest.raises(UserError, match="no cursor"):
        ask(finished_run, "steps", after="yesterday")


def test_a_reader_who_stayed_knows_what_one_who_comes_now_does(
    finished_run: Path, run_copy: Path
) -> None:
    """From a reader who came after step 9, when variants that are in the pool now were not
    there."""
    for name in (OBSERVATIONS, POOL):
        lines = (finished_run / name).read_bytes().splitlines(keepends=True)
        early = [text for text in lines if json.loads(text).get("step", 0) <= 9]
        (run_copy / name).write_bytes(b"".join(early))
    registry = Registry([run_copy])
    then = registry.answer("latest", "boundary", {})
    for name in (OBSERVATIONS, POOL):
        lines = (finished_run / name).read_bytes().splitlines(keepends=True)
        late = [text for text in lines if json.loads(text).get("step", 0) > 9]
        with (run_copy / name).open("ab") as file:
            file.writelines(late)
    registry.follower("latest").look()
    now = json.loads(json.dumps(registry.answer("latest", "boundary", {})))
    whole = ask(finished_run, "boundary")
    assert {dot[0] for dot in now["dots"] if dot[4]} - {dot[0] for dot in then["dots"]}
    assert sorted(now.pop("dots")) == sorted(whole.pop("dots")) and now == whole


def test_updates_and_labels_are_those_on_record(run_copy: Path) -> None:
    """A trainer that says them: its last step's update comes after the step, and is told to who
    knows the step."""
    log = run_copy / OBSERVATIONS
    lines = log.read_bytes().splitlines()
    said: dict[int, Any] = {}
    with closing(LogWriter(log)) as writer:
        registry = Registry([run_copy])
        cursor = registry.answer("latest", "steps", {})["cursor"]
        update = record("update", attempt=1, step=14, time=1.0, entropy=0.25, gradient_norm=1.5)
        writer.append([update])
    registry.follower("latest").look()
    found = registry.answer("latest", "steps", {"after": cursor})
    assert found["columns"]["step"] == []
    assert found["updates"] == {"step": [14], "entropy": [0.25], "norm": [1.5]}
    for one in map(json.loads, lines):
        if one["kind"] == "group":
            told = said.setdefault(one["step"], Counter())
            told.update(label for rollout in one["rollouts"] for label in rollout.get("labels", ()))
    labels = ask(run_copy, "steps")["labels"]
    assert {
        step: {name: labels[name][row] for name in LABELS}
        for row, step in enumerate(labels["step"])
    } == {step: {name: told[name] for name in LABELS} for step, told in said.items() if told}


def test_a_rewind_resets_every_cursor_and_takes_back_its_steps(run_copy: Path) -> None:
    registry = Registry([run_copy])
    before = registry.answer("latest", "steps", {})
    followed = registry.follower("latest")
    done = rods("trainer", "observe", run_copy, "--from-step", "9")
    assert done.returncode == 0, done.stderr
    followed.look()
    after = registry.answer("latest", "steps", {"after": before["cursor"]})
    assert after["reset"]
    assert after["columns"]["step"] == list(range(1, 10))
    assert max(after["epochs"]["step"]) <= 9
    assert ask(run_copy, "boundary") == json.loads(
        json.dumps(registry.answer("latest", "boundary", {}))
    )


@pytest.mark.parametrize("step", [1, 5, 9, 13, 14])
def test_the_boundary_of_an_old_step_is_what_stood_then(finished_run: Path, step: int) -> None:
    """Against the tracker and the pool, folded up to that step."""
    state = RunState(Run.open(finished_run))
    zones: dict[str, str | None] = {}
    for closed in state.steps():
        if closed.step == step:
            zones = {task: state.tracker.zone(task) for task in state.tracker.tasks}
    epoch = state.epoch if step == 14 else state.epoch_of(step)
    active = state.pool_at(epoch).active
    found = ask(finished_run, "boundary", step=step)
    assert {dot[0]: dot[3] for dot in found["dots"]} == {
        task: zone for task, zone in zones.items() if task in active
    }
    assert found["active"] == len(active)
    if step == 14:
        assert {
            zone: sum(dot[3] == zone for dot in found["dots"]) for zone in ZONES
        } == state.zones()


def test_the_pool_lists_every_variant_with_its_life(finished_run: Path) -> None:
    found = ask(finished_run, "pool")
    written = seeds(finished_run)
    assert {one["task"]: one["seed"] for one in found["variants"]} == written
    active = read_state(Run.open(finished_run)).active
    inside = {one["task"] for one in found["variants"] if one["state"] in ("injected", "revived")}
    assert inside == {task for task in active if task in written}
    retired = ask(finished_run, "pool", state="retired")
    assert len(retired["variants"]) == found["counts"].get("retired", 0)


def test_the_funnel_counts_what_the_logs_hold_with_the_latest_example_of_each(
    finished_run: Path,
) -> None:
    found = ask(finished_run, "funnel")
    state = read_state(Run.open(finished_run))
    failed = list(state.records(REJECTED))
    counts = Counter((record["stage"], record["error"]) for record in failed)
    assert {(one["stage"], one["error"]): one["count"] for one in found["failures"]} == dict(counts)
    for one in found["failures"]:
        latest = [
            record
            for record in failed
            if (record["stage"], record["error"]) == (one["stage"], one["error"])
        ][-1]
        assert one["example"] == {name: latest[name] for name in ("pick", "evidence", "raw")}
        assert one["kind"] == ("gate" if one["error"] in get_args(Gate) else one["kind"])
    told = ask(finished_run, "status")
    assert [found[name] for name in ("picked", "outcomes")] == [
        told[name] for name in ("picked", "outcomes")
    ]
    assert found["accepted"] == sum(1 for _ in state.records(EXPANDED)) >= told["accepted"], (
        "a pick may go on"
    )
    decided = Counter(record["kind"] for record in state.decisions() if record["kind"] != "epoch")
    assert decided == sum(
        (Counter({one["event"]: one["count"]}) for one in found["decisions"]), Counter()
    )


def test_a_tasks_line_leads_to_the_original_that_it_comes_from(finished_run: Path) -> None:
    written = seeds(finished_run)
    records = [one["task"] for one in read_state(Run.open(finished_run)).records(EXPANDED)]
    variant = max(records, key=lambda one: one["provenance"]["generation"])["id"]
    line = [one["id"] for one in ask(finished_run, "task", task=variant)["line"]]
    assert line[-1] == variant and line[0] not in written
    assert [written[task] for task in line[1:]] == line[:-1]


def test_calls_of_models_are_added_up_by_process_endpoint_and_stage(run_copy: Path) -> None:
    fields = {
        "backbone": "local",
        "tokens_in": 100,
        "tokens_out": 10,
        "model": "m",
        "time": 1.0,
        "account": "a#0",
    }
    for process, stage in (("daemon", "judge"), ("trainer-0", "user")):
        with closing(LogWriter(run_copy / usage(process))) as log:
            for number in range(20):
                outcome = "failed" if number == 7 else "stop"
                spent = {
                    "seconds": 30.0 if number > 17 else 0.5,
                    "outcome": outcome,
                    "stage": stage,
                }
                log.append([filled("call", process=process, number=number, **fields, **spent)])
    costs = ask(run_copy, "status")["costs"]
    assert costs == {
        "calls": 40,
        "failed": 2,
        "tokens_in": 4000,
        "tokens_out": 400,
        "seconds": 138.0,
    }
    calls = ask(run_copy, "models")["calls"]
    assert [(one["process"], one["endpoint"], one["stage"]) for one in calls] == [
        ("daemon", "local", "judge"),
        ("trainer-0", "local", "user"),
    ]
    for one in calls:
        assert (one["calls"], one["failed"], one["tokens_in"], one["tokens_out"]) == (
            20,
            1,
            2000,
            200,
        )


def test_a_run_says_which_it_is(finished_run: Path, run_copy: Path, tmp_path: Path) -> None:
    done = Run.open(finished_run)
    fresh = create_run(tmp_path / "fresh", done.config, done.tasks)
    assert ask(fresh.path, "status")["condition"] == "empty"
    assert ask(fresh.path, "steps")["columns"]["step"] == []
    assert ask(fresh.path, "boundary")["dots"] == []
    log = run_copy / POOL
    log.write_bytes(log.read_bytes().replace(b'"epoch":0', b'"epoch":7', 1))
    with pytest.raises(RodsError, match=r"pool\.jsonl"):
        ask(run_copy, "status")


@pytest.mark.slow
def test_a_run_with_a_trainer_says_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real trainer that is halted, killed, and asked to stop."""
    path = tmp_path / "run"
    config = write_config(
        tmp_path / "c.toml", {"training.steps": 100_000, "operation.steps_per_second": 10.0}
    )
    monkeypatch.setattr("rods.buffers.run.heartbeat.SILENCE", 3.0)

    def becomes(condition: str, attempt: int = 1) -> None:
        def reached() -> bool:
            now = (
                Registry([path]).answer("latest", "status", {})
                if (path / MANIFEST).exists()
                else {"step": 0}
            )
            return now["step"] > 0 and (now["condition"], now["attempt"]) == (condition, attempt)

        until(reached)

    with subprocess.Popen(command(path, config), stderr=subprocess.DEVNULL) as child:
        try:
            becomes("being written")
            child.send_signal(signal.SIGSTOP)
            becomes("stuck")
        finally:
            child.kill()
    becomes("crashed")
    with subprocess.Popen(command(path, config), stderr=subprocess.DEVNULL) as child:
        try:
            becomes("being written", 2)
        finally:
            child.terminate()
    becomes("stopped", 2)


def test_a_process_that_left_no_heartbeat_was_there(run_copy: Path) -> None:
    """As in a recorded run."""
    for name in PROCESSES:
        (run_copy / f"heartbeat.{name}.json").unlink()
    found = ask(run_copy, "status")
    assert (found["condition"], {one["life"] for one in found["processes"].values()}) == (
        "finished",
        {"no heartbeat"},
    )
    said = rods("status", run_copy).stdout
    assert said.count("left no heartbeat") == 2


def test_runs_are_found_below_a_folder_and_told_apart(finished_run: Path, tmp_path: Path) -> None:
    for place in ("a/run", "b/run"):
        shutil.copytree(finished_run, tmp_path / place)
    registry = Registry([tmp_path / "a", tmp_path / "b" / "run"])
    assert set(registry.names()) == {"run", "run~2"}
    with pytest.raises(UserError, match="no such run"):
        registry.answer("other", "status", {})
    with pytest.raises(UserError, match="is no folder"):
        Registry([tmp_path / "missing"])


def test_where_a_run_stands_is_told_while_its_history_is_being_read(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind snapshots, by a reader of its own; and the rest once the history was read."""
    cut(run_copy / OBSERVATIONS)
    cut(run_copy / POOL)
    TrainerLog(Run.open(run_copy)).close()  # keeps snapshots
    told = ask(run_copy, "status")
    go = threading.Event()
    read_on = Follower._read_on
    monkeypatch.setattr(Follower, "_read_on", lambda one: [go.wait(), read_on(one)])
    registry = Registry([run_copy])
    reading = threading.Thread(target=registry.answer, args=("latest", "steps", {}))
    reading.start()
    first = json.loads(json.dumps(registry.answer("latest", "status", {})))
    unknown = ("versions", "costs", "errors")
    assert {name: first[name] for name in first if name not in unknown} == {
        name: told[name] for name in told if name not in unknown
    }
    go.set()
    reading.join()
    assert json.loads(json.dumps(registry.answer("latest", "status", {}))) == told
    assert registry.answer("latest", "steps", {})["columns"]["step"] == list(range(1, 15))


def cut(log: Path) -> None:
    """Closes the live part in the middle, between two groups."""
    lines = log.read_bytes().splitlines(keepends=True)
    middle = next(
        place
        for place in range(len(lines) // 2, len(lines))
        if json.loads(lines[place])["kind"] in ("step", "epoch")
    )
    log.with_name(f"{log.stem}.{1:012d}.jsonl").write_bytes(b"".join(lines[: middle + 1]))
    log.write_bytes(b"".join(lines[middle + 1 :]))


def test_damage_of_the_past_is_told(run_copy: Path) -> None:
    """Behind snapshots, so that only who reads the history meets it."""
    cut(run_copy / OBSERVATIONS)
    TrainerLog(Run.open(run_copy)).close()
    part = run_copy / "observations.000000000001.jsonl"
    before = part.stat()
    part.write_bytes(part.read_bytes().replace(b'"step":3,', b'"step":4,', 1))
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    registry = Registry([run_copy])
    for view in ("steps", "pool", "positions"):
        with pytest.raises(RodsError, match=r"observations\.000000000001\.jsonl"):
            registry.answer("latest", view, {})


@pytest.mark.slow
def test_the_example_is_a_whole_run_that_names_no_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where what runs record has changed: `python -m docs.generate.recorded_run RUN` records a new
    one."""
    run = unpacked(tmp_path)
    found = said_json(capsys, "verify", run)
    assert found["problems"] == []
    config = tomllib.loads((run / CONFIG).read_text())
    assert core(config) == config, "it is read where what extensions add to it is gone"
    told = ask(run, "status")
    assert (told["condition"], told["step"]) == ("finished", told["steps"])
    assert len(told["labels"]) > 5 and told["entropy"] is not None
    assert all(
        ask(run, "steps")[name]["step"] for name in ("columns", "updates", "labels", "epochs")
    )
    assert ask(run, "funnel")["failures"] and ask(run, "logs")["events"]
    dots = ask(run, "boundary")["dots"]
    assert any(ask(run, "episodes", task=dot[0])["episodes"] for dot in dots)
    held = ask(run, "compare")["heldout"]
    assert held["end"]["progress"]["mean"] > held["start"]["progress"]["mean"]
    models = ask(run, "models")
    assert (
        len({one["stage"] for one in models["calls"]}) > 5
        and models["endpoints"]
        and models["budget"]["requests"]
    )
    variants = ask(run, "pool")
    assert variants["counts"].keys() >= {"staged", "injected", "revived", "retired"}
    assert {one["generation"] for one in variants["variants"]} == {1, 2}
    assert any("stub-no-model wrote variants here" in line for line in ask(run, "report")["limits"])
    texts = [
        gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for file in run.rglob("*")
        if file.is_file()
    ]
    naming = re.compile(rb'"(host|pid|boot_id|command)":|"/(home|root|tmp|usr)/')
    assert not [text for text in texts if naming.search(text)]
    assert {address for text in texts for address in re.findall(rb"\d+\.\d+\.\d+\.\d+", text)} <= {
        b"127.0.0.1"
    }


def test_nothing_is_written_into_a_run(run_copy: Path, tmp_path: Path) -> None:
    def seen() -> dict[str, tuple[int, int]]:
        return {
            str(file): (file.stat().st_mtime_ns, file.stat().st_size)
            for file in run_copy.rglob("*")
            if file.is_file()
        }

    before = seen()
    page, _ = export_page(Registry([run_copy]), tmp_path / "page")
    assert seen() == before
    assert 'src="/' not in page.read_text()
