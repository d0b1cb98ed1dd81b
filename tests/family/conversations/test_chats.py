"""`rods data import chats`: a stranger's log becomes tasks, and what is broken in it is told by
line and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.canonical import JsonObject
from rods.console.main import run as rods
from rods.family.conversations.anonymous import Pseudonyms
from rods.tasks import Task, read_tasks
from tests.environments import desk_tasks
from tests.family.conversations import logs


def imported(
    folder: Path, content: bytes | list[JsonObject], *options: str
) -> tuple[list[Task], list[JsonObject], int]:
    """The tasks, the rejects and the exit code of an import into desk."""
    file = folder / "log.jsonl"
    if isinstance(content, list):
        content = b"".join(orjson.dumps(record) + b"\n" for record in content)
    file.write_bytes(content)
    code = rods(["data", "import", "chats", str(file), "--world", "desk", *options])
    kept = (folder / "log.rejects.jsonl").read_bytes().splitlines()
    tasks = [task for task in read_tasks(folder / "log.tasks.jsonl") if isinstance(task, Task)]
    return tasks, [orjson.loads(line) for line in kept], code


def content(task: Task) -> tuple[Any, ...]:
    return task.script, task.calls, task.state


def test_fifty_conversations_become_tasks_or_are_kept_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, right, wrong = logs.log()
    tasks, rejects, code = imported(tmp_path, log)
    assert code == 1 and len(tasks) + len(rejects) == logs.COUNT
    assert [content(task) for task in tasks] == [content(task) for task in right.values()]
    assert {reject["rejected"]["line"] for reject in rejects} == wrong.keys()
    printed = capsys.readouterr().out
    for reject in rejects:
        told = reject["rejected"]
        assert wrong[told["line"]] in told["why"], told
        assert f"log.jsonl:{told['line']} {told['where']}".rstrip() in printed
    assert rods(["data", "check", str(tmp_path / "log.tasks.jsonl")]) == 0


def test_nothing_of_what_is_kept_apart_is_lost(tmp_path: Path) -> None:
    log, _, wrong = logs.log()
    _, rejects, _ = imported(tmp_path, log)
    lines = log.splitlines()
    for reject in rejects:
        line = lines[reject.pop("rejected")["line"] - 1]
        assert reject == {"text": line.decode()} or reject == orjson.loads(line)
    assert len(rejects) == len(wrong)


def test_mended_rejects_are_imported_as_they_lie(tmp_path: Path) -> None:
    task = desk_tasks(7, 80, 0)[0]
    record = logs.openai(task)
    record["messages"][logs.first(record, "tool")]["content"] = '{"other": 1}'
    _, rejects, _ = imported(tmp_path, [record])
    place = logs.first(rejects[0], "tool")
    rejects[0]["messages"][place]["content"] = logs.results_of(task)[0][0]
    tasks, rejects, code = imported(tmp_path, rejects)
    assert code == 0 and not rejects and content(tasks[0]) == content(task)


def test_a_result_that_differs_is_told_value_by_value(tmp_path: Path) -> None:
    task = next(task for task in desk_tasks(7, 80, 0) if task.calls[0][0].name == "search_mail")
    record = logs.openai(task)
    record["messages"][logs.first(record, "tool")]["content"] = '{"mails":["m777"]}'
    _, rejects, _ = imported(tmp_path, [record])
    here = orjson.loads(logs.results_of(task)[0][0])["mails"][0]
    assert f'mails[0] is "m777" in the log, "{here}" in the world' in rejects[0]["rejected"]["why"]
    assert rejects[0]["rejected"]["where"] == f"message {logs.first(record, 'tool')}"


def test_results_are_compared_as_values_and_not_as_text(tmp_path: Path) -> None:
    record = logs.openai(task := desk_tasks(7, 80, 0)[0])
    for message in record["messages"]:
        if message["role"] == "tool":
            value = orjson.loads(message["content"])
            message["content"] = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    tasks, _, code = imported(tmp_path, [record])
    assert code == 0 and content(tasks[0]) == content(task)


@pytest.mark.parametrize("form", logs.FORMS)
def test_every_form_says_the_same(tmp_path: Path, form: Any) -> None:
    tasks = [task for task in desk_tasks(7, 40, 0) if not task.later_tools][:4]
    again, rejects, code = imported(tmp_path, [form(task) for task in tasks])
    assert (rejects, code) == ([], 0)
    assert [content(task) for task in again] == [content(task) for task in tasks]


def test_one_list_of_conversations_and_one_of_messages_are_read(tmp_path: Path) -> None:
    first, second = (logs.openai(task) for task in desk_tasks(7, 80, 0)[:2])
    tasks, _, _ = imported(tmp_path, orjson.dumps([first, second], option=orjson.OPT_INDENT_2))
    assert len(tasks) == 2
    state = tmp_path / "state.json"
    state.write_bytes(orjson.dumps(first["state"]))
    bare = orjson.dumps(first["messages"])
    again, _, code = imported(tmp_path, bare, "--state", str(state))
    assert code == 0 and content(again[0]) == content(tasks[0])


def test_a_thank_you_that_nobody_answered_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = logs.openai(task := desk_tasks(7, 80, 0)[0])
    record["messages"].append({"role": "user", "content": "Thanks!"})
    tasks, _, code = imported(tmp_path, [record])
    assert code == 0 and content(tasks[0]) == content(task)
    assert "line 1: the last message of its user is not answered" in capsys.readouterr().out


def test_the_same_task_twice_is_one_task_and_one_reject(tmp_path: Path) -> None:
    record = logs.openai(desk_tasks(7, 80, 0)[0])
    tasks, rejects, _ = imported(tmp_path, [record, record])
    assert len(tasks) == 1 and rejects[0]["rejected"]["why"] == "makes the same task as line 1"


def test_a_state_that_the_world_refuses_ends_no_batch(tmp_path: Path) -> None:
    first, second = (logs.openai(task) for task in desk_tasks(7, 80, 0)[:2])
    first["state"] = {"contacts": 5}
    tasks, rejects, _ = imported(tmp_path, [first, second])
    assert len(tasks) == 1 and "refuses the initial state" in rejects[0]["rejected"]["why"]


def test_the_input_is_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("{}\n")
    command = ["data", "import", "chats", str(file), "--world", "desk", "--rejects", str(file)]
    assert rods(command) == 2
    assert "would be written over" in capsys.readouterr().err and file.read_text() == "{}\n"


def test_names_are_others_everywhere_and_the_calls_still_hold(tmp_path: Path) -> None:
    log, right, _ = logs.log()
    tasks, rejects, _ = imported(tmp_path, log, "--anonymous")
    people = {name for task in right.values() for name in (task.state or {}).get("contacts", ())}
    assert people and len(tasks) + len(rejects) == logs.COUNT and len(tasks) == len(right)
    written = (tmp_path / "log.tasks.jsonl").read_text()
    assert not [name for name in people if f'"{name}"' in written or f" {name} " in written]
    assert rods(["data", "check", str(tmp_path / "log.tasks.jsonl")]) == 0


def test_pseudonyms_are_the_same_in_text_arguments_and_state() -> None:
    value = {
        "text": "Write to Anna Keller <a.keller@corp.org> or call +49 170 5551234; Dr. Petrosyan "
        "knows. On 2026-11-29 at 10:30, from 192.168.10.12, the rose is red.",
        "arguments": {
            "attendee": "anna keller",
            "mail": "A.Keller@corp.org",
            "handle": "anna_keller",
        },
        "state": {
            "contacts": {"Anna Keller": {"phone": "491705551234"}, "Rose Tyler": {}},
            "rooms": [{"name": "Blue Room"}],
        },
    }
    other = Pseudonyms([value]).value(value)
    text = orjson.dumps(other).decode()
    for personal in ("nna", "eller", "orp.org", "170", '1234"', "Petrosyan", "Tyler"):
        assert personal not in text, personal
    for kept in ("2026-11-29 at 10:30", "192.168.10.12", "the rose is red", "Blue Room"):
        assert kept in text, kept
    full = next(iter(other["state"]["contacts"]))
    assert f"Write to {full} <person1@mail.example>" in other["text"]
    assert other["arguments"] == {
        "attendee": full.lower(),
        "mail": "person1@mail.example",
        "handle": full.lower().replace(" ", "_"),
    }
    phone = other["state"]["contacts"][full]["phone"]
    assert phone == "".join(filter(str.isdigit, other["text"].partition("call +")[2][:15]))
