"""Every kind of file that a run folder may hold, of more bytes than there is memory: whoever reads
it says so in a line, or has no need of it, and takes no memory for it."""

from __future__ import annotations

import gzip
import io
import re
import resource
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rods.buffers.log.record_bytes import Damage, line
from rods.buffers.log.tail import Tail, read
from rods.errors import UserError
from rods.files import BULK, DOCUMENT, LINE, bounded_lines, read_regular, unpacked_lines
from tests import tables
from tests.console.test_malformed import call
from tests.faults.forge import Forge
from tests.records import filled

ROOT = Path(__file__).parents[2]
MEMORY = 1 << 30  # bytes that a verb may take beside what it has when it starts
HUGE = 8 << 30  # bytes of a file with nothing in it: it takes no room on the disk
ZEROS = gzip.compress(bytes(1 << 26), compresslevel=1) * 24  # unpacks to 1.5 GB


@dataclass(frozen=True)
class Bomb:
    """`file`: a pattern, the first that fits is made huge, or is made where none does. `verb`: what
    reads it. `told`: whether that ends with an error that names the bound; otherwise it goes on
    without the file."""

    file: str
    verb: tuple[str, ...] = ("console", "verify", "RUN")
    told: bool = True


TRAIN = ("trainer", "RUN")
STATUS = ("console", "status", "RUN")
BOMBS: dict[str, tuple[Bomb, ...]] = {
    "config.toml": (Bomb("config.toml"),),
    "manifest.json": (Bomb("manifest.json"),),
    "tasks.jsonl": (Bomb("tasks.jsonl"),),
    "observations.jsonl": (Bomb("observations.jsonl"),),
    "pool.jsonl": (Bomb("pool.jsonl"),),
    "drawn.jsonl": (Bomb("drawn.jsonl"),),
    "tracker.json": (Bomb("tracker.json"),),
    "seeds.jsonl": (Bomb("seeds.jsonl"),),
    "expanded_epoch_NNNN.jsonl": (Bomb("expanded_epoch_*.jsonl"),),
    "rejected.jsonl": (Bomb("rejected.jsonl"),),
    "feedback.jsonl": (Bomb("feedback.jsonl"),),
    "dropped.jsonl": (Bomb("dropped.jsonl"),),
    "triage.jsonl": (Bomb("triage.jsonl"),),
    "extensions.jsonl": (Bomb("extensions.jsonl"),),
    "losses.jsonl": (Bomb("losses.jsonl"),),
    "operation.<process>.jsonl": (Bomb("operation.trainer.jsonl", ("console", "recover", "RUN")),),
    "usage.<process>.jsonl": (Bomb("usage.daemon.jsonl", ("console", "inspect", "--cost", "RUN")),),
    "heartbeat.<process>.json": (Bomb("heartbeat.trainer.json", STATUS, told=False),),
    "locks/": (Bomb("locks/observations.jsonl.owner", STATUS, told=False),),
    "snapshots/": (Bomb("snapshots/observations.000000000001.json", TRAIN, told=False),),
    "recovered/": (Bomb("recovered/old/observations.jsonl", told=False),),
    "checkpoints/": (
        Bomb(
            "checkpoints/step_*/manifest.json",
            ("console", "trainer", "fork", "RUN", "RUN.fork"),
            told=False,
        ),
    ),
    "traces/": (
        Bomb(
            "traces/step_00000001.a1.jsonl.gz", ("console", "verify", "RUN", "--replay"), told=False
        ),
        Bomb("traces/step_00000001.a1.jsonl.gz", ("console", "data", "export", "RUN", "RUN.out")),
        Bomb(
            "traces/step_00000001.a1.jsonl.gz",
            ("console", "dash", "RUN", "--export", "RUN/report"),
            told=False,
        ),
    ),
    "eval/": (
        Bomb("eval/step_00000000.jsonl", ("console", "trainer", "score", "RUN"), told=False),
    ),
    "logs/": (
        Bomb(
            "logs/trainer.jsonl", ("console", "dash", "RUN", "--export", "RUN/report"), told=False
        ),
    ),
    "environments/": (Bomb(f"environments/{'a' * 20}/world.py", told=False),),
}


def kinds() -> set[str]:
    """The files and folders of the table in docs/protocol.md."""
    names = tables.rows((ROOT / "docs" / "protocol.md").read_text(), "file", "writer", "what")
    plain = (
        re.sub(r"\]\(.*?\)|\[", "", name).replace("&lt;", "<").replace("&gt;", ">")
        for name in names
    )
    return {name.strip() for cell in plain for name in cell.split(",")}


