"""Worlds that somebody or something has generated: files known by their content.

`environments/<address>/world.py` is named by the first 20 digits of the hash of its text, in which
its own address stands as `{address}`. Such a world runs confined, always
(`rods.environments.loading`)."""

import re
from collections.abc import Sequence
from pathlib import Path

from rods.canonical import content_id
from rods.errors import UserError
from rods.files import read_regular

HOLE = "{address}"
FOLDER = "environments"
FILE = "world.py"
_NAME = re.compile(rf"(?:.*/)?{FOLDER}/([0-9a-f]{{20}})/{re.escape(FILE)}:environment")


def keep(source: str, folder: Path) -> str:
    """Writes a world's source below `folder`, unless it is there. The name that it is loaded by
    from there."""
    address = content_id(source)
    place = folder / FOLDER / address
    place.mkdir(parents=True, exist_ok=True)
    (place / FILE).write_text(text_of(source), encoding="utf-8")
    return f"{FOLDER}/{address}/{FILE}:environment"


def text_of(source: str) -> str:
    """The text of a world's file: `source` with its address."""
    return source.replace(HOLE, content_id(source))


def address_of(name: str) -> str | None:
    """The address in an environment's name; None for one that is no generated world's."""
    match = _NAME.fullmatch(name)
    return None if match is None else match[1]


def source_of(name: str, folders: Sequence[Path] = ()) -> str:
    """The source of the world called `name`, with `{address}` for its address, below the first of
    `folders` that has it, else as named from the current folder. Raises UserError when it is not
    there, or not the one that its name says.
    """
    address = address_of(name)
    assert address is not None, f"{name} has no address"
    places = (folder / FOLDER / address / FILE for folder in folders)
    path = next((place for place in places if place.is_file()), Path(name.rpartition(":")[0]))
    try:
        source = read_regular(path).decode().replace(address, HOLE)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"cannot be read: {error}",
            where=path,
            remedy="start in the folder that has environments/, or bring the world's folder there",
        ) from error
    if content_id(source) != address:
        raise UserError(
            "is not the world that its address says", where=path, remedy="bring the file as it was"
        )
    return source
