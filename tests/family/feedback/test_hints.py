"""Hints after failed calls: what they say, and what they never say (000 §3.3, Appendix C)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from rods import dialects, interfaces
from rods.analysis.containment import Text, is_small, leaves
from rods.calls import Call
from rods.canonical import content_id
from rods.config import Stage
from rods.environments.base import Parameter, Result, Tool
from rods.episode.engine import Trace
from rods.errors import UserError
from rods.family.feedback.hints import VERSION, Hints, hint
from rods.interfaces import IDENTITY, Identity, Shown
from rods.interfaces.remedies import misuses
from rods.tasks import Task
from rods.worlds import bfcl as bfcl_environment, desk
from tests.environments import Late, load
from tests.rods.interfaces.careless import play

TOY = "tests.rods.toy_environment:environment"
DESK = Late(lambda: desk.generate(5, 40, 0, "full"))


@pytest.fixture(scope="session")
def bfcl_tasks() -> list[Task]:
    bfcl_environment.fetch()
    return [task for task in bfcl_environment.tasks() if task.split == "train"][::8]


def shown(environment: str, *results: tuple[Call, Result], hidden: tuple[str, ...] = ()) -> Shown:
    world = load(environment)
    return Shown(
        world, {name: tool for name, tool in world.tools().items() if name not in hidden}, results
    )


def failed(
    environment: str, name: str, error: str = "", state: Any = None, **arguments: Any
) -> str:
    """The hint after a call in a fresh world, which must have failed with that kind of error."""
    call = Call(name, arguments)
    result = load(environment).reset(state).call(call)
    assert result.error == (error or "tool"), result
    return hint(shown(environment), call, result)


def test_an_unknown_tool_is_answered_with_those_that_are_alike() -> None:
    unknown = Result("no tool named notes_list", error="unknown_tool")
    assert hint(shown(TOY), Call("read_note"), unknown) == "Similar tools: `read`."
    assert hint(shown("desk"), Call("get_event"), unknown).startswith("Similar tools: ")
    assert "none fits" in hint(shown(TOY), Call("open_window"), unknown)


def test_a_tool_that_is_held_out_is_never_named() -> None:
    unknown = Result("no tool named read", error="unknown_tool")
    assert "`read`" not in hint(shown(TOY, hidden=("read",)), Call("read_note"), unknown)
    lost = Result('{"error":"no such event"}', {"error": "no such event"}, "tool")
    move = Call("move_event", {"event": "e99", "day": "monday", "hour": 9})
    assert "`find_event`" in hint(shown("desk"), move, lost)
    hidden = ("find_event", "create_event", "list_day")
    assert not any(f"`{name}`" in hint(shown("desk", hidden=hidden), move, lost) for name in hidden)


@pytest.mark.parametrize(
    ("name", "error", "arguments", "says"),
    [
        ("count", "bad_arguments", {"name": "steps", "ammount": 2}, "did you mean `amount`?"),
        ("titles", "bad_arguments", {"x": 2}, "`titles` has no argument `x`; it takes none."),
        ("write", "bad_arguments", {"title": "plan"}, "`body` is missing."),
        ("read", "bad_arguments", {"note_id": "seven"}, "`note_id` must be an integer."),
        ("read", "bounds", {"note_id": 4000}, "`note_id` must be between 0 and 1000."),
        (
            "label",
            "bounds",
            {"note_ids": [1], "color": "green"},
            "`color` must be one of red, blue.",
        ),
        ("label", "bounds", {"note_ids": [1] * 9}, "`note_ids` must be at most 5 entries."),
    ],
)
def test_wrong_arguments_are_answered_with_what_the_document_asks(
    name: str, error: str, arguments: dict[str, Any], says: str
) -> None:
    assert says in hint(shown(TOY), Call(name, arguments), Result("no", error=error))


def test_a_missing_value_is_answered_with_the_tools_that_supply_it() -> None:
    say = failed("desk", "move_event", event="e99", day="monday", hour=9)
    assert (
        say == "`event` may be a value that has to be looked up or made first: see `find_event` or "
        "`create_event`."
    )
    assert "`search_mail`" in failed("desk", "read_mail", mail="m7")
    assert failed("desk", "write_file", state=_locked(), file="plan", text="x").startswith(
        "A locked file"
    )


def test_a_value_that_a_result_brought_is_not_looked_up_again() -> None:
    lost = Result('{"error":"no such event"}', {"error": "no such event"}, "tool")
    found = (Call("find_event", {"title": "launch"}), Result('{"event":"e12"}', {"event": "e12"}))
    move = Call("move_event", {"event": "e12", "day": "monday", "hour": 9})
    assert "`event`" in hint(shown("desk"), move, lost)
    assert "`event`" not in hint(shown("desk", found), move, lost)


def test_the_dependencies_of_bfcl_that_the_paper_names(bfcl_tasks: list[Task]) -> None:
    fly = {"travel_date": "2026-05-01", "travel_class": "economy"}
    say = failed(
        "bfcl", "get_flight_cost", travel_from="San Francisco", travel_to="New York", **fly
    )
    assert "codes of three capital letters" in say and "`get_nearest_airport_by_city`" in say
    say = failed("bfcl", "estimate_distance", cityA="Rivermist", cityB="San Francisco")
    assert "zip codes" in say and "`get_zipcode_based_on_city`" in say
    say = failed("bfcl", "rm", file_name="documents/report.txt")
    assert say.startswith("Paths are not allowed here")
    vehicle = {"classes": ["VehicleControlAPI"], "config": {}}
    assert "`lockDoors`" in failed("bfcl", "startEngine", state=vehicle, ignitionMode="START")
    assert "capacity" in failed("bfcl", "fillFuelTank", state=vehicle, fuelAmount=500.0)
    say = failed(
        "bfcl", "post_tweet", state={"classes": ["TwitterAPI"], "config": {}}, content="hello"
    )
    assert say == "Something may have to be done first, perhaps with `authenticate_twitter`."


def test_an_environment_without_a_catalogue_is_helped_by_its_documents_alone() -> None:
    assert (
        failed(TOY, "read", note_id=999)
        == "Something may have to be done first, perhaps with `write`, `titles` or `label`."
    )


def test_a_success_is_shown_as_it_is_and_a_failure_keeps_its_text_and_kind() -> None:
    good = Result('{"day":"monday"}', {"day": "monday"})
    assert Hints().observation(shown("desk"), Call("find_event", {"title": "x"}), good) is good
    call = Call("move_event", {"event": "e99", "day": "monday", "hour": 9})
    told = Hints().observation(shown("desk"), call, load("desk").reset(None).call(call))
    assert orjson.loads(told.text) == told.value
    assert (told.error, told.value["error"]) == (
        "tool",
        "no such event",
    ) and "`find_event`" in told.value["hint"]
    plain = Hints().observation(
        shown(TOY), Call("reads"), Result("no tool named reads", error="unknown_tool")
    )
    assert plain.text == "no tool named reads Hint: Similar tools: `read`."


@pytest.mark.parametrize("dialect", ["tags", "hermes", "compact"])
def test_no_hint_says_a_ground_truth_value_that_the_policy_has_not_seen(
    dialect: str, bfcl_tasks: list[Task]
) -> None:
    """Careless episodes over both environments. What was seen: all messages before the hint, and
    tool documents."""
    tasks = [*DESK, *(bfcl_tasks if dialect == "tags" else ())]
    hinted = 0
    for task, trace in zip(tasks, play(tasks, Hints(), dialect), strict=True):
        tools = load(task.environment.name).tools()
        documents = orjson.dumps([tools[name].schema() for name in task.tools]).decode()
        secret = [
            value
            for turn in task.calls
            for call in turn
            for _, value in leaves(dict(call.arguments))
            if not is_small(value)
        ]
        for said, before in _hints(trace):
            hinted += 1
            seen = Text.of(f"{documents}\n{before}")
            assert not [
                value
                for value in secret
                if Text.of(said).contains_exact(value) and not seen.contains_exact(value)
            ], said
    assert hinted > 2 * len(tasks)


class Noting(Hints):
    """Notes what each hint could know."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[Shown, Call, str]] = []

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        self.noted.append((shown, call, hint(shown, call, result)))
        return super().observation(shown, call, result)


