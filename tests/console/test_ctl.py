"""`rods ctl` on real processes: what is asked is taken up, told, and holds over restarts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import CONTROL, operation
from rods.console.main import run as rods
from tests.console.test_verbs import said_json
from tests.daemon.runs import Daemon, Trainer, idle, make_run, seeds, until
from tests.daemon.test_llm_service import ROLES, beat, llm_run
from tests.trainer.runs import command, write_config

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[Stub]:
    with Stub(Script(answer=ROLES)) as stub:
        yield stub


def changed(path: Path, process: str) -> list[Record]:
    return [one for one in read(path / operation(process)) if one["kind"] == "changed"]


def considered(path: Path) -> list[int]:
    return [record["step"] for record in seeds(path, "considered")]


@pytest.mark.slow
def test_paused_picking_lets_steps_go_on_over_a_restart_until_it_is_resumed(tmp_path: Path, capsys: Capture) -> None:
    run = make_run(tmp_path / "run", {"pool": {"staging_epochs": 0.0}})
    with Trainer(run) as trainer:
        with Daemon(run.path) as daemon:
            trainer.play(1)
            until(lambda: considered(run.path) == [1])
            found = said_json(capsys, "ctl", run.path, "pause")
            assert (found["setting"], found["value"], found["processes"]) == (
                "picking",
                "paused",
                {"daemon": "taken up"},
            )
            trainer.play(3)
            until(lambda: beat(run.path).get("step") == 4 and beat(run.path).get("state") == "picking paused")
            assert rods(["status", str(run.path)]) == 0
            assert "picking is paused by `rods ctl` since" in (shown := capsys.readouterr().out)
            assert "asked    picking paused (rods ctl)" in shown
            daemon.stop()
        assert said_json(capsys, "ctl", run.path, "pause")["processes"] == {"daemon": "not running"}
        with Daemon(run.path):
            trainer.play(1)
            until(lambda: beat(run.path).get("step") == 5 and beat(run.path).get("state") == "picking paused")
            assert said_json(capsys, "ctl", run.path)["asked"][0]["value"] == "paused"
            assert considered(run.path) == [1]
            assert said_json(capsys, "ctl", run.path, "resume")["processes"] == {"daemon": "taken up"}
            until(lambda: idle(run.path, 5))
    assert considered(run.path) == [1, 5], "what was passed over while it was paused is not taken up later"
    told = [(one["number"], one["old"], one["new"]) for one in changed(run.path, "daemon")]
    assert told == [(1, "on", "paused"), (1, "on", "paused"), (2, "paused", "on")]
    assert {one["by"] for one in changed(run.path, "daemon")} == {one["by"] for one in log(run.path)}
    assert said_json(capsys, "status", run.path)["asked"] == [] and verify(run.path).ok


def log(path: Path) -> list[Record]:
    return list(read(path / CONTROL))


@pytest.mark.slow
def test_calls_in_flight_and_requests_are_bounded_while_the_daemon_works(
    tmp_path: Path, server: Stub, capsys: Capture
) -> None:
    server.use(Script(answer=ROLES, latency=0.05))
    run = llm_run(tmp_path / "run", server)
    with Trainer(run) as trainer, Daemon(run.path):
        trainer.play(1)
        until(lambda: server.counts()["most_in_flight"] > 2)
        assert said_json(capsys, "ctl", run.path, "concurrency", "1")["processes"] == {"daemon": "taken up"}
        until(lambda: any(one["limit"] == 1 and one["in_flight"] <= 1 for one in beat(run.path).get("endpoints", ())))
        server.forget()
        trainer.play(1)
        until(lambda: server.counts()["good"] > 10)
        assert server.counts()["most_in_flight"] == 1
        assert said_json(capsys, "ctl", run.path, "concurrency", "3", "--endpoint", "stub")["endpoint"] == "stub"
        until(lambda: server.counts()["most_in_flight"] == 3)
        assert said_json(capsys, "ctl", run.path, "requests", "0")["processes"] == {"daemon": "taken up"}
        until(lambda: beat(run.path).get("state") == "budget spent")
        server.forget()
        trainer.play(2)
        until(lambda: beat(run.path).get("step") == trainer.step)
        assert server.counts()["requests"] == 0 and beat(run.path)["budget"]["requests"] == 0
        assert rods(["status", str(run.path)]) == 0
        assert "of 0 requests used" in capsys.readouterr().out
        said_json(capsys, "ctl", run.path, "requests", "configured")
        until(lambda: server.counts()["good"] > 3)
    told = [(one["setting"], one["endpoint"], one["old"], one["new"]) for one in changed(run.path, "daemon")]
    assert told == [
        ("concurrency", "stub", 64, 1),
        ("concurrency", "stub", 1, 3),
        ("requests", "", "unlimited", 0),
        ("requests", "", 0, "unlimited"),
    ]


@pytest.mark.slow
def test_more_workers_begin_at_once(tmp_path: Path, server: Stub, capsys: Capture) -> None:
    server.use(Script(answer=ROLES, latency=0.5))
    server.forget()
    run = llm_run(tmp_path / "run", server, {"operation": {"workers": 1}})
    with Trainer(run) as trainer, Daemon(run.path):
        trainer.play(1)
        until(lambda: beat(run.path).get("in_flight") == 1 and beat(run.path).get("queue", 0) > 2)
        assert server.counts()["most_in_flight"] <= 1
        said_json(capsys, "ctl", run.path, "workers", "4")
        until(lambda: server.counts()["most_in_flight"] == 4)


@pytest.mark.slow
def test_a_trainer_stops_at_the_step_limit_that_it_is_given_and_changes_what_it_logs(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", {"training.steps": 100_000, "operation.steps_per_second": 20.0})
    child = subprocess.Popen(command(path, config), stderr=subprocess.DEVNULL)
    try:
        until(lambda: (path / "observations.jsonl").exists())
        found = said_json(capsys, "ctl", path, "log_level", "error")
        assert found["processes"] == {"trainer": "taken up", "daemon": "not running"}
        said_json(capsys, "ctl", path, "step_limit", "5")
        assert child.wait(60) == 5
    finally:
        child.kill()
        child.wait()
    assert [(one["old"], one["new"]) for one in changed(path, "trainer")] == [("info", "error"), (0, 5)]
    assert '"reason":"step_limit"' not in (path / "logs" / "trainer.jsonl").read_text(), (
        "events of level info are not kept"
    )
    before = said_json(capsys, "status", path)["step"]
    assert subprocess.run(command(path), stderr=subprocess.DEVNULL, check=False).returncode == 5
    assert said_json(capsys, "status", path)["step"] == before + 5


def test_what_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path, capsys: Capture) -> None:
    free, lockstep = make_run(tmp_path / "free").path, make_run(tmp_path / "lockstep", {"sync": "lockstep"}).path
    for path, arguments, code, says in (
        (free, ["gas", "1"], 2, "is nothing to set"),
        (free, ["pause", "1"], 2, "is nothing to set"),
        (free, ["workers"], 2, "is nothing to set"),
        (free, ["workers", "0"], 2, "a whole number from 1"),
        (free, ["workers", "9" * 5000], 2, "is no value of it"),
        (free, ["log_level", "loud"], 2, "debug or info"),
        (free, ["requests", "-1"], 2, "unlimited"),
        (free, ["concurrency", "4"], 3, "no language model writes in this run"),
        (lockstep, ["pause"], 3, "in lockstep nobody stops picking"),
    ):
        assert rods(["ctl", str(path), *arguments]) == code, arguments
        assert says in capsys.readouterr().err
        assert not (path / CONTROL).exists()
    assert rods(["ctl", str(free), "workers", "3"]) == 0
    assert "daemon: does not run; it holds from its next start" in capsys.readouterr().out
    since = said_json(capsys, "ctl", free, "workers", "3")
    assert since["number"] == 1 and len(log(free)) == 1, "what holds already is not asked again"


def test_what_is_asked_of_all_endpoints_takes_back_what_was_asked_of_one(
    tmp_path: Path, server: Stub, capsys: Capture
) -> None:
    endpoints = [{"model": "stub", "name": name, "urls": [server.url]} for name in ("a", "b")]
    run = make_run(tmp_path / "run", {"pipeline": {"author": "llm"}, "operation": {"endpoints": endpoints}})
    assert rods(["ctl", str(run.path), "concurrency", "4", "--endpoint", "c"]) == 2
    assert "there are a, b" in capsys.readouterr().err
    said_json(capsys, "ctl", run.path, "concurrency", "4", "--endpoint", "a")
    said_json(capsys, "ctl", run.path, "concurrency", "2")
    said_json(capsys, "ctl", run.path, "concurrency", "5", "--endpoint", "b")
    with Daemon(run.path):
        limits = {"a": 2, "b": 5}
        until(lambda: {one["endpoint"]: one["limit"] for one in beat(run.path).get("endpoints", ())} == limits)
