"""The report: sentences and figures from a run's own records, in one page that fetches nothing."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rods.buffers.log.tail import read
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL, SEEDS
from rods.buffers.state import RunState
from rods.config import parse_config
from rods.console.main import run
from rods.evaluation.scoring import compared_sentence
from rods.family.page.follower import Follower
from rods.family.page.report import figures, findings, landed, limits, report
from rods.observations import Group
from rods.rules.zones import ZONES, moments
from tests.console.conftest import rods
from tests.console.test_verbs import said, said_json


def reader(path: Path) -> Follower:
    """One that has read all of the run."""
    follower = Follower(path)
    follower.look()
    return follower


def test_the_numbers_are_those_of_the_logs(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = said_json(capsys, "status", finished_run)
    found = figures(reader(finished_run))
    assert found["steps"] == 14
    assert found["injected"] == status["injected"]
    assert sum(found["retired"].values()) == status["retired"]
    assert found["accepted"] == sum(1 for _ in read(finished_run / EXPANDED))
    ended = [one for one in read(finished_run / SEEDS) if one["kind"] == "finished"]
    # a pick may be stopped after its variant
    assert status["accepted"] == sum(len(one["accepted"]) for one in ended)
    assert found["picks"] == status["picked"]


def test_groups_carry_the_tracker_s_zones_and_variants_their_first_reward(
    finished_run: Path,
) -> None:
    one = reader(finished_run)
    groups = one.groups
    assert len(groups) == 14 * 8
    zones = one.run.config.zones
    state = RunState(Run.open(finished_run))
    zones_then = []
    for step in state.steps():
        zones_then += [state.tracker.zone(record["task"]) for record in step.records]
    assert [ZONES[zone] for zone in groups["zone"]] == zones_then
    boundary = groups["mean"][groups["zone"] == ZONES.index("boundary")]
    assert (boundary >= zones.boundary_low).all() and (boundary <= zones.boundary_high).all()
    variants = {one.ids[task] for task in groups["task"] if task >= one.originals}
    assert variants <= set(seeds(finished_run))


def test_where_variants_land_and_what_became_of_their_seeds_is_what_the_logs_say(
    finished_run: Path,
) -> None:
    """Looked up in the columns; here by going through the groups in order."""
    seen: dict[str, list[tuple[int, float]]] = {}
    for record in read(finished_run / OBSERVATIONS):
        if (
            record["kind"] == "group"
            and (found := moments(Group.from_json(record), "progress")) is not None
        ):
            seen.setdefault(record["task"], []).append((record["step"], found.mean))
    injected = {
        one["task"]: one["step"] for one in read(finished_run / POOL) if one["kind"] == "injected"
    }
    first = [seen[task][0][1] for task in seeds(finished_run) if task in seen]
    delays = []
    moves = []
    for record in read(finished_run / EXPANDED):
        if (at := injected.get(record["task"]["id"])) is None:
            continue
        delays.append(at - record["step"])
        of_seed = seen[record["pick"].partition("-")[2]]
        picked = [mean for step, mean in of_seed if step <= record["step"]]
        later = [mean for step, mean in of_seed if step > at]
        moves += [later[0] - picked[-1]] if later else []
    landing = landed(reader(finished_run))
    assert first and moves
    assert (landing.first.tolist(), landing.delays.tolist(), landing.moves.tolist()) == (
        first,
        delays,
        moves,
    )


def seeds(run: Path) -> dict[str, str]:
    """Of each variant the task that it was written from."""
    return {one["task"]["id"]: one["pick"].partition("-")[2] for one in read(run / EXPANDED)}


def test_a_rewound_run_counts_only_what_is_live(run_copy: Path) -> None:
    before = reader(run_copy).groups
    merged = rods("trainer", "observe", run_copy, "--from-step", "9")
    assert merged.returncode == 0, merged.stderr
    after = reader(run_copy)
    assert figures(after)["steps"] == 9
    assert np.array_equal(after.groups["mean"], before["mean"][before["step"] <= 9])
    assert (after.epochs["step"] <= 9).all()


def test_an_export_opens_with_the_report_and_has_all_views_inside(
    run_copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said_json(capsys, "trainer", "score", run_copy)
    told = said_json(capsys, "dash", run_copy, "--export", tmp_path / "site")
    page = tmp_path / "site" / "index.html"
    assert told["page"] == str(page) and list(page.parent.iterdir()) == [page]
    text = page.read_text()
    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert "default-src 'none'" in text
    held = re.search(r'id="answers">(.*?)</script>', text)
    assert held is not None
    answers = json.loads(held[1])
    found = answers["/api/copy/report"]
    assert found["numbers"] == told["runs"]["copy"]
    follower = reader(run_copy)
    assert found["findings"] == findings(follower, figures(follower))
    assert found["findings"][0].startswith("Held-out")
    assert "no evidence that the method helps" in found["limits"][0] and found["simulated"]
    types = [answers[f"/api/copy/task?task={task}"]["task"]["type"] for task in found["examples"]]
    assert types and len({*types}) == len(types)
    # the other views
    assert {"/api/copy/status", "/api/copy/boundary", "/api/copy/funnel"} <= answers.keys()
    shown = said(capsys, "dash", run_copy, "--export", tmp_path / "site")
    assert all(f"  {line}\n" in shown for line in found["findings"])


def test_every_variant_with_a_group_stands_among_those_that_landed(finished_run: Path) -> None:
    follower = reader(finished_run)
    bars = report(follower)["landing"]
    assert bars["at"] == sorted(bars["at"]) and len(bars["at"]) == len(bars["variants"])
    assert sum(bars["variants"]) == len(landed(follower).first)


def test_a_run_without_a_step_has_a_report_too(finished_run: Path, tmp_path: Path) -> None:
    done = Run.open(finished_run)
    fresh = create_run(tmp_path / "fresh", done.config, done.tasks)
    follower = reader(fresh.path)
    assert sum(report(follower)["landing"]["variants"]) == 0
    (line,) = findings(follower, figures(follower))
    assert line.startswith("Nothing to say yet")
    assert run(["dash", str(fresh.path), "--export", str(tmp_path / "site")]) == 0


def test_an_export_says_what_each_run_of_a_folder_shows(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        shutil.copytree(finished_run, tmp_path / "runs" / name)
    told = said_json(capsys, "dash", tmp_path / "runs", "--export", tmp_path / "site")
    assert told["runs"].keys() == {"one", "two"}
    assert told["runs"]["one"] == told["runs"]["two"] == figures(reader(finished_run))


def test_findings_say_how_seeds_were_picked_and_at_how_many_merges(finished_run: Path) -> None:
    follower = reader(finished_run)
    epochs = follower.epochs["epoch"].tolist()
    assert epochs == list(range(len(epochs)))
    merges = f"injected at {len(epochs) - 1} merges."
    for order, seeds in (("proxy", "boundary"), ("random", "random")):
        drawn = follower.run.config.selection.model_copy(update={"order": order})
        config = follower.run.config.model_copy(update={"selection": drawn})
        follower.run = replace(follower.run, config=config)
        (line,) = (line for line in findings(follower, figures(follower)) if "picks of" in line)
        assert f"picks of {seeds} seeds gave" in line and line.endswith(merges)


def test_held_out_interval_is_read_as_it_is() -> None:
    def scores(low: float, high: float) -> dict[str, object]:
        difference = {"mean": (low + high) / 2, "interval": [low, high], "tasks": 200}
        ends = {
            "start": {"step": 0, "progress": {"mean": 0.5}},
            "end": {"step": 60, "progress": {"mean": 0.6}},
        }
        return {**ends, "difference": {"progress": difference}}

    assert compared_sentence(scores(0.01, 0.2)).endswith("which lies above 0.")
    assert compared_sentence(scores(-0.2, -0.1)).endswith("which lies below 0.")
    assert compared_sentence(scores(-0.1, 0.1)).endswith("which includes 0.")


INTERVAL = r"\d\.\d{3} \[0\.\d{3}, \d\.\d{3}\]"


def keep(run: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Leaves those lines of the held-out scores that are wanted."""
    for file in (run / "eval").glob("heldout_step_*.jsonl"):
        lines = [line for line in file.read_bytes().splitlines() if wanted(json.loads(line))]
        file.write_bytes(b"".join(line + b"\n" for line in lines))


