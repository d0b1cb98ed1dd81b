"""Everything that may be wrong about what a person, a disk or another program puts before a verb:
by name, the ways to spoil a run folder and the files that verbs are given."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from rods.buffers.log.record_bytes import line, record_id

ESCAPE = "\x1b[2J\x1b]0;title\x07"
LONG = 1 << 20
DEEP = 100_000
Spoil = Callable[[Path], object]
EVERY = frozenset(
    {
        "status",
        "status --json",
        "inspect",
        "cost",
        "report",
        "score",
        "verify",
        "recover",
        "fork",
        "observe",
        "merge",
    }
    | {"new", "plan", "train", "daemon"}
)
TRAINERS = frozenset({"train", "observe"})  # they own the observations
WRITERS = frozenset({*TRAINERS, "merge", "daemon"})
WAITED = EVERY - {"daemon"}  # which waits for a run folder that has no manifest yet
STATUS = frozenset({"status", "status --json"})


@dataclass(frozen=True)
class Way:
    """One way to spoil a run folder. `refused`: the verbs that refuse then, all others go on.
    `late`: those of them that find out only after they have written to logs of theirs."""

    spoil: Spoil
    refused: frozenset[str] = EVERY
    late: frozenset[str] = frozenset()


def put(name: str, content: bytes) -> Spoil:
    return lambda run: (run / name).write_bytes(content)


def without(name: str) -> Spoil:
    def spoil(run: Path) -> None:
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()

    return spoil


def link(name: str, target: str) -> Spoil:
    def spoil(run: Path) -> None:
        without(name)(run)
        (run / name).symlink_to(target)

    return spoil


def fifo(*names: str) -> Spoil:
    def spoil(run: Path) -> None:
        for name in names:
            (run / name).unlink(missing_ok=True)
            os.mkfifo(run / name)

    return spoil


def folder(name: str) -> Spoil:
    def spoil(run: Path) -> None:
        without(name)(run)
        (run / name).mkdir()

    return spoil


def a_file(name: str) -> Spoil:
    """A file where a folder belongs."""

    def spoil(run: Path) -> None:
        if (run / name).exists():
            without(name)(run)
        (run / name).write_bytes(b"")

    return spoil


def edited(pattern: str, **fields: Any) -> Spoil:
    """Every JSON file of that pattern with these fields."""

    def spoil(run: Path) -> None:
        for path in run.glob(pattern):
            path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | fields))

    return spoil


def of_a_step_to_come(run: Path) -> None:
    """The newest checkpoint, by its name, too."""
    edited(f"{CHECKPOINT}/manifest.json", step=99, epoch=99, pool_seq=99)(run)
    (run / CHECKPOINT).rename(run / "checkpoints" / "step_00000099.a1")


def stamped(time: object) -> Spoil:
    """Every record that has a time stamp with this one, and a sound checksum."""

    def spoil(run: Path) -> None:
        for part in run.glob("*.jsonl"):
            lines = []
            for text in part.read_bytes().splitlines() if part.name != "tasks.jsonl" else ():
                content = orjson.loads(text)
                del content["crc"]
                if "time" in content:
                    content["time"] = time
                    content["id"] = record_id(content["kind"], content)
                lines.append(line(content.pop("seq"), content))
            if lines:
                part.write_bytes(b"".join(lines))

    return spoil


def manifest(**fields: Any) -> Spoil:
    """The manifest with these fields; one that is given as ... is left out."""

    def spoil(run: Path) -> None:
        content = orjson.loads((run / "manifest.json").read_bytes()) | fields
        kept = {key: value for key, value in content.items() if value is not ...}
        (run / "manifest.json").write_bytes(orjson.dumps(kept))

    return spoil


CHECKPOINT = "checkpoints/step_00000010.a1"
# an owner on another machine
STALE = {"released": False, "boot_id": "another", "host": ESCAPE, "process": ESCAPE}

SPOILED: dict[str, Way] = {
    "nothing": Way(lambda run: None, frozenset()),
    # manifest.json
    "manifest: null": Way(put("manifest.json", b"null")),
    "manifest: a list": Way(put("manifest.json", b"[]")),
    "manifest: bytes": Way(put("manifest.json", b"\xff\xfe\0")),
    "manifest: empty": Way(put("manifest.json", b"")),
    "manifest: cut": Way(put("manifest.json", b'{"protocol": 1')),
    "manifest: deep": Way(put("manifest.json", b"[" * DEEP)),
    "manifest: an empty object": Way(put("manifest.json", b"{}")),
    "manifest: protocol of escapes": Way(manifest(protocol=ESCAPE)),
    "manifest: no identity": Way(manifest(identity=...)),
    "manifest: identity null": Way(manifest(identity=None)),
    "manifest: identity a list": Way(manifest(identity=[])),
    "manifest: identity of escapes": Way(manifest(identity={ESCAPE: 1})),
    "manifest: no tasks": Way(manifest(tasks=...)),
    "manifest: tasks null": Way(manifest(tasks=None)),
    "manifest: no hash of the tasks": Way(manifest(tasks={})),
    "manifest: no environments": Way(manifest(environments=...)),
    "manifest: environments a list": Way(manifest(environments=[1])),
    "manifest: environments of numbers": Way(manifest(environments={"desk": 7})),
    "manifest: environments of escapes": Way(
        manifest(environments={ESCAPE: ESCAPE}), TRAINERS | {"plan", "daemon", "score"}
    ),
    "manifest: no warnings": Way(manifest(warnings=...)),
    "manifest: warnings a number": Way(manifest(warnings=7)),
    "manifest: warnings of escapes": Way(manifest(warnings=[ESCAPE]), frozenset()),
    "manifest: made at 1e308": Way(manifest(created=1e308), frozenset()),
    "manifest: no hash of the identity": Way(manifest(identity_hash=...), frozenset()),
    "manifest: a FIFO": Way(fifo("manifest.json"), WAITED),
    "manifest: a folder": Way(folder("manifest.json"), WAITED),
    "manifest: a dangling link": Way(link("manifest.json", "/nowhere/x"), WAITED),
    "manifest: a link to itself": Way(link("manifest.json", "manifest.json"), WAITED),
    # config.toml
    "configuration: missing": Way(without("config.toml")),
    "configuration: empty": Way(put("config.toml", b"")),
    "configuration: bytes": Way(put("config.toml", b"\xff\xfe\0")),
    "configuration: escapes": Way(put("config.toml", b'"\\u001b[2J" = 1')),
    "configuration: deep": Way(put("config.toml", b"a = " + b"[" * DEEP)),
    "configuration: a deep key": Way(put("config.toml", b".".join([b"a"] * 2000) + b" = 1")),
    "configuration: a long key": Way(put("config.toml", b'"' + b"x" * LONG + b'" = 1')),
    "configuration: a folder": Way(folder("config.toml")),
    "configuration: a FIFO": Way(fifo("config.toml")),
    "configuration: a dangling link": Way(link("config.toml", "/nowhere/x")),
    # tasks.jsonl
    "tasks: missing": Way(without("tasks.jsonl")),
    "tasks: others": Way(put("tasks.jsonl", b"{}\n")),
    "tasks: a folder": Way(folder("tasks.jsonl")),
    "tasks: a FIFO": Way(fifo("tasks.jsonl")),
    "tasks: a dangling link": Way(link("tasks.jsonl", "/nowhere/x")),
    # tracker.json, which nothing depends on but `rods verify`; its writer needs the name
    "tracker: deep": Way(put("tracker.json", b"[" * DEEP), frozenset()),
    "tracker: a FIFO": Way(fifo("tracker.json"), frozenset({"verify", "recover"})),
    "tracker: a folder": Way(
        folder("tracker.json"), frozenset({"verify", "recover", *TRAINERS}), late=TRAINERS
    ),
    "tracker: a dangling link": Way(link("tracker.json", "/nowhere/x"), frozenset()),
    # heartbeats
    "heartbeats: a FIFO": Way(fifo("heartbeat.trainer.json", "heartbeat.daemon.json"), frozenset()),
    "heartbeats: a folder": Way(folder("heartbeat.trainer.json"), frozenset()),
    "heartbeats: other types": Way(
        edited(
            "heartbeat.*",
            counter="x",
            quiet="a",
            still=[],
            uptime={},
            since="z",
            time="now",
            state=7,
            pid="p",
        ),
        frozenset(),
    ),
    "heartbeats: clocks of 1e308": Way(
        edited("heartbeat.*", time=-1e308, since=1e308, uptime=1e308, quiet=1e308, still=1e308),
        frozenset(),
    ),
    # locks/
    "owners: lists": Way(
        lambda run: [path.write_bytes(b"[]") for path in run.glob("locks/*.owner")], frozenset()
    ),
    "owners: other types": Way(
        edited("locks/*.owner", since="x", pid="y", host=7, released="no"), frozenset()
    ),
    "owner: a clock of 1e308": Way(
        lambda run: (
            edited("locks/observations.jsonl.owner", since=1e308, **STALE)(run),
            edited("heartbeat.*", time=1e308)(run),
        ),
        frozenset(),
    ),
    "owner: a FIFO": Way(fifo("locks/observations.jsonl.owner"), STATUS | TRAINERS | {"recover"}),
    "owner: a folder": Way(folder("locks/observations.jsonl.owner"), TRAINERS | {"recover"}),
    "owner: a dangling link": Way(
        link("locks/observations.jsonl.owner", "/nowhere/x"), TRAINERS | {"recover"}
    ),
    "owner of the pool: a FIFO": Way(
        fifo("locks/pool.jsonl.owner"),
        frozenset({"train", "merge", "recover"}),
        late=frozenset({"train"}),
    ),
    "owner of the seeds: a FIFO": Way(
        fifo("locks/seeds.jsonl.owner"), STATUS | {"daemon", "recover"}
    ),
    "locks: missing": Way(without("locks"), frozenset()),
    "locks: a file": Way(a_file("locks"), WRITERS),
    "locks: a dangling link": Way(link("locks", "/nowhere/x"), WRITERS),
    "locks: a link to itself": Way(link("locks", "locks"), WRITERS),
    # checkpoints/
    "checkpoint: a list": Way(put(f"{CHECKPOINT}/manifest.json", b"[]"), frozenset()),
    "checkpoint: a FIFO": Way(fifo(f"{CHECKPOINT}/manifest.json"), frozenset()),
    "checkpoint: other types": Way(
        edited(f"{CHECKPOINT}/manifest.json", step="x", attempt=None), frozenset()
    ),
    "checkpoint: files a list": Way(edited(f"{CHECKPOINT}/manifest.json", files=[1]), frozenset()),
    "checkpoint: files of escapes": Way(
        edited(f"{CHECKPOINT}/manifest.json", files={ESCAPE: "x"}), frozenset()
    ),
    "checkpoint: no curriculum": Way(
        edited(f"{CHECKPOINT}/manifest.json", curriculum=7), frozenset({"train"})
    ),
    "checkpoint: another curriculum": Way(
        edited(f"{CHECKPOINT}/manifest.json", curriculum={"stage": ESCAPE}), frozenset({"train"})
    ),
    "checkpoint: of a step to come": Way(of_a_step_to_come, TRAINERS | {"fork"}),
    "checkpoints: a file": Way(
        a_file("checkpoints"), frozenset({"train", "score", "fork"}), late=frozenset({"train"})
    ),
    "checkpoints: a dangling link": Way(
        link("checkpoints", "/nowhere/x"),
        frozenset({"train", "score", "fork"}),
        late=frozenset({"train"}),
    ),
    # time stamps in records
    "records: clocks of 1e308": Way(stamped(1e308), frozenset()),
    "records: clocks of -1e308": Way(stamped(-1e308), frozenset()),
    "records: clocks of escapes": Way(stamped(ESCAPE), frozenset()),
    # what else stands in the folder
    "logs: a file": Way(a_file("logs"), frozenset({"train", "daemon"})),
    "logs: a dangling link": Way(link("logs", "/nowhere/x"), frozenset({"train", "daemon"})),
    "logs: FIFOs": Way(
        fifo("logs/trainer.jsonl", "logs/daemon.jsonl"), frozenset({"train", "daemon"})
    ),
    "report: a file": Way(a_file("report"), frozenset({"report"})),
    "scores: a file": Way(a_file("eval"), frozenset({"score"})),
    "snapshots: a file": Way(a_file("snapshots"), frozenset()),
    "operation: bytes": Way(
        put("operation.trainer.jsonl", b"\xff\n"), frozenset({"train"}), late=frozenset({"train"})
    ),
    "operation: a FIFO": Way(fifo("operation.trainer.jsonl"), frozenset({"train", "recover"})),
    "operation: a folder": Way(folder("operation.trainer.jsonl"), frozenset({"train", "recover"})),
    "usage: bytes": Way(put("usage.daemon.jsonl", b"\xff\n"), frozenset({"cost"})),
    "usage: a FIFO": Way(fifo("usage.daemon.jsonl"), frozenset({"cost", "recover"})),
}
