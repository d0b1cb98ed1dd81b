"""A disk that loses its power: what a folder looks like when everything is gone that was not made
durable.

The model is harsher than most file systems. The contents of a file survive up to its last fsync; a
name, new or renamed or removed, survives the fsync of its folder; nothing else survives, in
whatever order it was done. `Survival` says what becomes of the rest: `nothing` of it is there; its
`names` are, with nothing new in them; or `zeros`: half of the new bytes, and then zeros up to the
new length, as when a size is written before its data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.faults.files import Change

Survival = Literal["nothing", "names", "zeros"]


@dataclass(eq=False)
class File:
    content: bytearray
    durable: bytes = b""


@dataclass(eq=False)
class Folder:
    entries: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)


class Disk:
    """A folder and all that is in it, all of it durable in the beginning; then changes are applied
    to it."""

    def __init__(self, start: Path) -> None:
        self.root = _load(start)
        self._open: dict[int, File | Folder] = {}
        self.acknowledged: list[tuple[str, bytes]] = []

    def apply(self, change: Change) -> None:
        if change.kind == "ack":
            self.acknowledged.append((change.path, change.data))
        elif change.kind == "open":
            self._open[change.file] = self._find(change.path)
        elif change.kind == "create":
            folder, name = self._place(change.path)
            folder.entries[name] = File(bytearray())
        elif change.kind == "mkdir":
            folder, name = self._place(change.path)
            folder.entries[name] = Folder()
        elif change.kind == "write":
            content = self._file(change).content
            offset = len(content) if change.offset < 0 else change.offset
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(change.data)] = change.data
        elif change.kind == "truncate":
            del self._file(change).content[change.size :]
        elif change.kind == "fsync":
            node = self._open[change.file]
            if isinstance(node, File):
                node.durable = bytes(node.content)
            else:
                node.durable = dict(node.entries)
        elif change.kind == "rename":
            (before, old) = self._place(change.path)
            (after, new) = self._place(change.to)
            after.entries[new] = before.entries.pop(old)
        elif change.kind == "unlink":
            folder, name = self._place(change.path)
            del folder.entries[name]

    def cut(self, survival: Survival, target: Path) -> None:
        """Writes what the power cut leaves into the new folder `target`."""
        _write(self.root, survival, target)

    def _file(self, change: Change) -> File:
        node = self._open[change.file] if change.file else self._find(change.path)
        assert isinstance(node, File)
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        *folders, name = path.split("/")
        node = self._find("/".join(folders) or ".")
        assert isinstance(node, Folder)
        return node, name

    def _find(self, path: str) -> File | Folder:
        node: File | Folder = self.root
        for name in path.split("/") if path != "." else ():
            assert isinstance(node, Folder)
            node = node.entries[name]
        return node


def _load(path: Path) -> Folder:
    folder = Folder()
    for entry in path.iterdir():
        if entry.is_dir():
            folder.entries[entry.name] = _load(entry)
        else:
            data = entry.read_bytes()
            folder.entries[entry.name] = File(bytearray(data), data)
    folder.durable = dict(folder.entries)
    return folder


def _write(folder: Folder, survival: Survival, target: Path) -> None:
    target.mkdir(parents=True)
    for name, node in (folder.durable if survival == "nothing" else folder.entries).items():
        if isinstance(node, Folder):
            _write(node, survival, target / name)
        else:
            (target / name).write_bytes(_left(node, survival))


def _left(file: File, survival: Survival) -> bytes:
    if survival != "zeros" or bytes(file.content) == file.durable:
        return file.durable
    same = len(file.durable) if file.content.startswith(file.durable) else 0
    half = (same + len(file.content)) // 2
    return bytes(file.content[:half]) + bytes(len(file.content) - half)
