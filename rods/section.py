"""What every table of the configuration is, those of features too."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the configuration: no unknown keys, no other types than those that are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
