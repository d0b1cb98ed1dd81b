"""Servers of the Model Context Protocol that others wrote: `rods env add` and `rods env check` on
each, and the table of docs/mcp.md.

Claim: of 25, 20 are clean or told plainly what they cannot be, each within 300 s. Anchor: what each
server answers by itself. Command: `python -m bench.mcp_table` prints the table, with `--run [NAME
…]` it tries these first, or those without a result. `--tasks FOLDER` writes the environments that
have tasks, and these, a folder each: a run on one of them writes variants.

mcp_table.toml beside this file has the servers and their options, mcp_table.json what was seen: a
result holds for the package, command and options that it was made with. mcp_tasks.toml has tasks
written by hand, mcp_variants.jsonl variants of them that runs have injected, with what a reader
found. `make mcp-servers` puts the commands on PATH.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from rods.calls import parse_python_call
from rods.canonical import content_id
from rods.console.main import run
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.tasks import Task, write_task_file

HERE = Path(__file__)
SERVERS: list[dict[str, Any]] = tomllib.loads(HERE.with_suffix(".toml").read_text())["servers"]
RESULTS = HERE.with_suffix(".json")
TASKS: list[dict[str, Any]] = tomllib.loads(HERE.with_name("mcp_tasks.toml").read_text())["tasks"]
VARIANTS = list(map(json.loads, HERE.with_name("mcp_variants.jsonl").read_text().splitlines()))
SECONDS = 300  # that a server may take
HEADS = (
    *("server", "options and command", "told elsewhere", "found"),
    *("tasks", "variants", "right", "cannot be"),
)
DATE = "2026-01-05T09:00:00Z"
BOOK = {  # the parts of a workbook
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/'
    'content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-'
    'package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="application/'
    'vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/'
    'worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'spreadsheetml.worksheet+xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
    'relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/'
    'officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>'
    '<sheet name="Tea" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/'
    '2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/'
    'officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
    "xl/worksheets/sheet1.xml": '<worksheet xmlns="http://schemas.openxmlformats.org/'
    'spreadsheetml/2006/main"><dimension ref="A1:B1"/>'
    '<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>green</t></is>'
    '</c><c r="B1"><v>4</v></c></row></sheetData></worksheet>',
}
# folders that worlds get a copy of; a file that holds parts is their zip
MADE_UP: Mapping[str, Mapping[str, str | Mapping[str, str]]] = {
    "workbooks": {"tea.xlsx": BOOK},
    "vault": {".obsidian/app.json": "{}", "tea.md": "# Tea\n\nBuy green tea.\n"},
    "books": {
        "main.bean": "2026-01-01 open Assets:Bank EUR\n2026-01-01 open Expenses:Tea EUR\n"
        '2026-01-02 * "Tea shop" "Green tea"\n  Expenses:Tea  4 EUR\n  Assets:Bank\n'
    },
    "repository": {"a.txt": "milk\n"},
}


def key(server: Mapping[str, Any]) -> str:
    """What a result is for: where the server comes from, its command, its options, what is
    written into its description by hand, and the calls of a task."""
    given = [server["from"], server["command"], server.get("options", []), server.get("fields", {})]
    return content_id([*given, server.get("calls", [])])


def results() -> dict[str, dict[str, Any]]:
    """What was seen of each server, by its key."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def tried(server: Mapping[str, Any]) -> dict[str, Any]:
    """What `rods env add` and `rods env check` say of a server, in a folder of its own."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            return _tried(server)
        finally:
            os.chdir(before)


def _tried(server: Mapping[str, Any]) -> dict[str, Any]:
    began = time.monotonic()
    code, said = _added(server)
    result: dict[str, Any] = {"day": time.strftime("%Y-%m-%d"), "starts": code == 0}
    if code == 0:
        description = Path("world.json")
        fields = {**json.loads(description.read_text()), **server.get("fields", {})}
        description.write_text(json.dumps(fields))
        left = SECONDS - (time.monotonic() - began)
        given = ["--json", "--seconds", f"{left:.0f}", *_task(server.get("calls", []))]
        code, checked = _said("check", "world.json", *given)
        result |= {
            "version": said["server"]["version"],
            "clean": code == 0,
            "faults": [" ".join(map(str, fault.values()))[:400] for fault in checked["faults"]],
            "notes": checked["notes"],
            "verdicts": checked["facts"]["verdicts"],
            "calls": checked["facts"]["calls"],
        }
    return result | {"seconds": round(time.monotonic() - began)}


def _added(server: Mapping[str, Any], *more: str) -> tuple[int, Any]:
    """`rods env add` of a server in the current folder, and what it says."""
    options = server.get("options", [])
    for folder, files in MADE_UP.items():
        if folder in options:
            _make(Path(folder), files)
    return _said("add", "world", *options, *more, "--json", "--", *_command(server))


def written(folder: Path) -> None:
    """The environments that have tasks, and these: world.json and tasks.jsonl, a folder each."""
    before = Path.cwd()
    for server in SERVERS:
        given = [task for task in TASKS if task["server"] == server["name"]]
        if not given:
            continue
        place = folder.absolute() / server["name"].split()[0]
        place.mkdir(parents=True)
        os.chdir(place)
        try:
            _added(server, "--no-calls")
            with Environments() as environments:
                environment = environments.load("world.json")
                tasks = [_given(task, environment) for task in given]
            write_task_file(tasks, Path("tasks.jsonl"))
        finally:
            os.chdir(before)


def _given(task: Mapping[str, Any], world: Environment) -> Task:
    state = {"files": task["files"]} if "files" in task else {}
    made = [parse_python_call(text, {}).as_json() for text in task.get("state", ())]
    state |= {"calls": made} if made else {}
    calls = tuple(tuple(parse_python_call(text, {}) for text in turn) for turn in task["calls"])
    tools = tuple(world.tools())
    says = tuple(task["says"])
    return Task(reference(world), "base", says, calls, tools, state=state or None)


def _task(texts: Sequence[str]) -> list[str]:
    """The option that gives `rods env check` a task of these calls, if there are any."""
    if not texts:
        return []
    calls = tuple(parse_python_call(text, {}) for text in texts)
    with Environments() as environments:
        environment = environments.load("world.json")
        task = Task(reference(environment), "base", ("Go.",), (calls,), tuple(environment.tools()))
    write_task_file([task], Path("tasks.jsonl"))
    return ["--tasks", "tasks.jsonl"]


def _command(server: Mapping[str, Any]) -> list[str]:
    """The server's command line; where packages of Python and Node have a command of one name, its
    own."""
    folders = os.environ["PATH"].split(os.pathsep)
    named = [file for folder in folders if (file := Path(folder, server["command"][0])).exists()]
    file = named[-1 if server["from"].startswith("npm") else 0]
    return [str(file), *server["command"][1:]]


def _make(folder: Path, files: Mapping[str, str | Mapping[str, str]]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str):
            (folder / path).write_text(text)
            continue
        with zipfile.ZipFile(folder / path, "w") as packed:
            for name, part in text.items():
                packed.writestr(zipfile.ZipInfo(name), part)
    if folder.name == "repository":
        dates = {**os.environ, "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
        for command in (
            ["init", "-q", "-b", "main"],
            ["config", "user.name", "Ann"],
            ["config", "user.email", "ann@example.org"],
            ["add", "."],
            ["commit", "-q", "-m", "First"],
        ):
            subprocess.run(["git", "-C", str(folder), *command], env=dates, check=True)


def _said(verb: str, *arguments: str) -> tuple[int, Any]:
    out = io.StringIO()
    with redirect_stdout(out):
        code = run(["env", verb, *arguments])
    return code, json.loads(out.getvalue() or "null")


def table() -> Iterator[str]:
    """The servers in Markdown, with what was seen of them."""
    seen = results()
    yield f"| {' | '.join(HEADS)} |"
    yield "|" + "---|" * len(HEADS)
    for server in SERVERS:
        yield f"| {' | '.join(_row(server, seen.get(key(server))))} |"


def _row(server: Mapping[str, Any], result: Mapping[str, Any] | None) -> Sequence[str]:
    package, *beside = server["from"].split()[1:]
    named = f"{server['name']}: `{package}`" + "".join(f", `{each}`" for each in beside)
    command = shlex.join([*server.get("options", []), "--", *server["command"]])
    written = "; `fails` is empty" if server.get("fields") else ""
    tried_with = "; `--tasks`" if server.get("calls") else ""
    options = f"`{command.replace('|', chr(92) + '|')}`{written}{tried_with}"
    tasks = [task for task in TASKS if task["server"] == server["name"]]
    variants = [each for each in VARIANTS if each["server"] == server["name"]]
    right = [each for each in variants if each["read"] == "right"]
    counts = [str(len(each)) if tasks else "" for each in (tasks, variants, right)]
    told = server.get("elsewhere", "")
    return (named, options, told, _found(result), *counts, server.get("limits", ""))


def _found(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "not tried yet"
    if not result["starts"]:
        return f"does not start ({result['day']})"
    verdicts = list(result["verdicts"].values())
    cut = [fault for fault in result["faults"] if "cut short after" in fault]
    count = len(result["faults"]) - len(cut)
    faults = "no fault" if not count else "1 fault" if count == 1 else f"{count} faults"
    worked = f"{verdicts.count('worked')} of {len(verdicts)} tools worked"
    time_taken = f"cut at {result['seconds']} s" if cut else f"{result['seconds']} s"
    return f"{faults}, {worked}, {time_taken} ({result['day']})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", nargs="*", default=None, metavar="NAME")
    parser.add_argument("--tasks", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.tasks:
        written(given.tasks)
        return
    names = given.run
    for server in SERVERS if names is not None else ():
        wanted = server["name"] in names or (not names and key(server) not in results())
        if wanted and shutil.which(server["command"][0]) is None:
            print(f"{server['name']} is not installed, and not tried", file=sys.stderr)
        elif wanted:
            result = tried(server)
            print(server["name"], result, file=sys.stderr, flush=True)
            RESULTS.write_text(json.dumps({**results(), key(server): result}, indent=1) + "\n")
    print("\n".join(table()))


if __name__ == "__main__":
    main()
