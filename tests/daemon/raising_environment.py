"""Desk, with a bug: every call raises once RAISING is set.
`load("tests.daemon.raising_environment:environment")`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rods.calls import Call
from rods.environments.base import Result
from rods.worlds.desk.world import Desk, DeskInstance


class Raising(Desk):
    name = "tests.daemon.raising_environment:environment"

    def reset(self, state: Mapping[str, Any] | None) -> DeskInstance:
        return _Instance(super().reset(state).state)


class _Instance(DeskInstance):
    def call(self, call: Call) -> Result:
        if os.environ.get("RAISING"):
            raise RuntimeError(f"a bug in {call.name}")
        return super().call(call)


def environment() -> Desk:
    return Raising()
