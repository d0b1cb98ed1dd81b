"""The environment over an MCP server. Of its worlds only calls can be asked (`OnlyCalled`).

A world has a server process and a folder of its own, which is called `/world` in all that the
server says, and in arguments but for texts (`_TEXT`), which reach it as they are. Otherwise the
folder's real name, another one in each world, would stand in files, and calls that edit or search
them would meet its letters. Its state is {"files": {path: text or {"base64": text}}}, written into
that folder, beside what `rods.environments.replay` keeps.
"""

import json
import re
import weakref
from base64 import b64decode
from collections.abc import Mapping
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id
from rods.environments.base import MOST_ANSWERED, Result, Tools
from rods.environments.replay import Replayed
from rods.errors import InfrastructureError, UserError
from rods.llm.connections import Key
from rods.model_json import mapped
from rods.worlds.mcp.comparing import contents
from rods.worlds.mcp.description import FOLDER, HOME, Description, asked
from rods.worlds.mcp.sessions import PREFIX, Answer, Refusal, Session
from rods.worlds.pinned import OnlyCalled, closed, json_value

FILES = "files"  # the key of a state
BINARY = "base64"  # of a file that is no text
_ASKED = "asked"  # the file with the variables that a server asks for, beside its folder
# of which such as say where something lies, and are the server's own
_KEEPS = re.compile(
    r"^(?!_|PYTHON|NODE|XDG|SSL|DOTENV|LC_|ANDROID|OTEL|FASTMCP)"
    r"\w*(PATH|FILE|DB|DIR|ROOT|HOME|FOLDER)$"
)
_FILES = ("PATH", "FILE", "DB")  # what such a name ends with that is no folder's
_PLACES = 40  # paths that calls are tried with
_SOME = 4  # files that one note lists
_SHOWN = 8  # characters at the end of a path, at least, by which it is known
_INVALID_PARAMS = -32602  # JSON-RPC's
# names of arguments, and of fields in them, that hold a text and no path or command
_TEXT = re.compile(
    r"(?i)(content|text|body|message|description|comment|title|subject|observation|thought"
    r"|(old|new)_?str(ing)?)s?$"
)


def described(name: str) -> Replayed:
    """The environment whose description is the file `name`; no server is started yet. Raises
    UserError."""
    server = Description.read(name)
    return server.replayed(McpEnvironment(name, server))


def added(path: Path, kind: str, fields: JsonMapping, own: JsonMapping) -> tuple[Description, str]:
    """The description of a server for the file `path`, with what it says when it is started, and
    what to tell whoever adds it: `fields` are those of every description, `own` its command and its
    process's. A program that is named by a relative path, and a file that is there, are meant from
    the current folder: servers start in one of their own, where only what lies in the folder
    `files` is. Raises UserError."""
    command = [
        _from_here(part, own["files"], program=not place)
        for place, part in enumerate(own["command"])
    ]
    description = Description.of(str(path), {**fields, **own, "command": command})
    watched = {"env": {**description.env, "RODS_ASKED": f"{{folder}}/../{_ASKED}"}}
    session = Session(description.beside(path).model_copy(update=watched)).wait()
    names = session.place / _ASKED
    asked_for = names.read_text(errors="replace").split() if names.is_file() else ()
    unset = sorted(filter(_KEEPS.search, {*asked_for}))
    session.end()
    told = " ".join(
        f"--env '{name}={{folder}}{'/data' if name.endswith(_FILES) else ''}'" for name in unset
    )
    why = "variables that it asks for, where one says where it keeps what it has: "
    return asked(description, session.tools, session.about), told and why + told


def _from_here(part: str, files: str, *, program: bool) -> str:
    try:
        here = "/" in part and "{folder}" not in part if program else Path(part).is_file()
    except OSError:  # a program's text, longer than a name may be
        here = False
    return (
        str(Path.cwd() / part) if here and not (files and (Path(files) / part).exists()) else part
    )


