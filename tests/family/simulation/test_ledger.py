"""What a ledger answers itself, what it does not let through, and random walks against a reference
dictionary."""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from rods.analysis.sampling import Sampler
from rods.calls import Call
from rods.environments.base import Parameter, Tool
from rods.family.simulation.documents import Effect, SimulatedTool
from rods.family.simulation.ledger import Ledger, ToolAnswer
from rods.family.simulation.repository import shipped

TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
NOTE = {
    "note_id": TEXT,
    "title": TEXT,
    "colour": TEXT,
    "pinned": FLAG,
    "edits": {"type": "integer"},
}
DELETED = {"note_id": TEXT, "deleted": FLAG}
COLOURS = ("red", "green")
TITLES = ("milk", "rent", "call Ines", "roof")


def tool(
    name: str, effect: Effect | None, result: dict[str, Any], *required: str, **optional: Any
) -> SimulatedTool:
    parameters = [Parameter(each, NOTE.get(each, TEXT)) for each in required]
    parameters += [Parameter(each, schema, required=False) for each, schema in optional.items()]
    shape = {
        "type": "object",
        "properties": result,
        "required": list(result),
        "additionalProperties": False,
    }
    return SimulatedTool(
        Tool(name, "notes", f"{name}.", tuple(parameters), bounded=False, result=shape), effect
    )


def notes() -> dict[str, SimulatedTool]:
    many = {
        "notes": {
            "type": "array",
            "items": {"type": "object", "properties": NOTE, "required": list(NOTE)},
        }
    }
    of = ("note", "note_id")
    made = [
        tool("write", Effect("creates", *of, {"pinned": False}), NOTE, "title", "colour"),
        tool("read", Effect("reads", *of), NOTE, "note_id"),
        tool("list", Effect("lists", *of, items="notes"), many, colour=TEXT),
        tool("search", Effect("finds", *of, items="notes"), many, "query", colour=TEXT),
        tool(
            "rename", Effect("changes", *of, touches=frozenset({"edits"})), NOTE, "note_id", "title"
        ),
        tool("pin", Effect("changes", *of, {"pinned": True}), NOTE, "note_id"),
        tool("delete", Effect("removes", *of, {"deleted": True}), DELETED, "note_id"),
        tool("count_words", Effect("looks_up"), {"words": {"type": "integer"}}, "text"),
        tool("unknown", None, {"done": FLAG}),
    ]
    return {one.tool.name: one for one in made}


def ok(**value: Any) -> ToolAnswer:
    return ToolAnswer("ok", value)


NOT_FOUND = ToolAnswer("not_found")
REFUSED = ToolAnswer("refused", message="not today")
MILK = {"note_id": "n1", "title": "milk", "colour": "red", "pinned": False, "edits": 0}
RENT = {"note_id": "n2", "title": "rent", "colour": "green", "pinned": False, "edits": 3}
WRITE = Call("write", {"title": "milk", "colour": "red"})
READ = Call("read", {"note_id": "n1"})
DELETE = Call("delete", {"note_id": "n1"})


def begun(*, empty: bool) -> Ledger:
    """Of a world that holds no notes yet, or of one of which nothing is known."""
    ledger = Ledger(notes())
    if empty:
        ledger.record(Call("list"), ok(notes=[]))
    return ledger


def after(*calls: tuple[Call, ToolAnswer], empty: bool = False) -> Ledger:
    ledger = begun(empty=empty)
    for call, answer in calls:
        ledger.record(call, answer)
    return ledger


def test_what_was_created_is_read_listed_and_changed_without_asking() -> None:
    ledger = after((WRITE, ok(**MILK)), (Call("list"), ok(notes=[MILK, RENT])))
    assert ledger.known(READ) == ok(**MILK)
    assert ledger.known(Call("read", {"note_id": "n2"})) == ok(**RENT)
    assert ledger.known(Call("list", {"colour": "Red"})) == ok(notes=[MILK])
    # whether it may be is the tool's to say
    assert ledger.known(Call("pin", {"note_id": "n1"})) is None
    ledger.record(Call("pin", {"note_id": "n1"}), ok(**MILK | {"pinned": True}))
    assert ledger.known(READ) == ok(**MILK | {"pinned": True})
    assert ledger.known(Call("read", {"note_id": "n9"})) == ToolAnswer(
        "not_found", {}, "note n9 was not found"
    )


