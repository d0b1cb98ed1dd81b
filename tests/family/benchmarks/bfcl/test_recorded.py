"""Outputs that exist are scored as they are; those of other data never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.family.benchmarks.bfcl import results
from rods.family.benchmarks.folder import SETTINGS
from rods.family.benchmarks.main import run
from rods.tasks import TASK_TYPES, Task
from rods.worlds.bfcl import wheel

OLD = "2025.10.2.2"


@pytest.fixture
def four(tasks: list[Task]) -> list[Task]:
    """A held-out task of every type."""
    return [next(t for t in tasks if t.type == kind and t.split == "test") for kind in TASK_TYPES]


def truth(task: Task) -> list[list[str]]:
    return [
        [f"[{', '.join(map(str, calls))}]", "done"] if calls else ["cannot"] for calls in task.calls
    ]


def name(task: Task) -> str:
    return str(task.provenance["id"])


def scored(
    folder: Path, *arguments: object, code: int = 1, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Fewer outputs than tasks end with 1."""
    assert run(["run", str(folder), *map(str, arguments), "--json"]) == code
    captured = capsys.readouterr()
    return captured.err if code in (2, 3) else json.loads(captured.out)


def test_result_files_are_scored_and_what_they_lack_is_told(
    four: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoilt = [*truth(four[1])[:-1], ["I give up"]]
    results.write(
        tmp_path / "r", "m", [(name(four[0]), truth(four[0])), (name(four[1]), spoilt)], "prompt"
    )
    found = scored(tmp_path / "e", "--recorded", tmp_path / "r", capsys=capsys)
    assert (found["episodes"], found["expected"], found["complete"]) == (2, 400, False)
    scores = found["scores"]["held-out"]
    assert (scores["base"]["official"]["mean"], scores["long_context"]["official"]["mean"]) == (
        1.0,
        0.0,
    )
    assert scores["all"]["official"]["mean"] == 0.5


def test_native_results_need_to_be_called_native(
    four: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    native = [
        [[{call.name: json.dumps(dict(call.arguments))} for call in calls]]
        for calls in four[0].calls
    ]
    results.write(tmp_path / "r", "m", [(name(four[0]), native)], "native")
    said = scored(tmp_path / "e", "--recorded", tmp_path / "r", code=2, capsys=capsys)
    assert "holds native tool calls → say --calls native" in said
    found = scored(tmp_path / "n", "--recorded", tmp_path / "r", "--calls", "native", capsys=capsys)
    assert found["scores"]["held-out"]["base"]["official"]["mean"] == 1.0


def test_results_of_another_data_version_are_refused(
    four: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results.write(tmp_path / "r", "m", [(name(four[0]), truth(four[0]))], "prompt")
    stated = tmp_path / "r" / "m" / results.VERSION_FILE
    stated.write_bytes(orjson.dumps({"package": "bfcl-eval", "version": OLD, "sha256": "0" * 64}))
    said = scored(tmp_path / "e", "--recorded", tmp_path / "r", code=3, capsys=capsys)
    assert (
        f"belongs to the data of bfcl-eval {OLD}; this program scores bfcl-eval {wheel.VERSION}"
        in said
    )


def test_results_whose_log_shows_other_questions_are_refused(
    four: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = [{"begin_of_turn_query": [{"role": "user", "content": text}]} for text in four[0].script]
    line: dict[str, Any] = {
        "id": name(four[0]),
        "result": truth(four[0]),
        "inference_log": [[{"role": "state"}], *log],
    }
    file = tmp_path / "BFCL_v4_multi_turn_base_result.json"
    file.write_text(json.dumps(line) + "\n")
    assert scored(tmp_path / "e", "--recorded", file, capsys=capsys)["episodes"] == 1
    log[0]["begin_of_turn_query"][0]["content"] = "A question of last year"
    file.write_text(json.dumps(line) + "\n")
    said = scored(tmp_path / "f", "--recorded", file, code=3, capsys=capsys)
    assert "was asked something else than the task" in said and "A question of last year" in said


def test_results_of_bfcl_v3_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "BFCL_v3_multi_turn_base_result.json"
    file.write_text("{}\n")
    assert "another version of BFCL" in scored(
        tmp_path / "e", "--recorded", tmp_path, code=3, capsys=capsys
    )


def test_an_evaluation_of_another_data_version_is_never_gone_on_with(
    four: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results.write(tmp_path / "r", "m", [(name(four[0]), truth(four[0]))], "prompt")
    folder = tmp_path / "e"
    scored(folder, "--recorded", tmp_path / "r", capsys=capsys)
    remembered = orjson.loads((folder / SETTINGS).read_bytes())
    remembered["data"]["version"] = OLD
    (folder / SETTINGS).write_bytes(orjson.dumps(remembered))
    for arguments in (
        ["run", str(folder), "--recorded", str(tmp_path / "r")],
        ["report", str(folder)],
    ):
        assert run(arguments) == 3
        assert f"belongs to the data of bfcl-eval {OLD}" in capsys.readouterr().err
    assert run(["check", str(folder)]) == 3


@pytest.mark.parametrize(
    "line", ["{", '{"id": 5}', '{"id": "multi_turn_base_5", "result": [5]}', "[]"]
)
def test_broken_lines_are_named(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "BFCL_v4_multi_turn_base_result.json"
    file.write_text(line + "\n")
    assert f"{file}:1" in scored(
        tmp_path / "e", "--recorded", file, "--split", "all", code=2, capsys=capsys
    )


def test_what_people_read_names_data_protocol_and_what_is_missing(
    four: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = results.write(
        tmp_path / "r", "m", [(name(task), truth(task)) for task in four], "prompt"
    )[0]
    assert (
        run(["run", str(tmp_path / "e"), "--recorded", str(tmp_path / "r"), "--name", "mine"]) == 1
    )
    shown = capsys.readouterr().out
    for part in (
        f"mine: BFCL multi-turn, data of bfcl-eval {wheel.VERSION} (sha256 {wheel.SHA256[:12]}",
        "protocol official, prompt mode, documents full",
        "held-out (the papers' 400)",
        "unseen by any stage (300)",
        "4 of 400 episodes (finished 4)",
        "INCOMPLETE",
    ):
        assert part in shown
    assert "do not say which data" not in shown
    (file.parent.parent / results.VERSION_FILE).unlink()
    assert (
        run(["run", str(tmp_path / "f"), "--recorded", str(tmp_path / "r"), "--name", "mine"]) == 1
    )
    assert "do not say which data" in capsys.readouterr().out