class McpEnvironment:
    """The environment called `name`, before it is made one that can be copied. Starts no server
    until one is needed."""

    apart = (
        "let the server keep what it has in {folder} (its command, --env), name ids by --minted, "
        "leave the tool out (--without)"
    )

    def __init__(self, name: str, server: Description) -> None:
        self.name = name
        self.server = server
        self.hash = server.hash()
        self._held = False  # the tools were seen to be the pinned ones
        self.features = server.features(waits=True)
        self._tools = server.offered(server.server.get("name") or PurePosixPath(name).stem)
        self._checkers = {
            record["name"]: Checker(closed(record["inputSchema"]))
            for record in server.tools
            if record["name"] in self._tools
        }

    def parameters(self) -> JsonMapping:
        """What a run's record says of it: how the server is reached, the hash of its pinned tools,
        and which variables it is given, without their values."""
        server = self.server
        reached = {"command": server.command} if server.command else {"url": server.url}
        return {
            "kind": "mcp",
            **reached,
            "tools": content_id(server.tools),
            "env": sorted(server.env),
        }

    def tools(self) -> Tools:
        return self._tools

    def places(self, state: JsonMapping | None) -> list[str]:
        """Some paths that a world in `state` has, as calls name them, and from its folder on; but
        for hidden ones."""
        files = self.server.files
        own = [path.relative_to(files) for path in Path(files).rglob("*")] if files else []
        held = [PurePosixPath(path) for path in (*sorted(own), *(state or {}).get(FILES, {}))]
        shown = [path for path in held if not any(part.startswith(".") for part in path.parts)]
        paths = dict.fromkeys(str(each) for path in shown for each in (path, *path.parents[:-1]))
        return [FOLDER, *(each for path in paths for each in (f"{FOLDER}/{path}", path))][:_PLACES]

    def reset(self, state: JsonMapping | None) -> "McpWorld":
        files = _legal(state or {}, self.server)
        session = Session(self.server).wait()
        try:
            self.server.hold(self.name, session.tools)
            self._held = True
        except UserError as error:
            session.end()
            if self._held:  # nothing that somebody could mend, but a server that starts otherwise
                raise InfrastructureError(str(error)) from error
            raise
        # which ends the session with itself, whatever comes now
        world = McpWorld(session, self._checkers)
        for path, held in files.items():
            place = session.folder / path
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(
                    held.encode()
                    if isinstance(held, str)
                    else b64decode(held[BINARY], validate=True)
                )
            # a folder of that name is there, a text that is none, letters that are no base64
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"the file {path!r} of a state cannot be written: {error}"
                ) from error
        return world


