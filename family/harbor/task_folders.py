"""Writes tasks as folders of Harbor's form (schema 1.4), one each:

    task.toml                       names, the MCP server `world`, a step for each turn of the user
    environment/Dockerfile          an image with this package and, as /world, what is beside it:
    environment/task.json           the environment, the initial state and the tools, not the goal
    environment/…                   the file of a world that is named by one, *.py and *.toml beside
    steps/turn-1/instruction.md     what the user says; in the first, how the world is reached
    steps/turn-1/solution/solve.sh  the calls of the ground truth
    tests/                          the verdict: the whole task, which no agent sees

A task of one turn has `instruction.md` and `solution/` at its top instead of steps. The reward is 1
where the whole task is resolved, `progress` the share that training has; the last step's are the
task's."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

import orjson
import tomli_w

import rods
from rods.canonical import JsonObject
from rods.conversations import Script
from rods.environments import registry
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.episode.goals import goal_of
from rods.errors import UserError
from rods.files import explained, module_table
from rods.tasks import AnyTask, OpenTask, Task

SCHEMA = "1.4"
TEXTS = module_table(__file__)
LOG = "/world/calls.jsonl"
_ORGANISATION = "rods"


def write(tasks: Sequence[AnyTask], folder: Path) -> Counter[str]:
    """Writes a folder for each task below `folder`; returns how many there are of each type.
    Raises UserError for a task that cannot be played so: its user or its world is played by
    somebody, a rubric judges it, or its world is found on this machine alone."""
    with Environments() as environments, explained("cannot write", folder, "choose another folder"):
        for task in tasks:
            environment = environments.load(task.environment.name)
            _playable(environment, task)
            _write(environment, task, folder / f"{task.type.replace('_', '-')}-{task.id}")
    return Counter(task.type for task in tasks)


def _playable(environment: Environment, task: AnyTask) -> None:
    where = f"task {task.id}"
    goal_of(environment, task)
    if not environment.features.deterministic:
        what = "equal calls give unequal results in its world, and the verdict repeats them"
        raise UserError(what, where=where, remedy="leave it out")
    if isinstance(task, OpenTask) and not isinstance(task.user, Script):
        what = "its user is played, and steps of Harbor are texts that are written down"
        raise UserError(what, where=where, remedy="leave it out")
    name = Path(task.environment.name.partition(":")[0])
    if name.is_absolute():
        what = f"its world is a file of this machine alone, {name}"
        remedy = "name it by a path from the folder that it lies in"
        raise UserError(what, where=where, remedy=remedy)


def _write(environment: Environment, task: AnyTask, folder: Path) -> None:
    turns = task.texts
    steps = [f"turn-{number}" for number in range(1, len(turns) + 1)]
    parts = [folder / "steps" / step for step in steps] if len(turns) > 1 else [folder]
    for turn, (part, text) in enumerate(zip(parts, turns, strict=True)):
        guide = TEXTS["guide"]["first"] if not turn else TEXTS["guide"]["later"]
        head = [task.system] if task.system and not turn else []
        _file(part / "instruction.md", "\n\n".join([*head, text, guide.strip()]) + "\n")
        if isinstance(task, Task):
            _file(part / "solution" / "solve.sh", _solution(task, turn))
    _file(folder / "tests" / "test.sh", TEXTS["scripts"]["test"])
    record = task.as_json()
    _json(folder / "tests" / "task.json", record)
    shown = {"environment": record["environment"], "tools": record["tools"]}
    shown |= {"state": record["state"]} if "state" in record else {}
    _json(folder / "environment" / "task.json", shown)
    for own in _files(Path(task.environment.name.partition(":")[0])):
        target = folder / "environment" / own
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own, target)
    _file(folder / "environment" / "Dockerfile", _dockerfile(environment))
    description = tomli_w.dumps(_description(task, steps if len(turns) > 1 else []))
    _file(folder / "task.toml", description)


def _description(task: AnyTask, steps: Sequence[str]) -> JsonObject:
    """What task.toml says."""
    several: JsonObject = {"multi_step_reward_strategy": "final"} if steps else {}
    about = {key: task.provenance[key] for key in ("seed", "root") if key in task.provenance}
    return {
        "schema_version": SCHEMA,
        **several,
        "task": {
            "name": f"{_ORGANISATION}/{task.id}",
            "keywords": [task.environment.name, task.type],
        },
        "metadata": {"rods": rods.__version__, "split": task.split, **about},
        # in an environment of its own, which has nothing of the agent's but the log
        "artifacts": [LOG],
        "verifier": {"environment_mode": "separate", "collect": [{"command": "world turn"}]},
        "environment": {
            "mcp_servers": [
                {"name": "world", "transport": "stdio", "command": "world", "args": ["mcp"]}
            ]
        },
        **({"steps": [{"name": step} for step in steps]} if steps else {}),
    }


def _solution(task: Task, turn: int) -> str:
    """The calls of a turn's ground truth, in a script."""
    calls = [
        f"{quote(call.name)} {quote(json.dumps(dict(call.arguments), ensure_ascii=False))}"
        for call in task.calls[turn]
    ]
    command = " \\\n  ".join(["world call", *calls]) if calls else ":  # no call is right"
    return f"#!/bin/sh\n{command}\n"


def _dockerfile(environment: Environment) -> str:
    """An image for the world, with the data that a verb of its folder fetches."""
    fetching = f"data {environment.name}"
    world = registry.worlds().get(environment.name)
    fetch = f"RUN rods {fetching}\n" if world is not None and fetching in world.verbs else ""
    text: str = TEXTS["scripts"]["dockerfile"]
    return text.format(version=rods.__version__, fetch=fetch)


def _files(world: Path) -> list[Path]:
    """The file that a world is named by, and the code and tables beside it; no tasks, whose goals
    no agent may see."""
    beside = [path for ending in ("*.py", "*.toml") for path in sorted(world.parent.glob(ending))]
    return list(dict.fromkeys([world, *beside])) if world.is_file() else []


def _json(path: Path, value: JsonObject) -> None:
    _file(path, orjson.dumps(value).decode() + "\n")


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if path.suffix == ".sh":
        path.chmod(0o755)
