"""The roles of language models: how much room each has, and how its answers are sampled.

The core has its roles in `[roles]`; an extension gives those that it alone asks a section of their
own."""

from typing import Any, Literal

from pydantic import Field, model_validator

from rods.section import AtLeastOne, NonNegative, Section

# characters that a token holds at most, on average: what has to fit is checked against it
TOKEN = 4


class Role(Section):
    """What one kind of question is asked with. Roles are the stages of calls (`rods inspect
    --cost`)."""

    # characters of thinking in a constrained answer; short for weak models
    reason: AtLeastOne = 300
    # of an answer; parameters adds 40 a value, query 200 and rewrite 256 a turn
    tokens: int = Field(1024, ge=16)
    temperature: NonNegative = 0.7  # of sampling
    top_p: float = Field(0.95, gt=0, le=1)  # nucleus of sampling
    # a model's own thinking before the answer: on and off are sent as
    # chat_template_kwargs.enable_thinking
    thinking: Literal["unchanged", "on", "off"] = "unchanged"

    @model_validator(mode="after")
    def _fits(self) -> "Role":
        if self.reason > TOKEN * self.tokens:
            raise ValueError(
                f"a reason of {self.reason} characters does not fit into {self.tokens} tokens"
            )
        return self


class WorldRole(Role):
    # characters of the world's state in the prompt; long texts and lists are cut
    world: int = Field(3_000, ge=100)


class ResultsRole(Role):
    # characters of all calls' results in the prompt; longer ones are cut around what later calls
    # take from them
    results: int = Field(6_000, ge=100)


class JudgeRole(ResultsRole, WorldRole):
    pass


class RoleTables(Section):
    """A table a role."""

    @model_validator(mode="before")
    @classmethod
    def _over_defaults(cls, values: Any) -> Any:
        """What is not given for a role is that role's default, not its class's."""
        if not isinstance(values, dict):
            return values
        tables = {
            name: keys
            for name, keys in values.items()
            if name in cls.model_fields and isinstance(keys, dict)
        }
        return values | {
            name: {**cls.model_fields[name].default.model_dump(), **keys}
            for name, keys in tables.items()
        }
