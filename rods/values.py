"""What values are: JSON, and objects that are never changed. Imports nothing of RODS, since
confined processes import it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

Json = Any  # what JSON can hold
JsonObject = dict[str, Json]
JsonMapping = Mapping[str, Json]  # one that is only read
Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Class]) -> type[Class]:
    """A dataclass whose objects cannot be changed and have no room for other attributes."""
    return dataclass(frozen=True, slots=True)(cls)
