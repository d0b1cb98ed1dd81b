"""The error critic: a model mends the initial state in which a call failed (004 Appendices C.2 and F).

What it proposes is checked before it is tried: against the shape of the state, by the environment, and by running the
calls before the failed one: each that changed the world must still change it, or the patch does in advance what the
task tests. A refusal is typed and goes back to the model. What is accepted is remembered for the attempts to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daemon.authors.base import Assignment
from daemon.authors.llm import showing
from daemon.authors.llm.answers import Form, Unreadable, obj
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.worlds import Worlds, nested
from rods.analysis import shapes
from rods.calls import Call
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError, Plan
from rods.composing.states import deep_merge
from rods.environments.base import Environment
from rods.faults import PATCHABLE

STATE_ROOM = 5_000  # characters of the state in a prompt
PATHS = 60  # offered to a constrained answer
PATCHES = 4  # in one answer
VALUE = {"anyOf": [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]}
ENTRY = {"anyOf": [*VALUE["anyOf"], {"type": "object"}, {"type": "array"}]}


class Critic:
    def __init__(self, catalogue: Catalogue, asker: Asker, compute: Compute, worlds: Worlds) -> None:
        self.catalogue, self.asker, self.compute, self.worlds = catalogue, asker, compute, worlds

    async def mend(
        self, given: Assignment, plan: Plan, state: Mapping[str, Any], error: ComposeError
    ) -> dict[str, Any] | None:
        """`state` with the patch merged in; None when the error is no matter of state or no patch is acceptable."""
        if error.type not in PATCHABLE or not state:
            return None
        acting = await self.compute(lambda: effective(given.environment, state, error.before))
        tool = given.environment.tools().get(error.function or "")
        entry = _entry(state, "" if tool is None else tool.group)
        form = Form({"patch": {"type": "array", "items": entry, "minItems": 1, "maxItems": PATCHES}},
                    guiding=frozenset({"patch"}))  # fmt: skip

        def read(answer: dict[str, Any]) -> dict[str, Any]:
            patch = patch_of(state, answer["patch"])
            if found := refusals(state, patch):
                raise Unreadable("; ".join(map(str, found[:3])))
            return patch

        async def check(patch: dict[str, Any]) -> None:
            mended = deep_merge(state, patch)
            await self.worlds.accepted(given.environment, mended)
            still = await self.compute(lambda: effective(given.environment, mended, error.before))
            if idle := [call for call in acting if call not in still]:
                raise Unreadable(str(shapes.Fault("preempts", (), f"{idle[0]} would have nothing left to do")))

        try:
            patch = await self.asker.ask(
                given,
                "config_patch",
                stage="patch",
                fields={
                    "error": error.type,
                    "function": error.function or "(unknown)",
                    "detail": error.detail,
                    "plan": showing.plan(self.catalogue, plan),
                    "state": showing.world(state, STATE_ROOM),
                    "tested": "; ".join(map(str, acting)),
                },
                sections=["tested"] if acting else [],
                form=form,
                read=read,
                check=check,
                error=error.type,
                function=error.function,
                turn=error.turn,
            )
        except ComposeError:
            return None
        self.worlds.add(patch)
        return deep_merge(state, patch)


def patch_of(state: Mapping[str, Any], changes: Any) -> dict[str, Any]:
    """One nested patch from a list of {path, value}; a path's names are those of the state, which may hold dots.
    Raises Unreadable."""
    patch: dict[str, Any] = {}
    if not isinstance(changes, list):
        raise Unreadable("patch must be a list")
    for change in changes:
        if not isinstance(change, dict) or not isinstance(change.get("path"), str) or "value" not in change:
            raise Unreadable('each change needs a "path" (text) and a "value"')
        path = _path(state, change["path"].strip().strip("."))
        if not path:
            raise Unreadable("a path is empty")
        patch = deep_merge(patch, nested(path, change["value"]))
    if not patch:
        raise Unreadable("there is no change")
    return patch


def refusals(state: Mapping[str, Any], patch: Mapping[str, Any]) -> list[shapes.Fault]:
    """Why a patch is refused on sight: it has another shape than the state, or changes nothing."""
    found = shapes.faults(state, patch)
    if not found and deep_merge(state, patch) == state:
        return [shapes.Fault("no_change", (), "the state is like this already")]
    return found


def effective(environment: Environment, state: Mapping[str, Any], calls: Sequence[Call]) -> list[Call]:
    """Those of `calls` that change the world when they run one after the other; none where it does not show itself."""
    if not calls or not environment.features.snapshot:
        return []
    instance = environment.reset(state)
    before, found = instance.snapshot(), []
    for call in calls:
        instance.call(call)
        after = instance.snapshot()
        if after != before:
            found.append(call)
        before = after
    return found


def _path(state: Mapping[str, Any], text: str) -> shapes.Path:
    """The names in a dotted path; the longest name that the state knows is taken at each step."""
    names: list[str] = []
    rest, here = text, state
    while rest:
        known = [key for key in here if rest == key or rest.startswith(f"{key}.")] if isinstance(here, Mapping) else []
        name = max(known, key=len) if known else rest.partition(".")[0]
        names.append(name)
        rest = rest[len(name) + 1 :]
        here = here.get(name, {}) if isinstance(here, Mapping) else {}
    return tuple(names)


def _entry(state: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The schema of one change: a path that the state has, with a value of any plain type; or a path of one's own. Of
    many paths those of the API class `group` are offered first, switches and amounts before texts."""
    plain = [
        (group not in path, len(path), isinstance(value, str), number, ".".join(path))
        for number, (path, value) in enumerate(shapes.leaves(state))
        if path and isinstance(value, (str, int, float))
    ]
    paths = [path for *_, path in sorted(plain)[:PATHS]]
    ways = [obj({"path": {"enum": paths}, "value": VALUE})] if paths else []
    return {"anyOf": [*ways, obj({"path": {"type": "string", "maxLength": 120}, "value": ENTRY})]}
