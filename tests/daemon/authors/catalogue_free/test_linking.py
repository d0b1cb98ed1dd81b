"""Single tools that feed each other: which can, whether a plan's can, and how deep a draft got."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.fixtures.llm_stub import Stub
from rods.analysis.flows import Flow
from rods.analysis.profile import profile
from rods.calls import Call
from rods.canonical import JsonObject
from rods.composing.catalogue import Scene
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.catalogue_free import catalogue_with_tools, linking, single_tools
from rods.daemon.authors.catalogue_free.probing import Probed, Prober
from rods.daemon.authors.llm.planning import pattern
from rods.environments.base import Parameter, Result, Tool, reference
from rods.environments.replay import Replayed
from rods.tasks import TASK_TYPES, Task, TaskType
from tests.daemon.authors.catalogue_free import bare_environment
from tests.daemon.authors.catalogue_free.test_own_environment import TOY, root
from tests.daemon.authors.llm.early import early, planned
from tests.daemon.authors.llm.world import assignment
from tests.daemon.pipelines import seed
from tests.environments import load
from tests.rods.toy_environment import MODEST, Toy, World

NAME = f"{TOY}:environment"


def prober(given: Assignment[Task]) -> Prober:
    catalogue = catalogue_with_tools(load(given.seed.environment.name))
    return Prober(
        load(given.seed.environment.name), catalogue, given.seed.state or {}, linking.feeding(given)
    )


def test_a_tool_feeds_another_that_takes_what_it_returns_and_not_just_anything() -> None:
    given = assignment(root("environment", "base"), load(NAME))
    found = linking.pairs(prober(given), ["titles", "total", "write"], ["read", "label", "count"])
    assert set(found) == {("write", "read"), ("write", "label")}, (
        "count takes any name, and of several notes in a list no words tell one"
    )


class Polite(World):
    """Tells of a failure in an ordinary result."""

    def label(self, note_ids: list[int], color: str) -> Any:
        return {"success": False, "message": f"There is no note {note_ids}."}


def test_what_only_fails_politely_takes_nothing_from_a_result() -> None:
    given = assignment(root("environment", "base"), load(NAME))
    world = Toy("environment", Polite)
    asked = Prober(
        world, catalogue_with_tools(world), given.seed.state or {}, linking.feeding(given)
    )
    assert set(linking.pairs(asked, ["write"], ["read", "label"])) == {("write", "read")}


@pytest.mark.needs("bfcl")
def test_a_result_that_cannot_be_read_feeds_nothing_as_a_whole() -> None:
    """BFCL's logarithm answers "{'result': mpf('6.0')}"."""
    folder = {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "x"}}}
    state = {
        "classes": ["MathAPI", "GorillaFileSystem"],
        "config": {"GorillaFileSystem": {"root": {"work": folder}}},
        "long_context": False,
    }
    world = load("bfcl")
    looked = Prober(world, single_tools(world), state)
    assert linking.pairs(looked, ["logarithm"], ["cp", "mv"]) == []
    assert linking.pairs(looked, ["ls"], ["cat"]) == [("ls", "cat")]


def test_where_the_root_s_calls_feed_each_other_only_tools_that_can_are_offered() -> None:
    given = assignment(bare_environment.moved(seed("base")), load(bare_environment.NAME))
    ((one, place), (two, other), _), *_ = given.profile.edges
    found = pattern(prober(given), given, given.rng("pattern"))
    givers = found.turns[one][place]
    takers = found.turns[two][other]
    assert list(linking.pairs(prober(given), givers, takers))
    assert "add_contact" not in givers and "list_team" not in takers


def test_a_place_is_left_to_the_seed_s_own_tools_where_all_others_are_blocked() -> None:
    given = assignment(bare_environment.moved(seed("base")), load(bare_environment.NAME))
    own = {call.name for calls in given.seed.calls for call in calls}
    linked = {position for origin, taker, _ in given.profile.edges for position in (origin, taker)}
    (node, *_) = (node for node in given.profile.nodes if node.position not in linked)
    alike = {
        name
        for name, tool in load(given.seed.environment.name).tools().items()
        if tool.group == node.group
    }
    given = replace(given, blocked=frozenset(alike - own))
    turns, _ = linking.tool_options(prober(given), given, given.rng("pattern"))
    assert set(turns[node.turn][node.index]) == alike & own


