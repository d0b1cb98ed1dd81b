"""Where one stands in BFCL's file system, and what is there: read out of a state or a snapshot of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GROUP = "GorillaFileSystem"


@dataclass(slots=True)
class Folder:
    """A directory with its files' contents and its directories, both in the order of the listing."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    folders: dict[str, Folder] = field(default_factory=dict)

    def names(self) -> set[str]:
        return {*self.files, *self.folders}

    def below(self) -> list[str]:
        """The names of everything in it, at any depth."""
        found = [*self.files]
        for name, folder in self.folders.items():
            found += [name, *folder.below()]
        return found


def current(state: Mapping[str, Any]) -> Folder:
    """The directory in which one stands, in a state or a snapshot. Raises KeyError when it has no file system."""
    record = state.get("objects", {}).get(GROUP)
    if record is not None:
        return _of_record(record, record["current"], frozenset())
    scenario = state["config"].get(GROUP, {})
    if not scenario.get("root"):
        return Folder("/")
    name, root = next(iter(scenario["root"].items()))
    return of_scenario(name, root["contents"])


def of_scenario(name: str, contents: Mapping[str, Any]) -> Folder:
    folder = Folder(name)
    for key, item in contents.items():
        if item["type"] == "directory":
            folder.folders[key] = of_scenario(key, item["contents"])
        else:
            folder.files[key] = item["content"]
    return folder


def _of_record(record: Mapping[str, Any], index: int, above: frozenset[int]) -> Folder:
    name, _, held = record["directories"][index]
    folder = Folder(name)
    for key, sort, place in record["contents"][held]:
        if sort == "file":
            folder.files[key] = record["files"][place][1]
        elif place not in above:  # a directory may have been copied into itself
            folder.folders[key] = _of_record(record, place, above | {index})
    return folder
