"""What a run tells its trackers: each step once it is on record, and in the tracker's run of the
starts before it."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sized
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rods import logs
from rods.errors import UserError
from rods.trainer import reporters
from rods.trainer.adapters.conformance import CONFIG
from rods.trainer.adapters.stream import open_stream
from tests.daemon.runs import until

REPORTED = ("tensorboard", "wandb", "mlflow", "trackio")
SCRIPT = """
import os, sys, time
from rods import open_stream
first, last, kill = map(int, sys.argv[1:])
with open_stream("run", config="run.toml", from_step=first - 1 if first > 1 else None) as stream:
    for step in range(first, last + 1):
        batch = stream.draw(step)
        stream.observe(step, [one.group([0.0, 1.0]) for one in batch])
        stream.report({"loss": 1.0 / step})
        if step == kill:
            while not all(waiting.empty() for waiting in stream.reporters._waiting.values()):
                time.sleep(0.1)
            time.sleep(5.0)  # for the last one
            os.kill(os.getpid(), 9)
"""


def recording(seen: list[tuple[str, int, dict[str, float]]]) -> Any:
    def opened(stack: Any, run: Any, tag: str, step: int) -> reporters.Log:
        seen.append(("opened", step, {}))
        stack.callback(seen.append, ("closed", step, {}))

        def log(numbers: Mapping[str, float], step: int) -> None:
            seen.append(("told", step, dict(numbers)))

        return log

    return opened


def test_each_step_is_told_once_it_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int, dict[str, float]]] = []
    monkeypatch.setattr(reporters, "OPENED", {"wandb": recording(seen)})
    monkeypatch.setattr(reporters, "find_spec", lambda name: True)
    (tmp_path / "run.toml").write_text(
        CONFIG.replace('sync = "lockstep"', "").replace(
            "operation = {", 'operation = { report_to = ["wandb"],'
        )
    )
    with open_stream(tmp_path / "run", config=tmp_path / "run.toml") as stream:
        batch = stream.draw(1)
        groups = [
            {"task": one.task.id, "rollouts": [{"resolved": 1, "expected": one.task.expected}]}
            for one in batch
        ]
        assert not seen
        assert stream.observe(1, groups) and not stream.observe(1, groups)
        stream.report({"loss": 0.5, "note": "none of its business"})  # type: ignore[dict-item]
        gauges = stream.gauges()
    kinds = [(kind, step) for kind, step, _ in seen]
    assert kinds == [("opened", 1), ("told", 1), ("told", 1), ("closed", 1)]
    assert seen[1][2] == {f"rods/{name}": value for name, value in gauges.items()}
    assert {"zone/too_hard", "pool/originals", "staging/waiting", "reward"} <= set(
        gauges
    ) and 0 < gauges["reward"] <= 1
    assert seen[2][2] == {"loss": 0.5}


def test_what_replies_and_calls_earn_by_their_form_is_told_apart() -> None:
    """000 Fig. 5a; a rollout that the machinery broke says nothing, nor one of another reward."""
    form = {"labels": (), "expected": 1, "end": "finished"}
    rollouts = [
        {**form, "reward": 1.5, "format": 1.5, "call_format": 0.5},
        {**form, "reward": 1.0, "format": 1.0, "call_format": 0.25},
        {**form, "reward": None, "format": 0.0, "call_format": 0.0, "end": "infrastructure"},
    ]
    plain = [{**form, "reward": 1.0, "format": 2.0}]

    class Log:
        last_groups: Any = ()

        class state:
            @staticmethod
            def gauges() -> dict[str, float]:
                return {}

    log: Any = Log()
    log.last_groups = [{"reward": {"kind": "format"}, "rollouts": rollouts}]
    found = reporters.gauges(log)
    assert (found["form/replies"], found["form/calls"]) == (0.875, 0.375)
    log.last_groups = [{"reward": {"kind": "progress"}, "rollouts": plain}]
    assert reporters.gauges(log) == {"reward": 1.0}


def test_a_tracker_that_is_not_there_is_refused_before_a_run_is_taken(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        CONFIG.replace("operation = {", 'operation = { report_to = ["trackio"],')
    )
    if find_spec("trackio") is None:
        with pytest.raises(
            UserError, match="the package trackio is not installed → `pip install trackio`"
        ):
            open_stream(tmp_path / "run", config=tmp_path / "run.toml")


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("RODS_TRACKERS"), reason="needs the trackers' packages: make trackers"
)
def test_a_killed_run_goes_on_in_the_runs_that_its_trackers_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ", ".join(f'"{name}"' for name in REPORTED)
    (tmp_path / "run.toml").write_text(
        CONFIG.replace('sync = "lockstep"', "").replace(
            "operation = {", f"operation = {{ report_to = [{told}],"
        )
    )
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    codes = [
        subprocess.run([sys.executable, "-c", SCRIPT, *map(str, job)], cwd=tmp_path).returncode
        for job in ((1, 3, 3), (3, 4, 0))  # killed behind step 3, whose checkpoint was of step 2
    ]
    assert codes == [-signal.SIGKILL, 0]
    read: dict[str, dict[str, list[tuple[int, float]]]] = {
        "tensorboard": from_tensorboard(tmp_path / "run" / "logs" / "tensorboard"),
        "wandb": from_wandb(tmp_path / "run" / "logs" / "wandb"),
        "mlflow": from_mlflow(),
        "trackio": from_trackio(),
    }
    for name in REPORTED:
        steps = [step for step, _ in read[name]["rods/pool/originals"]]
        assert {value for _, value in read[name]["rods/pool/originals"]} == {8.0}, name
        assert all(value == pytest.approx(1 / step) for step, value in read[name]["loss"]), name
        if name == "tensorboard":
            assert steps == [1, 2, 3, 4]
        # they write behind the trainer's back: a kill takes what is not written
        elif name in ("wandb", "trackio"):
            assert steps[-2:] == [3, 4] and steps[:-2] == [1, 2, 3][: len(steps) - 2]
        else:
            assert steps == [1, 2, 3, 3, 4], name


def from_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        name: [(one.step, one.value) for one in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def from_wandb(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from wandb.proto import wandb_internal_pb2

    files = sorted(folder.glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2 and len({file.name for file in files}) == 1, "two starts, one run"
    read: dict[str, list[tuple[int, float]]] = {}
    for file in files:
        for data in blocks(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            row = {
                item.key or "/".join(item.nested_key): item.value_json
                for item in record.history.item
            }
            for name in row:
                read.setdefault(name, []).append((int(float(row["step"])), float(row[name])))
    return read


def blocks(data: bytes) -> Iterator[bytes]:
    """The records of a log of LevelDB's form, behind wandb's header: in blocks of 32 KB, each a
    part of a record with its checksum, length and place in it (1 whole, 2 first, 3 middle, 4 last).
    What a kill tore off is left out."""
    at = 7
    held = b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        held += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield held
            held = b""


def from_mlflow() -> dict[str, list[tuple[int, float]]]:
    from mlflow import MlflowClient

    client = MlflowClient()
    (experiment,) = [one for one in client.search_experiments() if one.name == "rods"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    return {
        name: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
    }


def from_trackio() -> dict[str, list[tuple[int, float]]]:
    from trackio.sqlite_storage import SQLiteStorage

    (name,) = SQLiteStorage.get_runs("rods")
    read: dict[str, list[tuple[int, float]]] = {}
    for row in SQLiteStorage.get_logs("rods", name):
        for key, value in row.items():
            if isinstance(value, int | float) and key != "step":
                read.setdefault(key, []).append((row["step"], value))
    return {key: sorted(values) for key, values in read.items()}


KEY = "tracker-key-5e1f0c77a9"


def counted(seen: Sized, least: int) -> bool:
    return len(seen) >= least


class Hostile:
    """A tracker that fails or hangs where its name says, and names its key in what it raises."""

    def __init__(self, how: str, released: threading.Event) -> None:
        self.how = how
        self.released = released

    def does(self, place: str) -> None:
        print(f"{KEY} is printed" if self.how == "prints" else "", end="")
        how, _, at = self.how.partition(" ")
        if at != place:
            return
        if how == "raises":
            raise ConnectionError(f"401 for https://me:{KEY}@host with {KEY}")
        if how == "exits":
            raise SystemExit(f"no login for {KEY}")
        if how == "hangs":
            self.released.wait()

    def __call__(self, stack: Any, run: Any, tag: str, step: int) -> Any:
        self.does("opening")
        stack.callback(self.does, "closing")

        def log(numbers: Mapping[str, float], step: int) -> None:
            self.does("telling")

        return 5 if self.how == "nonsense" else log


@pytest.mark.parametrize(
    "how",
    [
        *(
            f"{what} {place}"
            for what in ("raises", "exits", "hangs")
            for place in ("opening", "telling", "closing")
        ),
        "nonsense",
    ],
)
def test_whatever_a_tracker_does_training_goes_on_and_others_are_told(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    released = threading.Event()
    seen: list[tuple[str, int, dict[str, float]]] = []
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setattr(
        reporters, "OPENED", {"wandb": Hostile(how, released), "mlflow": recording(seen)}
    )
    monkeypatch.setattr(reporters, "find_spec", lambda name: True)
    lost = how in ("hangs opening", "hangs telling")
    # one that only is slow, on a busy machine, loses nothing
    monkeypatch.setattr(reporters, "MOST_WAITING", 3 if lost else 1000)
    monkeypatch.setattr(reporters, "TRACKERS_END", 0.2)
    (tmp_path / "run.toml").write_text(
        CONFIG.replace('sync = "lockstep"', "").replace(
            "operation = {", 'operation = { report_to = ["wandb", "mlflow"],'
        )
    )
    try:
        with open_stream(tmp_path / "run", config=tmp_path / "run.toml") as stream:
            logs.configure("trainer", folder=tmp_path / "run" / "logs")
            for step in range(1, 7):
                batch = stream.draw(step)
                assert stream.observe(step, [one.group([0.0, 1.0]) for one in batch])
                stream.report({"past all floats": 10**400} if step == 3 else {})
                until(partial(counted, seen, 1 + step))
    finally:
        released.set()
    told = {step for kind, step, _ in seen if kind == "told"}
    assert told == {1, 2, 3, 4, 5, 6} and seen[-1][0] == "closed"
    events = (tmp_path / "run" / "logs" / "trainer.jsonl").read_text()
    assert events.count('"tracker":"wandb"') <= 3  # however many are lost
    assert ("***" in events) == how.startswith(("raises", "exits"))
    assert ("further reports are lost" in events) == lost
    assert KEY not in events and KEY not in "".join(capfd.readouterr())
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
