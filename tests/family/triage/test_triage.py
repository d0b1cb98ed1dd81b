"""`rods triage`: what becomes of tasks with known defects, by whom they are played."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods import dialects
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.calls import Call
from rods.console.main import run as rods
from rods.dialects import Message
from rods.environments.loading import Environments
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, EXIT_REQUEUE, EXIT_USER
from rods.family.triage.executed import execute
from rods.family.triage.rungs import hinted
from rods.players import Players
from rods.tasks import Task, write_task_file
from tests.environments import desk_tasks
from tests.json_server import json_server
from tests.trainer.runs import train, write_config

HERMES = dialects.load("hermes")
PLAYERS = Players(Environments())
Answer = Callable[[Task, int, Sequence[Message]], str]


def findings(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert rods(["triage", *map(str, arguments)]) == EXIT_OK
    file = Path(capsys.readouterr().out.splitlines()[-1].rpartition(" in ")[2])
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["task"]: line for line in lines}


def with_calls(task: Task, calls: Sequence[Sequence[Call]], script: Sequence[str] = ()) -> Task:
    return replace(
        task,
        id="",
        calls=tuple(map(tuple, calls)),
        script=tuple(script) or task.script,
        provenance={},
    )


def plain(number: int = 40) -> list[Task]:
    """Desk's tasks that hold, without tools that come later."""
    return [task for task in desk_tasks(5, number, 0) if not task.later_tools and all(task.calls)]


def unfair(task: Task) -> Task:
    """A task that also pays from an account that nobody names."""
    secret = Call("add_income", {"account": "events", "amount": 7345})
    script = [*task.script[:-1], f"{task.script[-1]} And put our usual sum into events."]
    return with_calls(task, [*task.calls[:-1], [*task.calls[-1], secret]], script)


def failing(task: Task) -> Task:
    refused = Call("pay_bill", {"bill": "i999", "account": "office"})
    return with_calls(task, [*task.calls[:-1], [refused]])


