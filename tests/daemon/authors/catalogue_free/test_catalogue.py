"""A catalogue from tools and schemas alone: what it offers for arguments, and how it pads."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from rods.calls import Call
from rods.composing.bind import random_chooser, realise
from rods.composing.catalogue import LEFT_OUT, Scene
from rods.composing.records import Plan, PlannedTurn
from rods.daemon.authors.catalogue_free import (
    catalogue_with_tools,
    fitting_values,
    is_single_tool,
    returned_values,
)
from rods.environments.base import Parameter, Result, Tool
from tests.environments import load
from tests.rods.toy_environment import TOOLS, Toy, World

TOY = "tests.rods.toy_environment:environment"
STATE: dict[str, Any] = {
    "notes": {
        "7": {"title": "shopping list", "body": "milk and eggs and many more things"},
        "9": {"title": "plan", "body": "x"},
    },
    "counters": {"visits": 3, "sales": 1},
}


def offered(tool: str, argument: str, *calls: tuple[Call, Result]) -> list[Any]:
    scene = Scene(STATE, {}, {}, {}, calls)
    return list(catalogue_with_tools(load(TOY)).domains[f"{tool}.{argument}"](scene))


def test_identifiers_come_from_the_state_and_from_results() -> None:
    assert offered("read", "note_id") == [7, 9]
    assert offered("label", "note_ids") == [[7], [9]]
    made = (Call("write", {"title": "a", "body": "b"}), Result('{"note_id":110}', {"note_id": 110}))
    assert offered("read", "note_id", made) == [7, 9, 110]


def test_the_declared_schema_of_a_result_says_which_objects_are_maps() -> None:
    notes = {"type": "object", "additionalProperties": {}}
    declared = {"type": "object", "properties": {"notes": notes}}
    call = Call("titles")
    result = Result("", {"notes": {"120": {"title": "a"}, "130": "b"}})
    scene = Scene(STATE, {}, {}, {}, [(call, result)])
    for schema, found in ((None, [7, 9]), (declared, [7, 9, 120, 130])):
        toy = Toy(
            "environment", World, tools={**TOOLS, "titles": replace(TOOLS["titles"], result=schema)}
        )
        assert catalogue_with_tools(toy).domains["read.note_id"](scene) == found


def test_options_defaults_and_own_words() -> None:
    assert offered("label", "color") == ["red", "blue", LEFT_OUT]
    assert LEFT_OUT in offered("count", "amount") and offered("count", "name") == [
        "visits",
        "sales",
    ]
    invented = offered("write", "title") + offered("write", "body")
    assert invented and not {"shopping list", "plan", "x"}.intersection(invented)


def test_a_path_is_a_key_of_what_the_tools_name_speaks_of_unless_it_makes_one() -> None:
    path = Parameter("path", {"type": "string"})
    tools = {
        name: Tool(name, "Disk", "Files.", (path,))
        for name in ("read_text_file", "create_file", "write_file")
    }
    catalogue = catalogue_with_tools(Toy("environment", World, tools=tools))
    scene = Scene({"files": {"shed.txt": "milk", "attic.txt": "tea"}}, {}, {}, {})
    assert catalogue.domains["read_text_file.path"](scene) == ["shed.txt", "attic.txt"]
    for name in ("create_file", "write_file"):
        invented = catalogue.domains[f"{name}.path"](scene)
        assert invented and not {"shed.txt", "attic.txt"}.intersection(invented)


def test_single_tools_are_bound_and_run_like_recipes() -> None:
    names = (("write", "read"), ("label",))
    plan = Plan(tuple(PlannedTurn(turn, turn) for turn in names))
    for number in range(20):
        draft = realise(
            load(TOY),
            catalogue_with_tools(load(TOY)),
            plan,
            STATE,
            random_chooser(random.Random(number)),
        )
        assert [[bound.result.error for bound in calls] for calls in draft.turns] == [
            [None, None],
            [None],
        ]
        assert {"note_ids"} <= set(draft.turns[1][0].call.arguments) <= {"note_ids", "color"}


def test_an_environment_with_recipes_has_its_tools_beside_them() -> None:
    recipes = catalogue_with_tools(load("desk")).recipes
    assert is_single_tool(recipes["find_contact"]) and not is_single_tool(recipes["look_up_person"])
    assert not is_single_tool(recipes["move_file"]), "a recipe may bear the name of its tool"
    assert load("desk").tools().keys() <= recipes.keys()


def test_padding_adds_entries_that_the_environment_accepts() -> None:
    plan = Plan((PlannedTurn(("total",), ("total",)),))
    draft = realise(
        load(TOY), catalogue_with_tools(load(TOY)), plan, STATE, random_chooser(random.Random(0))
    )
    longer = catalogue_with_tools(load(TOY)).pad(draft, frozenset({"visits_2"}), random.Random(1))
    load(TOY).reset(longer)
    assert len(longer["notes"]) > 6 and all(key.isdecimal() for key in longer["notes"])
    assert (
        STATE["notes"].items() <= longer["notes"].items() and "visits_2" not in longer["counters"]
    )


def test_a_default_that_is_an_object_is_a_value_like_others() -> None:
    box = Parameter("box", {"type": "object"}, required=False, default={"x": 0, "y": [1]})
    assert fitting_values(box, Scene(STATE, {}, {}, {})) == [{"x": 0, "y": [1]}]


def test_what_a_tool_makes_takes_no_text_that_a_result_shows_unless_it_is_called_alike() -> None:
    shown = [(Call("see"), Result("", {"stand": "harbour", "model": "swift"}))]
    for name, taken in (("add_bike", ["swift"]), ("move_bike", ["swift", "harbour"])):
        tool = Tool(name, "Bikes", "Bikes.", (Parameter("model", {"type": "string"}),))
        assert set(
            returned_values(tool, tool.parameters[0], ["swift"], ["swift", "harbour"], shown)
        ) == set(taken)


def test_the_new_value_of_a_change_is_said_and_never_taken_from_a_result() -> None:
    text = {"type": "string"}
    tool = Tool(
        "change_phone",
        "Desk",
        "Changes it.",
        (Parameter("phone_owner", text), Parameter("phone", text)),
    )
    shown = [(Call("see"), Result("", {"phone_owner": "Ada", "phone": "555-0142"}))]
    owner, phone = (
        returned_values(tool, each, ["Ada", "555-0142"], [], shown) for each in tool.parameters
    )
    assert "Ada" in owner and phone == []