def test_hints_name_visible_tools_and_their_parameters_only(bfcl_tasks: list[Task]) -> None:
    noting = Noting()
    play([*DESK, *bfcl_tasks], noting, seed=1)
    for seen, call, said in noting.noted:
        parameters = {name for tool in seen.tools.values() for name in tool.parameter_names}
        assert set(re.findall(r"`([^`]+)`", said)) <= {
            *seen.tools,
            *parameters,
            *call.arguments,
            call.name,
        }
    assert sum(bool(said) for *_, said in noting.noted) > len(DESK)


def test_hints_change_what_is_read_and_nothing_of_what_is_earned(bfcl_tasks: list[Task]) -> None:
    tasks = [*DESK[:10], *bfcl_tasks[:10]]
    plain = play(tasks)
    aided = play(tasks, Hints())
    assert [trace.turns for trace in plain] == [trace.turns for trace in aided]
    assert [trace.messages for trace in plain] != [trace.messages for trace in aided]
    assert not any(said for trace in plain for said, _ in _hints(trace))


def test_whatever_a_policy_writes_its_hint_is_short_and_no_exception() -> None:
    odd: list[Any] = [
        None,
        "",
        "x" * 20_000,
        10**400,
        1e308,
        -0.0,
        [],
        [[]],
        {},
        {"a": [None]},
        ["`"],
        True,
        "\ud800",
    ]
    before = tuple(
        (Call("find_event", {"title": value}), Result(str(value), value)) for value in odd
    )
    for name in ("desk", TOY):
        tools = load(name).tools()
        for place, tool in enumerate(tools.values()):
            for kind in ("unknown_tool", "bad_arguments", "bounds", "tool", "timeout", "too_large"):
                value = odd[place % len(odd)]
                arguments = {**dict.fromkeys(tool.parameter_names, value), "y" * 5000: value}
                refusal = Result(f"invalid {value}, no such event", {"error": value}, kind)
                for call in (Call(tool.name, arguments), Call("z" * 5000, arguments)):
                    assert len(hint(Shown(load(name), tools, before), call, refusal)) < 1000


