"""A profile records shape, not content: flows are inferred by rule, and distance is a bounded,
symmetric measure."""

import pytest

from rods.analysis.flows import Flow
from rods.analysis.profile import Node, Profile, distance, isomorphic, profile
from rods.calls import Call
from rods.config import Gates
from rods.environments.base import Result, reference
from rods.tasks import Task
from rods.worlds.desk import generate
from tests.environments import load
from tests.rods.toy_environment import environment

TOY = environment()
NOTES = {
    "notes": {
        "140": {"title": "rent", "body": "pay"},
        "141": {"title": "milk", "body": "two bottles"},
    }
}


def shape(script, calls, state=None, results=None, type="base"):
    names = tuple({call.name for turn in calls for call in turn})
    return profile(
        TOY, Task(reference(TOY), type, tuple(script), tuple(calls), names, state=state), results
    )


def flow(made, turn, index, argument):
    return made.turns[turn][index].flows[argument]


def test_values_come_from_this_turn_an_earlier_turn_a_result_the_state_or_a_default():
    made = shape(
        [
            "Add 250 to the counter eggs.",
            "Now write a note about it that says done, and read it.",
            "Label the rent.",
        ],
        [
            (Call("count", {"name": "eggs", "amount": 250}),),
            (Call("write", {"title": "eggs", "body": "done"}), Call("read", {"note_id": 142})),
            (Call("label", {"note_ids": [140], "color": "red"}),),
        ],
        state=NOTES,
        results=[
            [Result('{"counter":"eggs","value":250}', {"counter": "eggs", "value": 250})],
            [
                Result('{"note_id":142}', {"note_id": 142}),
                Result("{}", {"title": "eggs", "body": "done"}),
            ],
            [Result('{"labelled":1}', {"labelled": 1})],
        ],
    )
    assert flow(made, 0, 0, "name") == flow(made, 0, 0, "amount") == Flow("user")
    assert flow(made, 1, 0, "title") == Flow("earlier")
    assert flow(made, 1, 0, "body") == Flow("user")
    assert flow(made, 1, 1, "note_id") == Flow("result", (1, 0))
    assert flow(made, 2, 0, "note_ids") == Flow("state")
    assert flow(made, 2, 0, "color") == Flow("default")
    assert made.sources == {"default": 1, "earlier": 1, "result": 1, "state": 1, "user": 3}
    assert made.edges == (((1, 0), (1, 1), "note_id"),) and made.depth == 2


def test_the_nearest_call_that_brought_a_value_is_its_source_and_an_echo_is_none():
    made = shape(
        ["List my notes.", "And again?", "Read the one about rent.", "Read it once more, please."],
        [
            (Call("titles"),),
            (Call("titles"),),
            (Call("read", {"note_id": 140}),),
            (Call("read", {"note_id": 140}),),
        ],
        state=NOTES,
        results=[
            [Result("[]", [{"id": 140, "title": "rent"}])],
            [Result("[]", [{"id": 140, "title": "rent"}])],
            [Result("{}", {"note_id": 140, "title": "rent"})],
            [Result("{}", {"note_id": 140, "title": "rent"})],
        ],
    )
    assert flow(made, 2, 0, "note_id") == flow(made, 3, 0, "note_id") == Flow("result", (1, 0))
    assert made.depth == 2


def test_small_values_need_a_field_of_a_kindred_name():
    def asked(result):
        results = [[Result("", result), Result("", None)]]
        calls = [(Call("total"), Call("read", {"note_id": 3}))]
        return flow(
            shape(["Look up the note and read it."], calls, results=results), 0, 1, "note_id"
        )

    assert asked({"id": 3}) == Flow("result", (0, 0))
    assert asked(3) == Flow("result", (0, 0))
    assert asked({"count": 3}) == Flow("user")


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("Pay 1,250.50 dollars.", 1250.5, True),
        ("Pay 1,250.50 dollars.", 1250, False),
        ("It costs $40.", 40, True),
        ("three of them", 3, True),
        ("the file a300.txt", 300, False),
        ("the file A300.txt, please", "a300.txt", True),
        ("a  pay\nraise", "pay raise", True),
        ("repay it", "pay", False),
        ("until 9:30 or 17:45", 45, True),
    ],
)
def test_a_text_says_a_value_only_as_a_whole(text, value, said):
    results = [[Result("", {"value": value}), Result("", None)]]
    calls = [(Call("total"), Call("count", {"name": "x", "amount": value}))]
    made = shape([text], calls, results=results)
    assert (flow(made, 0, 1, "amount") == Flow("user")) is said


