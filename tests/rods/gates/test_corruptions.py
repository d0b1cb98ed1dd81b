"""The rules refuse nearly every task that was spoilt in one of seven ways, and nearly none that was
not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from bench.fixtures.corruptions import KINDS, Corruptions, objections
from rods.canonical import keyed_random
from rods.composing.catalogue import Catalogue, catalogue_for
from rods.tasks import Task
from rods.worlds.desk.generator import _book
from tests.environments import desk_tasks, load
from tests.worlds.bfcl import writing

ENVIRONMENTS = ("desk", pytest.param("bfcl", marks=pytest.mark.slow))  # its variants take a minute
REFUSED = 0.95
KEPT = 0.05


@cache
def accepted(name: str) -> Sequence[Task]:
    """Variants of BFCL tasks, and tasks that desk's generator composed and judged."""
    if name == "bfcl":
        return [made for _, made in writing.variants()]
    return [task for task in desk_tasks(5, 48, 0) if not objections(load("desk"), task)]


def phrases(name: str) -> Catalogue | None:
    """The catalogue that words `accepted(name)`: desk's originals have words of their own."""
    return catalogue_for(load(name)) if name == "bfcl" else _book("full")


@pytest.mark.sweep
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_untouched_tasks_pass(name: str) -> None:
    tasks = accepted("bfcl") if name == "bfcl" else desk_tasks(5, 48, 0)
    refused = [objections(load(name), task, phrases(name)) - {"missing"} for task in tasks]
    assert sum(map(bool, refused)) <= KEPT * len(tasks), refused


@pytest.mark.few("desk", "bfcl-call added", "bfcl-stale")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_spoilt_tasks_are_refused(name: str, kind: str) -> None:
    corruptions = Corruptions(load(name), accepted(name))
    spoilt = [
        corruptions.corrupt(task, kind, keyed_random(2, kind, task.id)) for task in accepted(name)
    ]
    found = [objections(load(name), task, phrases(name)) for task in spoilt if task is not None]
    assert len(found) >= 24
    assert sum(map(bool, found)) >= REFUSED * len(found)
    if kind in ("name leaked", "raw JSON"):
        assert sum("leaks" in each for each in found) >= REFUSED * len(found)
    if kind == "stale state":
        assert all("replay" in each for each in found)
