"""Each kind of record, with one leaf of another kind and a checksum that fits: `rods verify` finds
what it finds, and each view of the page answers or says in a line why not."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.log.record_bytes import line, record_id
from rods.console.output import json_bytes
from rods.console.verbs.verify import checked
from rods.errors import RodsError, UserError
from rods.family.page.columns import Columns
from rods.family.page.server import Registry
from rods.family.page.views import VIEWS
from tests.console.test_misshapen_records import VALUES, ways

MORE = (-(2**63), 2**64 - 1, 1e300, "ÿ\x00\n", "x" * 100_000)
SAMPLE = 20  # of all mutations, some 20,000


def mutations(run: Path) -> Iterator[tuple[Path, int, list[Any], Any]]:
    """(log, line, way to a leaf, value) over the first record of each kind."""
    for log in sorted(run.glob("*.jsonl")):
        kinds: set[str] = set()
        if log.name == "tasks.jsonl":
            continue
        for place, text in enumerate(log.read_bytes().splitlines()):
            record = orjson.loads(text)
            if record["kind"] in kinds:
                continue
            kinds.add(record["kind"])
            for way in ways({k: v for k, v in record.items() if k not in ("seq", "crc", "id")}):
                if way:
                    yield from ((log, place, way, value) for value in (*VALUES, *MORE))


def forged(log: Path, place: int, way: list[Any], value: Any) -> bytes:
    """The lines of the log with that value, and a checksum and an id that fit."""
    lines = log.read_bytes().splitlines()
    record = orjson.loads(lines[place])
    seq = record.pop("seq")
    del record["crc"]
    *before, last = way
    inner = record
    for step in before:
        inner = inner[step]
    inner[last] = value
    try:
        record["id"] = record_id(record["kind"], record)
        lines[place] = line(seq, record)[:-1]
    except (KeyError, TypeError):  # no writer can write that
        return b""
    return b"\n".join(lines) + b"\n"


def told(run: Path, task: str) -> None:
    try:
        report = checked(run)
        assert json.dumps(report.as_json()) and all(map(str, report.lines()))
    except RodsError as error:
        assert str(error)
    try:
        registry = Registry([run])
        follower = registry.follower("latest")
        with follower.whole():
            pass
    except RodsError as error:
        assert str(error)
        return
    for view in VIEWS.values():
        try:
            assert json_bytes(view(follower, {"task": task}))
        except RodsError as error:
            assert str(error)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.sweep)])
def test_no_leaf_of_another_kind_raises_anything_raw(
    finished_run: Path, tmp_path: Path, part: int
) -> None:
    shutil.copytree(finished_run, run := tmp_path / "run")
    task = orjson.loads((run / "tasks.jsonl").read_bytes().splitlines()[0])["id"]
    every = sorted(mutations(run), key=repr)
    rng = random.Random(71)
    chosen = rng.sample(every, SAMPLE if part == 0 else 20 * SAMPLE)
    for log, place, way, value in chosen:
        before = log.read_bytes()
        if text := forged(log, place, way, value):
            log.write_bytes(text)
            try:
                told(run, task)
            except Exception as error:
                raise AssertionError(f"{log.name}:{place + 1} {way} {value!r:.60}") from error
            log.write_bytes(before)


def test_a_number_that_no_table_of_the_page_holds_is_said() -> None:
    table = Columns(step="i4")
    table.append(1, 2**31 - 1)
    with pytest.raises(UserError, match="beyond any run's"):
        table.append(2, 2**31)
    assert table["step"].tolist() == [2**31 - 1]
