"""Exported Harbor tasks.

Claim: the solution of every task earns 1, and doing nothing 0. Anchor: Harbor's own `run`, where it
is named. Command: `python -m bench.harbor_tasks` (`--tasks 100`; `--harbor VENV/bin/harbor --tasks
4`).

The first plays the command lines of the folders' scripts in this process, in the order in which
Harbor does, on tasks of desk, of BFCL and of the world that `rods init` makes. The second has
Harbor's own `run` play them, in `bench.fixtures.harbor_local` instead of containers, by its agents
`oracle` and `nop`; it needs the rights to make a mount namespace."""

import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, run
from rods.console.main import run as rods
from rods.errors import UserError
from rods.family.harbor import world
from rods.family.harbor.task_folders import write
from rods.tasks import AnyTask, read_tasks
from rods.worlds import desk
from rods.worlds.sources import given_tasks

LOCAL = Path(__file__).parent / "fixtures" / "harbor_local.py"


def play(folder: Path, place: Path, *, solved: bool) -> list[dict[str, float]]:
    """The rewards of a task's steps, in order, after its solution or after nothing. `place`: a
    folder that is there for this alone."""
    shutil.copytree(folder / "environment", place / "world")
    steps = tomllib.loads((folder / "task.toml").read_text()).get("steps", [])
    parts = [folder / "steps" / step["name"] for step in steps] or [folder]
    rewards = []
    with _in_world(place / "world"):
        for part in parts:
            if solved:
                _script(part / "solution" / "solve.sh")
            world.main(["turn"])
            reward = place / "reward.json"
            task = folder / "tests" / "task.json"
            if world.main(["score", str(task), str(reward)]):
                raise RuntimeError(f"{part} has no verdict")
            rewards.append(json.loads(reward.read_text()))
    return rewards


@contextlib.contextmanager
def _in_world(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.environ[world.FOLDER] = str(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        del os.environ[world.FOLDER]
        os.chdir(before)


def _script(path: Path) -> None:
    """Carries out the one command `world` of a script, if there is one."""
    text = path.read_text().replace(" \\\n  ", " ") if path.is_file() else ""
    words = shlex.split(text, comments=True)
    if "world" in words and world.main(words[words.index("world") + 1 :]):
        raise RuntimeError(f"{path} failed")


def tasks_by_world(count: int, folder: Path) -> dict[str, list[AnyTask]]:
    """Up to `count` tasks of each world; the last one's lie in `folder`, with its file."""
    with contextlib.redirect_stdout(io.StringIO()):
        rods(["init", str(folder / "library")])
        rods(["data", "rehash", str(folder / "library" / "tasks.jsonl")])
    drawn: list[AnyTask] = [*desk.generate(3, count, 0)]
    tasks = {"desk": drawn[:count]}
    with contextlib.suppress(UserError):
        every = given_tasks("bfcl", Path())
        tasks["bfcl"] = every[:: max(1, len(every) // count)][:count]
    return tasks | {"library": read_tasks(folder / "library" / "tasks.jsonl")[:count]}


def measure(quick: bool, tasks: str = "", harbor: str = "") -> list[Figure]:
    """The share of the tasks of each world that earn what they should."""
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        by_world = tasks_by_world(int(tasks or (4 if quick else 100)), folder)
        os.chdir(folder / "library")
        for kind, written in by_world.items():
            write(written, folder / "out" / kind)
            if harbor:
                _run(Path(harbor).absolute(), folder, kind)
                continue
            for solved, what in ((True, "the solution earns 1"), (False, "nothing earns 0")):
                earned = [
                    play(task, folder / "places" / f"{task.name}-{solved}", solved=solved)[-1]
                    for task in (folder / "out" / kind).iterdir()
                ]
                right = sum(each["reward"] == float(solved) for each in earned)
                claim = f"{kind}, {len(written)} tasks: {what}"
                figures.append(Figure(claim, right / len(written), "", reach=1.0))
    return figures


def _run(harbor: Path, folder: Path, kind: str) -> None:
    """Harbor's own run of the tasks of a world."""
    program = folder / "bin" / "world"
    program.parent.mkdir(exist_ok=True)
    root = Path(__file__).parents[1]
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m rods.family.harbor.world "$@"\n'
    )
    program.chmod(0o755)
    own = {
        "WORLD_PATH": str(program.parent),
        "HARBOR_LOCAL": str(folder / "trials"),
        "PYTHONPATH": str(LOCAL.parent),
        "LITELLM_LOCAL_MODEL_COST_MAP": "true",
    }
    for agent in ("oracle", "nop"):
        jobs = folder / f"jobs-{kind}-{agent}"
        words = ["run", "-p", str(folder / "out" / kind), "-a", agent, "-e", f"{LOCAL.stem}:Local"]
        words += ["-o", str(jobs), "-n", "2", "--yes"]
        done = subprocess.run([harbor, *words], env={**os.environ, **own}, capture_output=True)
        if done.returncode:
            raise SystemExit(done.stderr.decode() + done.stdout.decode())
        (result,) = jobs.glob("*/result.json")
        print(kind, agent, json.dumps(json.loads(result.read_bytes())["stats"]["evals"]))


if __name__ == "__main__":
    run(
        measure,
        tasks="how many of each world",
        harbor="the program of an installation of Harbor, which plays them instead",
    )
