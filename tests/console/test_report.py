"""The report: sentences and plots from a run's own records, in one page that fetches nothing."""

import copy
import json
import re
import shutil
from collections.abc import Callable
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
from rods.console.follower import Follower
from rods.console.main import run
from rods.console.report.findings import findings, heldout_sentence, limits, numbers
from rods.console.report.history import History, recorded
from rods.console.report.page import curves, histograms, plots, told
from rods.observations import Dynamics, Group
from rods.rules.zones import ZONES, moments
from tests.console.conftest import rods
from tests.console.test_verbs import said, said_json


def changed(history: History, **attributes: Any) -> History:
    """A copy that differs in these."""
    other = copy.copy(history)
    vars(other).update(attributes)
    return other


def test_the_numbers_are_those_of_the_logs(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = said_json(capsys, "status", finished_run)
    found = numbers(recorded(Follower(finished_run)))
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
    one = Follower(finished_run)
    history = recorded(one)
    groups = history.groups
    assert len(groups) == 14 * 8
    zones = history.config.zones
    state = RunState(Run.open(finished_run))
    zones_then = []
    for step in state.steps():
        zones_then += [state.tracker.zone(record["task"]) for record in step.records]
    assert [ZONES[zone] for zone in groups.zone] == zones_then
    boundary = groups.zone == ZONES.index("boundary")
    assert (groups.mean[boundary] >= zones.boundary_low).all()
    assert (groups.mean[boundary] <= zones.boundary_high).all()
    with one.whole():
        assert {one.ids[task] for task in groups.task[groups.generated]} <= set(seeds(finished_run))


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
    landing = recorded(Follower(finished_run)).landing
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
    before = recorded(Follower(run_copy)).groups
    merged = rods("trainer", "observe", run_copy, "--from-step", "9")
    assert merged.returncode == 0, merged.stderr
    after = recorded(Follower(run_copy))
    assert after.groups.step[-1] == 9
    assert np.array_equal(after.groups.mean, before.mean[before.step <= 9])
    assert (after.epochs["step"] <= 9).all()


def test_report_writes_the_page_with_all_that_it_says_inside(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said_json(capsys, "trainer", "score", run_copy)
    told = said_json(capsys, "dash", "--report", run_copy)
    page = run_copy / "report" / "index.html"
    assert told["report"] == str(page) and list(page.parent.iterdir()) == [page]
    text = page.read_text()
    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert "default-src 'none'" in text
    held = re.search(r'id="answers">(.*?)</script>', text)
    assert held is not None
    answers = json.loads(held[1])
    report = answers["/api/copy/report"]
    assert report["numbers"] == {name: value for name, value in told.items() if name != "report"}
    history = recorded(Follower(run_copy))
    assert report["findings"] == findings(history, numbers(history)) and report["findings"][
        0
    ].startswith("Held-out")
    assert "no evidence that the method helps" in report["limits"][0] and report["simulated"]
    assert [row[0] for row in report["scores"]][:2] == ["progress reward", "all turns resolved"]
    drawn = {plot["name"] for plot in report["plots"]}
    assert {
        "reward",
        "zones",
        "variance_by_zone",
        "pool",
        "unique",
        "first_reward",
        "delay",
    } <= drawn
    # the other views
    assert {"/api/copy/status", "/api/copy/boundary", "/api/copy/funnel"} <= answers.keys()


def test_every_plot_has_as_many_values_as_places_and_the_numbers_of_the_logs(
    finished_run: Path,
) -> None:
    history = recorded(Follower(finished_run))
    drawn = {plot.name: plot for plot in plots(history)}
    for plot in drawn.values():
        assert plot.caption and plot.source and plot.unit
        if plot.at is not None:
            assert plot.at == sorted(plot.at) and plot.series
            assert {len(one.values) for one in plot.series} == {len(plot.at)}, plot.name
    groups = history.groups
    curve = drawn["reward"].series[0]
    use = ~groups.retest & ~np.isnan(groups.mean)
    assert drawn["reward"].at is not None and curve.low is not None and curve.high is not None
    for step, value, low, high in zip(
        drawn["reward"].at, curve.values, curve.low, curve.high, strict=True
    ):
        assert value is not None and low <= value <= high
        assert value == pytest.approx(groups.mean[use & (groups.step == step)].mean())
    assert (
        sum(count for _, _, count, _ in drawn["variance_by_zone"].dots or ())
        == (~np.isnan(groups.variance)).sum()
    )
    shares = np.array([one.values for one in drawn["zones"].series], float)
    assert np.allclose(shares.sum(axis=0), 100)
    left = sum(counts.sum() for counts in (*history.retired.values(), history.epochs["revived"]))
    retired = drawn["retirements"].series if "retirements" in drawn else ()
    assert sum(value or 0 for one in retired for value in one.values) == left


def test_a_long_run_s_curves_are_thinned_and_end_with_its_last_step(finished_run: Path) -> None:
    history = recorded(Follower(finished_run))
    few = Dynamics(turns=4, calling=2, replies=4)
    long = changed(history, dynamics=dict.fromkeys(range(1, 3001), few))
    plot = next(curves(long))
    assert plot.name == "calling" and plot.at is not None
    assert len(plot.at) <= 500 and plot.at[-1] == 3_000


def test_a_run_without_a_step_has_a_report_too(finished_run: Path, tmp_path: Path) -> None:
    done = Run.open(finished_run)
    fresh = create_run(tmp_path / "fresh", done.config, done.tasks)
    history = recorded(Follower(fresh.path))
    assert told(history)["plots"] == []
    assert findings(history, numbers(history)) == ["Nothing to say yet: no step is recorded."]
    assert run(["dash", "--report", str(fresh.path)]) == 0


def test_each_run_of_a_folder_gets_its_report(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        shutil.copytree(finished_run, tmp_path / name)
    assert run(["dash", "--report", str(tmp_path), "--json"]) == 0
    written = {json.loads(line)["report"] for line in capsys.readouterr().out.splitlines()}
    assert written == {str(tmp_path / name / "report" / "index.html") for name in ("one", "two")}
    for other in (["--export", str(tmp_path / "site")], ["--example"]):
        assert run(["dash", "--report", str(tmp_path), *other]) == 2
        assert "leave out the rest" in capsys.readouterr().err


def test_the_delay_plot_holds_every_variant(finished_run: Path) -> None:
    history = recorded(Follower(finished_run))
    for longest in (0, 1, 13, 24, 51, 55, 74, 75, 99, 260):
        delays = [longest, *range(0, longest, 3)]
        landing = history.landing._replace(delays=np.array(delays, float))
        _, plot, _ = histograms(changed(history, landing=landing))
        assert plot is not None and plot.name == "delay"
        assert sum(value or 0 for value in plot.series[0].values) == len(delays)


def test_findings_say_how_seeds_were_picked_and_at_how_many_merges(finished_run: Path) -> None:
    history = recorded(Follower(finished_run))
    epochs = history.epochs["epoch"].tolist()
    assert epochs == list(range(len(epochs)))
    merges = f"injected at {len(epochs) - 1} merges."
    drawn = history.config.selection.model_copy(update={"order": "random"})
    ablation = changed(history, config=history.config.model_copy(update={"selection": drawn}))
    for one, seeds in (
        (history, "picks of boundary seeds gave"),
        (ablation, "picks of random seeds gave"),
    ):
        assert any(seeds in line and line.endswith(merges) for line in findings(one, numbers(one)))


def test_held_out_interval_is_read_as_it_is() -> None:
    def scores(low: float, high: float) -> dict[str, object]:
        difference = {"mean": (low + high) / 2, "interval": [low, high], "tasks": 200}
        ends = {
            "start": {"step": 0, "progress": {"mean": 0.5}},
            "end": {"step": 60, "progress": {"mean": 0.6}},
        }
        return {**ends, "difference": {"progress": difference}}

    assert heldout_sentence(scores(0.01, 0.2)).endswith("which lies above 0.")
    assert heldout_sentence(scores(-0.2, -0.1)).endswith("which lies below 0.")
    assert heldout_sentence(scores(-0.1, 0.1)).endswith("which includes 0.")


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
    assert (
        "too few for an interval"
        in Path(said_json(capsys, "dash", "--report", run_copy)["report"]).read_text()
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
    assert run(["dash", "--report", str(run_copy)]) == 0


def test_nano_s_report_does_not_claim_to_beat_supervised_learning(finished_run: Path) -> None:
    history = recorded(Follower(finished_run))
    nano = changed(history, config=parse_config({"policy": {"kind": "nano"}}, where="test"))
    assert any("more supervised warm-up would beat" in line for line in limits(nano))
