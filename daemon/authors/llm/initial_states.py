"""The initial state of a variant (stage II), and the patches of the error critic (004 Appendices
C.2 and F).

An environment that generates worlds generates a fresh one; elsewhere a model rewrites the seed's
state within its shape. Where a call fails for a reason that lies in the state, a model proposes a
patch, which is checked against the shape of the state, by the environment, and by running the calls
before the failed one: each that changed the world must still change it, or the patch does in
advance what the task tests. Accepted patches add up over all attempts at the variant, later ones
overriding earlier ones field by field, and each next state takes over those that fit it; what
belongs to the story of a plan goes with it (`lasting`)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rods.asking import AnswerForm, Unreadable
from rods.calls import Call
from rods.canonical import JsonObject
from rods.composing.bind import deep_merge, fresh_state
from rods.composing.records import ComposeError, Plan
from rods.daemon.authors.base import StagedAssignment
from rods.daemon.authors.catalogue_free import is_single_tool, linking
from rods.daemon.authors.catalogue_free.probing import Prober
from rods.daemon.authors.llm import showing
from rods.daemon.authors.llm.questions import Context
from rods.daemon.authors.state_shapes import (
    PatchRefusal,
    Path,
    State,
    is_map,
    lasting,
    leaves,
    nested,
    refusals,
)
from rods.environments.base import Environment
from rods.faults import PATCHABLE
from rods.transcripts import one_line

NO_PLAN = "(none yet: the functions for it could not be found)"


async def initial_state(context: Context, assignment: StagedAssignment, plan: Plan) -> JsonObject:
    """A legal initial state, with the patches so far that fit it. Raises ComposeError of
    fresh_state, and `param_gen_failed` where the model brings no world but the seed's and
    `duplicates` are refused."""
    if all(map(is_single_tool, context.catalogue.recipes.values())):
        state = await _rewritten(context, assignment, plan)
    else:
        state = await context.compute(
            fresh_state, context.catalogue, plan, assignment.seed, assignment.rng("state")
        )
    return await context.compute(mended, context, state)


def mended(context: Context, state: State) -> JsonObject:
    """`state` with the patches so far that fit it and with which it stays legal."""
    whole = dict(state)
    for part in fitting(state, context.patches):
        patched = deep_merge(whole, part)
        if not _illegal(context.environment, patched):
            whole = patched
    return whole


async def _rewritten(context: Context, assignment: StagedAssignment, plan: Plan) -> JsonObject:
    """The seed's state with other contents; as it is where the model brings nothing that fits and
    that is allowed."""
    old = dict(assignment.seed.state or {})
    if not old:
        return old
    # or two are no duplicates
    holds_data = any(value not in (None, [], {}) for _, value in leaves(old))

    def read(answer: JsonObject) -> JsonObject:
        left, brought = _without_dropped(old, answer["state"])
        _refuse(refusals(old, brought, schema))
        new = deep_merge(left, brought)
        if new == old and holds_data:
            raise Unreadable("state changes nothing: the new conversation needs data of its own")
        return new

    room = context.asker.roles.state.world
    schema = showing.state_schema(context.environment)
    may = showing.state(schema, room) if schema else ""
    fields = {**showing.setting(context.catalogue, plan, old, room), "allowed": may}
    form = AnswerForm({"state": {"type": "object"}})
    names = [name for turn in plan.turns for name in turn.recipes]
    prober = Prober(context.environment, context.catalogue, old)
    fields["refused"] = await context.compute(linking.refused, prober, names)
    sections = [name for name in ("allowed", "refused") if fields[name]]
    try:
        return await context.ask(
            assignment,
            "initial_state",
            fields,
            form,
            read,
            check=partial(_check_legal, context),
            sections=sections,
        )
    except ComposeError:
        # refused at admission: nothing should be spent on one
        if assignment.limits.duplicates and holds_data:
            raise
        return old


async def patch(
    context: Context,
    assignment: StagedAssignment,
    plan: Plan | None,
    state: State,
    error: ComposeError,
) -> JsonObject | None:
    """`state` with a model's patch merged in; None when the error is no matter of state, by its
    type or, as an empty patch says, by the model's judgement, or no patch is accepted. The patch is
    remembered: where there is no `plan` yet, the next state takes it over."""
    if error.type not in PATCHABLE or not state:
        return None
    environment = context.environment
    acting = await context.compute(effective, environment, state, error.before)

    def read(answer: JsonObject) -> JsonObject:
        proposed: JsonObject = answer["patch"]
        _refuse(refusals(state, proposed, schema))
        if proposed and deep_merge(state, proposed) == state:
            _refuse([PatchRefusal("no_change", (), "the state is like this already")])
        return proposed

    async def check(proposed: JsonObject) -> None:
        mended = deep_merge(state, proposed)
        await _check_legal(context, mended)
        still = await context.compute(effective, environment, mended, error.before)
        if idle := [call for call in acting if call not in still]:
            _refuse([PatchRefusal("preempts", (), f"{idle[0]} would have nothing left to do")])

    room = context.asker.roles.patch.world
    schema = showing.state_schema(environment)
    may = showing.state(schema, room) if schema else ""
    fields = {
        "error": error.type,
        "function": (error.function or "(unknown)") + showing.at_turn(error),
        "detail": one_line(error.detail),
        "plan": showing.plan(context.catalogue, plan) if plan else NO_PLAN,
        "state": showing.state(state, room),
        "tested": "; ".join(map(str, acting)),
        "allowed": may,
    }
    sections = [*(["allowed"] if may else []), *(["tested"] if acting else [])]
    form = AnswerForm({"patch": {"type": "object"}})
    try:
        accepted = await context.ask(
            assignment,
            "config_patch",
            fields,
            form,
            read,
            check=check,
            sections=sections,
            turn=error.turn,
        )
    except ComposeError:
        return None
    if not accepted:
        return None
    kept = accepted if plan is None else lasting(state, accepted)
    context.patches = deep_merge(context.patches, kept)
    return deep_merge(state, accepted)


def _without_dropped(
    old: State, new: State, *, record: bool = True
) -> tuple[JsonObject, JsonObject]:
    """`old` without the objects, and the entries of maps, in it for which `new` has null, and `new`
    without these."""
    keyed = is_map(old, record=record)
    left = dict(old)
    brought: JsonObject = {}
    for key, value in new.items():
        before = old.get(key)
        if value is None and key in old and (keyed or isinstance(before, Mapping)):
            del left[key]
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            left[key], brought[key] = _without_dropped(before, value, record=keyed)
        else:
            brought[key] = value
    return left, brought


def effective(environment: Environment, state: State, calls: Sequence[Call]) -> list[Call]:
    """Those of `calls` that change the world when they run one after the other; none where it shows
    no snapshot."""
    if not calls or not environment.features.snapshot:
        return []
    instance = environment.reset(state)
    before = instance.snapshot()
    changing = []
    for call in calls:
        instance.call(call)
        after = instance.snapshot()
        if after != before:
            changing.append(call)
        before = after
    return changing


def fitting(state: State, patch: Any, path: Path = ()) -> Iterator[JsonObject]:
    """The parts of a patch that fit a state, as large as they can be: a whole entry, else its
    single fields."""
    if path and not refusals(state, nested(path, patch)):
        yield nested(path, patch)
    elif isinstance(patch, Mapping):
        for key, item in patch.items():
            yield from fitting(state, item, (*path, key))


def _refuse(why: Sequence[PatchRefusal]) -> None:
    """Raises Unreadable with the first three, if there are any."""
    if why:
        raise Unreadable("; ".join(map(str, why[:3])))


async def _check_legal(context: Context, state: State) -> None:
    if why := await context.compute(_illegal, context.environment, state):
        raise Unreadable(f"the world does not accept this state: {why}")


def _illegal(environment: Environment, state: State) -> str:
    """What the environment has against a state, in its words; empty when it takes it."""
    try:
        environment.reset(state)
    except ValueError as error:
        return str(error) or "it does not say why"
    return ""
