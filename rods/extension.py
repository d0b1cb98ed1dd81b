"""How features come in: a door's name → what each feature provides there.

A feature is a package below `rods.family` with a module `extension`, or an entry point of the group
`rods_extensions` that leads to such a module. Its `PROVIDES` says what it brings by the names of
`DOORS`; its `ORDER` where it comes among others that touch the same thing. The type of a door
stands in the room that calls it, beside its `Door`; rods/family/provides.py has them all. A module
`extension` imports only `rods` when it is loaded; what belongs to a process, in its functions."""

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Generic, TypeVar, cast

from rods.errors import UserError

FAMILY = "rods.family"
GROUP = "rods_extensions"  # of entry points, for extensions that come with other packages
NAMES = """
audits components computes config_checks curriculum daemon_work difficulties drawn_slots
episode_fields epoch_fields epoch_notes findings guarded interfaces kinds logs open_tasks
operation players playing record_keys record_shapes rollout_fields run_environments sections stage
stand_ins step_fields step_folds tables task_sources training_verbs verbs
"""
DOORS = frozenset(NAMES.split())
T = TypeVar("T")


class Door(Generic[T]):
    """A place where features come in. Raises LookupError for a name that is none of `DOORS`."""

    def __init__(self, name: str) -> None:
        if name not in DOORS:
            raise LookupError(f"{name!r} is no door")
        self.name = name

    def providers(self) -> dict[str, T]:
        """What features provide here, by the feature's name, in their order."""
        provided = {feature: provides.get(self.name) for feature, provides in features().items()}
        return {feature: cast(T, value) for feature, value in provided.items() if value is not None}

    def __iter__(self) -> Iterator[T]:
        return iter(self.providers().values())


@cache
def _modules() -> Mapping[str, ModuleType]:
    """The module `extension` of each feature, by its name, in the order of `ORDER`, then name."""
    modules: dict[str, ModuleType] = {}
    try:
        folders = import_module(FAMILY).__path__
    except ModuleNotFoundError:
        folders = []
    for folder in pkgutil.iter_modules(folders):
        name = f"{FAMILY}.{folder.name}"
        if not folder.ispkg:
            continue
        try:
            modules[folder.name] = import_module(f"{name}.extension")
        except ModuleNotFoundError as error:
            if error.name not in (name, f"{name}.extension"):  # what it needs is missing, not it
                raise
    for point in entry_points(group=GROUP):
        modules[point.name] = point.load()
    return dict(sorted(modules.items(), key=lambda item: (getattr(item[1], "ORDER", 0), item[0])))


@cache
def features() -> Mapping[str, Mapping[str, object]]:
    """What each feature provides, by the names of doors. Raises UserError for another name."""
    provided: dict[str, Mapping[str, object]] = {}
    for name, module in _modules().items():
        provided[name] = getattr(module, "PROVIDES", {"nothing": module})
        if strangers := sorted(provided[name].keys() - DOORS):
            remedy = f"give PROVIDES, with names out of {', '.join(sorted(DOORS))}"
            raise UserError(f"{strangers[0]!r} is no door", where=f"feature {name}", remedy=remedy)
    return provided
