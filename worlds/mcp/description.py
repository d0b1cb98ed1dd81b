"""The description of an MCP server as an environment: how to reach it, its pinned tools, what is
known about its state.

    {"command": ["mcp-server-git"], "files": "template",
     "probes": ["git_status(repo_path='/world')"], "tools": […], …}

A task's environment is named by the path of this file.
"""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from rods.canonical import JsonMapping, JsonObject, content_id
from rods.errors import UserError
from rods.worlds.pinned import Pinned

# what the private folder of a world, and the home of its process, are called outside
FOLDER = "/world"
HOME = "/home/world"
NOW = "2026-01-05T09:00:00+00:00"  # a Monday
SECRET = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)


class Description(Pinned):
    """One server. `command` (with `{folder}` for the private folder of a world) or `url`.
    `compared` are patterns of files in that folder."""

    page = "docs/mcp.md"

    command: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)  # variables of its process, with {folder} too
    # variables that it gets from us, whose values stand nowhere
    secrets: list[str] = Field(default_factory=list)
    files: str = ""  # a folder beside this file, copied into the private folder of every world
    # what the clocks of its process show (Python, Node); "": they run, and chance is chance
    frozen: str = NOW

    # what a server that asks its user is answered: these fields; null: there is no user to ask
    answers: JsonObject | Literal["decline"] | None = None

    @property
    def started(self) -> str:
        return shlex.join(self.command)

    @field_validator("frozen")
    @classmethod
    def _instant(cls, text: str) -> str:
        if text and datetime.fromisoformat(text).tzinfo is None:
            raise ValueError("needs a time zone, for instance +00:00")
        return text

    @model_validator(mode="after")
    def _reached(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either command or url")
        if self.url and (self.files or self.compared or self.env or self.secrets):
            raise ValueError(
                "files, compared, env and secrets need a process of our own: give command"
            )
        if secret := [name for name in self.env if SECRET.search(name)]:
            raise ValueError(f"env is written down, in runs too: name {secret[0]} by secrets")
        self.probe_calls()
        return self

    @classmethod
    def read(cls, name: str) -> Self:
        return super().read(name).beside(Path(name))

    def beside(self, file: Path) -> Self:
        """With `files` named from the current folder, where the description lies in `file`."""
        if not self.files:
            return self
        folder = file.parent / self.files
        if not folder.is_dir():
            raise UserError(
                f"no folder {folder}",
                where=f"environment {str(file)!r}",
                remedy="name one by `files`",
            )
        return self.model_copy(update={"files": str(folder)})

    def hash(self) -> str:
        """Of everything that a world depends on here: command, files, clock, tools. Where the
        command lies is left out: it differs from machine to machine."""
        command = [Path(self.command[0]).name, *self.command[1:]] if self.command else [self.url]
        fields = self.model_dump(include={"env", "frozen", "compared", "tools"})
        fields |= {"command": command, "files": _contents(Path(self.files)) if self.files else {}}
        fields |= {"secrets": sorted(self.secrets)} if self.secrets else {}
        fields |= {} if self.answers is None else {"answers": self.answers}
        return content_id({**fields, "without": sorted(self.without)})


def _contents(folder: Path) -> Mapping[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def asked(
    description: Description, tools: Sequence[JsonMapping], about: Mapping[str, str]
) -> Description:
    """`description` with what its server has said: its tools, which are pinned; which of them say
    that they change nothing; and, where nothing else shows the state, those of these that need no
    argument as probes. A server all of whose tools are reads has no state."""
    offered = [tool for tool in tools if tool["name"] not in description.without]
    harmless = [tool["name"] for tool in offered if tool.get("annotations", {}).get("readOnlyHint")]
    hinted = dict.fromkeys([*harmless, *description.reads])
    reads = [name for name in hinted if name not in description.writes]
    probes = description.probes
    if probes is None:
        bare = [
            tool["name"]
            for tool in offered
            if tool["name"] in reads and not tool["inputSchema"].get("required")
        ]
        complete = bool(description.compared) or len(reads) >= len(offered)
        probes = [f"{name}()" for name in bare if not description.compared] or (
            [] if complete else None
        )
    return description.model_copy(
        update={
            "reads": reads,
            "probes": probes,
            "tools": list(map(dict, tools)),
            "server": dict(about),
        }
    )
