"""Makes a confined environment: as well as this machine can lock it in, and refused where that is not enough."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from rods.environments.sandbox.environment import Sandboxed
from rods.environments.sandbox.tiers import Tier, bubblewrap, probe, reaches, system_paths
from rods.environments.workers.worker import Confinement
from rods.errors import UserError

_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


def confined(
    factory: str,
    *,
    lowest_tier: Tier = "landlock",
    workers: int = 2,
    seconds: float = 1.0,
    memory: int = 512 << 20,
    readable: Sequence[str] = (),
    tier: Tier | None = None,
) -> Sandboxed:
    """The environment made by `factory` ("package.module:function"), locked in as well as this machine can, or just
    as well as `tier` says. Raises UserError when that is below `lowest_tier`, or there is no such module."""
    offer = probe()
    tier = tier or offer.tier
    if not reaches(tier, lowest_tier):
        reasons = "; ".join(f"{name}: {why}" for name, why in offer.missing.items())
        raise UserError(
            f"the sandbox of this machine is only of tier {tier!r} ({reasons})",
            where=f"environment {factory!r}",
            remedy=f"install bubblewrap, or accept that the code can do what this user can: lowest_tier = {tier!r}",
        )
    return Sandboxed(factory, confinement(factory, tier, readable), workers=workers, seconds=seconds, memory=memory)


def confinement(factory: str, tier: Tier, readable: Sequence[str] = ()) -> Confinement:
    """What a process for `factory` may read: the system's libraries, Python and its packages, this package, and the
    top-level package or module of the factory (with `readable`), and nothing else."""
    own = [_place("rods"), _place(factory.partition(":")[0].partition(".")[0])]
    libraries = [Path(entry) for entry in sys.path if _is_library(Path(entry))]
    path = dict.fromkeys(map(str, [*libraries, *(place.parent for place in own)]))
    more = [Path(each).absolute() for each in readable]
    places = _outermost([*system_paths(), Path(sys.base_prefix), *libraries, *own, *more])
    command: list[str] = []
    writable = ["/dev/null"]
    if tier == "bubblewrap":
        command = bubblewrap(places)
        writable.append("/tmp")
    files = {"readable": [*map(str, places), *_DEVICES], "writable": writable}
    return Confinement(tuple(command), tuple(path), None if tier == "limits" else files)


def _place(name: str) -> Path:
    """The folder or file of a top-level package or module, found without running any of it."""
    found = PathFinder.find_spec(name) or find_spec(name)
    if found is not None and found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations))).absolute()
    if found is None or not found.origin or not Path(found.origin).exists():
        raise UserError(f"no module {name!r}", where="sandbox", remedy="install it beside rods")
    return Path(found.origin).absolute()


def _is_library(entry: Path) -> bool:
    """Whether an entry of sys.path holds Python's own modules, or installed packages."""
    if entry.name in ("site-packages", "dist-packages"):
        return entry.exists()
    return entry.exists() and entry.resolve().is_relative_to(Path(sys.base_prefix).resolve())


def _outermost(places: Sequence[Path]) -> list[Path]:
    """Without what lies below another one."""
    kept: list[Path] = []
    for place in sorted(set(places), key=lambda place: len(place.parts)):
        if not any(place.is_relative_to(each) for each in kept):
            kept.append(place)
    return kept
