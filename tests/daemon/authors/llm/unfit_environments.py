"""Environments for which no plan can be made: one whose API class nobody has a query template for,
one whose recipes never feed each other.
`load("tests.daemon.authors.llm.unfit_environments:nameless")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rods.composing.catalogue import Catalogue
from rods.environments.base import Environment, Tool, reference
from rods.tasks import Task
from rods.worlds.desk.catalogue import catalogue as recipes_of_desk
from rods.worlds.desk.world import Desk


class _Nameless(Desk):
    name = "tests.daemon.authors.llm.unfit_environments:nameless"

    def tools(self) -> Mapping[str, Tool]:
        return {
            name: replace(tool, group=f"Strange{tool.group}")
            for name, tool in super().tools().items()
        }


class _Shallow(Desk):
    name = "tests.daemon.authors.llm.unfit_environments:shallow"

    def catalogue(self) -> Catalogue:
        own = recipes_of_desk()
        flat = {
            name: one for name, one in own.recipes.items() if len(one.steps) == 1 and not one.needs
        }
        return replace(own, environment=self.name, recipes=flat)


def nameless() -> Environment:
    return _Nameless()


def shallow() -> Environment:
    return _Shallow()


def moved(task: Task, environment: Any) -> Task:
    """A task of desk as one of `environment`."""
    return replace(task, environment=reference(environment), id="")
