"""The daemon with a language model as author, when endpoints are missing, slow, gone, or too
expensive, and when it is stopped with calls in flight. The model is the stub, which plays all roles
by the rules of these tests."""

from __future__ import annotations

import signal
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pytest
import tomli_w

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.audit.verify import verify
from rods.buffers.daemon_log import DaemonLog
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import POOL, usage
from rods.console.main import run as rods
from rods.daemon.writers import Writers
from rods.gates.similarity import SimilarityIndex
from tests.daemon.leaking import KEY
from tests.daemon.pipelines import THREADS
from tests.daemon.runs import (
    VALUES,
    Daemon,
    Trainer,
    idle,
    make_run,
    rejected,
    seeds,
    until,
    variants,
)
from tests.environments import desk_tasks

ROLES = "tests.daemon.authors.llm.early_roles:good"
BASE = {"groups": [["base"]], "seeds_per_step": 8}


@pytest.fixture(scope="module")
def server() -> Iterator[Stub]:
    with Stub(Script(answer=ROLES)) as stub:
        yield stub


@pytest.fixture
def stub(server: Stub) -> Stub:
    server.use(Script(answer=ROLES))
    server.forget()
    return server


def llm_run(path: Path, stub: Stub, changes: dict[str, Any] | None = None, **endpoint: Any) -> Run:
    """A run of base tasks of desk with the stub as its only endpoint."""
    return make_run(path, merged(operation(stub, **endpoint), changes or {}), base_tasks())


def merged(*changes: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "pipeline": {"author": "llm"},
        "selection": BASE,
        "pool": {"staging_epochs": 0.0},
    }
    for change in changes:
        for section, keys in change.items():
            found[section] = {**found.get(section, {}), **keys} if isinstance(keys, dict) else keys
    return found


def operation(stub: Stub, **endpoint: Any) -> dict[str, Any]:
    return {"operation": {"endpoints": [{"model": "stub", "urls": [stub.url], **endpoint}]}}


def base_tasks() -> list[Any]:
    return [task for task in desk_tasks(7, 96, 8) if task.type == "base"][:26]


def calls(path: Path) -> list[Record]:
    log = path / usage("daemon")
    return list(read(log)) if log.exists() else []


