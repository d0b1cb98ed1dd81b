"""Files: named texts in folders, which can be locked and shared."""

from __future__ import annotations

from typing import Any

from worlds.desk.contacts import ADDRESS
from worlds.desk.mail import TEXT
from worlds.desk.pools import FOLDERS
from worlds.desk.registry import MAX_ENTRIES, Refused, State, one_of, text, tool

FILE = text("file name")
FOLDER = one_of("folder", FOLDERS)


@tool("files", "List the files in a folder.", folder=FOLDER)
def list_folder(state: State, folder: str) -> dict[str, Any]:
    return {"files": sorted(name for name, file in state["files"].items() if file["folder"] == folder)}


@tool("files", "Read the text of a file.", file=FILE)
def read_file(state: State, file: str) -> dict[str, Any]:
    return {"text": _file(state, file)["text"]}


@tool("files", "Create a file in a folder.", file=FILE, folder=FOLDER, text=TEXT)
def create_file(state: State, file: str, folder: str, text: str) -> dict[str, Any]:
    _new(state, file, {"folder": folder, "text": text, "locked": False, "shared": []})
    return {"ok": True}


@tool("files", "Replace the text of a file.", file=FILE, text=TEXT)
def write_file(state: State, file: str, text: str) -> dict[str, Any]:
    found = _unlocked(state, file)
    if found["text"] == text:
        raise Refused("no change")
    found["text"] = text
    return {"ok": True}


@tool("files", "Copy a file under a new name.", file=FILE, copy=text("name of the copy"))
def copy_file(state: State, file: str, copy: str) -> dict[str, Any]:
    found = _file(state, file)
    _new(state, copy, {"folder": found["folder"], "text": found["text"], "locked": False, "shared": []})
    return {"ok": True}


@tool("files", "Move a file to another folder.", file=FILE, folder=FOLDER)
def move_file(state: State, file: str, folder: str) -> dict[str, Any]:
    found = _unlocked(state, file)
    if found["folder"] == folder:
        raise Refused("no change")
    found["folder"] = folder
    return {"ok": True}


@tool("files", "Lock a file against changes.", file=FILE)
def lock_file(state: State, file: str) -> dict[str, Any]:
    _unlocked(state, file)["locked"] = True
    return {"ok": True}


@tool("files", "Unlock a locked file.", file=FILE)
def unlock_file(state: State, file: str) -> dict[str, Any]:
    found = _file(state, file)
    if not found["locked"]:
        raise Refused("file not locked")
    found["locked"] = False
    return {"ok": True}


@tool("files", "Share a file with an address.", file=FILE, address=ADDRESS)
def share_file(state: State, file: str, address: str) -> dict[str, Any]:
    shared = _file(state, file)["shared"]
    if address in shared:
        raise Refused("no change")
    if len(shared) >= MAX_ENTRIES:
        raise Refused("too many guests")
    shared.append(address)
    shared.sort()
    return {"ok": True}


def _file(state: State, file: str) -> dict[str, Any]:
    found: dict[str, Any] | None = state["files"].get(file)
    if found is None:
        raise Refused("no such file")
    return found


def _unlocked(state: State, file: str) -> dict[str, Any]:
    found = _file(state, file)
    if found["locked"]:
        raise Refused("file locked")
    return found


def _new(state: State, name: str, file: dict[str, Any]) -> None:
    files = state["files"]
    if name in files:
        raise Refused("file exists")
    if len(files) >= MAX_ENTRIES:
        raise Refused("too many files")
    files[name] = file