@pytest.mark.parametrize("waits", [True, False])
async def test_before_a_plan_is_asked_for_it_is_said_what_is_tried_where_worlds_wait(
    stub: Stub, waits: bool
) -> None:
    name = bare_environment.Slow.name if waits else bare_environment.NAME
    given = assignment(replace(seed("base"), environment=reference(load(name)), id=""), load(name))
    told: list[tuple[str, int]] = []
    async with early(stub, "good", name) as who:
        author: Any = who.author
        author.asker.tell = lambda line: told.append((line, len(who.calls)))
        await author.plan(given)
    lines = [line for line, calls in told if line and not calls]
    if not waits:
        assert not lines, "there it takes milliseconds"
        return
    assert re.match(
        r"tries calls in fresh worlds: functions that can come first \(1 of \d+\), \w+; 0 calls so "
        r"far",
        lines[0],
    )
    assert any("functions that feed others (1 of " in line for line in lines), (
        "before the first request"
    )
    assert int(lines[-1].split("; ")[1].split()[0]) > 0 and told[-1][0] == "", "and that it is over"


def test_where_worlds_wait_what_was_found_from_a_state_is_not_tried_again() -> None:
    environment = load(bare_environment.Slow.name)
    given = assignment(
        replace(seed("base"), environment=reference(environment), id=""), environment
    )
    tools = list(environment.tools())
    (first, again) = (prober(given), prober(given))
    found = [linking.refused(each, tools) for each in (first, again)]
    assert found[0] == found[1] and first.calls > 0 == again.calls


@pytest.mark.parametrize("type", TASK_TYPES)
def test_nothing_is_offered_first_that_the_world_refuses_at_the_start(type: TaskType) -> None:
    given = assignment(bare_environment.moved(seed(type)), load(bare_environment.NAME))
    given = replace(
        given, seed=replace(given.seed, state={**(given.seed.state or {}), "contacts": {}}, id="")
    )
    trying = prober(given)
    (turn, *_) = (turn for turn, nodes in enumerate(given.profile.turns) if nodes)
    first = Scene(trying.state, {}, {}, {})
    tools = load(given.seed.environment.name).tools()
    never = {name for name in tools if not trying.at(name, first).working}
    assert never, "without contacts some tools cannot be called"
    for number in range(20):
        turns, _ = linking.tool_options(trying, given, given.rng(f"pattern {number}"))
        assert turns[turn][0] and not never & set(turns[turn][0])


def test_a_number_that_is_no_identifier_is_not_told_as_refused_and_nothing_there_is_named() -> None:
    numbers = [Parameter(name, {"type": "integer"}) for name in ("priority", "ticket_id")]
    tools = {
        "rate": Tool("rate", "Desk", "Rates.", tuple(numbers)),
        "open": Tool("open", "Desk", "Opens.", (numbers[1],)),
    }
    worked = (Call("rate", {}), Result("ok"))
    probed = {"rate": Probed([worked], existing=["priority", "ticket_id"]), "open": Probed()}
    environment = SimpleNamespace(tools=lambda: tools, features=SimpleNamespace(waits=False))
    trying = SimpleNamespace(environment=environment, state={}, at=lambda name, _: probed[name])
    assert linking.refused(cast(Prober, trying), tools).splitlines() == [
        "rate: what is not there as ticket_id",
        "open: everything; nothing is there yet that it takes as ticket_id",
    ]


@pytest.mark.parametrize(("calls", "words"), [(1, "No call may take"), (3, "must have 3 calls")])
def test_how_far_results_feed_calls_is_said_in_calls(calls: int, words: str) -> None:
    assert words in linking.chain(calls)


async def test_the_depth_of_a_draft_is_that_of_its_profile(stub: Stub) -> None:
    async with early(stub, "good") as who:
        variant = await who.write(seed("base"))
        plan = planned("desk", ("mail_person", "pass_to_person"))
        draft = await who.author.execute(
            assignment(), plan, await who.author.initial_state(assignment(), plan)
        )
    assert linking.depth(draft) == 2
    found = profile(load("desk"), variant)  # type: ignore[arg-type]
    assert found.depth == assignment().profile.depth


