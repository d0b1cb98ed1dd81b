"""Verbs on a small real run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rods.console.main import run
from tests.console.conftest import CONFIG


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """What a verb prints, called in this process."""
    assert run([str(argument) for argument in arguments]) == code
    return capsys.readouterr().out


def said_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> Any:
    return json.loads(said(capsys, *arguments, "--json", code=code))


def a_variant(run_folder: Path) -> str:
    """The id of an injected variant."""
    for line in (run_folder / "pool.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "injected":
            return str(record["task"])
    raise AssertionError("the run injected nothing")


def test_new_creates_a_run_once_and_joins_it_the_second_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(CONFIG)
    first = said_json(capsys, "trainer", "new", tmp_path / "run", "--config", config)
    again = said_json(capsys, "trainer", "new", tmp_path / "run", "--config", config)
    assert first == again
    assert (first["originals"], first["held_out"]) == (16, 12)
    assert "rods up" in said(capsys, "trainer", "new", tmp_path / "run", "--config", config)


def test_status_counts_what_the_logs_say(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said_json(capsys, "status", finished_run)
    records = [json.loads(line) for line in (finished_run / "pool.jsonl").read_text().splitlines()]
    kinds = [record["kind"] for record in records]
    assert found["step"] == found["steps"] == 14
    assert found["injected"] == kinds.count("injected") > 0
    assert found["retired"] == kinds.count("retired")
    assert found["generated"] == records[-1]["counts"]["generated"]
    assert found["originals"] == 16
    assert sum(found["zones"].values()) <= found["originals"] + found["generated"]
    assert not found["processes"]["trainer"]["alive"]
    text = said(capsys, "status", finished_run)
    assert "step 14 of 14" in text
    assert "stopped" in text


def test_inspect_shows_a_variant_with_its_lineage_truth_and_history(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variant = a_variant(finished_run)
    found = said_json(capsys, "inspect", finished_run, variant[:12])
    assert found["task"]["id"] == variant
    assert found["ancestry"][-1] == variant
    assert len(found["ancestry"]) >= 2
    assert "injected" in [event["event"] for event in found["history"]]
    seed = said_json(capsys, "inspect", finished_run, found["ancestry"][0])
    assert "picked" in [event["event"] for event in seed["history"]]
    text = said(capsys, "inspect", finished_run, variant)
    told = said(capsys, "inspect", finished_run, found["ancestry"][0]).splitlines()
    events = [line for line in told if line.startswith("step ")]
    assert any("score 0." in line for line in events)
    assert not any(re.search(r"\d\.0*[1-9]\d{4}", line) for line in events), (
        "fractions have four digits"
    )
    assert found["task"]["user"]["script"][0] in text
    assert "truth:" in text
    assert "ancestry" in text


def test_inspect_without_a_task_lists_them(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = said_json(capsys, "inspect", finished_run)["tasks"]
    variants, originals = (
        said_json(capsys, "inspect", finished_run, kind)["tasks"]
        for kind in ("variants", "originals")
    )
    assert every == originals + variants and variants and all(one["generation"] for one in variants)
    assert len((finished_run / "tasks.jsonl").read_text().splitlines()) == len(originals)
    text = said(capsys, "inspect", finished_run, "variants")
    assert (
        len(text.splitlines()) == len(variants)
        and f"{variants[0]['id']}  {variants[0]['type']}" in text
    )


@pytest.mark.parametrize(("prefix", "words"), [("zz", "no task"), ("", "no task")])
def test_inspect_refuses_an_unknown_task(
    finished_run: Path, prefix: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(finished_run), prefix]) == 2
    told = capsys.readouterr().err
    assert words in told and f"`rods inspect {finished_run}` lists them all" in told


def test_inspect_refuses_a_prefix_of_several_tasks(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [
        json.loads(line)["id"] for line in (finished_run / "tasks.jsonl").read_text().splitlines()
    ]
    first = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)
    assert run(["inspect", str(finished_run), first]) == 2
    assert "more than one task" in capsys.readouterr().err


def test_verify_agrees_with_a_run_and_replays_its_variants(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_json(capsys, "verify", finished_run, "--replay")["ok"]
    assert "agrees" in said(capsys, "verify", finished_run)


def test_verify_exits_1_when_a_log_was_changed(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_copy / "pool.jsonl"
    path.write_text(
        path.read_text()
        .replace('"rule":"burn_in"', '"rule":"capacity"')
        .replace('"injected":', '"injected" :')
    )
    assert not said_json(capsys, "verify", run_copy, code=1)["ok"]


def test_score_pairs_start_and_end_and_is_done_once(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compared = said_json(capsys, "trainer", "score", run_copy)
    files = {path: path.stat().st_mtime_ns for path in (run_copy / "eval").iterdir()}
    assert compared["difference"]["progress"]["tasks"] == 12
    assert said_json(capsys, "trainer", "score", run_copy) == compared
    assert {path: path.stat().st_mtime_ns for path in (run_copy / "eval").iterdir()} == files
    assert said_json(capsys, "trainer", "score", run_copy, "--step", "0") == compared["start"]
    text = said(capsys, "trainer", "score", run_copy)
    assert "95 % interval" in text
    card = said_json(capsys, "trainer", "score", run_copy)["end"]["card"]
    for part in (
        *card["data"],
        card["split"]["hash"],
        "random seeds and sampling: rollouts 0",
        "NOT ALIKE",
    ):
        assert (part in text) == (part != "NOT ALIKE")


def test_fork_takes_originals_and_active_variants_along(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = said_json(capsys, "status", finished_run)
    forked = said_json(capsys, "trainer", "fork", finished_run, tmp_path / "new")
    assert forked["tasks"] == status["originals"] + status["generated"]
    assert forked["parent"]["epoch"] == status["epoch"]
    assert forked["weights_of_step"] is None
    assert said_json(capsys, "status", tmp_path / "new")["step"] == 0


def test_fork_with_weights_starts_from_the_newest_policy(
    run_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forked = said_json(capsys, "trainer", "fork", run_copy, tmp_path / "new", "--weights")
    assert forked["weights_of_step"] == 14
    end = said_json(capsys, "trainer", "score", run_copy, "--step", "14")
    start = said_json(capsys, "trainer", "score", tmp_path / "new", "--step", "0")
    assert start["progress"] == end["progress"]
    assert (
        run(["trainer", "fork", str(tmp_path / "new"), str(tmp_path / "newer"), "--weights"]) == 0
    )


def test_data_check_names_line_and_field_and_exits_1(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (finished_run / "tasks.jsonl").read_text().splitlines()
    good = tmp_path / "good.jsonl"
    good.write_text("\n".join(lines[:3]) + "\n")
    assert said_json(capsys, "data", "check", good)["ok"]
    bad = tmp_path / "bad.jsonl"
    bad.write_text(lines[0] + "\n" + lines[1].replace('"type":"', '"type":"un') + "\n")
    text = said(capsys, "data", "check", bad, code=1)
    assert f"{bad}:2 type" in text
    assert "→" in text
