"""The complexity profile of a task: the shape of its calls and of the flows between them (004
§3.3).

A profile is the directed acyclic graph of a task's ground-truth calls: an argument whose value came
from an earlier call's result (`rods.analysis.flows`) is an edge. Two profiles have a `distance` in
[0, 1], and `isomorphic` is the gate that a variant must pass against the root of its ancestry
(docs/gates.md)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rods.analysis.flows import Flow, infer
from rods.canonical import rounded
from rods.config import Gates
from rods.environments.base import Environment, Results, opened
from rods.tasks import Task, TaskType

Position = tuple[int, int]  # turn and index in the turn, both from 0


@dataclass(frozen=True)
class Node:
    """One ground-truth call: its tool, the tool's API class, and the flow of every argument that it
    names."""

    turn: int
    index: int
    tool: str
    group: str
    flows: Mapping[str, Flow]

    @property
    def position(self) -> Position:
        return (self.turn, self.index)

    @property
    def producers(self) -> tuple[Position, ...]:
        """The earlier calls whose results feed this one, each once, in order."""
        return tuple(
            sorted(
                {
                    flow.origin
                    for flow in self.flows.values()
                    if flow.source == "result" and flow.origin
                }
            )
        )


@dataclass(frozen=True)
class Profile:
    """`turns[t]` holds the nodes of turn t in order; in an empty turn no call is right."""

    type: TaskType
    turns: tuple[tuple[Node, ...], ...]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(node for turn in self.turns for node in turn)

    @cached_property
    def calls_per_turn(self) -> tuple[int, ...]:
        return tuple(len(turn) for turn in self.turns)

    @cached_property
    def depth(self) -> int:
        """Calls on the longest path along which results feed arguments; 1 when none does, 0 without
        calls."""
        return max(
            chains((node.position, node.producers) for node in self.nodes).values(), default=0
        )

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The API classes in use, sorted."""
        return tuple(sorted({node.group for node in self.nodes}))

    @cached_property
    def tools(self) -> dict[str, int]:
        """How often each tool is called."""
        return dict(sorted(Counter(node.tool for node in self.nodes).items()))

    @cached_property
    def sources(self) -> dict[str, int]:
        """How many arguments came from each source: user, earlier, result, state, default."""
        return dict(
            sorted(
                Counter(flow.source for node in self.nodes for flow in node.flows.values()).items()
            )
        )

    @cached_property
    def edges(self) -> tuple[tuple[Position, Position, str], ...]:
        """(producer, consumer, argument) for every argument fed by an earlier result."""
        flows = (
            (node.position, name, flow) for node in self.nodes for name, flow in node.flows.items()
        )
        fed = (
            (position, name, flow.origin)
            for position, name, flow in flows
            if flow.source == "result"
        )
        return tuple(
            (origin, position, name) for position, name, origin in fed if origin is not None
        )

    @cached_property
    def links(self) -> Counter[tuple[int, int]]:
        """The edges by turns: how often a call of the first turn feeds one of the second, by
        whatever arguments."""
        return Counter(
            (producer[0], node.turn) for node in self.nodes for producer in node.producers
        )

    @cached_property
    def labels(self) -> list[Counter[Any]]:
        """The multiset of node labels in each round, ROUNDS + 1 of them."""
        labels: dict[Position, Any] = {node.position: node.group for node in self.nodes}
        rounds = [Counter(labels.values())]
        neighbours: dict[Position, list[tuple[str, bool, Position]]] = {
            position: [] for position in labels
        }
        for node in self.nodes:
            for producer in node.producers:
                inside = producer[0] == node.turn
                neighbours[node.position].append(("from", inside, producer))
                neighbours[producer].append(("to", inside, node.position))
        for _ in range(ROUNDS):
            seen = {
                position: sorted(
                    ((way, inside, labels[other]) for way, inside, other in near), key=repr
                )
                for position, near in neighbours.items()
            }
            labels = {position: (label, *seen[position]) for position, label in labels.items()}
            rounds.append(Counter(labels.values()))
        return rounds

    @cached_property
    def topology(self) -> Counter[Any]:
        """How often each API class is called, and how often a call of one class feeds one of
        another."""
        groups = {node.position: node.group for node in self.nodes}
        wires = (
            (groups[producer], node.group) for node in self.nodes for producer in node.producers
        )
        return Counter[Any](groups.values()) + Counter[Any](wires)


def profile(environment: Environment, task: Task, results: Results | None = None) -> Profile:
    """The profile of `task`; its ground truth is replayed in a fresh instance where no `results`
    are given. Raises KeyError for a tool that the environment lacks, ValueError for a state that it
    rejects."""
    if results is None:
        instance = opened(environment, task)
        results = [[instance.call(call) for call in turn] for turn in task.calls]
    tools = environment.tools()
    flows = infer(tools, task, results)
    turns = [
        tuple(
            Node(turn, at, call.name, tools[call.name].group, flows[turn][at])
            for at, call in enumerate(calls)
        )
        for turn, calls in enumerate(task.calls)
    ]
    return Profile(task.type, tuple(turns))