class Terse(Identity):
    """An interface of one's own: tools without descriptions."""

    version = "terse-2"

    def documents(self, environment: str, tools: Any) -> Any:
        return [replace(tool, description="") for tool in tools]


def test_a_stage_chooses_its_interface_and_its_feedback() -> None:
    own = f"{__name__}:Terse"
    assert interfaces.load(Stage(), "tags") is IDENTITY
    assert interfaces.load(Stage(feedback="hints"), "tags").version == VERSION
    assert interfaces.load(Stage(interface=own), "tags").version == "terse-2"
    both = interfaces.load(Stage(interface=own, feedback="hints"), "tags")
    assert both.version == f"terse-2+{VERSION}"
    (trace,) = play(DESK[:1], both)
    assert '"description":""' in trace.messages[0].content
    with pytest.raises(UserError, match="has no 'Nobody'"):
        interfaces.load(Stage(interface=f"{__name__}:Nobody"), "tags")


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (Call("book_room", {"event": "e12"}), "bad_arguments", "need room"),
        (
            Call("book_room", {"event": "e12", "room": "oak", "day": "monday"}),
            "bad_arguments",
            "no day",
        ),
        (
            Call("find_room", {"title": "launch"}),
            "unknown_tool",
            "like book_room find_bill find_contact",
        ),
        (Call("open_window", {}), "unknown_tool", "no such tool"),
        (
            Call("move_event", {"event": "launch", "day": "monday", "hour": 9}),
            "tool",
            "look up event",
        ),
        (
            Call("create_event", {"title": "x", "day": "monday", "hour": 99}),
            "bounds",
            "hour must be between 8 and 17",
        ),
    ],
)
def test_a_terse_dialect_gets_the_names_concerned_and_a_word_or_two(
    call: Call, error: str, says: str
) -> None:
    result = load("desk").reset(None).call(call)
    assert result.error == error
    told = interfaces.load(Stage(feedback="hints"), "compact").observation(
        shown("desk"), call, result
    )
    assert told.value["hint"] == says
    (message,) = dialects.load("compact").observation([call], [told])
    assert message.content.endswith(f"hint= {says}")


