"""What features add to the configuration: sections, keys of a stage and of [curriculum]."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import create_model

from rods.canonical import JsonObject
from rods.extension import Door
from rods.section import Section

# sections with their defaults: of the identity half, `[key]` in TOML, and of `[operation]`
SECTIONS: Door[Mapping[str, Section]] = Door("sections")
OPERATION: Door[Mapping[str, Section]] = Door("operation")
# further keys and checks of a curriculum stage
STAGE: Door[type[Section]] = Door("stage")
# and of [curriculum] (002)
CURRICULUM: Door[type[Section]] = Door("curriculum")


def extended(core: type[Section], name: str, door: Door[type[Section]]) -> type[Section]:
    """The class `core` with the keys and checks that features add to this part of the
    configuration."""
    bases: Any = (*door, core)
    kind: Any = create_model(name, __base__=bases, __module__=core.__module__, __doc__=core.__doc__)
    return cast(type[Section], kind)


def with_sections(door: Door[Mapping[str, Section]]) -> Callable[[type[Section]], type[Section]]:
    """Decorates the class of one half of the configuration: adds the sections that features bring
    to it."""
    more: JsonObject = {
        key: (type(default), default) for sections in door for key, default in sections.items()
    }

    def with_more(core: type[Section]) -> type[Section]:
        return create_model(
            core.__name__, __base__=core, __module__=core.__module__, __doc__=core.__doc__, **more
        )

    return with_more
