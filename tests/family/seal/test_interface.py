"""SEAL's learning interface: what each component shows, that each is a switch, and what none of
them ever shows."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import orjson
import pytest

from rods import dialects, interfaces
from rods.analysis.containment import Text, is_small, leaves
from rods.calls import Call
from rods.canonical import content_id
from rods.config import Stage, parse_config
from rods.environments.base import Environment, Parameter, Result, Tool
from rods.errors import UserError
from rods.family.seal import interface as seal
from rods.family.seal.settings import CUES, ERROR_HINTS, GUIDELINES, Component
from rods.interfaces import IDENTITY, Identity, Interface, Shown
from rods.prompts import Template, load as template
from rods.tasks import Task
from tests.environments import load
from tests.family.feedback.test_hints import DESK, TOY, bfcl_tasks
from tests.rods.interfaces.careless import play

__all__ = ["bfcl_tasks"]  # a fixture
ALL: tuple[Component, ...] = get_args(Component)
FULL = Stage(interface="seal-full", evolve="none")


def only(component: Component, dialect: str = "tags") -> Interface:
    others = tuple(name for name in CUES + ERROR_HINTS + GUIDELINES if name != component)
    return interfaces.load(Stage(interface="seal-full", without=others, evolve="none"), dialect)


def shown(name: str) -> Shown:
    world = load(name)
    return Shown(world, world.tools())


def everything(interface: Interface, world: Environment, dialect: str) -> list[Any]:
    """All that an interface shows of some failures."""
    form = dialects.load(dialect)  # type: ignore[arg-type]
    tools = list(world.tools().values())
    at = Shown(world, world.tools())
    wrong = Result('{"error": "no"}', {"error": "no"}, "bad_arguments")
    cases = [
        (Call("write", {"title": "plan"}), wrong),
        (Call("label", {"note_ids": [1], "color": "red", "extra": 1}), wrong),
        (Call("label", {"note_ids": [1], "color": "green"}), wrong),
        (Call("labels"), Result("no tool named labels", error="unknown_tool")),
    ]
    return [
        form.system(interface.documents(world.name, tools), interface.guidelines()),
        *(
            (message.role, message.content)
            for call, result in cases
            for message in form.observation([call], [interface.observation(at, call, result)])
        ),
        form.complaint(interface.complaint(at, "not valid")),
    ]


@pytest.mark.parametrize("dialect", ["tags", "hermes", "compact"])
@pytest.mark.parametrize("component", ALL)
def test_every_component_is_a_switch_that_shows_something_in_every_dialect(
    component: Component, dialect: str
) -> None:
    plain, one, whole = (
        everything(interface, load(TOY), dialect)
        for interface in (IDENTITY, only(component, dialect), interfaces.load(FULL, dialect))
    )
    assert one != plain
    left_out = interfaces.load(
        Stage(interface="seal-full", without=(component,), evolve="none"), dialect
    )
    assert everything(left_out, load(TOY), dialect) != whole


def test_cues_say_what_the_public_schema_says() -> None:
    active = interfaces.load(Stage(interface="seal-active"), "tags")
    world = load(TOY)
    documents = {
        tool.name: tool.schema()["parameters"]["properties"]
        for tool in active.documents("toy", [*world.tools().values()])
    }
    assert documents["label"]["color"]["description"].endswith("Allowed values: red, blue.")
    assert documents["write"]["body"]["description"].endswith("[required]")
    assert "[required]" not in documents["count"]["amount"].get("description", "")
    hidden = Tool(
        "roll", "dice", "Roll.", (Parameter("sides", {"type": "integer"}, bounds={"maximum": 77}),)
    )
    assert "77" not in str(active.documents("toy", [hidden])[0].schema()), (
        "what is not documented stays hidden"
    )
    assert [
        tool.parameter_names for tool in active.documents("toy", [*world.tools().values()])
    ] == [tool.parameter_names for tool in world.tools().values()]
    assert active.guidelines() == f"- {seal.said('note')}"


def test_hints_name_what_is_wrong_with_a_call_and_nothing_of_a_good_one() -> None:
    full = interfaces.load(FULL, "tags")
    at = shown(TOY)
    wrong = Result('{"error": "no"}', {"error": "no"}, "bad_arguments")
    told = full.observation(at, Call("write", {"title": 5, "shade": "red"}), wrong)
    assert orjson.loads(told.text)["hint"] == told.value["hint"] and told.error == "bad_arguments"
    words = "`body` is missing", "has no argument `shade`", "must be a string"
    assert all(word in told.value["hint"] for word in words)
    good = Result("[]", [])
    assert full.observation(at, Call("titles"), good) is good
    refused = Result('{"error": "closed"}', {"error": "closed"}, "tool")
    assert full.observation(at, Call("titles"), refused) is refused, (
        "a tool's own refusal says what it says"
    )


def test_malformed_text_is_answered_with_the_form_of_a_call_in_every_dialect() -> None:
    for dialect, words in (
        ("tags", "<tool_call> block"),
        ("hermes", "a <tool_call> block of its own"),
        ("compact", "! name"),
    ):
        form = dialects.load(dialect)  # type: ignore[arg-type]
        _, text = form.complaint(interfaces.load(FULL, dialect).complaint(shown(TOY), "no sense"))
        assert "no sense" in text and words in text
        _, plain = form.complaint(IDENTITY.complaint(shown(TOY), "no sense"))
        assert plain == form.complaint("no sense")[1]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["tags", "hermes", "compact"])
def test_nothing_shown_holds_a_ground_truth_argument_that_was_not_documented_shown_or_said(
    dialect: str, bfcl_tasks: list[Task]
) -> None:
    """Careless episodes over both environments, with everything shown: `python -m
    tests.family.seal.test_interface` plays 10,000."""
    tasks = [*DESK, *(bfcl_tasks if dialect == "tags" else ())]
    changed, leaked = careless(tasks, dialect, 0)
    assert changed > 2 * len(tasks) and not leaked, leaked


def careless(tasks: list[Task], dialect: str, seed: int) -> tuple[int, list[Any]]:
    """One careless episode a task: how many messages the interface has changed, and (task, value)
    of what leaked."""
    plain = play(tasks, IDENTITY, dialect, seed)
    aided = play(tasks, interfaces.load(FULL, dialect), dialect, seed)
    changed = 0
    leaked = []
    for task, one, other in zip(tasks, plain, aided, strict=True):
        told, found = leaks(
            task, [m.content for m in one.messages], [m.content for m in other.messages]
        )
        changed += told
        leaked += [(task.id, value) for value in found]
    return changed, leaked


def leaks(task: Task, plain: list[str], aided: list[str]) -> tuple[int, list[Any]]:
    """How many messages the interface has changed, and the ground-truth arguments in them that
    neither the documents, nor what was said and shown before, nor the message as it stands without
    an interface holds."""
    tools = load(task.environment.name).tools()
    documents = orjson.dumps([tools[name].schema() for name in tools]).decode()
    values = [
        value for turn in task.calls for call in turn for _, value in leaves(dict(call.arguments))
    ]
    secret = [value for value in values if not is_small(value)]
    found = []
    changed = 0
    assert len(plain) == len(aided)
    for place, (before, after) in enumerate(zip(plain, aided, strict=True)):
        if before == after:
            continue
        changed += 1
        seen = Text.of("\n".join([documents, *plain[: place + 1]]))
        now = Text.of(after)
        found += [
            value
            for value in secret
            if now.contains_exact(value) and not seen.contains_exact(value)
        ]
    return changed, found


def test_versions_name_what_is_shown_and_belong_to_one_lineage() -> None:
    stage = Stage(interface="seal-full")
    none, one, two = (
        interfaces.load(stage, "tags", {"seal": frozenset(names)})
        for names in ((), ("scope",), ("scope", "required"))
    )
    assert none.lineage == one.lineage and none.version != one.version == two.version, (
        "required does not evolve"
    )
    assert one.guidelines() == "\n".join(f"- {seal.said(name)}" for name in ("note", "scope"))
    static = interfaces.load(FULL, "tags", {"seal": frozenset({"scope"})})
    assert static.version == static.lineage and len(static.guidelines().splitlines()) == 6
    lineages = {
        interfaces.load(Stage(**given), "tags").lineage
        for given in (
            {"interface": "seal-active"},
            {"interface": "seal-full"},
            {"interface": "seal-full", "evolve": "all"},
            {"interface": "seal-full", "evolve": "none"},
            {"interface": "seal-full", "without": ("scope",)},
            {"interface": "seal-active", "feedback": "hints"},
            {"feedback": "hints"},
            {},
        )
    }
    assert len(lineages) == 8


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"interface": "seal"}, "there are seal-active, seal-full"),
        ({"without": ["scope"]}, "switch components of interface = seal-active or seal-full"),
        ({"evolve": "all"}, "switch components"),
        (
            {"interface": "seal-active", "without": ["scope"]},
            "seal-active has no scope to be without",
        ),
        ({"interface": "seal-active", "without": list(CUES)}, "leave it out"),
        ({"interface": "seal-full", "without": ["bravery"]}, "bravery"),
    ],
)
def test_switches_that_cannot_be_are_refused(stage: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_config({"curriculum": {"stages": [stage]}}, where="test")


def test_thresholds_without_a_gap_are_refused() -> None:
    with pytest.raises(UserError, match="evolve_below must lie below"):
        parse_config({"curriculum": {"evolve_above": 0.1, "evolve_below": 0.1}}, where="test")


def test_a_guideline_over_its_length_is_refused_and_a_long_hint_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = template(seal.PROMPT)
    long: Template = dataclasses.replace(known, sections={**known.sections, "scope": "look " * 60})
    monkeypatch.setattr(seal, "load", lambda name: long)
    with pytest.raises(UserError, match="scope has 299 characters") as raised:
        interfaces.load(FULL, "tags")
    assert raised.value.where == "prompts/learning_interface.txt"
    monkeypatch.undo()
    with pytest.raises(UserError, match="have 3000 characters; at most 2000"):
        interfaces.load(Stage(interface=f"{__name__}:Wordy"), "tags")
    wrong = Result("no", error="bad_arguments")
    call = Call("titles", {f"{number}_{'x' * 90}": 1 for number in range(50)})
    for dialect in ("tags", "compact"):
        told = interfaces.load(FULL, dialect).observation(shown(TOY), call, wrong)
        assert len(told.text) <= len("no Hint: ") + seal.LONGEST_HINT


class Wordy(Identity):
    version = "wordy"

    def guidelines(self) -> str:
        return "x" * 3000


def test_a_component_that_says_something_else_needs_a_new_version() -> None:
    said = [
        everything(interfaces.load(FULL, dialect), load(TOY), dialect)
        for dialect in ("tags", "hermes", "compact")
    ]
    assert (seal.VERSION, content_id(said)) == (2, "3b0d3d708f6d95ae2b92"), (
        "raise VERSION in family/seal/interface.py"
    )


if __name__ == "__main__":
    from rods.worlds import bfcl

    bfcl.fetch()
    given = [task for task in bfcl.tasks() if task.split == "train"]
    played = shown_otherwise = 0
    for seed in range(11):
        for dialect in ("tags", "hermes", "compact"):
            told, leaked = careless(
                [*DESK, *given] if dialect == "tags" else [*DESK] * 6, dialect, seed
            )
            played += len(DESK) + len(given) if dialect == "tags" else 6 * len(DESK)
            shown_otherwise += told
            print(
                f"{played} episodes, {shown_otherwise} messages shown otherwise, leaked: {leaked}",
                flush=True,
            )
