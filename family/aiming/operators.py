"""The operators: each makes of a seed's profile the one that a harder or an easier variant is to
have, and operators.toml says what the variant has to show beside its seed.

Authors and gates that write and check isomorphic variants work on such a target as it is. `cut`
alone works on the seed itself: it executes the calls that are cut off, and what is left begins in
the state that they lead to. `faults` compares nothing but two profiles, the seed's and the
variant's, so a verifier asks the same of what is on record.
"""

import operator as relations
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rods.analysis.flows import Flow
from rods.analysis.profile import Node, Position, Profile, chains, profile
from rods.environments.base import Environment
from rods.family.aiming.settings import Aiming, Operator
from rods.tasks import Task, TaskType

if TYPE_CHECKING:  # it brings numpy, which who looks at a run does not wait for
    from rods.daemon.authors.base import Assignment

TABLES: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "same": relations.eq,
    "more": relations.gt,
    "fewer": relations.lt,
    "no more": relations.le,
    "no fewer": relations.ge,
    "one more": lambda made, seed: bool(made == seed + 1),
    "some": lambda made, _: bool(made > 0),
}
LACKING: tuple[TaskType, ...] = ("miss_func", "miss_param")
SHOWN: tuple[Operator, ...] = ("crowd", "thin")  # they leave the calls as they are


def measures(type: TaskType, turns: Sequence[Sized]) -> dict[str, Any]:
    """What a task's record shows without running anything: its calls in all and in its longest
    turn, its turns in all, with calls (`asked`) and without (`blank`), and by its type whether
    something is withheld or padded, 0 or 1."""
    counts = [len(turn) for turn in turns]
    shown = {"type": type, "withheld": int(type in LACKING), "padded": int(type == "long_context")}
    shown |= {
        "turns": len(counts),
        "asked": len(counts) - counts.count(0),
        "blank": counts.count(0),
    }
    return {**shown, "calls": sum(counts), "longest": max(counts)}


def measured(shape: Profile) -> dict[str, Any]:
    """The measures of a profile, its depth and, if known, how many tools it shows, too, and how
    many calls of its last turn take up results of earlier ones."""
    taken = sum(
        count
        for (turn, later), count in shape.links.items()
        if turn < later == len(shape.turns) - 1
    )
    shown = {"shown": shape.shown} if shape.shown else {}
    return {**measures(shape.type, shape.turns), "depth": shape.depth, "taken": taken, **shown}


def faults(operator: Operator, rules: Aiming, seed: Profile, made: Profile) -> list[str]:
    """What keeps a variant of the profile `made` from being what `operator` makes of a seed of the
    profile `seed`, as far as `made` can tell: of a plan it does not say how many tools will be
    shown."""
    before = measured(seed)
    after = measured(made)
    wrong = [
        f"{operator} asks for {relation} {name}: {after[name]} beside the seed's {before[name]}"
        for name, relation in TABLES[operator]["rule"].items()
        if name in after and not RELATIONS[relation](after[name], before[name])
    ]
    caps = {
        name: max(most, before[name])
        for name, most in (("calls", rules.max_calls), ("depth", rules.max_depth))
    }
    return wrong + [
        f"{name} {after[name]}, at most {most}" for name, most in caps.items() if after[name] > most
    ]


def applicable(rules: Aiming, seed: Mapping[str, Any]) -> list[Operator]:
    """The operators that may be used on a seed with these measures; those that are not known keep
    none away."""
    shown = {**seed, "room": rules.max_calls - seed["calls"]}
    return [
        operator
        for operator in rules.operators
        if seed["type"] in TABLES[operator].get("types", [seed["type"]])
        and all(
            shown.get(name, least) >= least for name, least in TABLES[operator]["needs"].items()
        )
    ]


def led(
    operator: Operator,
    rules: Aiming,
    environment: Environment,
    given: "Assignment[Task]",
    rng: random.Random,
) -> "Assignment[Task] | None":
    """The assignment, whose profile is the seed's, with the profile that the operator leads to, and
    after `cut` with what is left of the seed. None: it leads nowhere, as where `cut` meets an
    environment that shows no state."""
    if operator not in applicable(rules, measured(shape := given.profile)):
        return None
    cut = operator == "cut"
    table = TABLES[operator]
    rest = _rest(environment, given.seed, rng) if cut else given.seed
    if rest is None:
        return None
    made = profile(environment, rest) if cut else _edited(operator, shape, rng)
    if operator in SHOWN:
        made = replace(made, shown=_shown(operator, environment, shape))
    if (lacks := partial(faults, operator, rules, shape))(made):
        return None
    aim = {"direction": table["direction"], "operator": operator}
    return replace(
        given, seed=rest, profile=replace(made, lacks=lacks), aim=aim, words=table["words"]
    )


