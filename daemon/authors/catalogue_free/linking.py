"""Plans of single tools: which tools may stand where, which results should feed which arguments,
and whether they do.

A recipe of a catalogue says what its steps pass on. Of a single tool that shows only when it runs,
so flows are inferred from texts, results and state afterwards."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from rods.analysis.containment import is_small, key_of, keys_in
from rods.analysis.flows import Flow, infer
from rods.analysis.profile import Position, chains
from rods.composing.bind import spoken
from rods.composing.catalogue import Catalogue, Scene
from rods.composing.records import ComposeError, Draft, Plan
from rods.daemon.authors.base import StagedAssignment, with_calls
from rods.daemon.authors.catalogue_free import is_changed, is_single_tool
from rods.daemon.authors.catalogue_free.probing import Prober, is_pointed_at
from rods.environments.base import Environment, Parameter, reference, value_of
from rods.gates.values import Mention, identifies, is_amount, is_credential, keys_of, mentions
from rods.tasks import Task
from rods.transcripts import one_line

REFUSAL = 120  # characters of what the world says to a function that it refuses
Pairs = list[tuple[str, str]]  # tools of which the first feeds the second


def tool_options(
    prober: Prober, assignment: StagedAssignment, rng: Random
) -> tuple[list[list[list[str]]], dict[tuple[Position, Position], Pairs]]:
    """For every call of the root, turn by turn, the tools of its API class that may stand there
    (rather not the seed's, or just these; as many as a task shows at most); where a call of the
    root feeds another, those that can, and which of these can feed which. Raises
    ComposeError("no_pattern") when no tool is left for some place."""
    catalogue = prober.catalogue
    tools = prober.environment.tools()
    avoided = {call.name for call in assignment.seed.goal_calls} - catalogue.common
    linked = {
        position
        for producer, consumer, _ in assignment.profile.edges
        for position in (producer, consumer)
    }
    turns = list[list[list[str]]]()
    for turn, nodes in enumerate(assignment.profile.turns):
        open_value = (
            assignment.profile.type == "miss_param"
            and turn > 0
            and not assignment.profile.turns[turn - 1]
        )
        places = list[list[str]]()
        for node in nodes:
            options = [
                name
                for name, tool in tools.items()
                if (name == node.tool if assignment.same else tool.group == node.group)
                and name not in assignment.blocked
                and is_single_tool(catalogue.recipes[name])
            ]
            # something has to be said in it, so that it can be left open before
            if open_value and not assignment.same:
                options = [name for name in options if any(map(_only_said, tools[name].parameters))]
            if node.position not in linked:  # few tools find things out
                options = [
                    name for name in options if name not in avoided or assignment.same
                ] or options
            if not turns and not places:  # nothing before the first call can make it possible
                first = Scene(prober.state, {}, {}, {})
                names = prober.each("functions that can come first", options)
                options = [name for name in names if prober.at(name, first).working] or options
            if not options:
                raise ComposeError(
                    "no_pattern",
                    f"no function of {node.group} is left for turn {node.turn + 1}",
                    turn=node.turn,
                )
            rng.shuffle(options)
            places.append(options[: catalogue.shown])
        turns.append(places)
    feeders = dict[tuple[Position, Position], Pairs]()
    for (turn, place), (later_turn, later_place), _ in (
        () if assignment.same else assignment.profile.edges
    ):
        if able := pairs(prober, turns[turn][place], turns[later_turn][later_place]):
            producers, consumers = (list(dict.fromkeys(tools)) for tools in zip(*able, strict=True))
            turns[turn][place] = producers
            turns[later_turn][later_place] = consumers
            feeders[(turn, place), (later_turn, later_place)] = able
    return turns, feeders


def are_single_tools(catalogue: Catalogue, plan: Plan) -> bool:
    """Whether a plan is of single tools alone."""
    return all(
        is_single_tool(catalogue.recipes[name]) for turn in plan.turns for name in turn.recipes
    )


def feeding(assignment: StagedAssignment) -> Mapping[Position, list[int]]:
    """Which calls (counted through) feed a place in the root, and so should in a plan of single
    tools."""
    order = {node.position: number for number, node in enumerate(assignment.profile.nodes)}
    producers: dict[Position, list[int]] = {}
    for producer, consumer, _ in assignment.profile.edges:
        producers.setdefault(consumer, []).append(order[producer])
    return producers


def refused(prober: Prober, tools: Iterable[str]) -> str:
    """What those tools refuse at the start, one a line, as far as the prober's world shows:
    everything, with what it says, or what does not exist."""
    lines = []
    for name in tools:
        probed = prober.at(name, Scene(prober.state, {}, {}, {}))
        tool = prober.environment.tools()[name]
        # any number that is no identifier may be a priority
        existing = [
            argument
            for argument in probed.existing
            if tool.by_name[argument].schema.get("type") not in ("integer", "number")
            or identifies(argument, None, frozenset())
        ]
        if not probed.working:
            required = ", ".join(one.name for one in tool.parameters if one.required)
            none = f"nothing is there yet that it takes as {required}"
            lines.append(f"{name}: everything; {one_line(probed.refusal[:REFUSAL]) or none}")
        elif existing and not prober.environment.features.waits:
            lines.append(f"{name}: what is not there as {', '.join(existing)}")
    return "\n".join(lines)


def pairs(prober: Prober, producers: Sequence[str], consumers: Sequence[str]) -> Pairs:
    """The tools of which the second can take what the first returns, tried in the prober's world;
    rather those that would not take just anything there."""
    found: dict[bool, Pairs] = {True: [], False: []}
    for producer in prober.each("functions that feed others", producers):
        if working := prober.at(producer, Scene(prober.state, {}, {}, {})).working:
            after = Scene(prober.state, {}, {}, {}, working[:1])
            for consumer in consumers:
                tried = prober.at(consumer, after, [0], fed_only=True)
                if tried.fed:
                    found[tried.fed in tried.existing].append((producer, consumer))
    return found[True] or found[False]


def with_inferred_flows(
    environment: Environment, catalogue: Catalogue, assignment: StagedAssignment, draft: Draft
) -> Draft:
    """The draft, with the flows found out from results and state where it is of single tools;
    recipes know theirs. Raises ComposeError("conversation_construct_failed") where single tools
    feed each other less, or more, deeply than the root's calls."""
    if not are_single_tools(catalogue, draft.plan):
        return draft
    calls = tuple(tuple(bound.call for bound in bounds) for bounds in draft.turns)
    used = tuple(dict.fromkeys(call.name for turn in calls for call in turn))
    results = [[bound.result for bound in bounds] for bounds in draft.turns]
    keys = keys_of([draft.state, *(value_of(result) for each in results for result in each)])
    edges = {edge[:2] for edge in assignment.profile.edges}

    def kept(flow: Flow, place: Position, name: str, value: Any) -> Flow:
        """What only the state knows, the user has to say: nothing else tells it. The user says as
        well what a call happens to show that feeds nothing in the root, how much is meant, the new
        value of a change, and what no words tell from its like; but no credential, nothing that is
        to be found out in an earlier call, and no number or identifier that the world holds only
        once a call has made it."""
        tool = environment.tools()[calls[place[0]][place[1]].name]
        unknown = (
            shown
            and not is_amount(name, value, keys)
            and not is_small(value)
            and any(map(str.isdigit, str(value)))
            and stated.isdisjoint(keys_in(value))
        )
        if flow.source == "result" and (is_credential(name) or key_of(value) in found or unknown):
            return flow
        if is_changed(tool, name):
            return Flow("user")
        if (flow.origin, place) in edges and is_pointed_at(name, value, met, keys):
            return flow
        return Flow("user") if flow.source in ("state", "result") else flow

    shown = environment.features.snapshot
    stated = keys_in(draft.state, keys=True)
    found = set[Any]()
    met = list[Mention]()
    texts = [""] * len(calls)
    flows = list[list[dict[str, Flow]]]()
    for turn, turn_calls in enumerate(calls):  # what is said in one is known in the later ones
        task = Task(reference(environment), "base", tuple(texts), calls, used, state=draft.state)
        row = infer(environment.tools(), task, results)[turn]
        flows.append([])
        of_user: list[str] = []
        for place, (call, inferred) in enumerate(zip(turn_calls, row, strict=True)):
            given = call.arguments
            own = {
                name: kept(flow, (turn, place), name, given[name])
                for name, flow in inferred.items()
            }
            found |= {key_of(given[name]) for name, flow in own.items() if flow.origin}
            of_user += [spoken(given[name]) for name, flow in own.items() if flow.source == "user"]
            flows[turn].append(own)
            met += mentions(turn, call, results[turn][place])
        texts[turn] = "; ".join(of_user)
    draft = with_calls(draft, lambda turn, place, bound: replace(bound, flows=flows[turn][place]))
    if (reached := depth(draft)) != assignment.profile.depth:
        raise ComposeError(
            "conversation_construct_failed",
            f"the longest chain has {reached} calls: what words can point at in a result, as the "
            f"only one of its kind there, feeds a later call. {chain(assignment.profile.depth)}",
        )
    return draft


def chain(calls: int) -> str:
    """What a profile's depth asks of a plan, in words that can be counted."""
    if calls < 2:
        return "No call may take what another returned: the user says it."
    return (
        f"The longest chain of calls, each of which takes what the one before it returned, must "
        f"have {calls} calls."
    )


def depth(draft: Draft) -> int:
    """Calls on the longest path along which results feed arguments (as `Profile.depth`)."""
    calls = (
        ((turn, at), bound)
        for turn, bounds in enumerate(draft.turns)
        for at, bound in enumerate(bounds)
    )
    fed = (
        (place, [flow.origin for flow in bound.flows.values() if flow.origin])
        for place, bound in calls
    )
    return max(chains(fed).values(), default=0)


def _only_said(parameter: Parameter) -> bool:
    """Whether only a user can tell a value for it: no default does, no short list."""
    return (
        parameter.required
        and "enum" not in parameter.schema
        and parameter.schema.get("type") != "boolean"
    )
