"""Triage by a daemon that has nothing else to do: real processes, a run whose trainer retires
variants as too hard, and a policy behind a real HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.daemon_log import DaemonLog
from rods.buffers.log.record_bytes import Record, line, record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, REJECTED
from rods.buffers.state import read_state
from rods.canonical import JsonObject
from rods.console.main import run as rods
from rods.daemon.service import Service
from rods.dialects import Message
from rods.errors import EXIT_USER, InfrastructureError, RefusedError
from rods.family.triage.extension import TRIAGE
from rods.family.triage.rung_seeds import RungSeeds
from rods.family.triage.while_idle import TriageWhileIdle, work
from rods.gates.similarity import held_out_index
from rods.observations import Group, Role, Rollout
from rods.rules.order import steps_per_epoch
from rods.tasks import Task
from tests.daemon.runs import BATCH, Daemon, Trainer, make_run, until
from tests.environments import desk_tasks
from tests.family.triage.test_triage import from_rung, served


class FailsVariants(Trainer):
    """A trainer whose policy earns nothing on variants."""

    def group(self, step: int, task_id: str, role: Role) -> Group:
        turns = self.log.task(task_id).expected
        if task_id in self.run.training:
            return super().group(step, task_id, role)
        nothing = Rollout(0, turns, 0, 0.0, 0.0, "finished")
        return Group(task_id, 1, "identity", "progress", (0.0, 1.0), (nothing,) * 4, role)


def with_retired(path: Path) -> list[Task]:
    """Makes a run, and returns its variants that were retired as too hard."""
    tasks = [task for task in desk_tasks(7, 60, 8) if task.type == "base"]
    run = make_run(path, {"pool": {"inject_fraction": 0.1, "retest_fraction": 0.0}}, tasks)
    with Daemon(run.path), FailsVariants(run) as trainer:
        while not trainer.log.state.pool.too_hard:
            trainer.play(1, 0.05)
    state = read_state(run)
    retired = [state.task(one.member.task_id) for one in state.pool.too_hard]
    return [task for task in retired if isinstance(task, Task)]


def switch_on(path: Path, *policy: str, samples: int = 2, seeds: bool = False) -> None:
    """Has the next daemon of the run triage."""
    file = path / "config.toml"
    table = f"[operation.triage]\nwhile_idle = true\nsamples = {samples}\npolicy = {[*policy]}\n"
    table += "rung_seeds = true\n" * seeds
    kept, *_ = file.read_text().partition("[operation.triage]")
    file.write_text(kept + table)


def found(path: Path) -> list[Record]:
    return [*read(path / TRIAGE)]


@pytest.mark.slow
@pytest.mark.needs("benchmarks")
@pytest.mark.needs("page")
def test_a_daemon_that_was_killed_goes_on_with_its_triage_and_every_finding_is_derived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    retired = with_retired(path)
    rungs = {task.id: 1 + place % 2 for place, task in enumerate(retired)}
    teaches = from_rung(rungs)
    daemons: list[Daemon] = []
    asked: list[str] = []

    def answer(task: Task, turn: int, messages: Sequence[Message]) -> str:
        asked.append(task.id)
        if len(asked) == 5:
            daemons[0].kill()  # with an answer on its way
        return teaches(task, turn, messages)

    with served(retired, answer) as url:
        told = ("--url", url, "--model", "m", "--protocol", "hermes", "--in-flight", "1")
        switch_on(path, *told, "--patience", "1")
        daemons.append(Daemon(path))
        until(lambda: daemons[0].process.poll() is not None)
        assert not found(path)
        with Daemon(path) as daemon:
            until(lambda: len(found(path)) == len(retired))
            assert daemon.stop()[0] == 0
    findings = {record["task"]: record for record in found(path)}
    assert {record["diagnosis"] for record in findings.values()} == {"teachable"}
    assert {name: record["rung"] for name, record in findings.items()} == rungs
    episodes = [
        (log.parent, record["task"], record["sample"])
        for log in path.glob("eval/triage_*/rung_*/episodes.jsonl")
        for record in read(log)
        if record["kind"] == "episode"
    ]
    played = sum(2 * (rung + 1) for rung in rungs.values())
    assert len(episodes) == len(set(episodes)) == played  # none was played twice
    report = verify(path, replay=True)
    assert report.problems == [] and report.counts["tasks triaged"] == len(retired)
    capsys.readouterr()
    rods(["inspect", str(path), retired[0].id])
    said = f"triage.jsonl: {retired[0].id} teachable at rung 1"
    assert said in capsys.readouterr().out
    forge(path, diagnosis="broken")
    assert "its diagnosis is not what follows: teachable" in problems(path)
    forge(path, executed={**findings[retired[0].id]["executed"], "broken": ["x"]})
    assert "its fault is not what follows: True" in problems(path)
    forge(path, executed={"ambiguous": [], "strange": 1})
    assert "its diagnosis is not what follows" in problems(path)
    forge(path, task="nobody")
    assert "was not retired as too hard then" in problems(path)


def problems(path: Path) -> str:
    return "\n".join(problem["what"] for problem in verify(path).problems)


def forge(path: Path, at: int = 0, **fields: object) -> None:
    """Changes a record of the log, the first one, as nobody who derives it would write it."""
    file = path / TRIAGE
    before = [orjson.loads(record) for record in file.read_bytes().splitlines()]
    entries = [
        {key: record[key] for key in record if key not in ("seq", "crc")} for record in before
    ]
    entries[at] |= fields
    file.write_bytes(b"".join(line(1 + place, entry) for place, entry in enumerate(entries)))


@pytest.mark.slow
def test_without_a_policy_ground_truths_alone_are_executed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    retired = with_retired(path)
    switch_on(path)
    with Daemon(path):
        until(lambda: len(found(path)) == len(retired))
    assert {record["diagnosis"] for record in found(path)} == {"sound"}
    assert all(record["played"] == {} for record in found(path))
    assert verify(path).problems == []


async def test_what_could_not_be_triaged_holds_nothing_else_up(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    daemon: Any = SimpleNamespace(run=run, idle=True)
    too_hard = [SimpleNamespace(member=SimpleNamespace(task_id=name), epoch=1) for name in "ab"]
    state: Any = SimpleNamespace(pool=SimpleNamespace(too_hard=too_hard))
    triage = TriageWhileIdle(daemon)
    for name in "aba":
        [job] = triage.due(state)
        with pytest.raises(InfrastructureError, match=f"no triage of {name}: .*there is no task"):
            await job()
    triage.close()


def test_a_task_that_is_not_there_is_no_task_to_triage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run")
    one = next(iter(run.training))
    told = ["triage", str(run.path), "--samples", "0", "--json", "--task"]
    assert rods([*told, one]) == 0
    [finding] = orjson.loads(capsys.readouterr().out)["findings"]
    assert finding["task"] == one and finding["diagnosis"] == "sound"
    assert rods([*told, "nobody"]) == EXIT_USER
    assert "there is no task nobody" in capsys.readouterr().err


class NeverEarns(Trainer):
    """A trainer whose policy earns nothing on some of the given tasks, and all on the others."""

    hopeless: frozenset[str] = frozenset()

    def group(self, step: int, task_id: str, role: Role) -> Group:
        turns = self.log.task(task_id).expected
        resolved = 0 if task_id in self.hopeless else turns
        binary = resolved // turns
        one = Rollout(resolved, turns, binary, 0.0, float(binary), "finished")
        return Group(task_id, 1, "identity", "progress", (0.0, 1.0), (one,) * 4, role)


def telling(path: Path) -> list[JsonObject]:
    """The variants on record whose requests tell a rung."""
    tasks = (record["task"] for record in read(path / EXPANDED))
    return [task for task in tasks if "rung" in task["provenance"]]


@pytest.mark.slow
@pytest.mark.needs("benchmarks")
def test_what_a_rung_teaches_becomes_a_variant_whose_requests_tell_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    tasks = [task for task in desk_tasks(7, 60, 8) if task.type == "base"]
    run = make_run(path, {"selection": {"seeds_per_step": 0}}, tasks)
    given = [task for task in run.training.values() if isinstance(task, Task)]
    rungs = {task.id: rung for task, rung in zip(given, (1, 2, 3, 4, 5, 6), strict=False)}
    NeverEarns.hopeless = frozenset(rungs)
    with served(given, from_rung(rungs)) as url:
        told = ("--url", url, "--model", "m", "--protocol", "hermes", "--patience", "1")
        switch_on(path, *told, seeds=True)
        with Daemon(path) as daemon, NeverEarns(run) as trainer:
            trainer.play(steps_per_epoch(len(given), BATCH))
            until(lambda: len(found(path)) == len(rungs))
            until(lambda: len(telling(path)) == 3)
            trainer.play(1)
            assert {task["id"] for task in telling(path)} <= {*trainer.log.state.active}
            assert daemon.stop()[0] == 0
    findings = {record["task"]: record for record in found(path)}
    assert {name: record.get("rung") for name, record in findings.items() if rungs[name] < 6} == {
        name: rung for name, rung in rungs.items() if rung < 6
    }
    variants = {task["provenance"]["rung"]: task for task in telling(path)}
    assert sorted(variants) == [1, 2, 3]
    for rung, task in variants.items():
        about = task["provenance"]
        assert rungs[about["triaged"]] == rung and about["seed"] == about["triaged"]
        assert about["generation"] == 1 and about["root"] == about["seed"]
        begin = "Begin like this: " if rung == 1 else "Do it in this order: "
        assert all(begin in text for text in task["user"]["script"])
    report = verify(path, replay=True)
    assert report.problems == [] and report.counts["variants that tell a rung"] == 3
    again: Any = SimpleNamespace(run=run, stalled=False)
    assert RungSeeds(again, found(path)).due(read_state(run)) == []  # nothing is written twice
    forge(path, [record.get("rung") for record in found(path)].index(2), rung=5)
    assert "no finding says that" in problems(path)


@pytest.mark.parametrize(
    ("seeds", "changes", "why"),
    [
        (True, {"sync": "lockstep"}, "in lockstep nothing does"),
        (True, {"pool": {"static": True}}, "nothing leaves its pool"),
        (False, {"pool": {"static": True}}, "nothing leaves its pool"),
        (False, {"pool": {"retirement": False}}, "nothing leaves its pool"),
    ],
)
def test_where_nothing_would_ever_be_triaged_or_written_the_start_is_refused(
    tmp_path: Path, seeds: bool, changes: JsonObject, why: str
) -> None:
    run = make_run(tmp_path / "run", changes)
    switch_on(run.path, "--url", "x", seeds=seeds)
    daemon: Any = SimpleNamespace(run=Run.open(run.path))
    with pytest.raises(RefusedError, match=f"{why}.*leave operation.triage out"):
        work(daemon)


def test_nothing_is_written_while_staging_is_full_or_a_budget_is_spent(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"pool": {"staging_epochs": 0.01}})
    seed = next(task for task in run.training.values() if isinstance(task, Task))
    finding = record("triaged", task=seed.id, epoch=0, diagnosis="teachable", rung=2)
    state = read_state(run)
    with ThreadPoolExecutor(1) as threads:
        service = Service(run, threads)
        seeds = RungSeeds(service, [finding])
        service.watch.look(0)
        asyncio.run(service.log.admitted("somebody", [replace(seed, id="", system="another")]))
        service.watch.look(0)
        assert service.watch.staged() == 1 and seeds.due(state) == []
        service.watch.staged = lambda: 0  # type: ignore[method-assign]
        service.writers = SimpleNamespace(spent=True)  # type: ignore[assignment]
        assert seeds.due(state) == []
        service.writers.spent = False  # type: ignore[misc]
        assert len(seeds.due(state)) == 1
        service.log.close()


def test_a_rung_whose_words_the_gates_refuse_is_rejected_with_the_reason(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    seed = next(task for task in run.training.values() if isinstance(task, Task))
    finding = record("triaged", task=seed.id, epoch=0, diagnosis="teachable", rung=2)

    async def leaking(pick: str, one: Task) -> Task:
        script = (f"{one.script[0]} Call list_day.", *one.script[1:])
        return replace(one, script=script, provenance={"root": one.id}, id="")

    async def write() -> None:
        with closing(DaemonLog(run)) as log, ThreadPoolExecutor(1) as threads:
            daemon: Any = SimpleNamespace(
                run=run,
                log=log,
                threads=threads,
                held_out=held_out_index(()),
                variant=leaking,
                stalled=False,
            )
            [job] = RungSeeds(daemon, [finding]).due(read_state(run))
            await job()

    asyncio.run(write())
    [refused] = read(run.path / REJECTED)
    assert (refused["pick"], refused["error"]) == (f"rung-2-{seed.id}", "leaks")
    assert "list_day" in str(refused["evidence"]) and not telling(run.path)