# The weights of `distance`. The graph counts most because it holds classes and dependencies at
# once.
TURNS = 0.3
GRAPH = 0.4
DEPTH = 0.15
SOURCES = 0.15
ROUNDS = 2  # of Weisfeiler-Lehman refinement: a node sees what lies two flows away


def chains(calls: Iterable[tuple[Position, Iterable[Position]]]) -> dict[Position, int]:
    """Calls on the longest path from a producer to each call. `calls`: positions in execution
    order, with producers."""
    reached: dict[Position, int] = {}
    for position, producers in calls:
        reached[position] = 1 + max((reached[producer] for producer in producers), default=0)
    return reached


def distance(a: Profile, b: Profile) -> float:
    """How unlike two profiles are: 0 for equal shapes, at most 1, symmetric, rounded to 12
    decimals.

        0.3 · Σ_t |a_t − b_t| / Σ_t max(a_t, b_t)
      + 0.4 · mean over 3 rounds of 1 − J(labels_a, labels_b)
      + 0.15 · |depth_a − depth_b| / max(depth_a, depth_b)
      + 0.15 · (1 − J(sources_a, sources_b))

    a_t is 1 + the calls of turn t, 0 past the last turn. J is the Jaccard index of multisets,
    Σ min / Σ max. In round 0 a node's label is its API class
    (a variant calls other functions); each further round adds the sorted labels that feed it and
    that it feeds, and whether the flow stays inside the turn (Weisfeiler-Lehman: two different
    graphs may count as equal). Exact edit distance would take seconds on ten calls."""
    counts = [dict(enumerate(1 + count for count in profile.calls_per_turn)) for profile in (a, b)]
    turns = _unlike(*counts)
    rounds = [
        _unlike(labels_a, labels_b) for labels_a, labels_b in zip(a.labels, b.labels, strict=True)
    ]
    depth = abs(a.depth - b.depth) / max(a.depth, b.depth, 1)
    sources = _unlike(a.sources, b.sources)
    return rounded(
        TURNS * turns + GRAPH * sum(rounds) / len(rounds) + DEPTH * depth + SOURCES * sources
    )


def isomorphic(root: Profile, variant: Profile, limits: Gates) -> list[str]:
    """Why `variant` is not close enough to `root`; empty when it is: the same number of turns and
    the same API classes, calls per turn within one, and within `limits` its depth, the edges that
    only one of both has (turn → turn), the distance between the topologies (1 − their Jaccard
    index), the distance as a whole."""
    reasons = []
    if len(root.turns) != len(variant.turns):
        reasons.append(f"{len(variant.turns)} turns instead of {len(root.turns)}")
    if abs(root.depth - variant.depth) > limits.profile_depth:
        tools = {node.position: node.tool for node in variant.nodes}
        taken = ", ".join(f"{tools[a]} → {tools[b]}" for a, b, _ in variant.edges) or "nowhere"
        reasons.append(f"depth {variant.depth} instead of {root.depth} (results go {taken})")
    for turn, (old, new) in enumerate(
        zip(root.calls_per_turn, variant.calls_per_turn, strict=False)
    ):
        if abs(old - new) > 1:
            reasons.append(f"turn {turn} has {new} calls instead of {old}, more than one apart")
    if edges_apart(root.links, variant.links) > limits.profile_edges:
        reasons.append(
            f"results flow {_links_text(variant.links)} instead of {_links_text(root.links)}"
        )
    if root.classes != variant.classes:
        reasons.append(
            f"calls the classes {', '.join(variant.classes)} instead of {', '.join(root.classes)}"
        )
    if (apart := topology_apart(root, variant)) > limits.profile_topology:
        reasons.append(f"topology distance {apart:.3f} is over {limits.profile_topology:g}")
    if (apart := distance(root, variant)) > limits.profile_distance:
        reasons.append(f"profile distance {apart:.3f} is over {limits.profile_distance:g}")
    return reasons


def edges_apart(a: Counter[tuple[int, int]], b: Counter[tuple[int, int]]) -> int:
    """How many edges (`Profile.links`) only one of both has."""
    return ((a - b) + (b - a)).total()


def topology_apart(a: Profile, b: Profile) -> float:
    """How unlike two topologies (`Profile.topology`) are, in [0, 1]: 1 − their Jaccard index, to 12
    decimals."""
    return rounded(_unlike(a.topology, b.topology))


def _links_text(links: Counter[tuple[int, int]]) -> str:
    return ", ".join(f"{a} → {b}" for a, b in sorted(links.elements())) or "nowhere"


def _unlike(a: Mapping[Any, int], b: Mapping[Any, int]) -> float:
    """1 − the Jaccard index of two multisets; 0 when both are empty."""
    common = sum(min(count, b.get(label, 0)) for label, count in a.items())
    either = sum(a.values()) + sum(b.values()) - common
    return 1 - common / either if either else 0.0