def test_every_kind_of_the_protocol_has_its_bomb() -> None:
    assert set(BOMBS) - {"probes.jsonl"} == kinds()


def test_nothing_but_the_bounded_reader_reads_files_of_a_run() -> None:
    rooms = ("buffers", "rods", "daemon", "trainer", "console", "evaluation", "family")
    sources = {
        path
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if path != ROOT / "rods" / "files.py"
    }
    unbounded = re.compile(
        r"gzip\.(open|decompress)|\bpath\.read_(bytes|text)|file\.readline\(\)|torch\.load\("
    )
    found = {
        path.name: unbounded.findall(path.read_text())
        for path in sources
        if unbounded.search(path.read_text())
    }
    # torch.load stands where archives are looked at first; the others read files of the package, or
    # their own
    assert sorted(found) == ["registry.py", "weight_files.py"]


def bounded(folder: Path, *arguments: str) -> None:
    """A start of a program that has so much memory and no more."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    call(folder, *arguments)


def make_huge(run: Path, pattern: str) -> None:
    path = next(iter(sorted(run.glob(pattern))), run / pattern)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(ZEROS)
        return
    with path.open("ab") as file:
        file.truncate(HUGE)


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge() as started:
        yield started


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_costs_a_line(finished_run: Path, forge: Forge, tmp_path: Path, kind: str) -> None:
    for number, bomb in enumerate(BOMBS[kind]):
        assert against(finished_run, forge, tmp_path / f"{number}" / "run", bomb) == ""


def against(whole: Path, forge: Forge, run: Path, bomb: Bomb) -> str:
    """What is wrong with how the verb of a bomb ends in `run`, a copy of a `whole` run; nothing:
    ""."""
    shutil.copytree(whole, run)
    make_huge(run, bomb.file)
    given = [argument.replace("RUN", str(run)) for argument in bomb.verb]
    end = forge.run("tests.console.test_bombs:bounded", run, *given)
    sound = end.code in ((1, 2, 3) if bomb.told else (0,)) and (
        not bomb.told or "more than" in end.errors
    )
    if sound and not any(word in end.errors for word in ("Traceback", "MemoryError")):
        return ""
    return f"{bomb} ends with {end.code}: {end.errors[-2000:]}"


def test_a_log_line_is_bounded_for_reader_and_writer(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    whole = line(1, filled("extended", number=1))
    log.write_bytes(whole)
    with log.open("ab") as file:
        file.truncate(HUGE)
    with pytest.raises(
        Damage, match=f"byte {len(whole)}: damaged record: a line of more than 64 MiB"
    ):
        list(read(log))
    with pytest.raises(Damage, match="more than 64 MiB"):
        Tail(log).poll()
    with pytest.raises(UserError, match="longer than a line of a log"):
        line(1, filled("extended", number=1, text="x" * LINE))


def test_lines_and_documents_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(DOCUMENT + 1)
    with pytest.raises(UserError, match=r"file of more than 16 MiB → .*restore it from a copy"):
        read_regular(path)
    assert len(read_regular(path, BULK)) == DOCUMENT + 1
    with pytest.raises(UserError, match="holds lines of more than 1 MiB"):
        list(bounded_lines(io.BytesIO(b"\n" * (1 << 21)), path, 1 << 20))
    path.write_bytes(ZEROS)
    with pytest.raises(UserError, match="holds a line of more than 64 MiB"):
        list(unpacked_lines(path))
    path.write_bytes(gzip.compress(b"one\ntwo\n")[:-9])
    with pytest.raises(UserError, match=r"cannot be unpacked .* → restore"):
        list(unpacked_lines(path))


def test_a_compressed_archive_of_weights_is_not_unpacked(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from rods.trainer.weight_files import load_tensors

    torch.save({"a": torch.zeros(30_000)}, tmp_path / "plain.pt")
    assert load_tensors(tmp_path / "plain.pt")["a"].shape == (30_000,)
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w") as bomb,
    ):
        for name in plain.namelist():
            bomb.writestr(name, plain.read(name), zipfile.ZIP_DEFLATED)
    with pytest.raises(RuntimeError, match="would unpack to more"):
        load_tensors(tmp_path / "bomb.pt")
    (tmp_path / "text.pt").write_bytes(b"no archive")
    with pytest.raises(RuntimeError, match="no file of torch"):
        load_tensors(tmp_path / "text.pt")
