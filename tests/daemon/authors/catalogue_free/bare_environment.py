"""Desk as a user's own environment that brings tools and schemas and nothing else: no recipes, no
generator of worlds. `load("tests.daemon.authors.catalogue_free.bare_environment:environment")`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rods.environments.base import Environment, reference
from rods.tasks import Task
from rods.worlds.desk.world import Desk
from tests.environments import load

NAME = "tests.daemon.authors.catalogue_free.bare_environment:environment"


class Bare(Desk):
    name = NAME

    def __getattribute__(self, attribute: str) -> Any:
        if attribute == "catalogue":
            raise AttributeError(attribute)
        return super().__getattribute__(attribute)


def environment() -> Environment:
    return Bare()


class Slow(Bare):
    """As if another process answered."""

    name = NAME.replace(":environment", ":slow")
    features = replace(Desk.features, waits=True)


def slow() -> Environment:
    return Slow()


def moved(task: Task) -> Task:
    """A task of desk as one of this environment."""
    return replace(task, environment=reference(load(NAME)), id="")
