"""Plans of single tools: which tools may stand where, which results should feed which arguments, and whether they do.

A recipe of a catalogue says what its steps pass on. Of a single tool that shows only when it runs, so it is tried by
chance in the seed's world before a plan is taken, and inferred from texts, results and state afterwards.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rods.analysis.flows import Flow, infer
from rods.analysis.profile import Position, longest_chain
from rods.calls import Call
from rods.canonical import canonical
from rods.composing.bind import Choice, meant, random_chooser, realise
from rods.composing.catalogue import LEFT_OUT, Catalogue, Scene
from rods.composing.records import BoundCall, ComposeError, Draft, Plan, PlannedTurn
from rods.daemon.authors.base import Assignment, with_calls
from rods.daemon.authors.catalogue_free import is_single_tool
from rods.daemon.authors.state_shapes import contents
from rods.environments.base import Result, reference
from rods.tasks import Task

TRIALS = 4


def tool_options(catalogue: Catalogue, given: Assignment[Task], rng: random.Random, most: int) -> list[list[list[str]]]:
    """For every call of the root, turn by turn, at most `most` tools of its API class that may stand there (rather not
    the seed's, or just these); where a call of the root feeds another, those that can.

    Raises ComposeError("no_pattern") when no tool is left for some place.
    """
    tools = given.environment.tools()
    avoided = {call.name for calls in given.seed.calls for call in calls} - catalogue.common
    linked = {position for producer, consumer, _ in given.profile.edges for position in (producer, consumer)}
    turns = []
    for turn, nodes in enumerate(given.profile.turns):
        open_value = given.seed.type == "miss_param" and turn > 0 and not given.profile.turns[turn - 1]
        places = []
        for node in nodes:
            options = [node.tool]
            if not given.same:
                options = [name for name, tool in tools.items() if tool.group == node.group]
                if open_value:  # something has to be said in it, so that it can be left open before
                    options = [name for name in options if catalogue.recipes[name].user_slots]
                if node.position not in linked:  # few tools find things out
                    options = [name for name in options if name not in avoided] or options
            options = [
                name for name in options if name not in given.blocked and is_single_tool(catalogue.recipes[name])
            ]
            if not options:
                detail = f"no function of {node.group} is left for turn {node.turn + 1}"
                raise ComposeError("no_pattern", detail, turn=node.turn)
            rng.shuffle(options)
            places.append(options[:most])
        turns.append(places)
    for (turn, place), (later_turn, later_place), _ in () if given.same else given.profile.edges:
        if able := list(pairs(catalogue, given, turns[turn][place], turns[later_turn][later_place])):
            turns[turn][place] = list(dict.fromkeys(producer for producer, _ in able))
            turns[later_turn][later_place] = list(dict.fromkeys(consumer for _, consumer in able))
    return turns


def feeding(catalogue: Catalogue, given: Assignment[Task], plan: Plan) -> Mapping[Position, list[int]]:
    """Which calls (counted through) feed a place in the root, and so should here; nothing for plans with recipes."""
    if not all(is_single_tool(catalogue.recipes[name]) for turn in plan.turns for name in turn.recipes):
        return {}
    order = {node.position: number for number, node in enumerate(given.profile.nodes)}
    producers: dict[Position, list[int]] = {}
    for producer, consumer, _ in given.profile.edges:
        producers.setdefault(consumer, []).append(order[producer])
    return producers


def fed_values(choice: Choice, values: Sequence[Any], wanted: Mapping[Position, Sequence[int]]) -> list[Any]:
    """Those of `values` that the calls which should feed this place have returned, beyond their own arguments."""
    producers = [choice.scene.calls[number] for number in wanted.get((choice.turn, choice.place), ())]
    returned = _returned(producers)
    return [value for value in values if value is not LEFT_OUT and _is_among(meant(value), returned)]


def unfed(catalogue: Catalogue, given: Assignment[Task], plan: Plan) -> str:
    """What is wrong with a plan whose calls cannot feed each other as in the root, tried by chance in the seed's world;
    empty when they can, or when chance does not get far enough to tell."""
    wanted = feeding(catalogue, given, plan)
    fed: set[Position] = set()
    reached: set[Position] = set()
    for number in range(TRIALS if wanted else 0):
        chance = random_chooser(given.rng(f"trial {number}"))

        def choose(choice: Choice, chance: Any = chance) -> Any:
            reached.add((choice.turn, choice.place))
            values = fed_values(choice, choice.values, wanted)
            if values:
                fed.add((choice.turn, choice.place))
            offered = values or choice.values
            return offered[0] if len(offered) == 1 else chance(replace(choice, values=offered))

        with contextlib.suppress(ComposeError):  # how far it came is what counts
            realise(given.environment, catalogue, plan, given.seed.state or {}, choose)
        if fed >= wanted.keys():
            break
    flat = [name for turn in plan.turns for name in turn.tools]
    return "; ".join(
        f"{plan.turns[turn].tools[place]} in turn {turn + 1} can use nothing that "
        f"{' or '.join(flat[number] for number in wanted[turn, place])} returns"
        for turn, place in sorted(wanted.keys() & reached - fed)
    )


def pairs(
    catalogue: Catalogue, given: Assignment[Task], producers: Sequence[str], consumers: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The tools of which the second can take what the first returns, tried by chance in the seed's world."""
    for producer in producers:
        if (sample := _sample(catalogue, given, producer)) is None:
            continue
        returned = _returned([sample])
        before, after = Scene({}, {}, {}, {}), Scene({}, {}, {}, {}, [sample])
        for consumer in consumers:
            domains = [catalogue.domains[name] for name in catalogue.recipes[consumer].user_slots.values()]
            if any(
                value not in examples and _is_among(value, returned)
                for domain, examples in ((domain, domain(before)) for domain in domains)
                for value in domain(after)
            ):
                yield producer, consumer


def with_inferred_flows(catalogue: Catalogue, given: Assignment[Task], draft: Draft) -> Draft:
    """The draft with the flows of its single tools found out from results and state; recipes know theirs.

    Raises ComposeError("conversation_construct_failed") where single tools feed each other less, or more, deeply than
    the root's calls.
    """
    if any(is_single_tool(catalogue.recipes[bound.recipe]) for calls in draft.turns for bound in calls):
        calls = tuple(tuple(bound.call for bound in bounds) for bounds in draft.turns)
        used = tuple(dict.fromkeys(call.name for turn in calls for call in turn))
        task = Task(reference(given.environment), "base", ("",) * len(calls), calls, used, state=draft.state)
        flows = infer(given.environment.tools(), task, [[bound.result for bound in bounds] for bounds in draft.turns])

        def inferred(turn: int, place: int, bound: BoundCall) -> BoundCall:
            if not is_single_tool(catalogue.recipes[bound.recipe]):
                return bound
            row = flows[turn][place].items()
            # what only the state knows, the user has to say: nothing else tells it
            return replace(bound, flows={arg: Flow("user") if flow.source == "state" else flow for arg, flow in row})

        draft = with_calls(draft, inferred)
    if feeding(catalogue, given, draft.plan) and (reached := depth(draft)) != given.profile.depth:
        detail = f"results feed calls over {reached} steps, it must be {given.profile.depth}"
        raise ComposeError("conversation_construct_failed", detail)
    return draft


def depth(draft: Draft) -> int:
    """Calls on the longest path along which results feed arguments (as `Profile.depth`)."""
    return longest_chain(
        ((turn, index), [flow.origin for flow in bound.flows.values() if flow.origin is not None])
        for turn, calls in enumerate(draft.turns)
        for index, bound in enumerate(calls)
    )


def _sample(catalogue: Catalogue, given: Assignment[Task], tool: str) -> tuple[Call, Result] | None:
    """A call of a tool that works in the seed's world, with its result."""
    plan = Plan((PlannedTurn((tool,), (tool,)),))
    for number in range(TRIALS):
        choose = random_chooser(given.rng(f"sample {tool} {number}"))
        with contextlib.suppress(ComposeError):
            bound = realise(given.environment, catalogue, plan, given.seed.state or {}, choose).turns[0][0]
            return bound.call, bound.result
    return None


def _returned(calls: Sequence[tuple[Call, Result]]) -> set[bytes]:
    """What calls returned beyond their own arguments, as canonical JSON."""
    returned = set[bytes]().union(*(contents(result.value) for _, result in calls))
    return returned.difference(*(contents(dict(call.arguments)) for call, _ in calls))


def _is_among(value: Any, known: set[bytes]) -> bool:
    """Whether a value, or each element of a list, is in `known` (canonical JSON)."""
    return all(canonical(item) in known for item in (value if isinstance(value, list) else [value]))
