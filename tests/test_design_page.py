"""docs/design.md says in which order to read the code; what it names is reached as it says."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
LINES = 4_600  # of the loop's files together
BESIDE = 36  # other files that they import
ROW = re.compile(r"^\| `([\w/]+\.py)` \| (.+?) \|", re.MULTILINE)
EVENING = ROW.findall(PAGE.partition("## 1. ")[0])


def module(file: str) -> str:
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.startswith("rods.") else f"rods.{name}"


def product_file(module: str) -> str | None:
    """The file of a module of the product; None for anything else, a name in a module say."""
    parts = module.split(".")[1:]
    if not module.startswith("rods.") or not parts:
        return None
    for folder in (ROOT, ROOT / "rods"):
        place = folder.joinpath(*parts)
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                return file.relative_to(ROOT).as_posix()
    return None


def imported(file: str) -> set[str]:
    """The modules that a file imports, also those of which it imports a name, and those for types
    alone."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        each
        for node in names
        for each in (node.module or "", *(f"{node.module}.{a.name}" for a in node.names))
    }


def test_the_loop_is_read_in_an_evening() -> None:
    assert len(EVENING) >= 15
    lines = {file: (ROOT / file).read_text(encoding="utf-8").count("\n") for file, _ in EVENING}
    assert sum(lines.values()) <= LINES, lines


def test_the_loop_imports_few_files_beside_itself() -> None:
    loop = {file for file, _ in EVENING}
    files = {
        product_file(f"{node.module}.{alias.name}") or product_file(node.module or "")
        for file in loop
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    beside = sorted(file for file in files - loop if file is not None)
    assert len(beside) <= BESIDE, beside


@pytest.mark.parametrize(("file", "before"), EVENING)
def test_each_file_of_the_loop_is_reached_from_one_before_it(file: str, before: str) -> None:
    earlier = [name for name, _ in EVENING[: [name for name, _ in EVENING].index(file)]]
    if not before.startswith("`"):  # TRL's call, and the log between the two processes
        assert (
            before == "TRL" and "rollout_func" in (ROOT / file).read_text()
        ) or before == "observations.jsonl"
        return
    source = before.strip("`")
    assert source in earlier, f"{source} stands behind {file}"
    assert module(file) in imported(source), f"{source} does not import {module(file)}"
