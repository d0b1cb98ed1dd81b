"""What every table of the configuration is, those of features too, and the ranges that most of its
numbers have."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A table of the configuration: no unknown keys, no other types than those that are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