def test_what_was_removed_is_not_found_and_in_no_list() -> None:
    ledger = after((Call("list"), ok(notes=[MILK, RENT])), (DELETE, ok(note_id="n1", deleted=True)))
    for call in (READ, DELETE, Call("rename", {"note_id": "n1", "title": "x"})):
        found = ledger.known(call)
        assert found is not None and found.status == "not_found" and found.result().error == "tool"
    assert ledger.known(Call("list")) == ok(notes=[RENT])


def test_nothing_is_known_of_an_open_world_before_it_was_shown() -> None:
    ledger = after((WRITE, ok(**MILK)))
    assert (
        ledger.known(Call("list")) is None and ledger.known(Call("read", {"note_id": "n2"})) is None
    )
    assert ledger.contradictions(Call("list"), ok(notes=[MILK, RENT])) == []
    assert begun(empty=True).known(Call("list")) == ok(notes=[])


def test_equal_look_ups_have_equal_results() -> None:
    call = Call("count_words", {"text": "a b"})
    ledger = after((call, ok(words=2)))
    assert (
        ledger.known(call) == ok(words=2)
        and ledger.known(Call("count_words", {"text": "a"})) is None
    )
    assert ledger.contradictions(call, ok(words=3)) == [
        'what happened before leaves one answer: {"words": 2}'
    ]


@pytest.mark.parametrize(
    ("call", "answer", "told"),
    [
        (WRITE, ok(**MILK | {"note_id": "n5", "title": "bread"}), 'title is "milk", not "bread"'),
        (WRITE, ok(**MILK | {"note_id": "n5", "pinned": True}), "pinned is false, not true"),
        (WRITE, ok(**MILK), "note n1 exists or existed"),
        # removed before
        (WRITE, ok(**MILK | {"note_id": "n3"}), "note n3 exists or existed"),
        (
            WRITE,
            ok(**MILK | {"note_id": "n5", "edits": "none"}),
            "the result in edits: must be of type integer",
        ),
        (WRITE, ok(note_id="n5"), "the result lacks 'title'"),
        (READ, ok(**MILK | {"note_id": "n5"}), "leaves one answer"),
        (READ, ok(**MILK | {"colour": "blue"}), "leaves one answer"),
        (READ, NOT_FOUND, "leaves one answer"),
        (Call("pin", {"note_id": "n1"}), NOT_FOUND, "note n1 is there"),
        (
            Call("pin", {"note_id": "n1"}),
            ok(**MILK | {"pinned": False}),
            "pinned is true, not false",
        ),
        (
            Call("pin", {"note_id": "n1"}),
            ok(**MILK | {"pinned": True, "edits": 1}),
            "edits of note n1 is 0, not 1",
        ),
        (
            Call("pin", {"note_id": "n1"}),
            ok(**RENT | {"pinned": True}),
            'note_id is "n1", not "n2"',
        ),
        (
            Call("pin", {"note_id": "n3"}),
            ok(**MILK | {"note_id": "n3", "pinned": True}),
            "leaves one answer",
        ),
        (
            Call("pin", {"note_id": "n7"}),
            ok(**MILK | {"note_id": "n7", "pinned": True}),
            "n7 was in no list",
        ),
        (Call("read", {"note_id": "n7"}), ok(**MILK | {"note_id": "n7"}), "note n7 was in no list"),
        (DELETE, ok(note_id="n1", deleted=False), "deleted is true, not false"),
        (DELETE, NOT_FOUND, "note n1 is there"),
        (Call("search", {"query": "x"}), ok(notes=[MILK, MILK]), "note n1 stands there twice"),
        (
            Call("search", {"query": "x"}),
            ok(notes=[MILK | {"title": "cream"}]),
            "title of note n1 is",
        ),
        (
            Call("search", {"query": "x"}),
            ok(notes=[MILK | {"note_id": "n3"}]),
            "note n3 is not there",
        ),
        (
            Call("search", {"query": "x"}),
            ok(notes=[MILK | {"note_id": "n7"}]),
            "note n7 was in no earlier list",
        ),
        (
            Call("search", {"query": "x", "colour": "red"}),
            ok(notes=[RENT]),
            'is not what was asked for: {"colour"',
        ),
        (Call("search", {"query": "x"}), NOT_FOUND, "an empty list"),
        (Call("list"), ok(notes=[RENT]), "note n1 is missing"),
        (Call("unknown"), ok(done="yes"), "the result in done: must be of type boolean"),
    ],
)
def test_a_contradiction_is_told_and_never_recorded(
    call: Call, answer: ToolAnswer, told: str
) -> None:
    """The red notes are known as a whole: n1. n3 was removed."""
    red = Call("list", {"colour": "red"})
    gone = Call("delete", {"note_id": "n3"})
    ledger = after((red, ok(notes=[MILK])), (gone, ok(note_id="n3", deleted=True)))
    assert any(told in problem for problem in ledger.contradictions(call, answer))
    before = ledger.things()
    with pytest.raises(ValueError, match=r"\w"):
        ledger.record(call, answer)
    assert ledger.things() == before