def test_of_a_state_that_is_made_of_calls_values_are_what_reads_show_and_no_names_of_tools() -> (
    None
):
    """Notes that can only be called: what note 101 is, no state says, but probes and reads that
    need nothing."""
    state = {
        "calls": [
            {"name": "write", "arguments": {"title": "plan", "body": "tea"}},
            {"name": "total"},
        ]
    }

    def working(tool: str, **declared: Any) -> list[dict[str, Any]]:
        world = Replayed(Toy("modest", World, features=MODEST), **declared)
        found = (
            Prober(world, catalogue_with_tools(world), state)
            .at(tool, Scene(state, {}, {}, {}))
            .working
        )
        return [dict(call.arguments) for call, _ in found]

    note = [{"note_id": 101}]
    assert working("read", reads=["titles"], probes=[Call("titles")]) == note
    assert working("read", reads=["titles"]) == note and working("read") == []
    counted = {arguments["name"] for arguments in working("count")}
    assert counted and not counted & {"write", "total", "title", "body"}


def test_what_is_found_by_a_call_is_one_argument_and_not_the_others_beside_it() -> None:
    given = prober(assignment(root("environment", "base"), load(NAME)))
    first = next(iter(given.at("write", Scene(given.state, {}, {}, {})).working))
    after = Scene(given.state, {}, {}, {}, [first])
    assert given.at("label", after, [0]).fed == "note_ids"
    assert given.at("label", after).fed == ""


def test_what_the_world_holds_only_once_a_call_has_made_it_no_user_says() -> None:
    """The number of a new event is found out by the call that makes it, although no call of the
    root feeds the place."""
    environment = load(bare_environment.NAME)
    given = assignment(bare_environment.moved(seed("base")), environment)
    unfed = tuple(tuple(replace(node, flows={}) for node in turn) for turn in given.profile.turns)
    given = replace(given, profile=replace(given.profile, turns=unfed))
    state = {"today": "monday", "calendar": {"events": {}, "next": 4711}}
    catalogue = single_tools(environment)

    def drafted(event: str, before: JsonObject) -> Draft:
        world = environment.reset(before)
        calls = (
            Call("create_event", {"title": "launch", "day": "friday", "hour": 9}),
            Call("cancel_event", {"event": event}),
        )
        turns = []
        for call in calls:
            flows = dict.fromkeys(call.arguments, Flow("user"))
            turns.append((BoundCall(call, world.call(call), flows, call.name),))
        plan = planned(bare_environment.NAME, *((call.name,) for call in calls))
        draft = Draft(plan, before, tuple(turns))
        return linking.with_inferred_flows(environment, catalogue, given, draft)

    with pytest.raises(ComposeError, match=r"chain has 2 calls.*No call may take"):
        drafted("e4711", state)
    there = {"e3021": {"title": "fair", "day": "monday", "hour": 9, "room": "", "guests": []}}
    known = drafted("e3021", {**state, "calendar": {"events": there, "next": 4711}})
    assert known.turns[1][0].flows["event"] == Flow("user"), "it stands in the world from the start"


class Empty(World):
    """Finds nothing, whatever is looked for."""

    def read(self, note_id: int) -> Any:
        return {"notes": [], "first": ""}


def test_what_finds_nothing_takes_nothing_from_a_result() -> None:
    given = assignment(root("environment", "base"), load(NAME))
    world = Toy("environment", Empty)
    asked = Prober(
        world, catalogue_with_tools(world), given.seed.state or {}, linking.feeding(given)
    )
    assert set(linking.pairs(asked, ["write"], ["read", "label"])) == {("write", "label")}


def test_a_function_is_told_with_what_it_takes_only_where_it_exists() -> None:
    given = assignment(bare_environment.moved(seed("base")), load(bare_environment.NAME))
    lines = linking.refused(prober(given), ["find_contact", "add_contact", "read_file"])
    assert "find_contact: what is not there as name" in lines.splitlines()
    assert "read_file: what is not there as file" in lines.splitlines()
    assert "add_contact: what is not there as name" not in lines