def test_a_single_held_out_task_has_a_score_and_no_difference(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = said_json(capsys, "trainer", "score", run_copy, "--step", "14")
    said(capsys, "trainer", "score", run_copy)
    task = json.loads(Path(only["file"]).read_text().splitlines()[0])["task"]
    keep(run_copy, lambda line: line.get("task", task) == task)
    text = said(capsys, "trainer", "score", run_copy)
    assert "over 1 task, too few for an interval." in text
    assert re.search(rf"^  \w+ +{INTERVAL} → {INTERVAL}$", text, re.MULTILINE)
    step = said(capsys, "trainer", "score", run_copy, "--step", "14")
    assert re.search(rf"progress {INTERVAL}, all turns {INTERVAL}", step)
    assert "1 task: too few to tell policies apart" in step
    assert "too few for an interval" in said(
        capsys, "dash", run_copy, "--export", run_copy / "report"
    )


def test_the_intervals_of_two_held_out_tasks_stay_between_0_and_1(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = said_json(capsys, "trainer", "score", run_copy, "--step", "14")
    said(capsys, "trainer", "score", run_copy)
    names = [json.loads(line)["task"] for line in Path(only["file"]).read_text().splitlines()[:-1]]
    two = sorted(set(names))[:2]
    keep(run_copy, lambda line: line.get("task", two[0]) in two)
    found = said_json(capsys, "trainer", "score", run_copy)
    for end in ("start", "end"):
        for measure in ("progress", "binary"):
            low, high = found[end][measure]["interval"]
            assert 0 <= low <= found[end][measure]["mean"] <= high <= 1 and high - low > 0.5
    low, high = found["difference"]["progress"]["interval"]
    assert -1 <= low <= high <= 1
    assert "2 tasks: too few to tell policies apart" in said(capsys, "trainer", "score", run_copy)


def test_a_type_that_one_end_could_not_score_is_said(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = said_json(capsys, "trainer", "score", run_copy)["end"]["progress_by_type"]
    gone = sorted(kinds)[0]
    keep(run_copy, lambda line: line.get("step", 1) > 0 or line["type"] != gone)
    assert re.search(
        rf"^  {gone} +not scored → \d", said(capsys, "trainer", "score", run_copy), re.MULTILINE
    )
    assert run(["dash", str(run_copy), "--export", str(run_copy / "report")]) == 0


def test_nano_s_report_does_not_claim_to_beat_supervised_learning(finished_run: Path) -> None:
    follower = reader(finished_run)
    config = parse_config({"policy": {"kind": "nano"}}, where="test")
    follower.run = replace(follower.run, config=config)
    lines = limits(follower, scored=False)
    assert any("more supervised warm-up would beat" in line for line in lines)
