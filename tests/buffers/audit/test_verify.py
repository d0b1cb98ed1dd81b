"""`rods verify` agrees with an honest run and finds every kind of decision that the rules do not
give."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import CLOSED_BY, Record, line, record_id
from rods.buffers.log.tail import read_raw
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL, SEEDS, TRACKER
from rods.buffers.trainer_log import TrainerLog
from tests.buffers.world import Players, SyncDaemonLog, make_run


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = make_run(tmp_path_factory.mktemp("verify") / "run")
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        for number in range(6):
            players.epoch(number)
        trainer.merge(6, 1)
    return run


@pytest.fixture
def run(honest: Run, tmp_path: Path) -> Run:
    shutil.copytree(honest.path, tmp_path / "run")
    return Run.open(tmp_path / "run")


def rewrite(path: Path, change: Callable[[Record], Record | None]) -> None:
    """Rewrites a log, as one part, with right checksums, seqs and ids: only a derivation can
    tell."""
    lines: list[bytes] = []
    members = 0
    for record in read_raw(path):
        changed = change(dict(record))
        if changed is None:
            continue
        content = {key: value for key, value in changed.items() if key not in ("seq", "crc")}
        content["id"] = record_id(content["kind"], content)
        if "first" in content:
            content["first"] = len(lines) + 1 - members
            members = 0
        elif content["kind"] in CLOSED_BY:
            members += 1
        lines.append(line(len(lines) + 1, content))
    first, *others = segments(path)
    for part in others:
        part.unlink()
    first.write_bytes(b"".join(lines))


def problems(run: Run) -> str:
    report = verify(run.path)
    assert not report.ok
    return "\n".join(report.lines())


def first(kind: str, **changes: Any) -> Callable[[Record], Record | None]:
    """Changes the first record of a kind; `remove=True` takes it away."""
    done: list[int] = []

    def change(record: Record) -> Record | None:
        if record["kind"] == kind and not done:
            done.append(1)
            return None if "remove" in changes else {**record, **changes}
        return record

    return change


def test_an_honest_run_agrees(run: Run) -> None:
    report = verify(run.path, replay=True)
    assert report.ok, report.problems
    assert report.counts["epochs"] == 7
    assert report.counts["injected"] == report.counts["variants replayed"] > 5
    assert report.counts["retired"] > 2
    assert orjson.dumps(report.as_json())


@pytest.mark.parametrize(
    ("kind", "changes", "found"),
    [
        ("retired", {"remove": True}, "lacks retired"),
        ("revived", {"remove": True}, "lacks revived"),
        ("revived", {"task": "0" * 20}, "which the rules do not give"),
        ("retired", {"mean": 0.123}, "which the rules do not give"),
        ("retired", {"rule": "unsampled"}, "which the rules do not give"),
        ("injected", {"pick": "1-x"}, "which the rules do not give"),
        ("injected", {"remove": True}, "lacks injected"),
        ("epoch", {"deferred": {"count": 3, "first": 1, "last": 3}}, "which the rules do not give"),
        ("epoch", {"order": "0" * 20}, "which the rules do not give"),
        ("epoch", {"retests": ["x"]}, "which the rules do not give"),
        ("epoch", {"step": 2}, "was not in epoch 0"),
    ],
)
def test_a_decision_that_the_rules_do_not_give_is_found(
    run: Run, kind: str, changes: dict[str, Any], found: str
) -> None:
    rewrite(run.path / POOL, first(kind, **changes))
    assert found in problems(run)


def test_an_observation_that_was_changed_is_found(run: Run) -> None:
    def change(record: Record) -> Record:
        if record["kind"] == "group" and record["step"] == 2 and record["index"] == 0:
            record["rollouts"] = [
                {**rollout, "resolved": 0, "binary": 0} for rollout in record["rollouts"]
            ]
        return record

    rewrite(run.path / OBSERVATIONS, change)
    assert "its digest does not fit" in problems(run)


def test_a_step_of_tasks_that_were_not_in_the_epoch_is_found(run: Run) -> None:
    rewrite(run.path / OBSERVATIONS, first("group", task="0" * 20))
    assert "was not in epoch 0" in problems(run)


def test_a_variant_of_the_wrong_generation_is_found(run: Run) -> None:
    def change(record: Record) -> Record:
        record["task"]["provenance"]["generation"] = 2
        return record

    rewrite(run.path / EXPANDED, change)
    assert "but its seed's is 0" in problems(run)


def test_variants_that_nobody_picked_are_found(run: Run) -> None:
    rewrite(run.path / EXPANDED, first("expanded", pick="1-nobody"))
    found = problems(run)
    assert "never picked" in found
    assert "accepted variants are not those expanded" in found


def test_a_missing_pick_is_found(run: Run) -> None:
    rewrite(run.path / SEEDS, first("finished", pick="9-nobody"))
    assert "which was never picked" in problems(run)


def test_a_wrong_id_and_a_wrong_count_are_found(run: Run) -> None:
    path = run.path / SEEDS
    lines = []
    for number, record in enumerate(read_raw(path), start=1):
        content = {key: value for key, value in record.items() if key not in ("seq", "crc")}
        if number == 1:
            content["id"] = "0" * 20
        if number == 2:
            content["picks"] = 7
        lines.append(line(number, content))
    path.write_bytes(b"".join(lines))
    found = problems(run)
    assert "record 1 (picked) has an id that does not fit" in found
    assert "closes 1 records, not 7" in found


def test_a_damaged_log_is_a_problem_not_a_crash(run: Run) -> None:
    path = run.path / POOL
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    path.write_bytes(data)
    assert "damaged record" in problems(run)


def test_another_tracker_than_the_fold_is_found(run: Run) -> None:
    path = run.path / TRACKER
    stored = orjson.loads(path.read_bytes())
    next(iter(stored["tasks"].values()))["windows"][0]["mean"] = 0.123
    path.write_bytes(orjson.dumps(stored))
    assert "tracker.json" in problems(run)


def test_a_tracker_of_another_version_is_only_worth_a_note(run: Run) -> None:
    path = run.path / TRACKER
    stored = orjson.loads(path.read_bytes())
    windows = [window for task in stored["tasks"].values() for window in task["windows"]]
    for window in windows:
        window["interface"] = window.pop("lineage")
    path.write_bytes(orjson.dumps(stored | {"version": 1}))
    found = verify(run.path)
    assert (
        windows
        and found.ok
        and any("tracker.json is of another version" in note for note in found.notes)
    )


def test_a_group_without_its_closing_record_is_only_worth_a_note(run: Run) -> None:
    rewrite(
        run.path / POOL,
        lambda record: None if record["kind"] == "epoch" and record["epoch"] == 6 else record,
    )
    report = verify(run.path)
    assert report.ok, report.problems
    assert any("void" in note for note in report.notes)
