"""Models that are asked for variants of drawn tasks and have one habit each: the stub's errands,
changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench.fixtures.llm_stub import roles

Habit = Callable[[dict[str, Any], str], None]


def _changed(request: dict[str, Any], habit: Habit) -> str:
    """The errand after `habit`, which is given it and the question."""
    errand = json.loads(roles.answer(request))
    habit(errand, str(request["messages"][1]["content"]))
    return json.dumps(errand)


def foreign(request: dict[str, Any]) -> str:
    """Expects a call of a tool that nobody offers."""
    return _changed(request, lambda errand, _: errand["calls"][0].update(name="time_travel"))


def secretive(request: dict[str, Any]) -> str:
    """Its user says and knows nothing."""
    return _changed(
        request, lambda errand, _: errand.update(first_query="Please see to it.", knows=[])
    )


def blabbing(request: dict[str, Any]) -> str:
    """Names the tool until it is told that this cannot be used."""

    def habit(errand: dict[str, Any], question: str) -> None:
        if "could not be used" not in question:
            errand["first_query"] += f" Call {errand['calls'][0]['name']}."

    return _changed(request, habit)


def idle(request: dict[str, Any]) -> str:
    """Expects one call, whatever is asked for."""
    return _changed(request, lambda errand, _: errand.update(calls=errand["calls"][:1]))
