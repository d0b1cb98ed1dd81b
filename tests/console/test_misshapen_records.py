"""Records with one field of another kind, and the right checksum, before verbs: each says in a line
what is wrong, or goes on where that field is none of its business."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.log.record_bytes import FAULTS, KEYS, SHAPES, line, record_id
from tests.conftest import WHOLE
from tests.console import test_malformed
from tests.console.conftest import CONFIG, rods
from tests.console.test_malformed import VERBS, steers
from tests.faults.forge import Forge

MORE = """
[pipeline]
variants_per_seed = 2
"""
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    10**15,
    1.5,
    "",
    "x",
    [],
    [1],
    ["x"],
    [[]],
    {},
    {"a": 1},
    {"a": []},
)
ASKED = {
    name: VERBS[name]
    for name in ("status", "verify", "recover", "report", "cost", "fork", "inspect", "merge")
}
ASKED |= {
    "export": ("console", "data", "export", "RUN", "RUN.out"),
    "daemon": VERBS["daemon"],
    "train": VERBS["train"],
}
# for a record that the other process ought to write
WAITS = frozenset({"daemon", "train", "merge"})
PATIENCE = 20  # seconds for these, on a busy machine too


def ask(folder: Path, verb: str, *arguments: str) -> None:
    """As `call`; a verb that waits is killed after a while."""
    if verb in WAITS:
        test_malformed.SECONDS = PATIENCE
    test_malformed.call(folder, *arguments)


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge() as found:
        yield found


def forged(run: Path, rng: random.Random) -> str:
    """Puts another value, or none, in the place of one in a record; returns what was done."""
    part = rng.choice(
        [
            part
            for part in sorted(run.glob("*.jsonl"))
            if part.name != "tasks.jsonl" and part.stat().st_size
        ]
    )
    lines = part.read_bytes().splitlines()
    place = rng.randrange(len(lines))
    record = orjson.loads(lines[place])
    seq = record.pop("seq")
    _ = record.pop("crc")
    *way, last = rng.choice([way for way in ways(record) if way[:1] not in ([], ["id"], ["kind"])])
    inner = record
    for step in way:
        inner = inner[step]
    old = inner[last]
    if rng.random() < 0.15 and isinstance(inner, dict):
        new = inner.pop(last)
    else:
        new = inner[last] = rng.choice(
            [value for value in VALUES if (type(value), value) != (type(old), old)]
        )
    with suppress(KeyError, TypeError):  # without its key it has none
        record["id"] = record_id(record["kind"], record)
    lines[place] = line(seq, record)[:-1]
    part.write_bytes(b"\n".join(lines) + b"\n")
    return (
        f"{part.name}, record {seq}: {'.'.join(map(str, (*way, last)))} from {old!r:.40} to "
        f"{new!r:.40}"
    )


def ways(value: Any, at: tuple[Any, ...] = ()) -> Iterator[list[Any]]:
    yield [*at]
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:3])
        if isinstance(value, list)
        else ()
    )
    for name, each in inside:
        yield from ways(each, (*at, name))


def put_before(source: Path, forge: Forge, place: Path, seed: int) -> None:
    rng = random.Random(seed)
    run = place / "run"
    shutil.copytree(source, run)
    what = forged(run, rng)
    task = orjson.loads((run / "tasks.jsonl").read_bytes().splitlines()[0])["id"]
    for verb in rng.sample(sorted(ASKED), 3):
        copy = place / verb / "run"
        shutil.copytree(run, copy)
        given = [
            argument.replace("RUN", str(copy)).replace("TASK", task) for argument in ASKED[verb]
        ]
        end = forge.run("tests.console.test_misshapen_records:ask", copy, verb, *given)
        assert "Traceback" not in end.errors and not steers(end.errors), (
            f"{what}, {verb}: {end.errors[-3000:]}"
        )
        killed = end.code == -signal.SIGALRM and verb in WAITS
        assert killed or end.code in (0, 1, 2, 3, 5), (
            f"{what}, {verb}: {end.code} {end.errors[-3000:]}"
        )
        assert end.code not in (2, 3) or " → " in end.errors.splitlines()[-1], (
            f"{what}, {verb}: {end.errors[-3000:]}"
        )


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_a_sample_is_told_in_a_line(
    finished_run: Path, forge: Forge, tmp_path: Path, seed: int
) -> None:
    put_before(finished_run, forge, tmp_path, seed)


@pytest.mark.sweep
@pytest.mark.timeout(7200)
def test_records_of_a_refilled_run_too(forge: Forge, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        CONFIG.replace("[rollouts]", "[rollouts]\nrefill = 1") + MORE
    )
    done = rods("up", tmp_path / "run", "--config", tmp_path / "run.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    for seed in range(1500 if os.environ.get(WHOLE) else 8):
        place = tmp_path / f"{seed}"
        put_before(tmp_path / "run", forge, place, seed)
        shutil.rmtree(place)


def test_every_kind_of_record_has_a_shape_that_holds_its_key() -> None:
    assert KEYS.keys() == SHAPES.keys() == FAULTS.keys()
    for kind, shape in SHAPES.items():
        assert {*KEYS[kind]} <= {name.removesuffix("?") for name in shape} | (
            {"time"} if kind == "started" else set()
        )
