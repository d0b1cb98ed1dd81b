"""Worlds that somebody or something has generated: files known by their content.

`environments/<address>/world.py` is named by the first 20 digits of the hash of its text, in which its own address
stands as `{address}`. A file that is another one than its name says is refused, and such a world runs confined, always
(`rods.environments.loading`).
"""

from __future__ import annotations

import re
from pathlib import Path

from rods.canonical import content_id
from rods.errors import UserError

HOLE = "{address}"
_NAME = re.compile(r"(?:.*/)?environments/([0-9a-f]{20})/world\.py:environment")


def keep(source: str, folder: Path) -> str:
    """Writes a world's source below `folder`, unless it is there. The name that it is loaded by from there."""
    address = content_id(source)
    place = folder / "environments" / address
    place.mkdir(parents=True, exist_ok=True)
    (place / "world.py").write_text(source.replace(HOLE, address), encoding="utf-8")
    return name_of(address)


def name_of(address: str) -> str:
    """The name of the world with this address, from the folder that has environments/."""
    return f"environments/{address}/world.py:environment"


def is_addressed(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def source_of(name: str) -> str:
    """The source of the world called `name`, looked for from the current folder, with `{address}` for its address.
    Raises UserError when it is not there, or not the one that its name says."""
    found = _NAME.fullmatch(name)
    assert found is not None, f"{name} has no address"
    path = Path(name.rpartition(":")[0])
    try:
        source = path.read_text(encoding="utf-8").replace(found[1], HOLE)
    except (OSError, UnicodeDecodeError) as error:
        remedy = "start in the folder that has environments/, or bring the world's folder there"
        raise UserError(f"cannot be read: {error}", where=str(path), remedy=remedy) from error
    if content_id(source) != found[1]:
        raise UserError("is not the world that its address says", where=str(path), remedy="bring the file as it was")
    return source
