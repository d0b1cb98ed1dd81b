"""Makes a task of a logged conversation: its calls are carried out in a fresh world, in order, and
are the ground truth where each of them succeeds and gives what the log has as its result."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from rods.analysis.containment import read_json
from rods.canonical import JsonMapping
from rods.environments.base import Environment, Result, reference, value_of
from rods.family.conversations.logged import Conversation, LoggedCall, Unreadable
from rods.gates.ground_truth import unheld
from rods.tasks import Task

SHOWN = 3  # differences of one result


def task_of(
    environment: Environment,
    conversation: Conversation,
    state: JsonMapping | None,
    provenance: JsonMapping,
) -> Task:
    """The task; `state` is what its worlds begin in where the conversation says none. Raises
    Unreadable at the first call that is not there or fails, at the first result that is another
    one, and where the whole is no sound task; and whatever the world raises."""
    tools = environment.tools()
    initial = state if conversation.state is None else conversation.state
    try:
        instance = environment.reset(initial)
    except ValueError as error:
        remedy = "" if initial else ": give the world's own with --state, or in the field `state`"
        raise Unreadable(f"the world refuses the initial state ({error}){remedy}") from error
    results: list[list[str]] = []
    called = set[str]()
    for turn in conversation.turns:
        results.append([])
        for logged in turn.calls:
            name = logged.call.name
            if name not in tools:
                near = difflib.get_close_matches(name, tools, 1)
                hint = f"; did it mean {near[0]}?" if near else ""
                raise Unreadable(
                    f"calls {name}, which the world does not have{hint}", logged.message
                )
            result = instance.call(logged.call)
            _held(environment, logged, result)
            called.add(name)
            results[-1].append(result.text)
    offered = conversation.tools & tools.keys()
    names = [name for name in tools if not offered or name in offered | called]
    task = Task(
        environment=reference(environment),
        type="base",
        script=tuple(turn.text for turn in conversation.turns),
        calls=tuple(tuple(logged.call for logged in turn.calls) for turn in conversation.turns),
        tools=tuple(names),
        state=initial,
        system=conversation.system,
        provenance={**provenance, "results": results},
    )
    for reason in unheld(environment, task):
        raise Unreadable(str(reason))
    return task


def _held(environment: Environment, logged: LoggedCall, result: Result) -> None:
    """Raises Unreadable where a replayed call fails, or gives another result than the log has."""
    if result.error is not None:
        what = f"{logged.call} fails here ({result.error}): {result.text[:200]}"
        raise Unreadable(what, logged.message)
    if environment.features.deterministic and logged.result != result.text:
        text = logged.result or ""
        here = value_of(result)
        different = (
            [] if text.strip() == result.text.strip() else [*differences(read_json(text), here)]
        )
        if different:
            shown = "; ".join(different[:SHOWN])
            raise Unreadable(f"{logged.call} gives another result here: {shown}", logged.message)


def differences(logged: Any, here: Any, place: str = "") -> Iterator[str]:
    """Where two JSON values differ, each place with both."""
    if isinstance(logged, Mapping) and isinstance(here, Mapping):
        for key in logged.keys() | here.keys():
            if key not in here or key not in logged:
                where = "the log" if key in logged else "the world"
                yield f"{place}.{key} is in {where} alone".removeprefix(".")
            else:
                yield from differences(logged[key], here[key], f"{place}.{key}")
    elif isinstance(logged, list) and isinstance(here, list) and len(logged) == len(here):
        for index, pair in enumerate(zip(logged, here, strict=True)):
            yield from differences(*pair, f"{place}[{index}]")
    elif logged != here or isinstance(logged, bool) != isinstance(here, bool):
        name = f"{place.removeprefix('.')} is " if place else ""
        yield f"{name}{_shown(logged)} in the log, {_shown(here)} in the world"


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()[:100]
