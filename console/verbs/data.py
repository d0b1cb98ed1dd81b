"""`rods data` and `rods env`: look over what runs are made from, task files and environments."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import PositiveFloat

from rods.analysis.containment import read_json
from rods.buffers.log.disk import replace as write_whole
from rods.buffers.run.runfolder import exists
from rods.canonical import JsonObject
from rods.commands import Json
from rods.console.output import print_checked, print_result
from rods.deadlines import WORLD_CHECKED
from rods.environments import registry
from rods.environments.loading import Environments
from rods.environments.registry import having
from rods.errors import InfrastructureError, UserError, complain
from rods.functions import named_function
from rods.tasks import AnyTask, Task, read_tasks, write_task_file
from rods.worlds.checking.environments import check_environment as check
from rods.worlds.checking.proposing import proposed
from rods.worlds.checking.task_files import check_file, rehashed
from rods.worlds.pinned import Pinned
from rods.worlds.sources import given_tasks

NAMES = (
    f"{', '.join(having('environment'))}, your own package.module:factory or file.py:factory, or a "
    f"description."
)
FILE = " or ".join(["A JSONL file of tasks", *having("tasks")])
KINDS = "; ".join(
    f"{kind}: {what}" for kinds in having("kinds").values() for kind, what in kinds.items()
)
Name = Annotated[str, Parameter(help=NAMES)]
Several = tuple[str, ...]
# names by which tools that change nothing are called
_READING = re.compile(
    r"(?:^|[_.-])(list|get|read|show|search|find|view|describe|details|summary)(?![a-z])"
)


def check_tasks(
    file: Path,
    /,
    *,
    against: Annotated[
        list[str] | None, Parameter(help=f"None may match a held-out task of these. {FILE}.")
    ] = None,
    findings: Path | None = None,
    trust: bool = False,
    as_json: Json = False,
) -> int:
    """Check a file of tasks line by line: shape, tools, that each ground truth really runs, and
    which training tasks match held-out ones (docs/gates.md). Exits 1 on faults.

    Args:
        file: A JSONL file of tasks.
        findings: Faults that another verb has found in them, as JSON lines.
        trust: Run the code of worlds that the tasks name, whoever wrote it.
    """
    others = {name: given_tasks(name, Path()) for name in against or ()}
    environments = Environments(trust=trust)
    report = check_file(file, environments, against=others, findings=findings)
    return print_checked(report, as_json)


def rehash_tasks(
    file: Path, /, *, out: Path | None = None, trust: bool = False, as_json: Json = False
) -> int:
    """Write the hash of the installed environment into tasks, after a tool or its description has
    changed, and their ids anew. Every ground truth is replayed first: a line where one no longer
    holds, or that is no task, stays as it is and is named. Exits 1 then.

    Args:
        file: A JSONL file of tasks.
        out: Write here instead of into the file itself.
        trust: Run the code of worlds that the tasks name, whoever wrote it.
    """
    if exists(run := file if file.is_dir() else file.parent) and (out is None or file == run):
        raise UserError(
            "a run's tasks never change",
            where=run,
            remedy=f"`rods trainer fork {run} NEW` takes those that still hold into a new run",
        )
    report, lines = rehashed(file, Environments(trust=trust))
    write_whole(out or file, lines)
    return print_checked(report, as_json)


def write_tasks(tasks: Sequence[AnyTask], out: Path, as_json: bool) -> None:
    """Writes a file of tasks, and says so. Raises UserError where it cannot be written."""
    write_task_file(tasks, out)
    print_result(as_json, {"tasks": len(tasks), "out": out}, f"{len(tasks)} tasks in {out}")


def add_environment(
    name: str,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    kind: Annotated[str, Parameter(help=KINDS)] = "mcp",
    url: str = "",
    files: str = "",
    env: Several = (),
    secret: Several = (),
    reads: Several = (),
    writes: Several = (),
    fails: Annotated[
        Several,
        Parameter(
            help="What failure looks like where results do not flag it: begins=Error, "
            "status=error,failed, or a rule as JSON."
        ),
    ] = (),
    probe: Several = (),
    compared: Several = (),
    minted: Several = (),
    without: Several = (),
    no_calls: bool = False,
    replace: bool = False,
    as_json: Json = False,
) -> None:
    """Describe a world from outside as an environment: reach it, pin its tools, write its
    description (docs/mcp.md, docs/openenv.md).

    Args:
        name: What it is to be called: NAME.json is written, or NAME.openenv.json.
        command: After --: the command that starts it; or module:Class.
        url: Its address instead (MCP: streamable HTTP).
        files: MCP: a folder that every world gets a copy of, as /world.
        env: MCP: KEY=VALUE for its process; {folder} is the world's folder.
        secret: MCP: a variable of yours that it gets, and that no file has.
        reads: A tool that changes nothing, beside those that say so.
        writes: A tool that changes something, though it says that it does not.
        probe: A call of such a tool, name(key=value), that shows the state.
        compared: Part of the state too. MCP: a pattern of files; else: a field of what it shows.
        minted: KIND=PATTERN, with one group: values made up anew in each world.
        without: A tool that is not offered.
        no_calls: Make no call to see what failure looks like.
        replace: Write over a description that is there.
    """
    world = registry.adding(kind)
    path = Path(registry.without_ending(name) + world.ending)
    if path.exists() and not replace:
        raise UserError("is there already", where=path, remedy="--replace writes over it")
    pairs = {}
    for option, entries in {"env": env, "minted": minted}.items():
        if wrong := next((entry for entry in entries if "=" not in entry), None):
            raise UserError(f"{wrong!r} has no =", where=f"--{option}", remedy="write KEY=VALUE")
        pairs[option] = dict(entry.split("=", 1) for entry in entries)
    fields: JsonObject = {
        "url": url,
        "reads": list(reads),
        "probes": list(probe) or None,
        "compared": list(compared),
        "minted": pairs["minted"],
        "without": list(without),
        "writes": list(writes),
        "fails": [_rule(text) for text in fails] or None,
    }
    own = {"command": list(command), "files": files, "env": pairs["env"], "secrets": list(secret)}
    pinned: Pinned
    pinned, told = named_function(world.added, where=f"--kind {kind}")(path, kind, fields, own)
    path.write_bytes(pinned.written())
    rules, looks = _looked(path, bool(url or secret)) if not no_calls else ([], [])
    tools = [tool["name"] for tool in pinned.tools]
    facts: JsonObject = {
        "environment": str(path),
        "server": pinned.server,
        "tools": tools,
        "reads": pinned.reads,
        "probes": pinned.probes,
        "compared": pinned.compared,
        "told": told,
        "proposed": rules,
    }
    shows = [*(pinned.probes or ()), *pinned.compared]
    state = f"its state is what these answer: {', '.join(shows) or 'it has none'}"
    if pinned.probes is None and not shows:
        state = (
            "nothing shows its state, so ground-truth calls cannot be scored: name calls that do "
            "(--probe)"
        )
    seeming = " ".join(
        f"--reads {quote(name)}"
        for name in tools
        if name not in (*pinned.reads, *pinned.writes) and _READING.search(name)
    )
    about = (
        " ".join(pinned.server.get(key, "") for key in ("name", "version")).strip()
        or url
        or " ".join(command)
    )
    print_result(
        as_json,
        facts,
        f"{path}: {len(tools)} tools of {about}",
        [f"  started by: {pinned.started}"] if pinned.started else [],
        [f"  {told}"] if told else [],
        f"  change nothing: {', '.join(pinned.reads) or 'none says so (--reads)'}",
        [f"  called as if they changed nothing, which none says: {seeming}"] if seeming else [],
        f"  {state}",
        looks,
        f"  `rods env check {path}` tries whether all this holds",
    )


def _rule(text: str) -> Any:
    """The rule that an option writes (`rods.environments.failing`)."""
    name, equals, rest = text.partition("=")
    if name == "begins":
        return {name: rest}
    values = {"values": [read_json(value) for value in rest.split(",")]} if equals else {}
    return read_json(text) if text.startswith("{") else {"field": name, **values}


def _looked(path: Path, outside: bool) -> tuple[list[str], list[str]]:
    """The rules that are proposed for the world that `path` describes, and lines about them. Where
    calls may do something `outside`, only what reads is called."""
    try:
        with Environments() as environments:
            proposals, broken = proposed(environments.load(str(path)), outside=outside)
    except (InfrastructureError, ValueError) as error:
        proposals = []
        broken = [str(error)]
    lines = [f"  a call that cannot succeed was not answered: {what}" for what in broken]
    lines += [
        f"  told as ordinary results, failures with --fails {quote(rule)}: {examples}"
        for rule, examples in proposals
    ]
    return [rule for rule, _ in proposals], lines


def check_environment(
    name: Name,
    /,
    *,
    tasks: Path | None = None,
    seconds: PositiveFloat = WORLD_CHECKED,
    as_json: Json = False,
) -> int:
    """Probe an environment: determinism, snapshot purity, schemas and timing. Exits 1 on faults.

    Args:
        tasks: A JSONL file of tasks of this environment; probes with their calls.
        seconds: It ends then, with what it has found.
    """
    own_tasks = [task for task in read_tasks(tasks) if isinstance(task, Task)] if tasks else ()
    return print_checked(
        check(name, Environments(), own_tasks, seconds=seconds, tell=partial(complain, name)),
        as_json,
    )
