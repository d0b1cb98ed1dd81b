"""Plans of single tools: what should feed what, whether it can, and how deep it got. (Recipes bring their own.)"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from daemon.authors.base import Assignment
from daemon.authors.catalogue_free.plain import is_plain
from daemon.authors.llm.choosing import Choosing, brought, held
from rods.calls import Call
from rods.canonical import canonical
from rods.composing.bind import by_chance, realise
from rods.composing.catalogue import Catalogue, Scene
from rods.composing.records import ComposeError, Draft, Plan, PlannedTurn
from rods.environments.base import Result

TRIALS = 4
Place = tuple[int, int]  # turn, and place in it


def links(catalogue: Catalogue, given: Assignment, plan: Plan) -> Mapping[Place, list[int]]:
    """Which calls (counted through) feed a place in the root, and so should here; nothing for plans with recipes."""
    if not all(is_plain(catalogue.recipes[name]) for turn in plan.turns for name in turn.recipes):
        return {}
    order = {node.position: number for number, node in enumerate(given.profile.nodes)}
    found: dict[Place, list[int]] = {}
    for producer, consumer, _ in given.profile.edges:
        found.setdefault(consumer, []).append(order[producer])
    return found


def unfed(catalogue: Catalogue, given: Assignment, plan: Plan) -> str:
    """What is wrong with a plan whose calls cannot feed each other as in the root, tried by chance in the seed's world;
    empty when they can, or when chance does not get far enough to tell."""
    wanted = links(catalogue, given, plan)
    fed, reached = _tried(catalogue, given, plan, wanted)
    flat = [name for turn in plan.turns for name in turn.tools]
    faults = [
        f"{plan.turns[turn].tools[place]} in turn {turn + 1} can use nothing that "
        f"{' or '.join(flat[number] for number in wanted[turn, place])} returns"
        for turn, place in sorted(wanted.keys() & reached - fed)
    ]
    return "; ".join(faults)


def pairs(
    catalogue: Catalogue, given: Assignment, producers: Sequence[str], consumers: Sequence[str]
) -> list[tuple[str, str]]:
    """The tools of which the second can take what the first returns, tried by chance in the seed's world."""
    found = []
    for producer in producers:
        if (sample := _sample(catalogue, given, producer)) is None:
            continue
        call, result = sample
        own = {canonical(value) for value in held(dict(call.arguments))}
        returned = {canonical(value) for value in held(result.value)} - own
        before, after = Scene({}, {}, {}, {}), Scene({}, {}, {}, {}, [sample])
        for consumer in consumers:
            for domain in map(catalogue.domains.__getitem__, catalogue.recipes[consumer].says.values()):
                examples = domain(before)
                if any(value not in examples and brought(value, returned) for value in domain(after)):
                    found.append((producer, consumer))
                    break
    return found


def _sample(catalogue: Catalogue, given: Assignment, tool: str) -> tuple[Call, Result] | None:
    """A call of a tool that works in the seed's world, with its result."""
    plan = Plan((PlannedTurn((tool,), (tool,)),))
    for number in range(TRIALS):
        choose = by_chance(given.rng(f"sample {tool} {number}"))
        with contextlib.suppress(ComposeError):
            draft = realise(given.environment, catalogue, plan, given.seed.state or {}, choose)
            return draft.turns[0][0].call, draft.turns[0][0].result
    return None


def _tried(
    catalogue: Catalogue, given: Assignment, plan: Plan, wanted: Mapping[Place, list[int]]
) -> tuple[set[Place], set[Place]]:
    """The places that could be fed as wanted, and all that were reached."""
    fed: set[Place] = set()
    reached: set[Place] = set()
    for number in range(TRIALS if wanted else 0):
        run = Choosing(given.environment.tools(), {}, {}, given.rng(f"trial {number}"), wanted)
        with contextlib.suppress(ComposeError):  # how far it came is what counts
            realise(given.environment, catalogue, plan, given.seed.state or {}, run)
        fed |= run.fed
        reached |= run.reached
        if fed >= wanted.keys():
            break
    return fed, reached


def depth(draft: Draft) -> int:
    """Calls on the longest path along which results feed arguments (as `Profile.depth`)."""
    reached: dict[tuple[int, int], int] = {}
    for turn, calls in enumerate(draft.turns):
        for index, bound in enumerate(calls):
            fed = [reached[flow.origin] for flow in bound.flows.values() if flow.origin is not None]
            reached[turn, index] = 1 + max(fed, default=0)
    return max(reached.values(), default=0)
