"""docs/protocol.md says what the writers write."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from rods.buffers.audit.rederivation import ENVELOPE
from rods.buffers.folds.observations import digest
from rods.buffers.lifecycle import extend
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import CLOSED_BY, CLOSING, KEYS, Record, is_record, record_id
from rods.buffers.log.tail import groups, read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import (
    EXPANDED,
    EXTENSIONS,
    OBSERVATIONS,
    POOL,
    REJECTED,
    SEEDS,
    TRACKER,
    operation,
)
from rods.buffers.trainer_log import TrainerLog
from rods.observations import Update
from rods.rules.order import EpochSlot
from rods.tasks import Task
from tests.buffers.world import Players, SyncDaemonLog, make_run, originals, variants

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
EXAMPLES = [block.strip().encode() for block in re.findall(r"```jsonl\n(.*?)```", PAGE, re.DOTALL)]
NOT_SHOWN = {"call", "lost", "episode", "no_answer", "card", "probed", "reward", "admitted"} | {
    "schedule",
    "scheduled",
    "triaged",
    "rewarded",
    "answered",
}
LINES = [line for block in EXAMPLES for line in block.splitlines()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """A record of every kind, as a real run writes it."""
    run = make_run(tmp_path_factory.mktemp("page") / "run")
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        run.log_start("trainer")
        trainer.start()
        players = Players(run, trainer, daemon)

        def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
            return (
                [0, 0]
                if slot.role == "active" and slot.task_id not in run.training
                else [0, expected]
            )

        players.rewards = rewards
        players._fresh = iter([originals()[0], *variants()])  # the first is refused
        for number in range(4):
            players.epoch(number)
        trainer.write_update(Update(0.4312, 0.87))
        trainer.flush()
        first = next(read(run.path / EXPANDED))["pick"]
        daemon.rejected(first, 1, stage="judge", error="query_verify_failed", evidence=[])
    longer = run.config.training.model_copy(update={"steps": 900})
    extend(run, run.config.model_copy(update={"training": longer}))
    logs = (OBSERVATIONS, POOL, SEEDS, EXPANDED, REJECTED, EXTENSIONS, operation("trainer"))
    return {record["kind"]: record for log in logs for record in read(run.path / log)} | {
        "run": {"path": run.path}
    }


@pytest.mark.needs("simulation", "feedback")
def test_example_lines_are_records_with_right_checksums_seqs_and_ids() -> None:
    for block in EXAMPLES:
        for seq, line in enumerate(block.splitlines(), start=1):
            assert is_record(line), line
            record = orjson.loads(line)
            assert record["seq"] == seq
            assert record["id"] == record_id(record["kind"], record)
        records = [orjson.loads(line) for line in block.splitlines()]
        assert [
            record for closing, members in groups(records) for record in (*members, closing)
        ] == records


@pytest.mark.needs("feedback", "simulation")
def test_examples_have_the_fields_that_are_written_in_their_order(
    written: dict[str, Record],
) -> None:
    shown = {orjson.loads(line)["kind"]: list(orjson.loads(line)) for line in LINES}
    assert shown.keys() == KEYS.keys() - NOT_SHOWN
    # tests/family/feedback/test_correcting.py compares those of feedback
    for kind in shown.keys() & written.keys():
        assert shown[kind] == list(written[kind]), kind


def test_an_example_step_has_the_digest_of_its_groups() -> None:
    records = {orjson.loads(line)["kind"]: orjson.loads(line) for line in LINES}
    reported = {key: value for key, value in records["group"].items() if key not in ENVELOPE}
    assert digest(0, 0, [reported]) == records["step"]["digest"]


def test_example_tasks_are_tasks() -> None:
    [given] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    Task.from_json(orjson.loads(given))
    [expanded] = [orjson.loads(line) for line in LINES if b'"kind":"expanded"' in line]
    assert Task.from_json(expanded["task"]).provenance["generation"] == 1


def test_every_kind_key_and_file_is_on_the_page(written: dict[str, Record]) -> None:
    for kind, key in KEYS.items():
        if kind == "probed":
            continue
        found = re.findall(
            rf"\*\*`{kind}`\*\* \(key: ([^)]*)\)|^\| `{kind}` \| ([^|`]*) \|", PAGE, re.MULTILINE
        )
        keys = [tuple("".join(one).replace(",", "").split()) for one in found]
        assert keys == [key], kind
    for kind, closing in CLOSED_BY.items():
        assert re.search(rf"\| .*`{kind}`.* \| `{closing}` \|", PAGE), kind
    for name in (
        runfolder.CONFIG,
        runfolder.MANIFEST,
        runfolder.TASKS,
        OBSERVATIONS,
        POOL,
        SEEDS,
        REJECTED,
        TRACKER,
    ):
        assert name in PAGE
    run = Run.open(written["run"]["path"])
    for field in run.manifest:
        assert f"`{field}`" in PAGE, field
    assert all(closing in PAGE for closing in CLOSING)


def test_tracker_fields_are_on_the_page(written: dict[str, Record]) -> None:
    stored = orjson.loads((written["run"]["path"] / TRACKER).read_bytes())
    one = next(iter(stored["tasks"].values()))
    for field in [*stored, *one]:  # those of a window are generated
        assert f"`{field}`" in PAGE, field


def test_a_log_cut_into_parts_has_the_names_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / OBSERVATIONS
    writer = LogWriter(path)
    writer.append([{"id": "x", "kind": "start", "attempt": 1, "from_step": 0}])
    writer.rotate()
    names = [part.name for part in segments(path)]
    assert all(name in PAGE for name in names)
