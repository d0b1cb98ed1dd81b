"""Every code block of the guides runs, or tests/snippets.toml says why it does not;
tests/snippets.py says how."""

from __future__ import annotations

import gzip
import io
import re
import shutil
from pathlib import Path

import orjson
import pytest

from rods.family.new_world.verbs import init
from rods.family.page.dash import unpacked
from tests import snippets
from tests.parts import GONE
from tests.snippets import ROOT

FIRST_READ = ("README.md", "CONTRIBUTING.md", "docs/tutorial.md")
pytestmark = pytest.mark.skipif(bool(GONE), reason="the guides speak of every part")
USED: set[tuple[str, str]] = set()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a page's blocks run."""
    folder = tmp_path / "scratch"
    init(folder)
    for name in ("demo", "demo-1", "mine"):
        unpacked(folder / "runs").rename(folder / "runs" / name)
    shutil.copy(folder / "runs/mine/config.toml", folder / "my.toml")
    shutil.copy(folder / "runs/mine/tasks.jsonl", folder / "mine.jsonl")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    return folder


@pytest.mark.parametrize(
    "page",
    [
        page if page in FIRST_READ else pytest.param(page, marks=pytest.mark.slow)
        for page in snippets.pages()
    ],
)
def test_every_block_runs_or_is_declared(
    page: str, scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    with gzip.open(scratch / "runs/demo/traces/step_00000001.a1.jsonl.gz") as kept:
        task = orjson.loads(kept.readline())["task"]  # of this episodes can be looked at
    stand_ins = {"RUN": "runs/mine", "FILE": "my.toml", "3fa9": task, "TASK": task}
    folder = scratch
    for block in snippets.blocks(page, text):
        try:
            folder = carried_out(block, folder, stand_ins)
        except Exception as error:
            raise AssertionError(f"{block.where}: {capfd.readouterr().err}") from error


@pytest.mark.parametrize("page", snippets.pages())
def test_commands_and_keys_in_sentences_are_there(page: str) -> None:
    assert not snippets.wrong_in_sentences((ROOT / page).read_text(encoding="utf-8"))


def test_what_is_declared_stands_on_its_page_and_its_tests_are_there() -> None:
    for page in snippets.pages():
        for block in snippets.blocks(page, (ROOT / page).read_text(encoding="utf-8")):
            for first in snippets.in_order(block.text) if block.kind == "sh" else [block.first]:
                snippets.declared(page, first, USED)
    given = {
        (page, beginning): why
        for page, rows in snippets.DECLARED.items()
        for beginning, why in rows.items()
    }
    assert not given.keys() - USED, (
        "nothing of the kind stands there: take it out of tests/snippets.toml"
    )
    gone = [
        path
        for why in given.values()
        for path in re.findall(r"tests/[\w/]+(?:\.py)?", why)
        if not (ROOT / path).exists()
    ]
    assert not gone


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("    rods status RUN --loud", "Unknown option"),
        ("    rods staus RUN", "Unknown command"),
        ("    make dmo", "no target dmo"),
        ("    python -m tests.faults --lonely 3", "--lonely"),
        ("    python bench/none.py", "no file"),
        ("    rods status runs/none", "ended with 2"),
        ("    [operation]\n    werkers = 3", "werkers"),
        ("```json\n{}\n```", "schema"),
        ("```python\nimport rods.none\n```", "CalledProcessError"),
        ("    a drawing", "nothing can run"),
    ],
)
def test_what_is_wrong_is_told(text: str, told: str, tmp_path: Path) -> None:
    (block,) = snippets.blocks("a page", f"\n{text}\n")
    with pytest.raises(Exception) as error:
        carried_out(block, tmp_path, {})
    assert re.search(told, f"{error.value!r} {error.value}")


@pytest.mark.slow
def test_an_output_that_no_longer_fits_is_told(scratch: Path) -> None:
    shown = "zones: 6 boundary, 9 mastered  staged 1\npool 12+4"
    assert not snippets.not_printed(shown, "rods status runs/demo --follow", scratch)
    assert snippets.not_printed(f"{shown}  pools 3", "rods status runs/demo --follow", scratch) == {
        "pools N"
    }


@pytest.mark.parametrize(
    "code",
    ["rods staus RUN", "rods status RUN --loud", "pool.inject_share", "[operation.sandbocks]"],
)
def test_what_is_wrong_in_a_sentence_is_told(code: str) -> None:
    assert snippets.wrong_in_sentences(
        f"Try `{code}`, or `rods status RUN` and `pool.inject_fraction = 0.2`."
    )


def carried_out(block: snippets.Block, folder: Path, stand_ins: dict[str, str]) -> Path:
    """Runs or reads a block, or what is declared of it. Returns the folder in which it ends."""
    if block.kind == "sh":
        for command in snippets.in_order(block.text):
            snippets.look_over(command)
            if snippets.declared(block.page, command, USED) is None:
                folder = snippets.carry_out(command, folder, stand_ins)
    elif why := snippets.declared(block.page, block.first, USED):
        if shown := re.fullmatch(r"printed by `(.+)`", why):
            assert not snippets.not_printed(block.text, shown[1], folder)
    else:
        match block.kind:
            case "python":
                snippets.run_python(block.text, folder)
            case "toml":
                snippets.read_toml(block.text, block.where)
            case "json":
                snippets.read_json(block.text)
            case _:
                raise AssertionError(
                    f"{block.kind} that nothing can run: declare it in tests/snippets.toml, with "
                    f"why"
                )
    return folder
