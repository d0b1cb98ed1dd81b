"""`rods data reword`: tasks said anew by a stub that plays the roles over HTTP, what stays as it is
and why, and starts that go on."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.log.tail import read
from rods.console.main import run as rods
from rods.conversations import Checks, Script as Texts
from rods.daemon.stand_ins.model import StandIn
from rods.environments.loading import Environments
from rods.errors import EXIT_FAILED, EXIT_OK
from rods.tasks import TASK_TYPES, AnyTask, OpenTask, Task, read_tasks, write_task_file
from rods.worlds.checking.task_files import check_file
from tests.environments import desk_tasks

ROLES = "bench.fixtures.llm_stub.roles:answer"


def some(count: int) -> list[Task]:
    """Training tasks of desk, as many of each type, and a held-out one."""
    given = desk_tasks(29, 40, 4)
    train = [
        task
        for type in TASK_TYPES
        for task in [task for task in given if task.type == type and task.split == "train"][:count]
    ]
    return [*train, next(task for task in given if task.split != "train")]


def configured(folder: Path, url: str, **operation: Any) -> Path:
    lines = [
        "[data]",
        'tasks = "none"',
        "[operation]",
        *(f"{key} = {value}" for key, value in operation.items()),
        "[[operation.endpoints]]",
        'model = "stub"',
        f'urls = ["{url}"]',
        "retry_seconds = 0.5",
        "patience_seconds = 1.0",
    ]
    file = folder / "llm.toml"
    file.write_text("\n".join(lines))
    return file


def reword(
    folder: Path, tasks: Sequence[AnyTask], config: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, str], list[AnyTask]]:
    """The exit code, what was said of the tasks that stay by their ids, and the new file."""
    file = folder / "tasks.jsonl"
    write_task_file(tasks, file)
    code = rods(["data", "reword", str(file), "--config", str(config), "--json"])
    report = json.loads(capsys.readouterr().out)
    left = {fault["where"].split()[-1]: fault["what"] for fault in report["faults"]}
    return code, left, read_tasks(folder / "tasks.reworded.jsonl")


def test_what_is_said_anew_is_another_task_with_the_same_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lineage = {"seed": "s" * 20, "root": "r" * 20, "generation": 2, "model": "procedural"}
    tasks = [
        replace(task, provenance={**task.provenance, **lineage}, id="") for task in some(count=3)
    ]
    with Stub(Script(answer=ROLES)) as stub:
        config = configured(tmp_path, stub.url, workers=2)
        code, left, new = reword(tmp_path, tasks, config, capsys)
        assert stub.counts()["most_in_flight"] <= 2
    done = [(old, task) for old, task in zip(tasks, new, strict=True) if old.id not in left]
    assert {task.type for _, task in done} == set(TASK_TYPES), left
    assert code == (EXIT_FAILED if left else EXIT_OK)
    for old, task in done:
        assert isinstance(task, Task) and task.id != old.id and task.script != old.script
        said_as_before = replace(task, script=old.script, provenance=old.provenance, id="")
        assert said_as_before == old, "nothing but words and provenance has changed"
        about = task.provenance["reworded"]
        assert about["of"] == old.id and about["model"] == "stub" and about["judge"]
        assert "rewrite_turns" in about["prompts"]
        assert {key: task.provenance[key] for key in lineage} == lineage
    worked = (tmp_path / "tasks.reworded.jsonl").read_bytes()
    shutil.rmtree(tmp_path / "tasks.reworded.jsonl.reword")
    code, left_now, _ = reword(tmp_path, tasks, config, capsys)  # nobody answers any more
    assert code == EXIT_FAILED and left_now.keys() == {task.id for task in tasks}
    assert (tmp_path / "tasks.reworded.jsonl").read_bytes() == worked
    stays = [task for old, task in zip(tasks, new, strict=True) if old.id in left]
    assert stays == [task for task in tasks if task.id in left]
    report = check_file(tmp_path / "tasks.reworded.jsonl", Environments())
    assert report.ok, report.lines()


def test_each_line_that_stays_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = some(count=2)
    broken = replace(second, state={}, provenance={}, id="")
    checks = Checks(first.goal_calls[:1])
    judged = OpenTask(first.environment, "base", Texts(("Hello.",)), checks, first.tools)
    with Stub(Script(answer="tests.family.reword.test_reword:named")) as stub:
        config = configured(tmp_path, stub.url)
        code, left, new = reword(tmp_path, [first, broken, judged], config, capsys)
    assert code == EXIT_FAILED
    assert new == [first, broken, judged], "as they were"
    assert "no calls tell" in left[judged.id]
    assert left[broken.id].startswith("stays as it is: ") and "fails" in left[broken.id]
    assert "names the function" in left[first.id] or "rewrite_turns" in left[first.id]


def named(request: dict[str, Any]) -> str:
    """A model that says the names of functions, whatever it is told."""
    fields = request["response_format"]["json_schema"]["schema"]["properties"]
    texts = ["Please do add_event for me."] * fields["queries"]["minItems"]
    return json.dumps({"reason": "", "queries": texts})


def test_the_old_words_are_no_new_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = some(count=1)[0]
    with Stub(Script(answer="tests.family.reword.test_reword:parroted")) as stub:
        config = configured(tmp_path, stub.url)
        code, left, new = reword(tmp_path, [task], config, capsys)
    assert code == EXIT_FAILED and new == [task]
    assert "all is said as in another task, or as before" in left[task.id]


def parroted(request: dict[str, Any]) -> str:
    """A model that says again what it was shown."""
    words = re.findall(r"^worded for itself: (.*)$", request["messages"][1]["content"], re.M)
    return json.dumps({"reason": "", "queries": words}) if words else StandIn().answer(request)


def test_an_endpoint_that_is_gone_says_nothing_of_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = some(count=1)
    config = configured(tmp_path, "http://127.0.0.1:9/v1")
    code, left, new = reword(tmp_path, tasks, config, capsys)
    assert code == EXIT_FAILED and new == tasks
    assert all(what.startswith("undecided: ") for what in left.values()) and len(left) == len(tasks)
    shutil.rmtree(tmp_path / "tasks.reworded.jsonl.reword")  # which counts what was sent in vain
    with Stub(Script(answer=ROLES)) as stub:
        budget = configured(tmp_path, stub.url, budgets="{ requests = 3 }")
        _, left, _ = reword(tmp_path, tasks, budget, capsys)
        assert any("budget of 3 requests" in what for what in left.values())
        assert stub.counts()["requests"] == 3
        _, left, new = reword(tmp_path, tasks, configured(tmp_path, stub.url), capsys)
    assert not any("undecided" in what for what in left.values())
    assert len(left) < len(tasks)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_killed_start_loses_no_answer(
    tmp_path: Path, refuses: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = some(count=2)
    write_task_file(tasks, tmp_path / "tasks.jsonl")
    log = tmp_path / "tasks.reworded.jsonl.reword" / "answers.jsonl"
    script = Script(answer=ROLES, latency=0.02, refuse_schema=refuses)
    with Stub(script) as stub:
        config = configured(tmp_path, stub.url, workers=3)
        command = [sys.executable, "-c", "from rods.console.main import main; main()"]
        options = ["data", "reword", str(tmp_path / "tasks.jsonl"), "--config", str(config)]
        process = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)
        while process.poll() is None and not (log.exists() and len([*read(log)]) >= 6):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = [(record["task"], record["at"], record["key"]) for record in read(log)]
        _, left, new = reword(tmp_path, tasks, config, capsys)
        after = [(record["task"], record["at"], record["key"]) for record in read(log)]
        assert len(before) >= 6 and after[: len(before)] == before
        assert len({place[:2] for place in after}) == len(after), "none was asked for twice"
        stub.forget()
        again = reword(tmp_path, tasks, config, capsys)
        assert again[1:] == (left, new) and not stub.counts()["requests"]
    assert len(left) < len(tasks)