def _rest(environment: Environment, seed: Task, rng: random.Random) -> Task | None:
    """The last turns of the seed, in the state that the calls before them lead to: what is asked
    for in vain stays together with its repetition, and something is still withheld where the type
    says so."""
    turns = [
        turn
        for turn in range(1, len(seed.calls))
        if seed.calls[turn - 1] and any(seed.calls[turn:])
    ]
    turns = [turn for turn in turns if seed.type not in LACKING or not all(seed.calls[turn:])]
    if not turns or not environment.features.snapshot:
        return None
    turn = rng.choice(turns)
    instance = environment.reset(seed.state)
    for call in (call for calls in seed.calls[:turn] for call in calls):
        instance.call(call)
    held_out = {until - turn: names for until, names in seed.held_out.items() if until > turn}
    rest = replace(
        seed,
        script=seed.script[turn:],
        calls=seed.calls[turn:],
        held_out=held_out,
        provenance={},
        id="",
    )
    return replace(rest, state=instance.snapshot(), id="")


def _shown(operator: Operator, environment: Environment, shape: Profile) -> int:
    """How many tools a variant of this seed shows: twice as many, as far as its API classes have
    tools, or half of those that are not called."""
    if operator == "crowd":
        return min(
            2 * shape.shown,
            sum(tool.group in shape.classes for tool in environment.tools().values()),
        )
    return (shape.shown + len(shape.tools)) // 2


def _edited(operator: Operator, shape: Profile, rng: random.Random) -> Profile:
    """The profile after one change at a random place where it fits."""
    type = shape.type
    turns = list(shape.turns)
    told = list[Position]()
    reached = chains((node.position, node.producers) for node in shape.nodes)
    ends = [node for node in shape.nodes if reached[node.position] == shape.depth]
    giving = {producer for node in shape.nodes for producer in node.producers}
    asked = [turn for turn, nodes in enumerate(turns) if nodes]
    several = [turn for turn in asked if len(turns[turn]) > 1]
    match operator:
        case "chain":  # at the end of a longest chain, in its turn or a later one
            end = rng.choice(ends)
            turn = rng.choice([turn for turn in asked if turn >= end.turn])
            turns[turn] = (*turns[turn], _fed(end))
        case "follow":  # by a result that is used already, if any is
            known = [node for node in shape.nodes if node.position in giving]
            turns.append((_fed(rng.choice(known or shape.nodes)),))
        case "withhold":  # the same is asked for in vain in a turn before
            type = rng.choice(LACKING)
            turns.insert(rng.choice(asked), ())
        case "pad":
            type = "long_context"
        case "trim":  # a call that feeds no other, if there is one
            crowded = [node for turn in several for node in turns[turn]]
            gone = rng.choice([node for node in crowded if node.position not in giving] or crowded)
            turns[gone.turn] = tuple(node for node in turns[gone.turn] if node is not gone)
        case "tell":  # the user says what the last calls of the longest chains took from results
            told = [node.position for node in ends]
        case "split":
            turn = rng.choice(several)
            at = rng.randrange(1, len(turns[turn]))
            turns[turn : turn + 1] = [turns[turn][:at], turns[turn][at:]]
        case "serve":
            type = "base"
            turns = [turns[turn] for turn in asked]
    return replace(_laid_out(type, turns, told), shown=shape.shown)


def _fed(by: Node) -> Node:
    """A further call, of the same API class, that takes up what `by` gives. No call of the seed
    stands for it."""
    return Node(-1, -1, by.tool, by.group, {"": Flow("result", by.position)})


def _laid_out(type: TaskType, turns: Sequence[Sequence[Node]], told: Sequence[Position]) -> Profile:
    """The profile of nodes at new places; the user says what lost calls gave, and to those `told`
    what any gave."""
    places = {
        node.position: (turn, at)
        for turn, nodes in enumerate(turns)
        for at, node in enumerate(nodes)
    }

    def moved(node: Node, flow: Flow) -> Flow:
        if flow.origin is None:
            return flow
        said = node.position in told or flow.origin not in places
        return Flow("user") if said else replace(flow, origin=places[flow.origin])

    def placed(turn: int, at: int, node: Node) -> Node:
        return replace(
            node,
            turn=turn,
            index=at,
            flows={name: moved(node, flow) for name, flow in node.flows.items()},
        )

    laid = (
        tuple(placed(turn, at, node) for at, node in enumerate(nodes))
        for turn, nodes in enumerate(turns)
    )
    return Profile(type, tuple(laid))
