"""Desk, in which every call hangs while `hangs` is set, and counts up `hanging`.

`load("tests.daemon.hanging_environment:environment")`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from rods.calls import Call
from rods.environments.base import Result
from rods.worlds.desk.world import Desk, DeskInstance

hangs = threading.Event()
over = threading.Event()
hanging = threading.Semaphore(0)


class Hanging(Desk):
    name = "tests.daemon.hanging_environment:environment"

    def reset(self, state: Mapping[str, Any] | None) -> DeskInstance:
        return _Instance(super().reset(state).state)


class _Instance(DeskInstance):
    def call(self, call: Call) -> Result:
        if hangs.is_set():
            hanging.release()
            over.wait()
        return super().call(call)


def environment() -> Desk:
    return Hanging()
