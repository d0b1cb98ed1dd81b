"""The roles of models, played by rule: what the module `stand_in` of an extension's folder is made
of, as `author` is here. It has `ROLES`, a `Role` for each template that it answers."""

import json
import random
import re
from collections.abc import Callable
from contextlib import suppress

from rods.canonical import JsonObject, frozen

SIGNATURE = re.compile(r"^(\w+)\(.*\): (.+)$", re.MULTILINE)  # of a tool, and what it does
PURPOSE = re.compile(r"^(\w+): (.+)$", re.MULTILINE)  # of a tool: its name, and what it does

Answer = JsonObject  # an answer's fields


@frozen
class Asked:
    """A request: `template` by name, its `fields` as texts, the whole `question`, the `schema` of a
    constrained answer or None for tags, the chance that hangs on it, and whether it is put `again`
    after a refused answer."""

    template: str
    fields: dict[str, str]
    question: str
    schema: JsonObject | None
    chance: random.Random
    again: bool

    @property
    def state(self) -> JsonObject:
        """Its field of this name; empty where it was cut."""
        with suppress(ValueError):
            return dict(json.loads(self.fields["state"]))
        return {}


Role = Callable[[Asked], Answer]  # answers the questions of a template
