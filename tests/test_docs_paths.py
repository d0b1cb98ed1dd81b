"""What guides, configurations and docstrings name is in the tree, or of a part that is taken out
(tests/parts.py)."""

import ast
import importlib
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from tests.parts import GONE_FOLDERS, ROOT

ROOMS = (
    "prompts|rods|worlds|buffers|daemon|trainer|evaluation|console|family"
    "|tests|bench|docs|experiments"
)
PATH = re.compile(rf"(?<![\w/.~-])((?:{ROOMS})/[\w./-]*\w|(?:{ROOMS})/)(?![\w*<])")
MODULE = re.compile(rf"(?<![\w/.-])((?:{ROOMS})(?:\.(?!NAME\b)[A-Za-z_]\w*)+)(?![\w=])")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
FILE_ENDINGS = ("toml", "py", "md", "json", "jsonl", "txt")  # rods.toml is a file, no module
# docs/training.md
METRICS = tuple(
    f"rods/{name}" for name in ("zone", "pool", "staging", "label", "turns", "reward", "form")
)


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", *patterns], text=True, cwd=ROOT).split()
    return [
        path for path in map(Path, listed) if path.name not in ("CHANGELOG.md", "pyproject.toml")
    ]


def resolves(dotted: str) -> bool:
    """Whether `dotted` is a module, or something that a module has."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        try:
            found = importlib.util.find_spec(name)
        except ImportError:  # none there, or a room under a second name
            continue
        if found is not None:
            thing = importlib.import_module(name) if count < len(parts) else None
            for part in parts[count:]:
                thing = getattr(thing, part, None)
            return count == len(parts) or thing is not None
    return False


def missing(text: str) -> list[str]:
    """Paths and modules that `text` names and the tree does not have, nor had with all parts."""
    paths = {
        name for name in PATH.findall(text) if not name.startswith(METRICS) and "NAME" not in name
    }
    modules = {name for name in MODULE.findall(text) if name.rpartition(".")[2] not in FILE_ENDINGS}
    return sorted(name for name in paths if not there(ROOT / name)) + sorted(
        name
        for name in modules
        if not resolves(name) and not taken_out(name.removeprefix("rods.").replace(".", "/"))
    )


def there(path: Path) -> bool:
    return path.exists() or taken_out(str(path.resolve().relative_to(ROOT)))


def taken_out(path: str) -> bool:
    return f"{path}/".startswith(tuple(f"{folder}/" for folder in GONE_FOLDERS))


@pytest.mark.parametrize("page", tracked("*.md", "*.toml"), ids=str)
def test_a_page_names_what_is_there(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    gone = missing(text) + [
        link for link in LINK.findall(text) if not there(ROOT / page.parent / link)
    ]
    assert not gone, f"{page} names what is not there: {', '.join(gone)}"


def test_the_makefile_names_tests_that_are_there() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert named and not [name for name in named if not there(ROOT / name)]


@pytest.mark.parametrize("page", tracked("*.md"), ids=str)
def test_no_page_takes_code_from_the_tests(page: Path) -> None:
    """They are not in the wheel."""
    assert not re.findall(
        r"^\s*(?:from|import) (?:tests|bench)\b.*", (ROOT / page).read_text(), re.MULTILINE
    )


@pytest.mark.slow
def test_docstrings_and_comments_name_what_is_there() -> None:
    gone = []
    for file in tracked("*.py"):
        source = (ROOT / file).read_text(encoding="utf-8")
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        said = [
            ast.get_docstring(node) or ""
            for node in ast.walk(ast.parse(source))
            if isinstance(node, documented)
        ]
        said += re.findall(r"#.*", source)
        gone += [f"{file}: {name}" for name in missing("\n".join(said))]
    assert not gone
