"""Records that no writer has written, with a checksum that matches: whoever reads them says so in a
line."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import orjson
import pytest

from rods.buffers.log.record_bytes import line
from tests.faults.forge import Forge

Change = Callable[[bytes], bytes]
VERBS = {
    "status": ("console", "status", "RUN", "--json"),
    "verify": ("console", "verify", "RUN"),
    "recover": ("console", "recover", "RUN"),
    "report": ("console", "dash", "RUN", "--export", "RUN/report"),
    "export": ("console", "data", "export", "RUN", "RUN.out"),
    "inspect": ("console", "inspect", "RUN", "TASK"),
    "train": ("trainer", "RUN"),
    "daemon": ("daemon", "RUN"),
    "merge": ("console", "trainer", "merge", "RUN", "--epoch", "0"),
}
WAYS: dict[str, Change] = {
    "deep": lambda body: body + b',"x":' + b"[" * 200_000 + b"]" * 200_000,
    "infinite": lambda body: body + b',"x":1e999',
    "no kind": lambda body: body.replace(b'"kind":', b'"kin":', 1),
    "a kind of its own": lambda body: body.replace(b'"kind":"', b'"kind":["x"],"kin":"', 1),
    "a list": lambda body: b'[{"x":1',
    "a seq of text": lambda body: body.replace(b'{"seq":', b'{"seq":"x","s":', 1),
}
LOGS = ("observations*.jsonl", "pool*.jsonl", "seeds*.jsonl", "expanded_epoch_*.jsonl")


def sealed(body: bytes) -> bytes:
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def body_of(text: bytes) -> bytes:
    return text[: text.rindex(b',"crc"')]


def forged(path: Path, change: Change) -> None:
    """The second record of a log, changed."""
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = sealed(change(body_of(lines[1])))
    path.write_bytes(b"".join(lines))


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge() as started:
        yield started


def put_before(forge: Forge, run: Path, verb: str) -> tuple[int, str]:
    """Asserts that `verb` ends as verbs do; its code and what it says."""
    task = orjson.loads((run / "tasks.jsonl").read_bytes().splitlines()[0])["id"]
    given = [
        task if argument == "TASK" else argument.replace("RUN", str(run))
        for argument in VERBS[verb]
    ]
    end = forge.run("tests.console.test_malformed:call", run, *given)
    assert "Traceback" not in end.errors, (verb, end.errors[-3000:])
    assert end.code in range(6), (verb, end.code, end.errors[-3000:])
    return end.code, end.errors


@pytest.mark.few(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("log", LOGS)
def test_a_forged_record_is_damage(
    finished_run: Path, forge: Forge, tmp_path: Path, log: str, way: str
) -> None:
    readers = {"observations*.jsonl": "status", "pool*.jsonl": "report", "seeds*.jsonl": "daemon"}
    for number, verb in enumerate(("verify", readers.get(log, "export"))):
        run = tmp_path / f"{number}" / "run"
        shutil.copytree(finished_run, run)
        forged(sorted(run.glob(log))[0], WAYS[way])
        code, said = put_before(forge, run, verb)
        assert code and "damage" in said, (verb, said)


@pytest.mark.few(10)
@pytest.mark.slow
# which has no end of its own
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "daemon"])
@pytest.mark.parametrize(
    "kind", ["picked", "considered", "finished", "expanded", "injected", "epoch", "group", "step"]
)
def test_a_record_that_was_taken_out(
    finished_run: Path, forge: Forge, tmp_path: Path, kind: str, verb: str
) -> None:
    """All records behind it have the seq that is due then, and checksums that match."""
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    for path in sorted(run.glob("*.jsonl")):
        records = [orjson.loads(text) for text in path.read_bytes().splitlines()]
        where = next(
            (place for place, record in enumerate(records) if record.get("kind") == kind), None
        )
        if where is not None:
            del records[where]
            for record in records:
                del record["crc"]
            path.write_bytes(
                b"".join(
                    line(record.pop("seq") - (place >= where), record)
                    for place, record in enumerate(records)
                )
            )
            break
    put_before(forge, run, verb)
