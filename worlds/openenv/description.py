"""The description of an OpenEnv environment or of a TRL environment class: how to reach it, its
pinned tools, what of its state is compared.

    {"kind": "openenv", "url": "http://127.0.0.1:8000", "compared": ["board"], "tools": […], …}

A task's environment is named by the path of this file, which ends in ENDING.
"""

import hashlib
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from rods.calls import Call
from rods.canonical import JsonObject, content_id
from rods.worlds.pinned import Pinned

ENDING = ".openenv.json"


class OpenEnvDescription(Pinned):
    """One environment: `url`, or `factory`, what makes an object in this process. `compared` are
    fields of what it says of its state (kind openenv), or attributes of the object (kind trl)."""

    page = "docs/openenv.md"

    kind: Literal["openenv", "trl"] = "openenv"
    factory: str = ""  # package.module:Class or file.py:Class, called without arguments
    # arguments of `reset` that a task's state does not give
    reset: JsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _reached(self) -> Self:
        if bool(self.factory) == bool(self.url):
            raise ValueError("give either factory or url")
        if self.url and self.kind == "trl":
            raise ValueError("a TRL environment class is made in this process: give factory")
        self.probe_calls()
        return self

    def probe_calls(self) -> tuple[Call, ...] | None:
        """What is compared shows the state where no probes are given."""
        return () if self.probes is None and self.compared else super().probe_calls()

    def hash(self) -> str:
        """Of what a world depends on here, the bytes of the factory's own file included. Not of the
        address."""
        file = Path(self.factory.rpartition(":")[0])
        code = (
            hashlib.sha256(file.read_bytes()).hexdigest()
            if file.suffix == ".py" and file.is_file()
            else ""
        )
        fields = self.model_dump(include={"kind", "factory", "reset", "tools"})
        listed = {"compared": sorted(self.compared), "without": sorted(self.without)}
        return content_id({**fields, **listed, "code": code})
