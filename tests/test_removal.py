"""What can be taken out: the core imports none of it, and a run of the core needs none of it.

Each part of `PARTS` is refused at import in every process of a run, and taken out of a copy of the
tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import EXPANDED
from rods.errors import EXIT_USER
from tests.conftest import NEEDED, WHOLE
from tests.parts import PARTS, ROOT

UP, *LOOKS = (
    ["up", "run", "--config", "run.toml"],
    ["verify", "run", "--replay"],
    ["status", "run"],
)
FAST = "not slow and not sweep"
NEW = ("trainer", "new", "refused", "--config", "run.toml")
# part, what is added to the configuration, what is asked of `rods`, what is said where the part is
# gone
ASKED: list[tuple[str, str, tuple[str, ...], str]] = [
    (
        "bfcl",
        "",
        ("data", "check", "mine.jsonl", "--against", "bfcl"),
        "no such tasks are installed",
    ),
    (
        "mcp",
        "",
        ("env", "add", "files", "--", "true"),
        "'mcp' is no kind of world that is known here",
    ),
    (
        "openenv",
        "",
        ("env", "add", "game", "--kind", "openenv", "--url", "http://127.0.0.1:9"),
        "'openenv' is no kind of world that is known here",
    ),
    (
        "sandbox",
        '[operation.sandbox]\nenvironments = ["desk"]\n',
        NEW,
        "nothing here can confine an environment",
    ),
    (
        "seal",
        '[[curriculum.stages]]\ninterface = "seal-full"\n',
        NEW,
        "'seal-full' names no function",
    ),
    ("feedback", "", ("env", "feedback", "list", "run"), "feedback"),
    ("environments", "", ("env", "generate", "w"), "generate"),
    (
        "environments",
        "[operation.writing]\nworlds = 2\n",
        NEW,
        "run.toml: operation.writing: unknown key",
    ),
    ("trials", "", ("doctor",), "doctor"),
    ("triage", "", ("triage", "desk"), "triage"),
    ("schedule", "", ("trainer", "schedule", "mine"), "schedule"),
    ("schedule", "[schedule]\nshare = 0.5\n", NEW, "run.toml: schedule: unknown key"),
    ("admit", "", ("admit", "desk", "tasks.jsonl"), "admit"),
    ("admit", "", ("admit", "harbor", "theirs"), "admit"),
    ("reword", "", ("data", "reword", "tasks.jsonl", "--config", "run.toml"), "reword"),
    ("benchmarks", "", ("eval", "--help"), "eval"),
    ("simulation", "[source]\ndrawn = 0.5\n", NEW, "run.toml: source: unknown key"),
    ("simulation", '[simulation]\nuser = "model"\n', NEW, "run.toml: simulation: unknown key"),
    ("simulation", "", ("env", "check", "repository"), "environment 'repository'"),
    ("export", "", ("data", "export", "run", "tables"), "export"),
    ("new_world", "", ("init", "library"), "init"),
    ("twins", "", ("twin", "run"), "twin"),
    (
        "processes",
        'compute = "processes"\n',
        NEW,
        "operation.compute = 'processes' is nothing that is installed",
    ),
    (
        "ray_cluster",
        'compute = "ray"\n',
        NEW,
        "operation.compute = 'ray' is nothing that is installed",
    ),
    (
        "simulation",
        "",
        ("env", "check", "documents/"),
        # where the folder is there and cannot be imported; "nothing that is installed reads such a
        # description" where it is gone
        "rods: environment 'documents/': no",
    ),
]
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
CONFIG = """
sync = "lockstep"
[data]
tasks = "desk"
train = 8
held_out = 4
[policy]
kind = "simulated"
skill = 0.6
[rollouts]
rollouts_per_task = 4
[training]
batch_tasks = 4
steps = 6
checkpoint_steps = 3
[selection]
seeds_per_step = 2
[operation]
deadline_seconds = 120
"""
# In every process, since Python imports it at each start and `rods up` hands its path on.
HOOK = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if any(name == refused or name.startswith(refused + ".") for refused in {refused!r}):
            raise ModuleNotFoundError(f"{{name}} is taken out", name=name)

sys.meta_path.insert(0, Refusing())
"""
IMPORTS = """
import importlib, pkgutil, rods

for module in pkgutil.walk_packages(rods.__path__, "rods."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # of an extra that is not installed
            if (error.name or "rods").startswith("rods"):
                raise
print(rods.__file__)
"""