def beat(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = orjson.loads((path / "heartbeat.daemon.json").read_bytes())
    except OSError:
        return {}
    return found


@pytest.mark.needs("page")
def test_variants_are_staged_and_their_calls_are_on_record(
    tmp_path: Path, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    run = llm_run(tmp_path / "run", stub)
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        trainer.play(2)
        until(lambda: idle(run.path, 2))
        code, _, _ = daemon.stop()
    assert code == 0 and variants(run.path)
    accounts = {call["account"] for call in calls(run.path)}
    for record in variants(run.path):
        assert record["task"]["provenance"]["model"] == "stub"
        assert f"{record['pick']}#{record['index']}" in accounts
    assert rods(["inspect", "--cost", str(run.path), "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (
        found["calls"]
        == len(calls(run.path))
        == sum(stage["calls"] for stage in found["stages"].values())
    )
    assert found["accepted"] == len(variants(run.path)) and found["variants"] == len(accounts)
    paid = {f"{record['pick']}#{record['index']}" for record in variants(run.path)}
    own = sum(call["account"] in paid for call in calls(run.path))
    assert found["calls_on_the_path"] == round(own / len(paid), 2) <= found["calls_per_accepted"]
    report = verify(run.path, replay=True)
    assert report.ok, list(report.lines())


def test_without_an_endpoint_it_says_what_is_missing(tmp_path: Path) -> None:
    endpoint = {"model": "stub", "urls": ["http://127.0.0.1:9/v1"]}
    run = make_run(
        tmp_path / "run", {"pipeline": {"author": "llm"}, "operation": {"endpoints": [endpoint]}}
    )
    config = run.path / "config.toml"  # of which this start's [operation] has no endpoint any more
    values = tomllib.loads(config.read_text())
    config.write_text(
        tomli_w.dumps({**values, "operation": {**values["operation"], "endpoints": []}})
    )
    with Daemon(run.path) as daemon:
        code, errors = daemon.ended()
    assert code == 2
    assert (
        "no endpoint is configured" in errors
        and "operation.endpoints" in errors
        and "Traceback" not in errors
    )
    pytest.importorskip("rods.family.trials")
    assert rods(["doctor", "--config", str(run.path / "config.toml")]) == 1


@pytest.mark.slow
def test_each_variant_has_one_backbone_drawn_by_weight(tmp_path: Path, stub: Stub) -> None:
    endpoints = [
        {"model": "stub", "name": name, "urls": [stub.url], "weight": weight}
        for name, weight in (("a", 3.0), ("b", 1.0))
    ]
    run = make_run(tmp_path / "run", merged({"operation": {"endpoints": endpoints}}), base_tasks())
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        for _ in range(3):
            trainer.play(1)
            until(lambda: idle(run.path, trainer.step))
        daemon.stop()
    backbones: dict[str, set[str]] = {}
    for call in calls(run.path):
        backbones.setdefault(call["account"], set()).add(call["backbone"])
    assert all(len(used) == 1 for used in backbones.values())
    drawn = Counter(next(iter(used)) for used in backbones.values())
    assert drawn["a"] > drawn["b"] > 0
    for record in variants(run.path):
        assert {record["task"]["provenance"]["model"]} == backbones[
            f"{record['pick']}#{record['index']}"
        ]


@pytest.mark.slow
def test_a_spent_budget_ends_the_picks_and_not_the_daemon(
    tmp_path: Path, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    run = llm_run(tmp_path / "run", stub, {"operation": {"budgets": {"requests": 25}}})
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        trainer.play(1)
        until(lambda: idle(run.path, 1))
        until(lambda: beat(run.path).get("state") == "budget spent")
        assert rods(["status", str(run.path)]) == 0
        assert "25 of 25 requests used" in capsys.readouterr().out
        trainer.play(1)
        code, _, _ = daemon.stop()
    assert code == 0 and stub.counts()["requests"] == 25
    whys = {record["why"] for record in seeds(run.path, "finished")}
    assert "budget_spent" in whys and whys <= {None, "budget_spent"}
    assert any(
        record["error"] == "budget_spent" and "25 requests" in record["evidence"]
        for record in rejected(run.path)
    )
    assert [record["step"] for record in seeds(run.path, "considered")] == [1], (
        "nothing is picked that nobody can write"
    )
    more = tmp_path / "more.toml"
    more.write_text(tomli_w.dumps(_values(stub, {"requests": 100_000})))
    with Trainer(run, from_step=trainer.step) as trainer, Daemon(run.path, "--config", str(more)):
        trainer.play(1)
        until(lambda: idle(run.path, trainer.step))
    assert stub.counts()["requests"] > 25


def _values(stub: Stub, budgets: dict[str, int]) -> dict[str, Any]:
    """The configuration of `llm_run` with another operation half."""
    changes = merged(operation(stub), {"operation": {"budgets": budgets}})
    return {
        section: {**VALUES.get(section, {}), **keys} if isinstance(keys, dict) else keys
        for section, keys in {**VALUES, **changes}.items()
    }


@pytest.mark.slow
def test_one_variant_s_limit_ends_that_variant_alone(tmp_path: Path, stub: Stub) -> None:
    run = llm_run(tmp_path / "run", stub, {"operation": {"budgets": {"variant_calls": 2}}})
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        trainer.play(1)
        until(lambda: idle(run.path, 1))
        assert beat(run.path)["state"] != "budget spent"
        daemon.stop()
    assert {record["why"] for record in seeds(run.path, "finished")} == {"budget_spent"}
    assert max(Counter(call["account"] for call in calls(run.path)).values()) == 2


@pytest.mark.slow
def test_stopped_or_killed_with_calls_in_flight_it_goes_on_where_it_was(
    tmp_path: Path, stub: Stub
) -> None:
    run = llm_run(tmp_path / "run", stub)
    stub.use(Script(answer=ROLES, latency=(0.05, 0.6)))
    with Trainer(run) as trainer:
        trainer.play(1)
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            with Daemon(run.path) as daemon:
                stub.forget()
                # where a slow look finds all of it written, there is nothing left to go on with
                until(lambda: stub.counts()["good"] > 6 or idle(run.path, 1))
                if number == signal.SIGKILL:
                    daemon.kill()
                else:
                    code, seconds, errors = daemon.stop(number)
                    assert code == 0 and seconds < 60 and "Traceback" not in errors
            assert all(record["crc"] for record in calls(run.path)), "the log of calls is whole"
        stub.use(Script(answer=ROLES))
        with Daemon(run.path):
            until(lambda: idle(run.path, 1))
    picked = seeds(run.path, "picked")
    finished = seeds(run.path, "finished")
    assert Counter(record["pick"] for record in finished) == Counter(
        record["pick"] for record in picked
    )
    staged = [record["task"]["id"] for record in variants(run.path)]
    assert sorted(staged) == sorted(task for record in finished for task in record["accepted"])
    assert len(set(staged)) == len(staged)
    report = verify(run.path, replay=True)
    assert report.ok, list(report.lines())


@pytest.mark.slow
def test_a_slow_seed_blocks_nobody(tmp_path: Path, stub: Stub) -> None:
    run = llm_run(tmp_path / "run", stub)
    slow = "story"
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        stub.use(Script(answer=ROLES, rules=[(slow, "stall")], random_seed=1))
        trainer.play(1)
        until(lambda: stub.counts()["stall"] >= len(seeds(run.path, "picked")) > 0)  # each of them
        stub.use(Script(answer=ROLES))
        trainer.play(1)
        until(lambda: any(record["step"] == 2 for record in seeds(run.path, "finished")))
        until(lambda: beat(run.path).get("in_flight", 0) > 0)  # the stalled ones still wait
        code, _, _ = daemon.stop()
    assert code == 0
    assert not any(record["step"] == 1 for record in seeds(run.path, "finished"))


@pytest.mark.slow
def test_an_endpoint_that_is_gone_pauses_the_work_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = Stub(Script(answer=ROLES))
    run = llm_run(tmp_path / "run", stub)
    stub.stop()
    with Trainer(run) as trainer, Daemon(run.path):
        trainer.play(1)
        until(lambda: beat(run.path).get("state") == "no endpoint answers")
        assert rods(["status", str(run.path)]) == 0
        said = capsys.readouterr().out
        assert "no endpoint answers" in said and "endpoint stub" in said and "down for" in said
        with Stub(Script(answer=ROLES), port=stub.port):
            until(lambda: idle(run.path, 1), 60)
    assert not any(record["error"] == "infrastructure" for record in rejected(run.path))


@pytest.mark.parametrize(
    "fault",
    [
        "401",
        pytest.param("500", marks=pytest.mark.slow),
        *(pytest.param(why, marks=pytest.mark.sweep) for why in ("", "400")),
    ],
)
def test_a_planted_key_is_found_nowhere_in_the_run_folder(
    tmp_path: Path, stub: Stub, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    faults = {fault: 0.3} if fault else {}
    stub.use(Script(answer="tests.daemon.leaking:tell", key=KEY, faults=faults))
    run = llm_run(
        tmp_path / "run", stub, {"operation": {"log_level": "debug"}}, key_env="PLANTED_KEY"
    )
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        trainer.play(2)
        until(lambda: stub.counts()["good"] > 10)
        _, _, errors = daemon.stop()
    assert KEY not in errors
    files = [file for file in run.path.rglob("*") if file.is_file()]
    assert {"usage.daemon.jsonl", "rejected.jsonl", "operation.daemon.jsonl", "config.toml"} <= {
        one.name for one in files
    }
    assert not [file for file in files if KEY.encode() in file.read_bytes()]


@pytest.mark.slow
async def test_what_is_tried_before_a_model_is_asked_is_in_the_log_and_in_status(
    tmp_path: Path, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    run = llm_run(tmp_path / "run", stub)
    daemon = DaemonLog(run)
    async with Writers(run, SimilarityIndex(), THREADS) as writers:
        asker = writers.asker("3-ab", 0, account="3-ab#0")
        before = writers.calls
        with patch("rods.daemon.writers.log") as log:
            asker.tell("tries calls in fresh worlds: values, put; 7 calls so far")
        assert writers.calls == before + 1, "a daemon that tries calls is not stuck"
        assert (
            log.info.call_args.kwargs["doing"]
            == "tries calls in fresh worlds: values, put; 7 calls so far"
        )
        daemon.heartbeat.beat(state="working", **writers.status())
        daemon.heartbeat._write()
        assert rods(["status", str(run.path)]) == 0
        assert (
            "  variant 3-ab#0 tries calls in fresh worlds: values, put; 7 calls"
            in capsys.readouterr().out
        )
        asker.tell("")
        assert not writers.status()["trying"]
    daemon.close()


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize(("budget", "full"), [({}, True), ({"requests": 60}, False)])
def test_a_static_pool_is_filled_by_models_as_far_as_the_budget_goes(
    tmp_path: Path, stub: Stub, budget: dict[str, int], full: bool
) -> None:
    changes: dict[str, Any] = {
        "pool": {"static": True, "max_generated": 16},
        "operation": {"budgets": budget, "log_level": "warning"},
    }
    # whose variants repeat themselves less
    stub.use(Script(answer="bench.fixtures.llm_stub.roles:answer"))
    run = llm_run(tmp_path / "run", stub, changes)
    with Trainer(run) as trainer, Daemon(run.path) as daemon:
        trainer.play(5)
        _, _, errors = daemon.stop()
    made = trainer.epoch.counts["generated"]
    # what repeats another one that is staged is found at the merge
    staged = made + trainer.epoch.counts["refused"]
    assert (made == 16) == full and staged == len(variants(run.path)) > 0
    assert ("static pool incomplete" in errors and "budget_spent" in errors) == (not full)
    report = verify(run.path)
    assert report.ok, list(report.lines())


@pytest.mark.slow
def test_in_lockstep_the_pool_is_the_same_bytes_whichever_seed_is_written_first(
    tmp_path: Path, stub: Stub
) -> None:
    pools = []
    for random_seed in (1, 2):
        stub.use(Script(answer=ROLES, latency=(0.0, 0.04), random_seed=random_seed))
        run = llm_run(
            tmp_path / str(random_seed), stub, {"sync": "lockstep", "operation": {"workers": 8}}
        )
        with Trainer(run) as trainer, Daemon(run.path):
            trainer.play(6)
        pools.append((run.path / POOL).read_bytes())
        places = [
            (record["step"], record["rank"], record["index"]) for record in variants(run.path)
        ]
        assert places == sorted(places)
        # each for the last time
        ended = [call["account"].partition("#")[0] for call in calls(run.path)][::-1]
        ranks = {
            record["pick"]: (record["step"], record["rank"]) for record in seeds(run.path, "picked")
        }
        order = [ranks[pick] for pick in dict.fromkeys(ended)][::-1]
        assert order != sorted(order), "some seed was written before an earlier one"
    assert pools[0] == pools[1] and b'"injected"' in pools[0]


@pytest.mark.slow
def test_a_daemon_that_gets_on_is_waited_for_longer_than_the_deadline(
    tmp_path: Path, stub: Stub
) -> None:
    limit = 6.0
    latency = 0.5
    stub.use(Script(answer=ROLES, latency=latency))
    changes = {"sync": "lockstep", "operation": {"workers": 1, "deadline_seconds": limit}}
    run = llm_run(tmp_path / "run", stub, changes | {"selection": {"seeds_per_step": 1}})
    with Trainer(run) as trainer, Daemon(run.path):
        until(lambda: beat(run.path).get("state"))
        trainer.play(4)  # the fourth is of an epoch that waits for all three before it
        assert trainer.epoch.number == 1
    assert len(calls(run.path)) * latency > limit, "answered one after another"
    assert variants(run.path)


@pytest.mark.slow
def test_as_many_seeds_are_written_at_once_as_there_are_workers(tmp_path: Path, stub: Stub) -> None:
    stub.use(Script(answer=ROLES, latency=0.5))
    run = llm_run(tmp_path / "run", stub, {"operation": {"workers": 3}})
    with Trainer(run) as trainer, Daemon(run.path):
        trainer.play(1)
        until(lambda: beat(run.path).get("in_flight") == 3 and beat(run.path).get("queue", 0) > 2)
        until(lambda: stub.counts()["most_in_flight"] == 3)
        until(lambda: len(variants(run.path)) > 3)
    assert stub.counts()["most_in_flight"] == 3