def test_what_agrees_is_let_through() -> None:
    ledger = after((WRITE, ok(**MILK)))
    for call, answer in (
        (
            Call("rename", {"note_id": "n1", "title": "oat milk"}),
            ok(**MILK | {"title": "oat milk", "edits": 1}),
        ),
        (Call("rename", {"note_id": "n1", "title": "oat milk"}), REFUSED),
        (Call("search", {"query": "milk"}), ok(notes=[])),  # a selection may leave things out
        (Call("unknown"), ok(done=True)),
        (Call("no_such_tool"), ok(anything=1)),
        (Call("read", {}), NOT_FOUND),
    ):
        assert ledger.contradictions(call, answer) == []
        ledger.record(call, answer)


def test_a_caller_s_objects_are_its_own() -> None:
    value = deepcopy(MILK)
    ledger = after((WRITE, ok(**value)))
    value["title"] = "cream"
    found = ledger.known(READ)
    assert found == ok(**MILK)
    found.value["title"] = "cream"  # type: ignore[index]
    assert ledger.known(READ) == ok(**MILK)


def test_a_model_is_told_what_was_met_last() -> None:
    ledger = after((WRITE, ok(**MILK)), (Call("read", {"note_id": "n2"}), ok(**RENT)))
    ledger.record(DELETE, ok(note_id="n1", deleted=True))
    assert ledger.things() == [{"note": RENT}, {"note": "n1", "there": False}]
    assert Ledger(notes()).things() == []


def test_what_any_shipped_tool_creates_is_read_back() -> None:
    tools = shipped().tools
    chance = random.Random(3)
    readers = {
        one.effect.entity: one
        for one in tools.values()
        if one.effect and one.effect.does == "reads"
    }
    creators = [one for one in tools.values() if one.effect and one.effect.does == "creates"]
    read_back = 0
    for one in creators:
        assert one.effect is not None
        drawn = Sampler(chance)
        call = drawn.call(one.tool)
        value = {**drawn.value("", one.tool.result or {}), **call.arguments, **one.effect.sets}
        value = {
            name: each
            for name, each in value.items()
            if name in (one.tool.result or {})["properties"]
        }
        ledger = Ledger(tools)
        assert ledger.contradictions(call, ok(**value)) == [], call
        ledger.record(call, ok(**value))
        if reader := readers.get(one.effect.entity):
            read_back += ledger.known(
                Call(reader.tool.name, {one.effect.key: value[one.effect.key]})
            ) == ok(**value)
    assert read_back == sum(one.effect.entity in readers for one in creators if one.effect) > 10


