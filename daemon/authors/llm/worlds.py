"""The initial state of a variant, and the patches that have proved needed (004 §3.3 stage II, Appendix F).

An environment that generates worlds generates a fresh one; elsewhere a model rewrites the seed's, and what it writes
must keep the shape of the state. Patches of the error critic add up over all attempts at the variant: later ones
override earlier ones field by field, and each next state takes over those that fit it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from daemon.authors.base import Assignment
from daemon.authors.llm import showing
from daemon.authors.llm.answers import Form, Unreadable
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.computing import Compute
from rods.analysis import shapes
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError, Plan
from rods.composing.states import deep_merge, fresh_state
from rods.environments.base import Environment

STATE_ROOM = 6_000  # characters of the seed's world in a prompt


class Worlds:
    """`generated`: whether the catalogue makes worlds itself. `duplicates`: whether a variant in its seed's world is
    refused at admission (gate `duplicates`), so that nothing should be spent on one."""

    def __init__(
        self, catalogue: Catalogue, asker: Asker, compute: Compute, *, generated: bool, duplicates: bool = True
    ) -> None:
        self.catalogue, self.asker, self.compute = catalogue, asker, compute
        self.generated, self.duplicates = generated, duplicates
        self.patches: dict[str, Any] = {}

    async def state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        """A legal initial state. Raises ComposeError of fresh_state, and `param_gen_failed` where the model brings no
        world but the seed's and `duplicates` are refused."""
        if self.generated:
            rng = given.rng("state")
            state = await self.compute(lambda: fresh_state(self.catalogue, plan, given.seed, rng))
        else:
            state = await self._rewritten(given, plan)
        return await self.compute(lambda: self._patched(given.environment, state))

    def add(self, patch: Mapping[str, Any]) -> None:
        """Takes up a patch for the states to come."""
        self.patches = deep_merge(self.patches, patch)

    async def accepted(self, environment: Environment, state: Mapping[str, Any]) -> None:
        """Raises Unreadable when the environment does not."""
        if not await self.compute(lambda: legal(environment, state)):
            raise Unreadable("the world does not accept this state")

    def _patched(self, environment: Environment, state: dict[str, Any]) -> dict[str, Any]:
        for part in fitting(state, self.patches):
            patched = deep_merge(state, part)
            state = patched if legal(environment, patched) else state
        return state

    async def _rewritten(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        """The seed's state in other words; as it is where the model brings nothing that fits and that is allowed."""
        old = dict(given.seed.state or {})
        if not old:
            return old

        def read(answer: dict[str, Any]) -> dict[str, Any]:
            if found := shapes.faults(old, answer["state"]):
                raise Unreadable("; ".join(map(str, found[:3])))
            new = deep_merge(old, answer["state"])
            if new == old and tells(old):
                raise Unreadable("state changes nothing: the new conversation needs data of its own")
            return new

        try:
            return await self.asker.ask(
                given,
                "initial_state",
                stage="state",
                fields={
                    "story": showing.narrative(plan.narrative),
                    "plan": showing.plan(self.catalogue, plan),
                    "state": showing.world(old, STATE_ROOM),
                },
                form=Form({"state": {"type": "object"}}),
                read=read,
                check=partial(self.accepted, given.environment),
                error="param_gen_failed",
                max_tokens=2048,
            )
        except ComposeError:
            if self.duplicates and tells(old):
                raise
            return old


def tells(state: Mapping[str, Any]) -> bool:
    """Whether a state holds anything; two that hold nothing are no duplicates (`rods.gates.similarity`)."""
    return any(value not in (None, [], {}) for _, value in shapes.leaves(state))


def fitting(state: Mapping[str, Any], patch: Any, path: shapes.Path = ()) -> Iterator[dict[str, Any]]:
    """The parts of a patch that fit a state, as large as they can be: a whole entry, else its single fields."""
    if path and not shapes.faults(state, nested(path, patch)):
        yield nested(path, patch)
    elif isinstance(patch, Mapping):
        for key, item in patch.items():
            yield from fitting(state, item, (*path, key))


def nested(path: shapes.Path, value: Any) -> dict[str, Any]:
    """The patch that sets `value` at `path` (at least one name)."""
    for key in reversed(path):
        value = {key: value}
    patch: dict[str, Any] = value
    return patch


def legal(environment: Environment, state: Mapping[str, Any]) -> bool:
    """Whether the environment accepts the state."""
    try:
        environment.reset(state)
    except ValueError:
        return False
    return True