def test_profiles_are_replayed_where_no_results_are_given():
    made = shape(
        ["Write milk: two bottles.", "Read it."],
        [
            (Call("write", {"title": "milk", "body": "two bottles"}),),
            (Call("read", {"note_id": 101}),),
        ],
    )
    assert flow(made, 1, 0, "note_id") == Flow("result", (0, 0))
    assert (
        made.calls_per_turn == (1, 1)
        and made.classes == ("Notes",)
        and made.tools == {"read": 1, "write": 1}
    )


def made_of(*turns, type="base"):
    """A profile from (group, producers) pairs, turn by turn."""
    return Profile(
        type,
        tuple(
            tuple(
                Node(
                    t,
                    i,
                    f"{group}{i}",
                    group,
                    {f"a{p}": Flow("result", p) for p in producers} | {"b": Flow("user")},
                )
                for i, (group, producers) in enumerate(turn)
            )
            for t, turn in enumerate(turns)
        ),
    )


CHAIN = made_of([("A", ())], [("A", ((0, 0),)), ("B", ((1, 0),))], [])


def test_distance_is_zero_for_equal_shapes_symmetric_and_at_most_one():
    others = [
        made_of([("A", ())]),
        made_of([], []),
        made_of([("C", ())] * 5, [("C", ())] * 5, [("C", ())] * 5, [("C", ())] * 5),
        made_of([("A", ())], [("A", ()), ("B", ())], []),
        CHAIN,
    ]
    assert distance(CHAIN, CHAIN) == 0
    for a in others:
        for b in others:
            assert distance(a, b) == distance(b, a) == round(distance(a, b), 12)
            assert 0 <= distance(a, b) <= 1
    assert distance(others[1], others[2]) > 0.8


def test_distance_looks_at_classes_and_flows_and_not_at_tools():
    renamed = Profile(
        "base",
        tuple(
            tuple(Node(n.turn, n.index, "other", n.group, n.flows) for n in t) for t in CHAIN.turns
        ),
    )
    assert distance(CHAIN, renamed) == 0
    recast = made_of([("A", ())], [("A", ((0, 0),)), ("C", ((1, 0),))], [])
    rewired = made_of([("A", ())], [("A", ()), ("B", ((1, 0),))], [])
    assert 0 < distance(CHAIN, recast) < 0.5
    assert 0 < distance(CHAIN, rewired) < 0.5


def test_distance_sees_whether_a_flow_crosses_turns():
    inside = made_of([("A", ()), ("A", ((0, 0),))], [("A", ())])
    across = made_of([("A", ()), ("A", ())], [("A", ((0, 0),))])
    assert inside.depth == across.depth == 2 and inside.sources == across.sources
    assert distance(inside, across) > 0


WIDE = {"profile_depth": 9, "profile_edges": 99, "profile_topology": 1, "profile_distance": 1}


def refused(root, variant, **limits):
    """Why the gate refuses, each limit out of the way that is not given."""
    return isomorphic(root, variant, Gates(**{**WIDE, **limits}))


def test_the_isomorphism_gate_says_what_differs():
    assert refused(CHAIN, CHAIN, **dict.fromkeys(WIDE, 0)) == []
    longer = made_of([("A", ())], [("A", ((0, 0),)), ("B", ((1, 0),)), ("B", ())], [])
    assert refused(CHAIN, longer) == []
    assert refused(CHAIN, longer, profile_distance=0) == ["profile distance 0.168 is over 0"]
    assert refused(CHAIN, longer, profile_topology=0.1) == ["topology distance 0.167 is over 0.1"]
    crowded = made_of([("A", ())] * 3, [("A", ((0, 0),)), ("B", ((1, 0),))], [])
    assert refused(CHAIN, crowded) == ["turn 0 has 3 calls instead of 1, more than one apart"]
    flat = made_of([("A", ())], [("A", ()), ("B", ())])
    assert refused(CHAIN, flat, profile_depth=1) == [
        "2 turns instead of 3",
        "depth 1 instead of 3 (results go nowhere)",
    ]
    assert "results flow nowhere instead of 0 → 1, 1 → 1" in refused(CHAIN, flat, profile_edges=1)


