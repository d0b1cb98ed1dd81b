"""What every table of the configuration is, those of features too, and the ranges that most of its
numbers have."""

from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A table of the configuration: no unknown keys, no other types than those that are written,
    and no key whose value changes nothing."""

    # pairs of a key and the line of the same table without which it changes nothing
    needs: ClassVar[tuple[tuple[str, str], ...]] = ()

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        for key, line in self.needs:
            changed = self.model_dump(exclude_defaults=True)
            if key in changed and line.split()[0] not in changed:
                raise ValueError(
                    f"{key} changes nothing without `{line}`: write that beside it, or leave {key} "
                    f"out"
                )
        return self
