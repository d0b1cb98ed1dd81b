"""A suite's table as a file of the run, and on the page beside those of other runs, whatever lies
there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.family.benchmarks import table
from rods.family.page.server import Registry
from rods.worlds.bfcl.world import Bfcl
from tests.buffers.world import make_run
from tests.console.dash.browser import browser
from tests.console.dash.conftest import served
from tests.family.benchmarks.bfcl.runs import evaluate

ESTIMATE = {"mean": 0.5, "standard_error": 0.1, "interval": [0.25, 0.75], "tasks": 9}
PAIR = {"before": ESTIMATE, "after": ESTIMATE, "difference": {**ESTIMATE, "interval": None}}
HOSTILE = "<script>alert(1)</script><img src=x onerror='document.title=1'>\u202e"


@pytest.fixture(scope="module")
def url(bfcl: Bfcl) -> Iterator[str]:
    with Stub(Script(answer="tests.family.benchmarks.suite_player:knows")) as stub:
        yield stub.url


def put(run: Path, content: bytes) -> Path:
    (run / table.SUITE).mkdir(parents=True, exist_ok=True)
    (run / table.TABLE).write_bytes(content)
    return run


def shown(run: Path) -> list[dict[str, Any]]:
    """What the page is told."""
    told = Registry([run]).answer(run.name, "compare", {})["tables"]
    found: list[dict[str, Any]] = json.loads(json.dumps(told))
    return found


def test_the_page_is_told_what_a_suite_has_printed(url: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run").path
    assert shown(run) == []
    part = ("--benchmarks", "bfcl_single", "--tasks-per-type", 1, "--model", "m")
    told = evaluate("suite", run, "--start-url", url, "--end-url", url, *part)["rows"][
        "bfcl_single"
    ]["kinds"]
    scores, about = shown(run)
    assert (
        scores["title"] == "Benchmark bfcl_single" and scores["source"] == "eval/suite/table.json"
    )
    assert [row["name"] for row in scores["rows"]] == [*told]
    for row, pair in zip(scores["rows"], told.values(), strict=True):
        for here, there in (("start", "before"), ("end", "after"), ("difference", "difference")):
            assert row[here] == {key: pair[there][key] for key in ("mean", "interval", "tasks")}
    assert about["rows"] == [] and any(
        note.startswith("no total of BFCL V4") for note in about["notes"]
    )
    assert shown(make_run(tmp_path / "other").path) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b"[]",
        b'{"rows": {"a": {"b": {}}}, "notes": []}',
        b'{"rows": {}, "notes": [1]}',
        json.dumps(
            {"rows": {"a": {"b": {**PAIR, "after": {**ESTIMATE, "mean": "1e999"}}}}, "notes": []}
        ).encode(),
        json.dumps(
            {"rows": {"a": {"b": {**PAIR, "after": {**ESTIMATE, "tasks": 10**30}}}}, "notes": []}
        ).encode(),
        b" " * (table.MOST_BYTES + 1),
    ],
)
def test_what_is_no_table_is_a_note_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    (found,) = shown(put(make_run(tmp_path / "run").path, content))
    assert found["rows"] == []
    (note,) = found["notes"]
    assert note.startswith("eval/suite/table.json cannot be read: ") and "`rods-eval suite`" in note


def test_what_is_no_regular_file_is_a_note(tmp_path: Path) -> None:
    run = put(make_run(tmp_path / "run").path, b"")
    (run / table.TABLE).unlink()
    os.mkfifo(run / table.TABLE)
    assert "FIFO" in shown(run)[0]["notes"][0]
    (run / table.TABLE).unlink()
    (run / table.TABLE).mkdir()
    assert "cannot be read" in shown(run)[0]["notes"][0]


def test_of_a_large_table_a_part_is_shown(tmp_path: Path) -> None:
    rows = {f"benchmark {n}": {f"kind {m}" + "x" * 400: PAIR for m in range(50)} for n in range(10)}
    notes = ["y" * 5_000] * 100
    run = make_run(tmp_path / "run").path
    put(run, json.dumps({"rows": rows, "notes": notes}).encode())
    found = [*table.tables(run)]
    assert sum(len(one["rows"]) for one in found) == table.MOST_ROWS
    assert found[-1]["notes"][-1] == f"{500 - table.MOST_ROWS} of its 500 rows are not shown"
    assert len(json.dumps(found)) < 200_000


async def test_runs_stand_beside_each_other_and_what_they_say_cannot_act(tmp_path: Path) -> None:
    content = {"rows": {"bfcl": {"all": PAIR, HOSTILE: PAIR}}, "notes": [HOSTILE]}
    for name in ("one", "two"):
        put(make_run(tmp_path / name).path, json.dumps(content).encode())
    with served(tmp_path / "one", tmp_path / "two") as address:
        async with browser() as page:
            await page.open(address.opened("/one/compare"))
            await page.until(
                "[...document.querySelectorAll('h2')].some((one) => "
                "one.textContent.includes('bfcl'))"
            )
            cells = (
                "[...document.querySelectorAll('section tbody tr')].map((row) => "
                "row.innerText.split('\\t'))"
            )
            first, second, *others = await page.ask(cells)
            assert [row[1] for row in (first, second)] == ["one", "two"] and len(others) == 2
            assert first[2:] == ["9", "0.500 [0.250, 0.750]", "0.500 [0.250, 0.750]", "+0.500"]
            assert await page.ask("document.querySelectorAll('main script, main img').length") == 0
            assert "U+202E" in await page.ask("document.querySelector('section .odd').textContent")
            await page.screen(390, 800)
            assert await page.ask("document.documentElement.scrollWidth <= 390")
            assert page.complaints == []