def test_a_thing_without_a_name_is_not_taken_up() -> None:
    of = Effect("creates", "note", "note_id")
    loose = SimulatedTool(
        Tool("write", "n", "W.", (), result={"type": "object", "properties": NOTE}), of
    )
    many = {"type": "array", "items": {"type": "object", "properties": NOTE}}
    lists = Effect("lists", "note", "note_id", items="notes")
    shown = SimulatedTool(
        Tool("list", "n", "L.", (), result={"type": "object", "properties": {"notes": many}}), lists
    )
    ledger = Ledger({"write": loose, "list": shown})
    assert ledger.contradictions(Call("write"), ok(title="x")) == [
        "the result does not say the note_id of what was created"
    ]
    told = ledger.contradictions(Call("list"), ok(notes=[{"title": "x"}]))
    assert told == ["the list does not say the note_id of each note"]
    assert "lacks its list" in " ".join(ledger.contradictions(Call("list"), ok()))


class Liar:
    """A scripted tool: answers truly from a dictionary, and contradicts itself in every way that it
    can think of."""

    def __init__(self, chance: random.Random, *, empty: bool) -> None:
        self.chance = chance
        self.made = 0
        self.notes: dict[str, dict[str, Any]] = {}
        for _ in range(0 if empty else 3):
            self.notes |= {
                one["note_id"]: one
                for one in [self._new(chance.choice(TITLES), chance.choice(COLOURS))]
            }
        self.removed: set[str] = set()

    def _new(self, title: str, colour: str) -> dict[str, Any]:
        self.made += 1
        return {
            "note_id": f"n{self.made}",
            "title": title,
            "colour": colour,
            "pinned": False,
            "edits": 0,
        }

    def do(self, call: Call) -> ToolAnswer:
        given = call.arguments
        if call.name == "write":
            note = self._new(given["title"], given["colour"])
            self.notes[note["note_id"]] = note
            return ok(**note)
        if call.name in ("list", "search"):
            return ok(
                notes=[n for n in self.notes.values() if given.get("colour") in (None, n["colour"])]
            )
        if (held := self.notes.get(given["note_id"])) is None:
            return NOT_FOUND
        if call.name == "delete":
            self.removed.add(given["note_id"])
            del self.notes[given["note_id"]]
            return ok(note_id=given["note_id"], deleted=True)
        if call.name == "rename":
            held |= {"title": given["title"], "edits": held["edits"] + 1}
        if call.name == "pin":
            held["pinned"] = True
        return ok(**held)

    def lie(self, call: Call, truth: ToolAnswer) -> tuple[str, ToolAnswer]:
        """A false answer to `call`, and what kind of lie it is."""
        value: dict[str, Any] = deepcopy(dict(truth.value))
        gone = sorted(self.removed) or ["n0"]
        if truth.status == "not_found":
            note = {
                "title": "milk",
                "colour": "red",
                "pinned": call.name == "pin",
                "edits": 0,
                **call.arguments,
            }
            deleted = {"note_id": call.arguments["note_id"], "deleted": True}
            return "is there after all", ok(**(deleted if call.name == "delete" else note))
        if "notes" in value:
            shown = value["notes"]
            kinds = [
                "a removed one",
                "a new one",
                *(["left out", "other field", "twice"] if shown else []),
            ]
            kind = self.chance.choice(kinds)
            if kind == "left out":
                shown.pop(self.chance.randrange(len(shown)))
            elif kind == "other field":
                self.chance.choice(shown)["title"] = "something else"
            elif kind == "twice":
                shown.append(deepcopy(shown[0]))
            else:
                colour = call.arguments.get("colour", "red")
                shown.append(
                    MILK
                    | {"note_id": gone[0] if kind == "a removed one" else "n999", "colour": colour}
                )
            return kind, ok(**value)
        kind = self.chance.choice(["not found", "other field", "other id", "an old id"])
        if kind == "not found" and call.name != "write":
            return kind, NOT_FOUND
        if kind == "other field" or "title" not in value:
            name = (
                "deleted"
                if "deleted" in value
                else self.chance.choice(["title", "colour", "pinned"])
            )
            value[name] = not value[name] if isinstance(value[name], bool) else value[name] + "!"
        elif call.name == "write":
            value["note_id"] = self.chance.choice(
                [*gone, *(n for n in self.notes if n != value["note_id"])]
            )
        else:
            value["note_id"] = gone[0] if kind == "an old id" else "n999"
        return kind, ok(**value)