def test_a_star_is_no_single_edge():
    star = made_of([("A", ())], [("A", ((0, 0),))] * 15)
    edge = made_of([("A", ())], [("A", ((0, 0),))] + [("A", ())] * 14)
    assert star.depth == edge.depth and distance(star, edge) < 0.5
    assert isomorphic(star, edge, Gates()) and isomorphic(edge, star, Gates())
    assert refused(star, edge, profile_edges=13) and not refused(star, edge, profile_edges=14)
    assert refused(star, edge, profile_topology=0.4) and not refused(
        star, edge, profile_topology=0.5
    )


def test_edges_are_counted_by_turns_and_each_that_only_one_has():
    root = made_of([("A", ()), ("A", ())], [("A", ((0, 0), (0, 1)))], [("A", ())])
    assert root.links == {(0, 1): 2}
    elsewhere = made_of([("A", ()), ("A", ())], [("A", ((0, 0),))], [("A", ((0, 1),))])
    fewer = made_of([("A", ()), ("A", ())], [("A", ((0, 0),))], [("A", ())])
    other_call = made_of([("A", ()), ("A", ())], [("A", ((0, 0),)), ("A", ((0, 0),))], [("A", ())])
    assert refused(root, elsewhere, profile_edges=1) and not refused(
        root, elsewhere, profile_edges=2
    )
    assert refused(root, fewer, profile_edges=0) and not refused(root, fewer, profile_edges=1)
    assert not refused(root, other_call, profile_edges=0)


@pytest.mark.parametrize("classes", [{"A": "C", "B": "D"}, {"A": "C"}, {"B": "C"}, {"B": "A"}])
def test_a_replaced_api_class_is_refused(classes):
    recast = Profile(
        "base",
        tuple(
            tuple(
                Node(n.turn, n.index, n.tool, classes.get(n.group, n.group), n.flows) for n in turn
            )
            for turn in CHAIN.turns
        ),
    )
    assert (recast.links, recast.depth) == (CHAIN.links, CHAIN.depth)
    assert any(why.startswith("calls the classes") for why in refused(CHAIN, recast))


def test_topology_looks_at_which_class_feeds_which():
    crossed = made_of([("B", ())], [("A", ((0, 0),)), ("A", ((1, 0),))], [])
    assert CHAIN.topology == {"A": 2, "B": 1, ("A", "A"): 1, ("A", "B"): 1}
    assert crossed.topology == {"A": 2, "B": 1, ("B", "A"): 1, ("A", "A"): 1}
    assert refused(CHAIN, crossed, profile_topology=0.3) == ["topology distance 0.333 is over 0.3"]


def test_a_depth_two_apart_is_refused_whatever_else_is_equal():
    """Two calls less, or more, on the longest chain, with as many edges between the same turns."""
    root = made_of(
        [("A", ())], [("A", ((0, 0),)), ("A", ((1, 0),)), ("A", ((1, 0),)), ("A", ((1, 0),))]
    )
    deep = made_of(
        [("A", ())], [("A", ((0, 0),)), ("A", ((1, 0),)), ("A", ((1, 1),)), ("A", ((1, 2),))]
    )
    assert (root.depth, deep.depth, root.links, root.topology) == (3, 5, deep.links, deep.topology)
    for one, other in ((root, deep), (deep, root)):
        (why,) = isomorphic(one, other, Gates())
        depth, edges = why.split(" (results go ")
        assert depth == f"depth {other.depth} instead of {one.depth}"
        assert edges.count(" → ") == len(other.edges)
        assert refused(one, other, profile_depth=1) and not refused(one, other, profile_depth=2)


@pytest.mark.slow
def test_inferred_flows_agree_with_desks_true_ones():
    """F1 ≥ 0.9 on (call, argument, source, origin) over 240 tasks of all types, and on the
    dependencies alone."""
    desk = load("desk")
    true = set()
    inferred = set()
    for number, task in enumerate(generate(5, 160, 80)):
        for turn, calls in enumerate(task.provenance["flows"]):
            for index, arguments in enumerate(calls):
                for argument, known in arguments.items():
                    true.add(
                        (
                            number,
                            turn,
                            index,
                            argument,
                            known["source"],
                            tuple(known.get("origin", ())),
                        )
                    )
        for node in profile(desk, task).nodes:
            for argument, found in node.flows.items():
                inferred.add((number, *node.position, argument, found.source, found.origin or ()))

    def f1(a, b):
        return 2 * len(a & b) / (len(a) + len(b))

    assert len(true) > 1500
    assert f1(true, inferred) >= 0.97
    assert f1({flow for flow in true if flow[5]}, {flow for flow in inferred if flow[5]}) >= 0.95
