"""What `rods ctl` asks of processes at work (control.jsonl), and how they take it up.

The last word on a setting holds until there is another one, over restarts too; "configured" gives the word back to the
configuration. A process looks at its tick and tells in operation.<process>.jsonl what it has changed.
"""

import getpass
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rods.buffers.log.record_bytes import Record, record
from rods.buffers.log.tail import Tail, read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.heartbeat import ProcessLocation
from rods.buffers.run.locks import Ownership
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import CONTROL, operation
from rods.config import Operation
from rods.errors import RefusedError, UserError
from rods.extension import extensions
from rods.rules.curriculum import writes

PROCESS = "ctl"
MOST = 10**15  # what a number may be at most
CONFIGURED, UNLIMITED = "configured", "unlimited"
Value = int | str
Setter = Callable[[Value, str], None]  # a value, and the endpoint that it is for


@dataclass(frozen=True, slots=True)
class Setting:
    """What may be asked: an entry of control.toml, which says what its fields mean."""

    processes: Sequence[Literal["trainer", "daemon"]]
    about: str
    least: int | None = None
    words: Sequence[str] = ()
    models: bool = False

    @property
    def allowed(self) -> list[str]:
        """What its values are, in words."""
        return [*([] if self.least is None else [f"a whole number from {self.least}"]), *self.words]

    def parsed(self, name: str, text: str) -> Value | None:
        """The value that a person has written; None: as configured. Raises UserError."""
        if text == CONFIGURED:
            return None
        if text in self.words:
            return text
        if self.least is not None and text.isdecimal() and self.least <= int(text[:20]) <= MOST:
            return int(text)
        remedy = f"give {' or '.join([*self.allowed, CONFIGURED])}"
        raise UserError(f"{text[:40]!r} is no value of it", where=name, remedy=remedy)


SETTINGS: Mapping[str, Setting] = {
    name: Setting(**told)
    for name, told in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def _configured(operation: Operation, setting: str, endpoint: str) -> Value:
    """What holds where nothing is asked."""
    value: Value
    match setting:
        case "picking":
            value = "on"
        case "concurrency":
            value = next((api.concurrency for api in operation.endpoints if endpoint in (api.name, api.model)), 1)
        case "requests" | "tokens":
            value = getattr(operation.budgets, setting) or UNLIMITED
        case _:
            value = getattr(operation, setting)
    return value


class AskedChanges:
    """Follows what is asked of the run at `folder`. `holds`: the latest record of each setting and endpoint ("": all
    of them, which takes back what was asked of single ones before)."""

    def __init__(self, folder: Path) -> None:
        self.tail = Tail(folder / CONTROL)
        self.holds: dict[tuple[str, str], Record] = {}

    def poll(self) -> list[Record]:
        """Reads on; returns what is new and holds, in order."""
        before = self.tail.seq
        for change in self.tail.records():
            if (setting := change["setting"]) in SETTINGS:  # what is unknown a later version has written
                key = setting, change["endpoint"]
                for known in [known for known in self.holds if known == key or (known[0] == setting and not key[1])]:
                    del self.holds[known]
                self.holds[key] = change
        return [change for change in self.holds.values() if change["seq"] > before]

    def words(self) -> list[str]:
        """What is asked and not as ever."""
        return [
            f"{setting}{f' of {endpoint}' if endpoint else ''} {change['value']}"
            for (setting, endpoint), change in self.holds.items()
            if change["value"] not in (None, "on")
        ]


class Control:
    """What is asked of one process, from its start on. `setters` say how it takes up a value, by setting."""

    def __init__(self, run: Run, process: Literal["trainer", "daemon"], setters: Mapping[str, Setter]) -> None:
        self._run, self._process, self._setters = run, process, setters
        self._asked = AskedChanges(run.path)
        self._values: dict[tuple[str, str], Value] = {}  # that hold instead of those of the configuration

    def read(self) -> list[Record]:
        """What is newly asked. Reads the disk."""
        return [change for change in self._asked.poll() if change["setting"] in self._setters]

    def apply(self, asked: Sequence[Record]) -> list[Record]:
        """Takes it up; returns what is to be told. Touches no disk."""
        return [
            self._apply(new, endpoint)
            for new in asked
            for endpoint in ([new["endpoint"]] if new["setting"] != "concurrency" or new["endpoint"] else self._names())
        ]

    def tell(self, changed: list[Record]) -> None:
        """Puts it on record. Writes to the disk."""
        if changed:
            self._run.log_operation(self._process, changed)

    def _apply(self, change: Record, endpoint: str) -> Record:
        setting = change["setting"]
        configured = _configured(self._run.config.operation, setting, endpoint)
        old = self._values.get((setting, endpoint), configured)
        new = self._values[setting, endpoint] = configured if change["value"] is None else change["value"]
        if endpoint in ("", *self._names()):  # an endpoint may have gone with the last restart
            self._setters[setting](new, endpoint)
        place = ProcessLocation.here()
        told = {"number": change["number"], "setting": setting, "endpoint": endpoint, "old": old, "new": new}
        return record(
            "changed",
            process=self._process,
            time=round(time.time(), 6),
            host=place.host,
            pid=place.pid,
            **told,
            by=change["by"],
            asked=change["time"],
        )

    def _names(self) -> list[str]:
        return [endpoint.name or endpoint.model for endpoint in self._run.config.operation.endpoints]


def ask(run: Run, setting: str, value: Value | None, endpoint: str = "") -> Record:
    """Puts on record what is asked, unless it holds already; returns the record that holds. None: as configured. Raises
    RefusedError where the run has no use for it."""
    _check(run, setting, endpoint)
    with Ownership(run.path, CONTROL, PROCESS):
        asked = AskedChanges(run.path)
        asked.poll()
        held = asked.holds.get((setting, endpoint))
        if held is not None and held["value"] == value:
            return held
        with closing(LogWriter(run.path / CONTROL)) as writer:
            by, now = f"{_user()}@{ProcessLocation.here().host}", round(time.time(), 3)
            told = {"number": writer.seq + 1, "setting": setting, "endpoint": endpoint, "value": value}
            made = record("control", **told, by=by, time=now)
            writer.append([made])
        return made


def _check(run: Run, setting: str, endpoint: str) -> None:
    where, config = str(run.path), run.config
    if setting == "picking" and config.sync == "lockstep":
        raise RefusedError("in lockstep nobody stops picking: the trainer waits for every pick", where=where)
    if setting == "picking" and config.pool.static:
        raise RefusedError("a static pool has its seeds picked once, and the trainer waits for it", where=where)
    asked = config.pipeline.author == "llm" and writes(config)
    asked = asked or any(extension.asks(config) for extension in extensions())
    if SETTINGS[setting].models and not asked:
        raise RefusedError(f"no language model writes in this run, so {setting} has no effect", where=where)
    if not endpoint:
        return
    if setting != "concurrency":
        raise UserError("only concurrency is set for an endpoint", where="--endpoint", remedy="leave it out")
    # The endpoints that the daemon was last started with, or would be.
    starts = [start["operation"] for start in read(run.path / operation("daemon")) if start["kind"] == "started"]
    endpoints = starts[-1].get("endpoints", ()) if starts else config.operation.model_dump()["endpoints"]
    names = [api.get("name") or api["model"] for api in endpoints]
    if endpoint not in names:
        raise UserError(f"no endpoint is called {endpoint!r}", where=where, remedy=f"there are {', '.join(names)}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, in a container
        return "unknown"
