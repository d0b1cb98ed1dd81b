"""What failure looks like is proposed from calls that cannot succeed, marked everywhere once it is
said, and a ground truth that does nothing is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import wraps
from pathlib import Path

import pytest

from rods.calls import Call
from rods.console.main import run
from rods.environments.base import Environment, Result, reference
from rods.environments.loading import Environments
from rods.gates.ground_truth import replay
from rods.tasks import Task, task_lines
from rods.worlds.checking import CheckReport
from rods.worlds.checking.environments import Probe, probe_state, script
from rods.worlds.checking.task_files import check_file
from tests.worlds.failing import desks

DESKS = "tests.worlds.failing.desks"
FAILS = ["--fails", "status=error", "--fails", "begins=Request not found"]


def described(folder: Path, cls: str, *options: str) -> Path:
    name = folder / cls
    command = ["env", "add", str(name), "--kind", "trl", *options, "--", f"{DESKS}:{cls}"]
    assert run(command) == 0
    return folder / f"{cls}.openenv.json"


def load(file: Path) -> Environment:
    return Environments().load(str(file))


def probed(environment: Environment) -> CheckReport:
    """What the controls of `rods env check` say, without those that need a process."""
    probe = Probe(environment)
    probe_state(probe, None, script(probe, None))
    return CheckReport("", tuple(probe.faults), tuple(probe.notes))


def task(environment: Environment, *calls: Call) -> Task:
    names = tuple(environment.tools())
    return Task(reference(environment), "base", ("Do it.",), (calls,), tools=names)


def closing(*numbers: str) -> list[Call]:
    return [Call("close_request", {"number": number}) for number in numbers]


def test_rules_for_failures_that_nothing_flags_are_proposed_with_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = described(tmp_path, "Requests", "--reads", "show_request", "--reads", "list_requests")
    shown = capsys.readouterr().out
    assert "told as ordinary results" in shown and "Request not found" in shown
    assert """--fails '{"begins":"Request not found"}'""" in shown
    environment = load(file)
    faults = [fault for fault in probed(environment).faults if fault.control == "errors"]
    by_rule = {fault.remedy.split("`fails`")[0]: fault.what for fault in faults}
    assert all(fault.what.startswith("tells failures as ordinary results: ") for fault in faults)
    assert any('"begins":"Request not found"' in rule for rule in by_rule), by_rule
    # a job that has failed is not a call that has: the rule names the tools
    (of_status,) = [rule for rule in by_rule if '"status"' in rule]
    assert '"tools":["show_request"]' in of_status and "get_job" not in of_status
    assert any("'zz-never-0'" in what and "→" in what for what in by_rule.values())
    assert any("Task .+ not found" in rule for rule in by_rule), "names are left open"
    rules = [json.loads(rule.partition("write ")[2].partition(" into")[0]) for rule in by_rule]
    options = [part for rule in rules for part in ("--fails", json.dumps(rule))]
    (tmp_path / "told").mkdir()
    told = load(described(tmp_path / "told", "Requests", *options))
    assert "told as" not in capsys.readouterr().out
    assert not [fault for fault in probed(told).faults if fault.control == "errors"]
    world = told.reset(None)
    assert world.call(Call("show_request", {"number": "9"})).error == "tool"
    assert world.call(Call("history", {"number": "9"})).error == "tool"
    assert world.call(Call("get_job", {"job": "nightly"})).error is None
    assert environment.hash != told.hash


def test_no_call_is_made_where_none_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = desks.Requests.close_request

    @wraps(close)
    def counted(desk: desks.Requests, number: str) -> str:
        closed.append(number)
        return close(desk, number)

    monkeypatch.setattr(desks.Requests, "close_request", counted)
    described(tmp_path, "Requests", "--no-calls")
    assert not closed and "told as" not in capsys.readouterr().out
    described(tmp_path, "Requests", "--replace")
    assert closed == ["zz-never-0"], "no call that may succeed, of a tool that does not read"


def test_a_description_with_a_rule_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["env", "add", str(tmp_path / "desk"), "--kind", "trl"]
    assert run([*command, "--fails", "begins=**Error", "--", f"{DESKS}:Requests"]) != 0
    assert "no regular expression" in capsys.readouterr().err


@pytest.mark.parametrize("numbers", [("9",), ("7", "8", "9")])
def test_a_ground_truth_that_closes_what_is_not_there_is_refused(
    tmp_path: Path, numbers: Sequence[str]
) -> None:
    for options in ([], FAILS):
        folder = tmp_path / str(len(options))
        folder.mkdir()
        environment = load(described(folder, "Requests", "--no-calls", *options))
        wrong = task(environment, *closing(*numbers))
        reasons = replay(environment, wrong)
        assert [reason.call for reason in reasons] == [*range(len(numbers))]
        assert all("Request not found" in str(reason) for reason in reasons)
        file = folder / "tasks.jsonl"
        file.write_bytes(task_lines([wrong]))
        report = check_file(file, Environments())
        assert [fault.field for fault in report.faults] == ["goal.calls"] * len(numbers)


@pytest.mark.parametrize(
    "calls",
    [
        closing("REQ-1"),
        closing("REQ-1", "REQ-2"),
        [Call("list_requests", {})],
        [Call("show_request", {"number": "REQ-1"})],
        [Call("history", {"number": "REQ-1"}), *closing("REQ-1")],
        [Call("get_job", {"job": "nightly"})],
    ],
)
def test_a_ground_truth_that_does_or_shows_something_holds(
    tmp_path: Path, calls: Sequence[Call]
) -> None:
    environment = load(described(tmp_path, "Requests", "--no-calls"))
    assert replay(environment, task(environment, *calls)) == []


def test_one_call_in_vain_among_others_is_told_by_what_it_answers(tmp_path: Path) -> None:
    environment = load(described(tmp_path, "Requests", "--no-calls"))
    wrong = task(environment, *closing("REQ-1", "17"), Call("history", {"number": "18"}))
    assert [reason.call for reason in replay(environment, wrong)] == [1, 2]


@pytest.mark.parametrize("name", ["silent_bays", "told_bays", "looked_over_bays"])
def test_typed_functions_that_answer_an_error_are_the_same_case(name: str) -> None:
    environment = getattr(desks, name)()
    call = Call("free_bay", {"bay": "B9"})
    result = environment.reset(None).call(call)
    text = '{"error":"no bay B9"}'
    assert result == (
        Result(text, None, "tool") if name == "told_bays" else Result(text, {"error": "no bay B9"})
    )
    report = probed(environment)
    assert report.ok == (name != "silent_bays"), report.lines()
    assert any("tells failures" in note for note in report.notes) == (name == "looked_over_bays")
    if name == "silent_bays":
        (fault,) = report.faults
        assert fault.control == "errors" and "(ToolError), or write " in fault.remedy
        assert '{"field":"error"}' in fault.remedy and "no bay zz-never-0" in fault.what
    assert replay(environment, task(environment, call)), "whatever was declared"
    shown = task(environment, Call("show_bay", {"bay": "B1"}), Call("free_bay", {"bay": "B1"}))
    assert replay(environment, shown) == []


LYING = "says that it changes nothing, and does"


@pytest.mark.parametrize("liar", ["think", "peek", ""])
def test_what_says_that_it_changes_nothing_is_not_believed(tmp_path: Path, liar: str) -> None:
    reads = ["--reads", "count", *(["--reads", liar] if liar else [])]
    file = described(tmp_path, "Thinking", "--no-calls", *reads, "--probe", "count()")
    faults = probed(load(file)).faults
    accused = [(fault.where, fault.what) for fault in faults if fault.control == "getters"]
    assert accused == ([(liar, LYING)] if liar else [])
    described(tmp_path, "Thinking", "--no-calls", *reads, "--replace", "--writes", liar)
    environment = load(file)
    assert not [fault for fault in probed(environment).faults if fault.control == "getters"]
    if liar == "think":
        first = environment.reset(None)
        second = first.fork()
        thoughts = [
            world.call(Call("think", {"thought": "a", "number": 1})) for world in (first, second)
        ]
        assert [result.value for result in thoughts] == [{"thoughts": 1}] * 2