@pytest.mark.parametrize(
    ("name", "said"), [("runs/none", "No such file"), ("none-such", "no such tasks are installed")]
)
def test_a_path_is_said_to_be_missing_and_a_name_to_be_unknown(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rods(["triage", name]) == EXIT_USER
    assert said in capsys.readouterr().err


def test_what_is_broken_and_unfair_is_found_without_a_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = plain()
    third = next(task for task in plain() if "pay_bill" in task.tools)
    fourth = next(task for task in plain()[2:] if execute(PLAYERS, unfair(task)).certain)
    hidden = replace(second, id="", tools=("read_file",), provenance={})
    stale = replace(first, id="", environment=replace(first.environment, hash="0" * 20))
    seeded = {
        first.id: "sound",
        hidden.id: "broken",
        stale.id: "broken",
        failing(third).id: "broken",
        unfair(fourth).id: "unfair",
    }
    file = tmp_path / "tasks.jsonl"
    write_task_file([first, hidden, stale, failing(third), unfair(fourth)], file)
    found = findings(capsys, file, "--out", tmp_path / "out")
    assert {name: one["diagnosis"] for name, one in found.items()} == seeded
    assert "no such bill" in found[failing(third).id]["evidence"][0]
    assert "amount=7345" in found[unfair(fourth).id]["evidence"][0]
    assert all(one["played"] == {} for one in found.values())
    assert rods(["triage", str(file), "--out", str(tmp_path / "out"), "--json"]) == EXIT_OK
    printed = json.loads(capsys.readouterr().out)
    assert [one["task"] for one in printed["findings"]] == [*found]
    write_task_file([first, unfair(fourth)], file)
    assert rods(["data", "check", str(file)]) == EXIT_OK
    capsys.readouterr()
    report = tmp_path / "out" / "findings.jsonl"
    assert rods(["data", "check", str(file), "--findings", str(report)]) == EXIT_FAILED
    assert (
        "tasks.jsonl:2: unfair: nobody says" in (said := capsys.readouterr().out)
        and "1 fault" in said
    )
    for wrong in ('{"fault": true, "task": 1}', "no JSON", '"text"'):
        report.write_text(wrong)
        assert rods(["data", "check", str(file), "--findings", str(report)]) == EXIT_USER
        assert "is no finding" in capsys.readouterr().err


def test_the_simulated_policy_climbs_until_it_solves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tasks.jsonl"
    odd = next(task for task in map(unfair, plain()) if execute(PLAYERS, task).certain)
    write_task_file([*plain(), odd], file)
    found = findings(capsys, file, "--out", tmp_path / "a", "--skill", "0.2")
    names = {one["diagnosis"] for one in found.values()}
    assert {"solved", "teachable", "beyond reach", "unfair"} == names
    assert found[odd.id]["diagnosis"] == "unfair"
    for one in found.values():
        rungs = [*map(int, one["played"])]
        assert rungs == [*range(len(rungs))]  # none is left out, none is played after a solution
        solved = [at["solved"] > 0 for at in one["played"].values()]
        assert not any(solved[:-1])
        if one["diagnosis"] == "teachable":
            assert one["rung"] == rungs[-1] > 0 and solved[-1]
        if one["diagnosis"] == "beyond reach":
            assert rungs[-1] == 5 and not any(solved)
    assert findings(capsys, file, "--out", tmp_path / "b", "--skill", "0.2") == found


def served(tasks: Sequence[Task], answer: Answer, fails_after: int = -1, withheld: str = "") -> Any:
    """A server whose policy answers by task, turn and conversation; but for the task `withheld`,
    whose answers somebody filters."""
    asked: list[Any] = []

    def reply(path: str, body: Any) -> tuple[int, Any]:
        asked.append(body)
        messages = [Message(one["role"], one["content"]) for one in body["messages"]]
        said = [one.content for one in messages]
        task = max(tasks, key=lambda one: sum(text in said for text in one.script))
        turn = max(place for place, text in enumerate(task.script) if text in said)
        text = "Done." if said[-1] not in task.script else answer(task, turn, messages)
        finish = "content_filter" if task.id == withheld else "stop"
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
        broken = 0 <= fails_after < len(asked)
        return 500 if broken else 200, {"choices": [choice], "model": body["model"]}

    return json_server(reply)


def from_rung(rungs: dict[str, int]) -> Answer:
    """Makes a task's calls where the system prompt tells as much as its rung does."""

    def answer(task: Task, turn: int, messages: Sequence[Message]) -> str:
        rung = rungs[task.id]
        executed = execute(PLAYERS, task).results
        assert executed is not None
        tools = PLAYERS.environments.load("desk").tools()
        told = rung <= 5 and hinted(tools, task, executed, rung).system in messages[0].content
        return HERMES.write(task.calls[turn]) if told else "I cannot do that."

    return answer


def options(url: str) -> tuple[str, ...]:
    return ("--", "--url", url, "--model", "m", "--protocol", "hermes", "--patience", "1")


@pytest.mark.slow
@pytest.mark.needs("benchmarks")
def test_an_endpoint_is_taught_at_the_rung_that_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = plain()[:5]
    rungs = dict(zip([task.id for task in tasks], (0, 2, 5, 6, 3), strict=True))
    tells = tasks[4].id
    *_, vague = [task for task in plain(100) if execute(PLAYERS, task).ambiguous]
    reason = execute(PLAYERS, vague).ambiguous[0]
    tasks.append(vague)

    def answer(task: Task, turn: int, messages: Sequence[Message]) -> str:
        if task.id == tells:
            return " ".join(f"I would use {call}." for call in task.calls[turn])
        if task.id == vague.id:
            calls = [*task.calls[turn]]
            if turn == reason.turn and reason.call is not None:
                own, other = reason.pair
                call = calls[reason.call]
                changed = {
                    name: other if held == own else held for name, held in call.arguments.items()
                }
                calls[reason.call] = Call(call.name, changed)
            return HERMES.write(calls)
        return from_rung(rungs)(task, turn, messages)

    file = tmp_path / "tasks.jsonl"
    write_task_file(tasks, file)
    with served(tasks, answer) as url:
        told = "--samples", "2", "--out", tmp_path / "out", *options(url)
        found = findings(capsys, file, *told)
        assert findings(capsys, file, *told) == found
    names = {name: (one["diagnosis"], one.get("rung")) for name, one in found.items()}
    assert [*names.values()] == [
        ("solved", 0),
        ("teachable", 2),
        ("teachable", 5),
        ("beyond reach", None),
        ("format only", None),
        ("broken", None),
    ]
    assert found[tasks[1].id]["played"]["2"]["solved"] == 2


@pytest.mark.slow
@pytest.mark.needs("benchmarks")
def test_a_triage_that_was_killed_goes_on_with_what_it_has_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = plain()[:4]
    file = tmp_path / "tasks.jsonl"
    write_task_file(tasks, file)
    rungs = dict.fromkeys([task.id for task in tasks], 3)
    requests: list[str] = []
    process: list[subprocess.Popen[bytes]] = []

    def answer(task: Task, turn: int, messages: Sequence[Message]) -> str:
        requests.append(task.id)
        if len(requests) == 20 and process:
            os.kill(process[0].pid, signal.SIGKILL)
        return from_rung(rungs)(task, turn, messages)

    with served(tasks, answer) as url:
        told = ["--samples", "2", "--out", str(tmp_path / "out"), *options(url), "--in-flight", "1"]
        command = [sys.executable, "-m", "rods.console", "triage", str(file), *told]
        process.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        assert process[0].wait() == -signal.SIGKILL
        done = sum(1 for log in (tmp_path / "out").glob("rung_*/episodes.jsonl") for _ in read(log))
        assert done > 0 and not (tmp_path / "out" / "findings.jsonl").exists()
        process.clear()
        found = findings(capsys, file, *told)
        whole = findings(capsys, file, "--samples", "2", "--out", tmp_path / "w", *options(url))
    assert found == whole
    assert {(one["diagnosis"], one["rung"]) for one in found.values()} == {("teachable", 3)}
    logs = [*(tmp_path / "out").glob("rung_*/episodes.jsonl")]
    keys = [
        (log.parent.name, line["task"], line["sample"])
        for log in logs
        for line in read(log)
        if line["kind"] == "episode"
    ]
    assert len(keys) == len(set(keys)) == 4 * 4 * 2  # none was played twice


@pytest.mark.slow
@pytest.mark.needs("benchmarks")
def test_an_endpoint_that_fails_is_nobodys_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = plain()[:2]
    file = tmp_path / "tasks.jsonl"
    write_task_file(tasks, file)
    rungs = dict.fromkeys([task.id for task in tasks], 1)
    out = str(tmp_path / "out")
    with served(tasks, from_rung(rungs), fails_after=6) as url:
        told = [str(file), "--samples", "1", "--out", out, *options(url)]
        assert rods(["triage", *told]) == EXIT_REQUEUE
    assert "the same command goes on" in capsys.readouterr().err
    assert not (tmp_path / "out" / "findings.jsonl").exists()
    with served(tasks, from_rung(rungs)) as url:
        found = findings(capsys, file, "--samples", "1", "--out", out, *options(url))
        assert {one["rung"] for one in found.values()} == {1}
        other = ["triage", str(file), "--samples", "2", "--out", out, *options(url)]
        assert rods(other) == EXIT_REFUSED
        write_task_file(plain()[:3], file)
        assert rods(["triage", *told]) == EXIT_REFUSED


@pytest.mark.slow
@pytest.mark.needs("benchmarks")
def test_a_task_whose_answers_are_withheld_holds_up_no_other_and_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tasks = plain()[:2]
    file = tmp_path / "tasks.jsonl"
    write_task_file(tasks, file)
    answer = from_rung({first.id: 2, second.id: 1})
    told = str(file), "--samples", "1", "--out", str(tmp_path / "out")
    with served(tasks, answer, withheld=first.id) as url:
        found = findings(capsys, *told, *options(url))
    assert found[first.id]["diagnosis"] == "undecided"
    assert found[second.id]["rung"] == 1
    with served(tasks, answer) as url:
        found = findings(capsys, *told, *options(url))
        assert [(one["diagnosis"], one["rung"]) for one in found.values()] == [
            ("teachable", 2),
            ("teachable", 1),
        ]
        assert findings(capsys, *told, *options(url)) == found


def test_two_policies_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rods(["triage", "desk", "--skill", "0.5", "--", "--url", "http://x"]) == EXIT_USER
    assert "two policies" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.needs("page")
def test_the_hopeless_tasks_of_a_run_are_triaged_by_its_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rods.family.page.task_history import findings as page_findings

    config = write_config(tmp_path / "c.toml", {"policy.skill": 0.2})
    run = tmp_path / "run"
    assert rods(["trainer", "new", str(run), "--config", str(config)]) == EXIT_OK
    train(run)
    found = findings(capsys, run)
    state = read_state(Run.open(run))
    windows = {name: state.tracker.window(name) for name in (*state.active, *state.pool.revivable)}
    zero = {name for name, window in windows.items() if window and window.latest_mean == 0.0}
    assert zero == found.keys() and zero
    assert (run / "eval" / "triage" / "findings.jsonl").exists()
    [table] = page_findings(run)
    assert table["source"] == "eval/triage/findings.jsonl" and table["rows"] == []
    counts = sum(int(note.split()[0]) for note in table["notes"] if note.startswith(" "))
    assert counts == len(found)
    played = findings(capsys, run, "--samples", "0")
    assert {one["diagnosis"] for one in played.values()} <= {"sound", "broken", "unfair"}
    (run / "eval" / "triage" / "findings.jsonl").write_bytes(b"[1]\n\xff")
    [table] = page_findings(run)
    assert "cannot be read" in table["notes"][0]