def run(folder: Path, path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Python with `path` before all others, in `folder`; `more` variables of its environment."""
    environment = {**os.environ, "PYTHONPATH": str(path), "OMP_NUM_THREADS": "1", **more}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


def copied(tree: Path, left_out: tuple[str, ...]) -> None:
    """The tree without these folders, with what Python has compiled of it already."""
    for name in subprocess.check_output(["git", "ls-files"], text=True, cwd=ROOT).splitlines():
        if not name.startswith(left_out) and (ROOT / name).exists():
            path = Path(name)
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, tree / path, follow_symlinks=False)
            compiled = (
                path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
            )
            if path.suffix == ".py" and (ROOT / compiled).exists():
                (tree / compiled).parent.mkdir(exist_ok=True)
                shutil.copy2(ROOT / compiled, tree / compiled)
    # which pages and files there are
    subprocess.run("git init -q && git add .", shell=True, cwd=tree, check=True)


def live(folder: Path, path: Path, *looks: list[str]) -> None:
    """A run of the core from its configuration to its end, and what is said of it."""
    (folder / "run.toml").write_text(CONFIG)
    for verb in (UP, *looks):
        done = run(folder, path, "-m", "rods.console", *verb)
        assert done.returncode == 0, done.stdout + done.stderr
    assert list(read(folder / "run" / EXPANDED)), "the daemon has written variants"


def ask_for(gone: Sequence[str], folder: Path, path: Path) -> None:
    """Asks `rods` for what needs the parts that are gone."""
    for part, added, asked, said in ASKED:
        if part in gone:
            (folder / "run.toml").write_text(CONFIG + added)
            done = run(folder, path, "-m", "rods.console", *asked)
            assert done.returncode == EXIT_USER and said in done.stderr, done.stdout + done.stderr
            assert not (folder / "refused").exists()


@pytest.mark.slow
@pytest.mark.few("bfcl+", "feedback", "sandbox")
@pytest.mark.parametrize("parts", [[*PARTS], *([part] for part in PARTS)], ids="+".join)
def test_a_run_of_the_core_imports_nothing_of_a_part(parts: list[str], tmp_path: Path) -> None:
    """With one part refused the run is not looked at, since that needs nothing of all of them
    (WHOLE=1: it is)."""
    hook = tmp_path / "hook"
    hook.mkdir()
    refused = [f"rods.{folder.replace('/', '.')}" for part in parts for folder in PARTS[part]]
    (hook / "sitecustomize.py").write_text(HOOK.format(refused=refused))
    assert "is taken out" in run(tmp_path, hook, "-c", f"import {refused[0]}").stderr
    live(tmp_path, hook, *(LOOKS if len(parts) > 1 or os.environ.get(WHOLE) else ()))
    # Worlds and benchmarks are read from their folders, which are still there.
    ask_for(
        [part for part in parts if len(parts) == 1 and PARTS[part][0].startswith("family")],
        tmp_path,
        hook,
    )


@pytest.fixture(scope="module")
def needless(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The tests that need no part: they run where all are gone, by their node ids."""
    tree = tmp_path_factory.mktemp("bare")
    copied(tree, tuple(f"{folder}/" for folders in PARTS.values() for folder in folders))
    return collected(tree, f"{FAST} and not needs")


def collected(tree: Path, marks: str) -> frozenset[str]:
    """The node ids of the tests of `tree` that have these marks."""
    done = run(tree, tree, *PYTEST[:2], "-p", "no:cacheprovider", "--collect-only", "-m", marks)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return frozenset(line for line in done.stdout.splitlines() if "::" in line)


@pytest.mark.few("bfcl+", "environments")
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("gone", [list(PARTS), *([part] for part in PARTS)], ids="+".join)
def test_the_core_works_where_the_folders_are_gone(
    gone: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """What is gone is refused by its name. Without any of them everything else is imported, a run
    goes from its beginning to its end, the story passes, no test that says that it needs a part
    passes, and all other tests can be collected; that no other module needs a part is otherwise the
    linter's to say. With WHOLE=1 all of that is done without each in turn, with slow tests too
    where they must not pass, and all other tests run but for the slow ones: those that need no part
    where all are gone, the others without each of the parts that they do not need."""
    tree = tmp_path / "tree"
    copied(tree, tuple(f"{folder}/" for part in gone for folder in PARTS[part]))
    ask_for(gone, tmp_path, tree)
    if len(gone) == len(PARTS) or os.environ.get(WHOLE):
        done = run(tmp_path, tree, "-c", IMPORTS)
        assert done.returncode == 0 and done.stdout.strip() == str(tree / "rods" / "__init__.py"), (
            done.stderr
        )
        live(tmp_path, tree, *LOOKS)
        tests: tuple[str, ...] = (*PYTEST, "tests/test_story.py")
        if os.environ.get(WHOLE):
            needless: frozenset[str] = request.getfixturevalue("needless")
            asked_for = needless if len(gone) == len(PARTS) else collected(tree, FAST) - needless
            (tmp_path / "asked").write_text("\n".join(sorted(asked_for)))
            tests = ("-m", "tests.rerun", f"@{tmp_path / 'asked'}")
        needs = "needs" if os.environ.get(WHOLE) else f"needs and {FAST}"
        # the last collects all
        for asked, more in ((tests, {WHOLE: ""}), ((*PYTEST, "-m", needs), {NEEDED: "1"})):
            done = run(tree, tree, *asked, **more)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr
