"""What the folders of rods/worlds and of rods/family bring to worlds, as their declarations
(world.toml) say. A folder is known by this file alone; its code is imported when something of it is
asked for by name."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from rods.canonical import JsonObject, frozen
from rods.errors import UserError


@frozen
class WorldPackage:
    """What world.toml says of a folder. Functions and classes are named "package.module:name"."""

    name: str  # of the folder
    environment: str = ""  # makes the environment whose short name is the folder's
    # makes an environment of the file or folder that it is named by: where the name ends in
    described: str = ""
    ending: str = ""  # this
    # further environments by name, or, from "/" or "." on, by how a name ends, with what makes one
    # (of the name where it is found by its ending). Tasks from anywhere may name them: none runs
    # code that the name leads to
    environments: Mapping[str, str] = field(default_factory=dict)
    # worlds from outside that `added` describes, by `rods env add --kind`, and what each is
    kinds: Mapping[str, str] = field(default_factory=dict)
    added: str = ""
    # class that runs environments in confined processes, made from `[operation.sandbox]`
    confiner: str = ""
    # `why` this environment cannot be, and the `remedy`
    unconfined: Mapping[str, str] = field(default_factory=dict)
    tasks: str = ""  # gives the tasks of `[data] tasks = "<name>"`
    # writes tasks into a folder in a format of its own: `rods data export --format <name>`
    format: str = ""
    # says of a task and its trace whether the benchmark that both belong to accepts it
    verdict: str = ""
    # the key of a state that alone makes tasks near duplicates (rods.gates.similarity)
    scenario: str = ""
    licence: str = ""  # of the data of its environments
    doctor: str = ""  # tries what it needs of this machine, and gives a Finding for `rods doctor`
    # of `rods`: function and line of help, by verb
    verbs: Mapping[str, Sequence[str]] = field(default_factory=dict)


@cache
def worlds() -> Mapping[str, WorldPackage]:
    """The folders that declare something, by name: those of rods/worlds first, each in the order of
    the alphabet."""
    return {
        name: WorldPackage(name, **fields)
        for package in ("rods.worlds", "rods.family")
        for name, fields in declared(package, "world.toml").items()
    }


@cache
def declared(package: str, file: str) -> Mapping[str, JsonObject]:
    """What the folders of `package` say in a declaration called `file`, by name. Imports none of
    them."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec else ()
    files = sorted(path for place in places for path in Path(place).glob(f"*/{file}"))
    return {path.parent.name: tomllib.loads(path.read_text(encoding="utf-8")) for path in files}


def having(what: str) -> JsonObject:
    """What each folder that declares `what` says of it, by the folder's name."""
    return {name: value for name, world in worlds().items() if (value := getattr(world, what))}


def environments() -> dict[str, str]:
    """What makes an environment, by its name, or by the ending of the names of what describes
    one."""
    makers = having("environment")
    for world in worlds().values():
        makers |= world.environments
        makers |= {world.ending: world.described} if world.described else {}
    return makers


def licences() -> dict[str, str]:
    """Of the data of environments, by their names."""
    return {
        name: world.licence
        for world in worlds().values()
        if world.licence
        for name in (world.name, *world.environments)
    }


def without_ending(name: str) -> str:
    """`name` without the ending of a file that describes an environment, written whole or without
    `.json`."""
    stem = name.removesuffix(".json")
    for ending in having("ending").values():
        stem = stem.removesuffix(ending.removesuffix(".json")) if ending.endswith(".json") else stem
    return stem


def adding(kind: str) -> WorldPackage:
    """Who describes worlds from outside of this kind. Raises UserError, naming the kinds that there
    are."""
    by_kind = {kind: world for world in worlds().values() for kind in world.kinds}
    if kind not in by_kind:
        raise UserError(
            f"{kind!r} is no kind of world that is known here",
            where="--kind",
            remedy=f"use {', '.join(by_kind) or 'none: no such folder is installed'}",
        )
    return by_kind[kind]
