"""`rods doctor --synthesis`: a scripted model that plays every role writes variants, is killed, and
goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from bench.fixtures.llm_stub import Script, Stub
from bench.yields import KNOWN, yield_table
from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, SEEDS, usage
from rods.config.identity import PoolRules
from rods.family.trials.synthesis import SynthesisTrial
from tests import dying, tables
from tests.console.conftest import rods

PAGE = Path(__file__).parents[3] / "docs" / "yield.md"
ROLES = "bench.fixtures.llm_stub.roles:answer"
DESK = '[data]\ntasks = "desk-small"\ntrain = 24\nheld_out = 4\n[pipeline]\nattempts = 2\n'


@pytest.fixture
def writer() -> Iterator[Stub]:
    with Stub(Script(answer=ROLES)) as stub:
        yield stub


def asked(stub: Stub, folder: Path, *options: str | Path, seeds: int = 8) -> list[str | Path]:
    (folder / "c.toml").write_text(DESK)
    keep = ("--seeds", str(seeds), "--keep", folder / "kept")
    return [
        "doctor",
        "--synthesis",
        stub.url,
        "stub",
        "--config",
        folder / "c.toml",
        *keep,
        *options,
    ]


@pytest.mark.slow
def test_every_seed_is_tried_where_staging_would_be_full_before(
    writer: Stub, tmp_path: Path
) -> None:
    done = rods(*asked(writer, tmp_path, "--json", seeds=24))
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert (found["seeds"], found["finished"]) == (24, 24)
    (kept,) = (tmp_path / "kept").iterdir()
    rules = PoolRules()
    assert found["accepted"] > rules.staging_epochs * rules.inject_fraction * len(
        Run.open(kept).training
    )


@pytest.mark.slow
def test_the_yield_is_printed_and_a_trial_that_is_over_costs_nothing(
    writer: Stub, tmp_path: Path
) -> None:
    done = rods(*asked(writer, tmp_path))
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert re.fullmatch(
        r"8 of 8 seeds of desk-small are finished: \d came to a ground truth that runs, \d to a "
        r"variant",
        first,
    )
    assert re.fullmatch(r"a variant took [\d.]+ calls, \d+ tokens and [\d.]+ s", second)
    (kept,) = (tmp_path / "kept").iterdir()
    trial = SynthesisTrial(Run.open(kept))
    variants = trial.records(EXPANDED, "expanded")
    assert {record["task"]["environment"]["name"] for record in variants} == {"desk"}
    calls = writer.counts()["requests"]
    again = rods(*asked(writer, tmp_path, "--json"))
    found = orjson.loads(again.stdout)
    assert again.returncode == 0 and found == trial.as_json()
    assert (found["seeds"], found["finished"], found["accepted"]) == (8, 8, len(variants))
    assert found["accepted"] <= found["executable"] <= 8 and found["calls_per_variant"] > 3
    assert writer.counts()["requests"] - calls == 2, (
        "the endpoint is asked whether it is fit, and nothing else"
    )
    assert [one["calls"] for one in found["stages"].values()] == list(_calls(kept).values())
    assert not verify(kept).problems


def _calls(path: Path) -> dict[str, int]:
    counted: dict[str, int] = {}
    for call in read(path / usage("daemon")):
        counted[call["stage"]] = counted.get(call["stage"], 0) + 1
    return counted


@pytest.mark.slow
def test_a_trial_that_was_killed_goes_on_where_it_stopped(writer: Stub, tmp_path: Path) -> None:
    picked = 1 + 12  # a step that was considered, and its seeds
    killed = subprocess.run(
        [
            *(sys.executable, "-m", dying.MODULE, *asked(writer, tmp_path, seeds=12)),
            *dying.at("rods.console", SEEDS, picked + 2),
        ],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    (kept,) = (tmp_path / "kept").iterdir()
    before = _finished(tmp_path / "kept")
    assert 0 < len(before) < 12
    writer.use(Script(answer=ROLES))
    done = rods(*asked(writer, tmp_path, seeds=12))
    assert done.returncode == 0, done.stderr
    after = _finished(tmp_path / "kept")
    assert after[: len(before)] == before and len(after) == len(set(after)) == 12
    assert list((tmp_path / "kept").iterdir()) == [kept] and not verify(kept).problems


def _finished(home: Path) -> list[str]:
    return [
        record["pick"]
        for kept in home.glob("synthesis-*")
        for record in (read(kept / SEEDS) if (kept / SEEDS).exists() else ())
        if record["kind"] == "finished"
    ]


@pytest.mark.few(2, others="slow")
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--seeds", "500"], 2, "24 training tasks, not 500"),
        (["--seeds", "0"], 2, "24 training tasks, not 0"),
        (["--synthesis", "nowhere", "stub"], 2, "not an address"),
        (["--synthesis", "http://127.0.0.1:9/v1", "stub"], 1, "is the server running"),
    ],
)
def test_what_cannot_be_tried_is_said(
    options: list[str], code: int, words: str, writer: Stub, tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(DESK)
    known = [] if "--synthesis" in options else ["--synthesis", writer.url, "stub"]
    done = rods(
        "doctor", "--config", tmp_path / "c.toml", "--keep", tmp_path / "kept", *known, *options
    )
    assert (
        done.returncode == code
        and words in done.stdout + done.stderr
        and "Traceback" not in done.stderr
    )


def test_known_models_fill_a_column_each() -> None:
    found = KNOWN
    assert "scripted roles" in found
    lines = list(yield_table(found))
    assert not tables.differences(
        PAGE.read_text(encoding="utf-8"), "\n".join(lines), "scripted roles"
    )
    assert all(line.count("|") in (0, len(found) + 2) for line in lines)
    for one in found.values():
        assert (
            one["data"] == "bfcl"
            and one["accepted"] <= one["executable"] <= one["finished"] <= one["seeds"]
        )
        assert (one["calls_per_variant"] is None) == (not one["accepted"]) and one["stages"][
            "plan"
        ]["calls"] > 0
