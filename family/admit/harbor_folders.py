"""`rods admit harbor`: tasks of Harbor's that somebody else wrote, a folder each. Scripts in
containers reward them, so Harbor's own `run` plays each: twice by its agent `oracle`, which carries
out the task's solution, and once by `nop`, which does nothing. Kinds of faults are:

- `record`: task.toml or an instruction cannot be read,
- `witness`: it has no solution, so nothing says that it can be solved,
- `replay`: the solution does not earn the reward,
- `unrepeatable`: the solution earns another one the second time,
- `idle`: whoever does nothing earns something,
- `lost`: Harbor, or the environment, broke.

`duplicates` and `contamination` go by instructions and solutions."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, Texts
from rods.config import Gates
from rods.conversations import Checks, Script
from rods.errors import UserError
from rods.family.admit.admitting import Line, find_duplicates
from rods.faults import Reason
from rods.files import BULK, explained, read_regular, read_toml, sha256_of
from rods.gates.similarity import contamination, held_out_index
from rods.tasks import AnyTask, EnvironmentRef, OpenTask, Split

HARBOR = "harbor"  # in the place of a world
ORACLE = "oracle"
SAID = 500  # characters of what Harbor prints last
BOXES = re.compile(r"[\s─-╿]+")  # around what it prints


@dataclass(slots=True)
class HarborLine(Line):
    """A task's folder. Its `task` has the instructions, and with them hashes of the solution as
    its goal."""

    folder: Path = Path()
    agents: Texts = ("nop",)  # that are to play it
    results: list[JsonMapping] = field(default_factory=list)  # as Harbor writes them

    def as_json(self) -> JsonObject:
        # `super()` does not know a class that slots have made anew
        return {**Line.as_json(self), "path": str(self.folder)}


def judged(
    command: Sequence[str],
    folder: Path,
    given: Sequence[AnyTask],
    gates: Gates,
    strict: bool = False,
) -> list[HarborLine]:
    """The tasks of a folder, with what is wrong with each. `command`: Harbor's `run`. Raises
    UserError where it cannot be had, or there are none."""
    lines = [*read(folder)]
    for agents in sorted({line.agents for line in lines if line.task}):
        play(command, [line for line in lines if line.task and line.agents == agents])
    held_out = held_out_index(given if gates.contamination else ())
    for line in lines:
        line.strict = strict
        if line.task:
            for kind, reason in faults(line):
                line.reasons.setdefault(kind, []).append(reason)
            line.reasons["contamination"] = contamination(line.task, held_out)
    if gates.duplicates:
        find_duplicates(lines, given)
    return lines


def read(folder: Path, split: Split = "train") -> Iterator[HarborLine]:
    """The tasks in `folder`, by name. Raises UserError where there are none."""
    table = "task.toml"
    tables = sorted([*folder.glob(table), *folder.glob(f"*/{table}")])
    if not tables:
        raise UserError(f"holds no {table}", where=folder, remedy="name a folder of Harbor's tasks")
    for number, path in enumerate(tables, start=1):
        line = HarborLine(number, folder=path.parent.resolve())
        try:
            line.task = _task(path, split)
        except (AttributeError, KeyError, OSError, TypeError, UserError, ValueError) as error:
            line.reasons["record"] = [Reason(f"{type(error).__name__}: {error}")]
        if any(_solution(line.folder, "solve.*")):
            line.agents = (ORACLE, ORACLE, *line.agents)
        yield line


def _solution(folder: Path, name: str) -> list[Path]:
    files = [*folder.glob(f"solution/{name}"), *folder.glob(f"steps/*/solution/{name}")]
    return [file for file in sorted(files) if file.is_file()]


def _task(table: Path, split: Split) -> AnyTask:
    folder = table.parent
    steps = [f"steps/{step['name']}" for step in read_toml(table).get("steps", ())]
    files = [folder / part / "instruction.md" for part in steps or [""]]
    texts = tuple(read_regular(file).decode(errors="replace") for file in files)
    if not all(map(str.strip, texts)):
        raise ValueError("an instruction is blank")
    files = _solution(folder, "**/*")
    goal = {str(file.relative_to(folder)): sha256_of(file, BULK) for file in files}
    # a solution that others have, too, makes no task the same; without one, texts alone do not
    goal[""] = "\n".join(texts) if goal else str(folder)
    return OpenTask(
        EnvironmentRef(HARBOR, ""),
        "base",
        Script(texts),
        Checks((Call("solution", goal),)),
        (),
        split=split,
        provenance={"benchmark": str(folder)},  # as reasons call it
    )


def play(command: Sequence[str], lines: Sequence[HarborLine]) -> None:
    """Has the agents of `lines`, which are the same, play these. Where Harbor stops, as at a world
    that cannot be made, each that is left is played alone. Raises UserError where it plays
    nothing."""
    by_path = {str(line.folder): line for line in lines}
    agents = [{"name": agent} for agent in lines[0].agents]
    job = {"agents": agents, "tasks": [{"path": path} for path in by_path]}
    # files that come from containers may be another user's
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        file = place / "job.json"
        file.write_bytes(orjson.dumps(job))
        output = (place / "said").open("w+b")
        words = ["-c", str(file), "-o", name, "--job-name", "job", "--yes", "--quiet"]
        remedy = "install Harbor (`uv tool install harbor`), or name its program with --harbor"
        with (
            explained("Harbor cannot be started", command[0], remedy),
            output,
            subprocess.Popen([*command, *words], stdout=output, stderr=output) as child,
        ):
            try:
                child.wait()
            except BaseException:
                child.terminate()  # it takes its containers away
                raise
            output.seek(0)
            said = BOXES.sub(" ", output.read().decode(errors="replace"))[-SAID:]
        if not (place / "job").is_dir():
            raise UserError(f"played nothing: {said}", where=command[0], remedy="see what it says")
        for path in place.glob("job/*/result.json"):
            result = orjson.loads(read_regular(path))
            if line := by_path.get(result["config"]["task"]["path"]):
                line.results.append(result)
    for line in lines:
        # options may name other agents
        if sorted(map(_agent, line.results)) != sorted(line.agents):
            line.results = []
            if len(lines) > 1:
                play(command, [line])
            else:
                line.reasons["lost"] = [Reason(f"Harbor stopped, or played otherwise: {said}")]


def _agent(result: JsonMapping) -> str:
    return str(result["agent_info"]["name"])


def faults(line: HarborLine) -> Iterator[tuple[str, Reason]]:
    """What Harbor's results say of a task, by its kind."""
    earned: dict[str, list[float]] = {"nop": [], ORACLE: []}
    for result in line.results:
        rewards = (result["verifier_result"] or {}).get("rewards") or {}
        broke = [] if rewards else ["no reward"]
        for part in (result, *(result["step_results"] or ())):
            if error := part["exception_info"]:
                broke.insert(0, f"{error['exception_type']}: {error['exception_message']}")
        if broke:
            yield "lost", Reason(f"{_agent(result)}: {broke[0]}")
        else:
            earned[_agent(result)].append(rewards.get("reward", fmean(rewards.values())))
    idle = max(earned["nop"], default=0.0)
    best = max(earned[ORACLE], default=1.0)
    if ORACLE not in line.agents:
        yield "witness", Reason("no solution says that it can be solved", doubt=True)
    elif len({*earned[ORACLE]}) > 1:
        yield "unrepeatable", Reason(f"its solution earns {earned[ORACLE]}")
    elif best < 1:
        yield "replay", Reason(f"its solution earns {best}", doubt=best > max(idle, 0.0))
    if idle > 0:
        yield "idle", Reason(f"doing nothing earns {idle}", doubt=idle < best)