def draw(chance: random.Random, liar: Liar) -> Call:
    ids = [*liar.notes, *liar.removed, "n0"]
    name = chance.choice(
        ["write", "write", "read", "read", "list", "search", "rename", "pin", "delete"]
    )
    if name == "write":
        return Call(name, {"title": chance.choice(TITLES), "colour": chance.choice(COLOURS)})
    if name in ("list", "search"):
        words = {"query": "x"} if name == "search" else {}
        return Call(
            name, {**words, **({"colour": chance.choice(COLOURS)} if chance.random() < 0.5 else {})}
        )
    return Call(
        name,
        {
            "note_id": chance.choice(ids),
            **({"title": chance.choice(TITLES)} if name == "rename" else {}),
        },
    )


class Reference:
    """What the policy was shown, in a dictionary of its own: an answer contradicts it or not."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any] | None] = {}

    def agrees(self, call: Call, answer: ToolAnswer) -> bool:
        given = call.arguments
        value = answer.value
        if call.name in ("list", "search"):
            ids = [note["note_id"] for note in value["notes"]]
            known = {
                id
                for id, note in self.seen.items()
                if note is not None and given.get("colour") in (None, note["colour"])
            }
            fine = len(ids) == len(set(ids)) and (call.name == "search" or known <= set(ids))
            fine &= all(given.get("colour") in (None, note["colour"]) for note in value["notes"])
            fine &= all(self.seen.get(note["note_id"], note) == note for note in value["notes"])
            self.seen |= {note["note_id"]: dict(note) for note in value["notes"]}
            return fine
        if call.name == "write":
            fine = (
                value["note_id"] not in self.seen
                and not value["pinned"]
                and given.items() <= value.items()
            )
            self.seen[value["note_id"]] = dict(value)
            return fine
        id = given["note_id"]
        held = self.seen.get(id)
        if answer.status == "not_found":
            self.seen[id] = None
            return held is None
        if id in self.seen and held is None:
            return False
        if call.name == "delete":
            self.seen[id] = None
            return value == {"note_id": id, "deleted": True}
        expected = {**(held or value), **({"pinned": True} if call.name == "pin" else {}), **given}
        if call.name == "rename":
            expected["edits"] = value["edits"]
        self.seen[id] = dict(value)
        return dict(value) == expected


def told_alike(one: ToolAnswer, other: ToolAnswer) -> bool:
    """The same to a policy: lists in any order, refusals in any words."""
    if one.status != "ok" or "notes" not in one.value:
        return one.status == other.status and one.value == other.value
    return sorted(map(str, one.value["notes"])) == sorted(map(str, other.value["notes"]))


@pytest.mark.sweep
def test_no_contradiction_gets_through_in_1000_random_walks() -> None:
    """Half of all answers are lies. Whichever contradicts what was shown is refused, the truth
    never is, and what the ledger says itself is the truth."""
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for walk in range(1000):
        chance = random.Random(walk)
        empty = walk % 2 == 0
        liar = Liar(chance, empty=empty)
        reference = Reference()
        ledger = begun(empty=empty)
        for _ in range(16):
            call = draw(chance, liar)
            truth = deepcopy(liar.do(call))
            answer = ledger.known(call)
            if answer is not None:
                counts["known"] += 1
                assert told_alike(answer, truth) and reference.agrees(call, answer), (
                    call,
                    answer,
                    truth,
                )
                ledger.record(call, answer)
                continue
            while chance.random() < 0.5:
                kind, lie = liar.lie(call, truth)
                contradicts = not deepcopy(reference).agrees(call, lie)
                if ledger.contradictions(call, lie):
                    refused[kind] += 1
                else:
                    counts["let through"] += contradicts
                    counts["believable"] += not contradicts
            assert ledger.contradictions(call, truth) == [], (call, truth)
            assert reference.agrees(call, truth)
            ledger.record(call, truth)
    assert counts["let through"] == 0
    assert (
        counts["known"] > 3_000
        and refused.total() > 5_000
        and counts["believable"] < refused.total() / 2
    ), counts
    assert len(refused) == 9 and min(refused.values()) > 20, refused
