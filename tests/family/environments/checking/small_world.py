"""A small generated world as source, sound as it stands, and ways to spoil it."""

from __future__ import annotations

from pathlib import Path

from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.loading import Environments
from rods.family.environments.checking.worlds import check_world
from rods.worlds.checking import CheckReport

SOURCE = '''\
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from rods.environments.typed import ToolError, TypedEnvironment

Name = Annotated[str, Field(min_length=1, max_length=20)]
Count = Annotated[int, Field(ge=1, le=50)]
Amount = Annotated[int, Field(ge=0, le=500)]


@dataclass
class World:
    jars: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


WORLD = TypedEnvironment("environments/{address}/world.py:environment", World, behaviour=1)


def environment() -> TypedEnvironment[World]:
    return WORLD


@WORLD.tool("Jars", reads=True)
def count(db: World, jar: Name) -> int:
    """How much a jar holds."""
    if jar not in db.jars:
        raise ToolError("no such jar")
    return db.jars[jar]


@WORLD.tool("Jars", reads=True)
def jars(db: World) -> list[str]:
    """All jars."""
    return sorted(db.jars)


@WORLD.tool("Jars", reads=False)
def fill(db: World, jar: Name, more: Count) -> int:
    """Puts more into a jar, a new one where there is none."""
    if len(db.jars) >= 100:
        raise ToolError("too many jars")
    if db.jars.get(jar, 0) + more > 500:
        raise ToolError("it is full")
    db.jars[jar] = db.jars.get(jar, 0) + more
    return db.jars[jar]


@WORLD.tool("Jars", reads=False)
def empty(db: World, jar: Name) -> bool:
    """Takes a jar away."""
    if jar not in db.jars:
        raise ToolError("no such jar")
    del db.jars[jar]
    return True


@WORLD.check
def holds(db: World, jar: Name, amount: Amount) -> bool:
    """The jar holds just so much."""
    return db.jars.get(jar, 0) == amount


@WORLD.check
def is_there(db: World, jar: Name) -> bool:
    """There is such a jar."""
    return jar in db.jars
'''
PLAN = {
    "count": ["jar"],
    "jars": [],
    "fill": ["jar", "more"],
    "empty": ["jar"],
    "holds": ["jar", "amount"],
}
PLAN["is_there"] = ["jar"]
STATE = {"jars": {"plums": 7, "pears": 3}, "log": []}
IMPORTS = "from dataclasses import dataclass, field\n"


def spoilt(*changes: tuple[str, str]) -> str:
    source = SOURCE
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def checked(source: str, folder: Path, seconds: float = 10.0, random_seed: int = 0) -> CheckReport:
    """What the controls say of this source, in a folder of its own; a call may take so many
    `seconds`."""
    name = f"{folder}/{addressed.keep(source, folder)}"
    with Environments(Sandbox(workers=1, seconds=seconds)) as environments:
        return check_world(name, PLAN, [STATE], environments, random_seed=random_seed)
