"""`rods data`, `rods env` and `rods replay`: look over what runs are made from: task files, environments, scoring.

Also fetch BFCL's tasks, and write and read BFCL's own format.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from console.output import RunFolder, print_checked, print_json
from rods.commands import Json

if TYPE_CHECKING:
    from rods.tasks import AnyTask
    from worlds.pinned import Pinned

NAMES = "desk, bfcl, your own package.module:factory or file.py:factory, or the file.json of a world from outside."
Name = Annotated[str, Parameter(help=NAMES)]
Several = Annotated[tuple[str, ...], Parameter(negative=())]
Tasks = Annotated[Path | None, Parameter(help="A JSONL file of tasks of this environment; probes with their calls.")]
Mutations = Annotated[
    NonNegativeInt, Parameter(help="How many mutated rollouts to compare beside the 800 ground truths.")
]
RandomSeed = Annotated[NonNegativeInt, Parameter(help="What is drawn, is drawn from this.")]
Rewritten = Annotated[Path | None, Parameter(name="--out", help="Write here instead of into the file itself.")]
Out = Annotated[Path | None, Parameter(help="Also write the tasks as JSONL into this file.")]


def check_tasks(
    file: Annotated[Path, Parameter(help="A JSONL file of tasks.")],
    /,
    *,
    variants: Annotated[
        bool, Parameter(help="Also say which tasks the procedural author cannot vary, and why.", negative=())
    ] = False,
    as_json: Json = False,
) -> int:
    """Check a file of tasks line by line: shape, tools, and that each ground truth really runs. Exits 1 on faults."""
    from rods.environments.loading import Environments
    from worlds.checking.files import check_file

    return print_checked(check_file(file, Environments(), variants=variants), as_json)


def rehash_tasks(
    file: Annotated[Path, Parameter(help="A JSONL file of tasks.")], /, *, out: Rewritten = None, as_json: Json = False
) -> int:
    """Write the hash of the installed environment into tasks, after a tool or its description has changed, and their
    ids anew. Every ground truth is replayed first: where one no longer holds, the file stays as it is. Exits 1 then.
    """
    from buffers.log.disk import replace
    from rods.environments.loading import Environments
    from worlds.checking.files import rehashed

    report, lines = rehashed(file, Environments())
    if report.ok:
        replace(out or file, lines)
    return print_checked(report, as_json)


def audit_tasks(
    file: Annotated[str, Parameter(help="A JSONL file of tasks, or bfcl.")],
    /,
    *,
    against: Annotated[
        list[str] | None, Parameter(help="Other files (or bfcl) to compare with; may be given again.", negative=())
    ] = None,
    as_json: Json = False,
) -> int:
    """List near duplicates in a file of tasks, and training tasks that match held-out ones.

    Two tasks match when their ground truths or initial states are equal, or when a query of one nearly repeats a query
    of the other (docs/gates.md). Exits 1 when a training task of FILE matches a held-out one of another file.
    """
    from worlds.audit import audit, read

    found = audit(read(file), [(name, read(name)) for name in against or ()], file)
    return print_checked(found, as_json)


def draw(
    out: Annotated[Path, Parameter(help="The JSONL file of tasks to write.")],
    /,
    *,
    train: Annotated[int, Parameter(help="How many training tasks.")] = 200,
    held_out: Annotated[NonNegativeInt, Parameter(help="How many held-out tasks, one in five for validation.")] = 50,
    difficulty: Annotated[str, Parameter(help="From 1 to 100: a number, or a range such as 20-60.")] = "1-100",
    random_seed: Annotated[NonNegativeInt, Parameter(help="What they are drawn from.")] = 0,
    repository: Annotated[str, Parameter(help="repository, or folder/, your own tool documents.")] = "repository",
    as_json: Json = False,
) -> None:
    """Draw tasks over the tools of a repository without a model, for `[data] tasks`: conversations with a played user,
    judged by a rubric (docs/trustee.md). No two are near duplicates.
    """
    from rods.environments.loading import Environments
    from rods.errors import UserError
    from rods.rules.difficulty import HIGHEST, LOWEST
    from worlds.sources import draw_tasks

    low, _, high = difficulty.partition("-")
    numbers = [int(text) if text.isascii() and text.isdigit() else 0 for text in (low, high or low)]
    if not LOWEST <= numbers[0] <= numbers[1] <= HIGHEST:
        remedy = f"give a number from {LOWEST} to {HIGHEST}, or two with a hyphen between"
        raise UserError(f"{difficulty!r} is no difficulty", where="--difficulty", remedy=remedy)
    if min(train, held_out) < 0 or train + held_out == 0:
        what = f"{train} training tasks and {held_out} held-out ones are asked for"
        raise UserError(what, where="--train, --held-out", remedy="give numbers of which one is above 0")
    _write(draw_tasks(repository, Environments(), train, held_out, (numbers[0], numbers[1]), random_seed), out, as_json)


def select_tasks(
    file: Annotated[Path, Parameter(help="A JSONL file of tasks in many worlds.")],
    out: Annotated[Path, Parameter(help="The JSONL file of tasks to write.")],
    /,
    *,
    worlds: Annotated[NonNegativeInt, Parameter(help="In how many worlds training tasks are kept; 0: all.")] = 0,
    without: Annotated[Path | None, Parameter(help="Another such file: no world that it trains on.")] = None,
    mode: Annotated[
        Literal["told", "asked"] | None, Parameter(help="Only tasks whose user says all at once, or is asked.")
    ] = None,
    alike: Annotated[
        Literal["most", "least"] | None, Parameter(help="The worlds most or least like the held-out, not drawn ones.")
    ] = None,
    random_seed: RandomSeed = 0,
    as_json: Json = False,
) -> None:
    """Choose the worlds of a file that are trained on. Held-out tasks are kept as they are."""
    from rods.tasks import read_tasks
    from worlds.selection import select

    other = () if without is None else tuple(read_tasks(without))
    tasks = list(read_tasks(file))
    chosen = select(tasks, worlds=worlds, without=other, mode=mode, alike=alike, random_seed=random_seed)
    _write(chosen, out, as_json)


def fetch_bfcl(*, out: Out = None, as_json: Json = False) -> None:
    """Fetch the pinned wheel of BFCL's data once, check its hash, and convert its 800 multi-turn tasks.

    The wheel (1.9 MB) is kept in the cache and read from there; `[data] tasks = "bfcl"` needs nothing else.
    """
    from rods.tasks import task_lines
    from worlds import bfcl as data
    from worlds.bfcl import wheel

    file = data.fetch()
    tasks = data.tasks()
    if out is not None:
        out.write_bytes(task_lines(tasks))
    splits, types = Counter(task.split for task in tasks), Counter(task.type for task in tasks)
    if as_json:
        facts = {"wheel": str(file), "version": wheel.VERSION, "sha256": wheel.SHA256}
        print_json({**facts, "tasks": len(tasks), "splits": splits, "types": types, "out": out})
        return
    held_out = len(tasks) - splits["train"]
    print(f"{wheel.PACKAGE} {wheel.VERSION}: {len(tasks)} tasks, {splits['train']} to train on, {held_out} held out")
    print(f"  {', '.join(f'{count} {kind}' for kind, count in types.items())}")
    print(f"  kept in {file}" + (f"; written to {out}" if out else ""))


def export_bfcl(
    file: Annotated[Path, Parameter(help="A JSONL file of BFCL tasks.")],
    folder: Annotated[Path, Parameter(help="Where to write questions, answers and tool documents.")],
    /,
    *,
    as_json: Json = False,
) -> None:
    """Write tasks in BFCL's own format, so that its tools read them."""
    from rods.tasks import read_tasks, scripted
    from worlds.bfcl import export as format

    counts = format.write([scripted(task, "BFCL's format") for task in read_tasks(file)], folder)
    if as_json:
        print_json({"folder": folder, "tasks": counts.total(), "types": counts})
        return
    print(f"{counts.total()} tasks in {folder}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")