class McpWorld(OnlyCalled):
    """One server process, or one connection. Ends with the object."""

    def __init__(self, session: Session, checkers: Mapping[str, Checker]) -> None:
        self._session = session
        self._checkers = checkers
        self._places = {HOME: str(session.home), FOLDER: str(session.folder)}
        self._outward = {name: _forms(place) for name, place in reversed(self._places.items())}
        self._marks = (PREFIX, "...", "…")  # of which one is in each such form
        self._inward = re.compile(rf"(?<![\w./-])({'|'.join(self._places)})(?![\w-])")
        weakref.finalize(self, session.end).atexit = False  # then all end together

    def call(self, call: Call) -> Result:
        """Raises InfrastructureError where the server does not answer."""
        checker = self._checkers.get(call.name)
        if checker is None:
            return Result(f"Error: there is no tool {call.name!r}", None, "unknown_tool")
        arguments = dict(call.arguments)
        if what := checker.fault(arguments):
            return Result(f"Error: {what}", None, "bad_arguments")
        answer = self._session.call(call.name, self._inside(arguments))
        if isinstance(answer, Refusal):
            error = "bad_arguments" if answer.code == _INVALID_PARAMS else "tool"
            return Result(
                self._outside(f"Error: {Key().heard(answer.message, MOST_ANSWERED)}"), None, error
            )
        text, value = self._outside(_said(answer))
        return Result(text, None, "tool") if answer.is_error else Result(text, value)

    def look(self) -> Any:
        """The contents of those files of its folder that are part of the state, by their paths, and
        the folders among them that are empty, as `path/`."""
        folder = self._session.folder
        places = {
            path for pattern in self._session.server.compared for path in folder.glob(pattern)
        }
        empty = {
            f"{path.relative_to(folder)}/": ""
            for path in places
            if path.is_dir() and not path.is_symlink() and not any(path.iterdir())
        }
        return self._outside({**contents(folder, filter(Path.is_file, places)), **empty})

    def unseen(self) -> str:
        """Says which files of its folder and home were written since its server was started, and
        are not compared."""
        session = self._session
        compared = {path for each in session.server.compared for path in session.folder.glob(each)}
        since = (session.place / "pid").stat().st_mtime_ns
        written = [
            self._outside(str(path))
            for place in (session.folder, session.home)
            for path in sorted(place.rglob("*"))
            if path.is_file() and path not in compared and path.stat().st_mtime_ns > since
        ]
        if not written:
            return ""
        return (
            f"files are written that are not compared: {', '.join(written[:_SOME])}; where they "
            f"are the state, --compared PATTERN, of what is in {HOME} after --env HOME={{folder}}"
        )

    def _inside(self, value: Any, name: str = "") -> Any:
        """`value` of the argument or field `name`, with the real folder for `/world`."""
        if isinstance(value, Mapping):
            return {self._inside(key): self._inside(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self._inside(item, name) for item in value]
        if not isinstance(value, str) or _TEXT.search(name):
            return value
        return self._inward.sub(lambda match: self._places[match[1]], value)

    def _outside(self, value: Any) -> Any:
        def renamed(leaf: Any) -> Any:
            if isinstance(leaf, str) and any(mark in leaf.lower() for mark in self._marks):
                for name, form in self._outward.items():
                    leaf = form.sub(name, leaf)
            return leaf

        return mapped(value, renamed)


def _forms(place: str) -> re.Pattern[str]:
    """Finds the path `place` in what a server says: as it is, in capitals, and what one that
    shortens its texts leaves of it, beside its dots."""
    above, made, own = place.partition(PREFIX)
    begin = reduce(lambda rest, char: f"(?:{re.escape(char)}{rest})?", reversed(own), "")
    end = reduce(lambda rest, char: f"(?:{rest}{re.escape(char)})?", place[:-_SHOWN], "")
    return re.compile(
        rf"{re.escape(place)}|{re.escape(above + made)}{begin}(?=\.\.\.|…)"
        rf"|(?:(?<=\.\.\.)|(?<=…)){end}{re.escape(place[-_SHOWN:])}",
        re.IGNORECASE,
    )


def _said(answer: Answer) -> tuple[str, Any]:
    """Text and value of an answer: structured content as it is, but for a text that SDKs have
    wrapped; else its texts, and a note for whatever is no text."""
    parts = []
    for block in answer.content:
        if block.type == "text":
            parts.append(block.text)
        elif block.type in ("resource", "resource_link"):
            inner = getattr(block, "resource", block)
            parts.append(getattr(inner, "text", None) or f"[resource {inner.uri}]")
        else:
            parts.append(f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4} bytes]")
    text = "\n".join(parts)
    content = answer.structured_content
    if content is None or answer.is_error or content == {"result": text}:
        return text, json_value(text)
    try:
        data = orjson.dumps(content)
        return data.decode(), orjson.loads(data)
    except TypeError:  # integers beyond 64 bits
        return json.dumps(content, ensure_ascii=False), None


def _legal(state: JsonMapping, server: Description) -> JsonObject:
    """The files of a state. Raises ValueError for an illegal one."""
    if unknown := [key for key in state if key != FILES]:
        raise ValueError(
            f"the state of an MCP server has {FILES!r} and 'calls', not {unknown[0]!r}"
        )
    files = state.get(FILES, {})
    if not isinstance(files, Mapping) or not all(map(_is_file, files.values())):
        raise ValueError(f"{FILES!r} of a state maps paths to texts or {{'{BINARY}': text}}")
    if files and server.url:
        raise ValueError(f"a server behind an address has no folder for {FILES!r}")
    for path in files:
        if not Path(path).parts or Path(path).is_absolute() or ".." in Path(path).parts:
            raise ValueError(f"the path {path!r} of a state leads out of its folder")
    return dict(files)


def _is_file(held: Any) -> bool:
    if isinstance(held, Mapping) and held.keys() == {BINARY}:
        held = held[BINARY]
    return isinstance(held, str)
