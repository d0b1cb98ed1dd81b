"""Worlds of others that break a promise each, made of desk."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from rods.calls import Call
from rods.canonical import JsonMapping
from rods.environments.base import Environment, Features, Instance, Result, Tools
from tests.environments import load

COUNTER = itertools.count()


class Wrapped:
    """desk under another name, whose instances answer as `Kind` does."""

    def __init__(self, name: str, kind: type[WrappedInstance]) -> None:
        self.name = f"tests.family.admit.worlds:{name}"
        self._kind = kind
        self._desk = load("desk")
        self.hash = self._desk.hash
        self.features: Features = self._desk.features

    def tools(self) -> Tools:
        return self._desk.tools()

    def reset(self, state: JsonMapping | None) -> Instance:
        return self._kind(self._desk.reset(state))

    def catalogue(self) -> Any:
        return self._desk.catalogue()  # type: ignore[attr-defined]


class WrappedInstance:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def call(self, call: Call) -> Result:
        return self.answer(self.inner.call(call))

    def answer(self, result: Result) -> Result:
        return result

    def snapshot(self) -> Any:
        return self.inner.snapshot()

    def fork(self) -> Any:
        return type(self)(self.inner.fork())

    def same_state(self, other: Any) -> bool:
        return bool(self.inner.same_state(other.inner))


class Soft(WrappedInstance):
    """Tells failures as ordinary results."""

    def answer(self, result: Result) -> Result:
        if result.error == "tool":
            return Result(f"Error: {result.text}", {"error": result.text})
        return result


class Drifting(WrappedInstance):
    """Counts all calls that were ever made."""

    def answer(self, result: Result) -> Result:
        return result if result.error else Result(f"{result.text} #{next(COUNTER)}")


class Raising(WrappedInstance):
    """Raises where it should answer with an error."""

    def answer(self, result: Result) -> Result:
        if result.error:
            raise RuntimeError("no such thing")
        return result


class Untried(Wrapped):
    """desk whose tools declare no bounds, so that no gate tries what they show."""

    def tools(self) -> Tools:
        return {name: replace(tool, bounded=False) for name, tool in super().tools().items()}


def untried() -> Environment:
    return Untried("untried", WrappedInstance)


def soft() -> Environment:
    return Wrapped("soft", Soft)


def drifting() -> Environment:
    return Wrapped("drifting", Drifting)


def raising() -> Environment:
    return Wrapped("raising", Raising)