def import_bfcl(
    folder: Annotated[Path, Parameter(help="A folder in BFCL's own format.")],
    out: Annotated[Path, Parameter(help="The JSONL file of tasks to write.")],
    /,
    *,
    as_json: Json = False,
) -> None:
    """Read tasks in BFCL's own format and write them as JSONL, for `rods data check` and `[data] tasks`."""
    from worlds.bfcl import export as format

    _write(format.read(folder), out, as_json)


def _write(tasks: Sequence[AnyTask], out: Path, as_json: bool) -> None:
    """Writes a file of tasks, and says so. Raises UserError where it cannot be written."""
    from rods.errors import UserError
    from rods.tasks import task_lines

    try:
        out.write_bytes(task_lines(tasks))
    except OSError as error:
        what = f"cannot write ({error.strerror})"
        raise UserError(what, where=str(out), remedy="choose another file") from error
    if as_json:
        print_json({"tasks": len(tasks), "out": out})
        return
    print(f"{len(tasks)} tasks in {out}")


def add_environment(
    name: Annotated[str, Parameter(help="What it is to be called: NAME.json is written, or NAME.openenv.json.")],
    /,
    *command: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="After --: the command that starts it; or module:Class.")
    ],
    kind: Annotated[
        Literal["mcp", "openenv", "trl"],
        Parameter(help="An MCP server, an OpenEnv environment, or a class for TRL's environment_factory."),
    ] = "mcp",
    url: Annotated[str, Parameter(help="Its address instead (MCP: streamable HTTP).")] = "",
    files: Annotated[str, Parameter(help="MCP: a folder that every world gets a copy of, as /world.")] = "",
    env: Annotated[Several, Parameter(help="MCP: KEY=VALUE for its process; {folder} is the world's folder.")] = (),
    reads: Annotated[Several, Parameter(help="A tool that changes nothing, beside those that say so.")] = (),
    probe: Annotated[Several, Parameter(help="A call of such a tool, name(key=value), that shows the state.")] = (),
    compared: Annotated[
        Several, Parameter(help="Part of the state too. MCP: a pattern of files; else: a field of what it shows.")
    ] = (),
    minted: Annotated[Several, Parameter(help="KIND=PATTERN, with one group: values made up anew in each world.")] = (),
    without: Annotated[Several, Parameter(help="A tool that is not offered.")] = (),
    warm: Annotated[NonNegativeInt, Parameter(help="MCP: how many servers are started and wait.")] = 2,
    replace: Annotated[bool, Parameter(help="Write over a description that is there.", negative=())] = False,
    as_json: Json = False,
) -> None:
    """Describe a world from outside as an environment: reach it, pin its tools, write its description (docs/mcp.md,
    docs/openenv.md)."""
    from rods.errors import UserError
    from worlds.openenv.description import ENDING

    path = Path(name.removesuffix(".json").removesuffix(".openenv") + (".json" if kind == "mcp" else ENDING))
    if path.exists() and not replace:
        raise UserError("is there already", where=str(path), remedy="--replace writes over it")
    if kind != "mcp" and (files or env):
        raise UserError("is for MCP servers", where="--files" if files else "--env", remedy="leave it out")
    pairs = {}
    for option, given in {"env": env, "minted": minted}.items():
        if wrong := next((each for each in given if "=" not in each), None):
            raise UserError(f"{wrong!r} has no =", where=f"--{option}", remedy="write KEY=VALUE")
        pairs[option] = dict(each.split("=", 1) for each in given)
    fields: dict[str, Any] = {
        "url": url,
        "reads": list(reads),
        "probes": list(probe) or None,
        "compared": list(compared),
        "minted": pairs["minted"],
        "without": list(without),
    }
    found: Pinned
    if kind == "mcp":
        fields |= {"command": list(command), "files": files, "env": pairs["env"], "warm": warm}
        found, first = _mcp(path, fields), ""
    else:
        from worlds.openenv.description import OpenEnvDescription
        from worlds.openenv.world import introduced

        fields |= {"kind": kind, "factory": " ".join(command)}
        found, first = introduced(OpenEnvDescription.of(str(path), fields))
    try:
        path.write_bytes(found.written())
    except OSError as error:
        what = f"cannot write ({error.strerror})"
        raise UserError(what, where=str(path), remedy="choose another name") from error
    shown = {
        "environment": str(path),
        "server": found.server,
        "tools": [tool["name"] for tool in found.tools],
        "reads": found.reads,
        "probes": found.probes,
        "compared": found.compared,
        "first": first,
    }
    if as_json:
        print_json(shown)
        return
    about = " ".join(found.server.get(each, "") for each in ("name", "version")).strip() or url or " ".join(command)
    print(f"{path}: {len(found.tools)} tools of {about}")
    if first:
        print(f"  a reset shows what no policy is shown; say it in the task's words: {first[:300]}")
    print(f"  change nothing: {', '.join(found.reads) or 'none says so (--reads)'}")
    shows = [*(found.probes or ()), *found.compared]
    if found.probes is None and not shows:
        print("  nothing shows its state, so ground-truth calls cannot be scored: name calls that do (--probe)")
    else:
        print(f"  its state is what these answer: {', '.join(shows) or 'it has none'}")
    print(f"  `rods env check {path}` tries whether all this holds")


