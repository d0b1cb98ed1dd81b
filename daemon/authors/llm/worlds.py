"""The initial state of a variant (stage II), and the patches of the error critic (004 Appendices C.2 and F).

An environment that generates worlds generates a fresh one. Elsewhere a model rewrites the seed's state, and what it
writes must keep the state's shape. Where a call fails for a reason that lies in the state, a model proposes a patch. It
is checked before it is tried: against the shape of the state, by the environment, and by running the calls before the
failed one, of which each that changed the world must still change it, or the patch does in advance what the task tests.
A refusal is typed and goes back to the model. Accepted patches add up over all attempts at the variant, later ones
overriding earlier ones field by field, and each next state takes over those that fit it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from daemon.authors.base import Assignment
from daemon.authors.catalogue_free import is_single_tool
from daemon.authors.llm import showing
from daemon.authors.llm.asking import Context
from daemon.authors.state_shapes import PatchRefusal, Path, allowed, leaves, nested, refusals
from rods.answers import AnswerForm, Unreadable, obj
from rods.calls import Call
from rods.composing.records import ComposeError, Plan
from rods.composing.states import deep_merge, fresh_state
from rods.environments.base import Environment
from rods.faults import PATCHABLE

NO_PLAN = "(none yet: the functions for it could not be found)"
PATHS = 60  # offered to a constrained answer
PATCHES = 4  # in one answer
VALUE = {"anyOf": [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]}
ENTRY = {"anyOf": [*VALUE["anyOf"], {"type": "object"}, {"type": "array"}]}


class Worlds:
    """The states of one variant. `duplicates`: whether a variant in its seed's world is refused at admission (gate
    `duplicates`), so that nothing should be spent on one. `patches` holds all accepted ones, merged."""

    def __init__(self, context: Context, *, duplicates: bool = True) -> None:
        self.context, self.duplicates = context, duplicates
        self.generated = not all(is_single_tool(recipe) for recipe in context.catalogue.recipes.values())
        self.patches: dict[str, Any] = {}

    async def initial_state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        """A legal initial state. Raises ComposeError of fresh_state, and `param_gen_failed` where the model brings no
        world but the seed's and `duplicates` are refused."""
        context = self.context
        if self.generated:
            rng = given.rng("state")
            state = await context.compute(lambda: fresh_state(context.catalogue, plan, given.seed, rng))
        else:
            state = await self._rewritten(given, plan)
        return await context.compute(lambda: self._patched(given.environment, state))

    async def patch(
        self, given: Assignment, plan: Plan | None, state: Mapping[str, Any], error: ComposeError
    ) -> dict[str, Any] | None:
        """`state` with a model's patch merged in; None when the error is no matter of state or no patch is accepted.
        The patch is remembered: where there is no `plan` yet, the next state takes it over."""
        if error.type not in PATCHABLE or not state:
            return None
        context, environment = self.context, given.environment
        acting = await context.compute(lambda: effective(environment, state, error.before))
        tool = environment.tools().get(error.function or "")
        change = _change_schema(state, "" if tool is None else tool.group)
        changes = {"type": "array", "items": change, "minItems": 1, "maxItems": PATCHES}

        def read(answer: dict[str, Any]) -> dict[str, Any]:
            patch = patch_of(state, answer["patch"])
            found = refusals(state, patch)
            if not found and deep_merge(state, patch) == state:
                found = [PatchRefusal("no_change", (), "the state is like this already")]
            return _unless(found, patch)

        async def check(patch: dict[str, Any]) -> None:
            mended = deep_merge(state, patch)
            await self._check_legal(environment, mended)
            still = await context.compute(lambda: effective(environment, mended, error.before))
            if idle := [call for call in acting if call not in still]:
                raise Unreadable(str(PatchRefusal("preempts", (), f"{idle[0]} would have nothing left to do")))

        may = showing.allowed(allowed(environment, state))
        try:
            patch = await context.asker.ask(
                given,
                "config_patch",
                stage="patch",
                fields={
                    "error": error.type,
                    "function": error.function or "(unknown)",
                    "detail": error.detail,
                    "plan": showing.plan(context.catalogue, plan) if plan else NO_PLAN,
                    "state": showing.state(state, context.asker.roles.patch.world),
                    "tested": "; ".join(map(str, acting)),
                    "allowed": may,
                },
                sections=[*(["allowed"] if may else []), *(["tested"] if acting else [])],
                form=AnswerForm({"patch": changes}, guiding=frozenset({"patch"})),
                read=read,
                check=check,
                error=error.type,
                function=error.function,
                turn=error.turn,
            )
        except ComposeError:
            return None
        self.add(patch)
        return deep_merge(state, patch)

    def add(self, patch: Mapping[str, Any]) -> None:
        """Remembers a patch for the states to come."""
        self.patches = deep_merge(self.patches, patch)

    def _patched(self, environment: Environment, state: dict[str, Any]) -> dict[str, Any]:
        for part in fitting(state, self.patches):
            patched = deep_merge(state, part)
            state = state if _illegal(environment, patched) else patched
        return state

    async def _rewritten(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        """The seed's state with other contents; as it is where the model brings nothing that fits and that is
        allowed."""
        old = dict(given.seed.state or {})
        if not old:
            return old
        holds_data = any(value not in (None, [], {}) for _, value in leaves(old))  # or two are no duplicates

        def read(answer: dict[str, Any]) -> dict[str, Any]:
            new = _unless(refusals(old, answer["state"]), deep_merge(old, answer["state"]))
            if new == old and holds_data:
                raise Unreadable("state changes nothing: the new conversation needs data of its own")
            return new

        async def check(state: dict[str, Any]) -> None:
            await self._check_legal(given.environment, state)

        may = showing.allowed(allowed(given.environment, old))
        try:
            return await self.context.asker.ask(
                given,
                "initial_state",
                stage="state",
                fields={
                    "story": showing.narrative(plan.narrative),
                    "plan": showing.plan(self.context.catalogue, plan),
                    "state": showing.state(old, self.context.asker.roles.state.world),
                    "allowed": may,
                },
                sections=["allowed"] if may else [],
                form=AnswerForm({"state": {"type": "object"}}),
                read=read,
                check=check,
                error="param_gen_failed",
            )
        except ComposeError:
            if self.duplicates and holds_data:
                raise
            return old

    async def _check_legal(self, environment: Environment, state: Mapping[str, Any]) -> None:
        if why := await self.context.compute(lambda: _illegal(environment, state)):
            raise Unreadable(f"the world does not accept this state: {why}")


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


def effective(environment: Environment, state: Mapping[str, Any], calls: Sequence[Call]) -> list[Call]:
    """Those of `calls` that change the world when they run one after the other; none where it shows no snapshot."""
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


def fitting(state: Mapping[str, Any], patch: Any, path: Path = ()) -> Iterator[dict[str, Any]]:
    """The parts of a patch that fit a state, as large as they can be: a whole entry, else its single fields."""
    if path and not refusals(state, nested(path, patch)):
        yield nested(path, patch)
    elif isinstance(patch, Mapping):
        for key, item in patch.items():
            yield from fitting(state, item, (*path, key))


def _unless(found: Sequence[PatchRefusal], value: dict[str, Any]) -> dict[str, Any]:
    """`value`, unless something was found. Raises Unreadable, with the first three."""
    if found:
        raise Unreadable("; ".join(map(str, found[:3])))
    return value


def _illegal(environment: Environment, state: Mapping[str, Any]) -> str:
    """What the environment has against a state, in its words; empty when it takes it."""
    try:
        environment.reset(state)
    except ValueError as error:
        return str(error) or "it does not say why"
    return ""


def _path(state: Mapping[str, Any], text: str) -> Path:
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


def _change_schema(state: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The schema of one change: a path that the state has, with a value of any plain type; or any path, with any value.
    Of many paths those of the API class `group` are offered first, switches and amounts before texts."""
    plain = [
        (group not in path, len(path), isinstance(value, str), number, ".".join(path))
        for number, (path, value) in enumerate(leaves(state))
        if path and isinstance(value, (str, int, float))
    ]
    paths = [path for *_, path in sorted(plain)[:PATHS]]
    ways = [obj({"path": {"enum": paths}, "value": VALUE})] if paths else []
    return {"anyOf": [*ways, obj({"path": {"type": "string", "maxLength": 120}, "value": ENTRY})]}