def test_a_terse_hint_names_no_tool_that_was_skipped() -> None:
    """It would be the next call, which 002 Appendix D.3 does not give."""
    world = load("desk")
    for tool in world.tools().values():
        for value in ("e99", "plan", 1):
            call = Call(tool.name, dict.fromkeys(tool.parameter_names, value))
            result = world.reset(_locked()).call(call)
            if result.error == "tool":
                told = hint(shown("desk"), call, result, brief=True)
                assert not [name for name in world.tools() if name in told.split()], told


def test_a_bound_that_no_document_shows_is_not_printed() -> None:
    bounds = {"maximum": 16384, "maxLength": 16384, "maxItems": 16384}
    tool = Tool("read", "notes", "Read.", (Parameter("size", {"type": "integer"}, bounds=bounds),))
    (misuse,) = misuses(tool, {"size": 20000})
    assert misuse.sentence == "`size` must be smaller." and misuse.brief == "size must be smaller"
    text = Tool("read", "notes", "Read.", (Parameter("body", {"type": "string"}, bounds=bounds),))
    assert misuses(text, {"body": "x" * 20000})[0].brief == "body must be shorter"


def test_a_terse_hint_is_a_version_of_its_own() -> None:
    terse = interfaces.load(Stage(feedback="hints"), "compact")
    assert terse.version == terse.lineage == f"{VERSION}-terse"
    assert interfaces.load(Stage(feedback="hints"), "hermes").version == VERSION


@pytest.mark.needs("seal")
@pytest.mark.parametrize("dialect", ["tags", "compact"])
def test_a_result_that_has_a_hint_gets_no_second_one(dialect: str) -> None:
    """SEAL names what is wrong with the call; where it says nothing, the rules do."""
    stages = [
        Stage(interface="seal-full", evolve="none"),
        Stage(interface="seal-full", evolve="none", feedback="hints"),
        Stage(interface="seal-full", evolve="none", feedback="agents"),
    ]
    seal, *both = (interfaces.load(stage, dialect) for stage in stages)
    lacking = Call("book_room", {"event": "e12"})
    lost = Call("book_room", {"event": "e12", "room": "oak"})
    world = load("desk").reset(None)
    refused = world.call(lost)
    wrong = world.call(lacking)
    for one in both:
        assert one.observation(shown("desk"), lacking, wrong) == seal.observation(
            shown("desk"), lacking, wrong
        )
        assert seal.observation(shown("desk"), lost, refused) is refused
        told = one.observation(shown("desk"), lost, refused).value["hint"]
        assert told == "look up event" if dialect == "compact" else "`find_event`" in told
    named = Call("bookroom", {})
    unknown = Result("no tool named bookroom", error="unknown_tool")
    assert all(
        one.observation(shown("desk"), named, unknown).text.count("Hint: ") == 1
        for one in (seal, *both)
    )


@pytest.mark.parametrize(
    ("brief", "known"),
    [
        (False, ("hints-2", "a88374b4cfedf4db217a")),
        (True, ("hints-2-terse", "a2822a2dad70521bcd41")),
    ],
)
def test_a_hint_that_changes_needs_a_new_version(brief: bool, known: tuple[str, str]) -> None:
    said = []
    for name in ("desk", TOY):
        world = load(name)
        for tool in world.tools().values():
            spoilt: list[dict[str, Any]] = [{}, {"x": 1}]
            for value in ("e99", 10**6):
                spoilt.append(dict.fromkeys(tool.parameter_names, value))
            for arguments in spoilt:
                call = Call(tool.name, arguments)
                said.append(hint(shown(name), call, world.reset(None).call(call), brief=brief))
    assert (Hints(brief=brief).version, content_id(said)) == known, (
        "raise VERSION in family/feedback/hints.py"
    )


def _locked() -> dict[str, Any]:
    return {"files": {"plan": {"folder": "drafts", "text": "x", "locked": True, "shared": []}}}


def _hints(trace: Trace) -> Iterator[tuple[str, str]]:
    """(hint, everything that was shown before it) of an episode."""
    before = ""
    for message in trace.messages:
        if message.role != "assistant" and before:
            for said in _said(message.content):
                yield said, before
        before += f"\n{message.content}"


def _said(content: str) -> list[str]:
    """The hints in a message that shows results."""
    found = re.findall(r'"hint": ("(?:[^"\\]|\\.)*")', content)
    return [orjson.loads(text) for text in found] + re.findall(
        r"(?:Hint:|hint=) (.+?)(?: \||\n|$)", content
    )