def _mcp(path: Path, fields: dict[str, Any]) -> Pinned:
    """The description of an MCP server, with what it says when it is started."""
    from worlds.mcp.description import Description, asked
    from worlds.mcp.sessions import Session

    found = Description.of(str(path), fields)
    session = Session(found.beside(path)).wait()
    session.end()
    return asked(found, session.tools, session.about)


def admit_environment(
    run: RunFolder,
    name: Annotated[str, Parameter(help=f"{NAMES} Looked for from the current folder.")],
    /,
    *,
    why: Annotated[str, Parameter(help="The reason, which is kept on record.")] = "",
    as_json: Json = False,
) -> None:
    """Let variants of a run be in one more environment, from the next merge on (docs/protocol.md). The file of a
    generated world is copied into the run."""
    from buffers.admission import admit
    from buffers.run.run import Run

    made = admit(Run.open(run), name, by="rods env admit", why=why)
    if as_json:
        print_json({key: value for key, value in made.items() if key not in ("seq", "id", "crc", "kind")})
        return
    print(f"{made['name']} ({made['hash']}) may be named by tasks of {run} from now on")


def check_environment(name: Name, /, *, tasks: Tasks = None, as_json: Json = False) -> int:
    """Probe an environment: determinism, snapshot purity, schemas and timing. Exits 1 on faults."""
    from rods.environments.loading import Environments
    from rods.tasks import Task, read_tasks
    from worlds.checking.environments import check_environment as check

    given = [task for task in read_tasks(tasks) if isinstance(task, Task)] if tasks else ()
    return print_checked(check(name, Environments(), given), as_json)


def replay_bfcl(*, mutations: Mutations = 10_000, random_seed: RandomSeed = 0, as_json: Json = False) -> int:
    """Compare scoring with BFCL's own checker, turn by turn, and both speeds. Exits 1 when anything differs."""
    from evaluation.bfcl.parity.replay import replay

    report = replay(mutations, random_seed=random_seed, say=lambda line: print(line, file=sys.stderr, flush=True))
    return print_checked(report, as_json)
