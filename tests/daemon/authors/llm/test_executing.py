"""Stage II by a model: values asked for together, limited to what exists, kept in a patched state,
asked again when they turn out impossible; numbers and truth values told apart; flows of single
tools; worlds that break."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from rods.analysis.schemas import fits
from rods.composing.bind import Choice, realise
from rods.composing.catalogue import FromUser, Recipe, RecipeStep, Scene
from rods.composing.records import ComposeError
from rods.daemon.authors.catalogue_free import catalogue_with_tools
from rods.daemon.authors.catalogue_free.probing import Prober
from rods.daemon.authors.llm.executing import (
    Answers,
    UnboundArgument,
    ValueChooser,
    _limited,
    _stands_in,
)
from rods.environments.base import Parameter, Result, Tool
from rods.errors import InfrastructureError
from tests.daemon.authors.catalogue_free import bare_environment
from tests.daemon.authors.llm.early import early, planned
from tests.daemon.authors.llm.world import assignment, playing
from tests.daemon.pipelines import seed
from tests.environments import load

STATE: dict[str, Any] = {
    "today": "monday",
    "contacts": {
        name: {"address": f"box{number}", "team": "sales"}
        for number, name in enumerate(("paul", "mina"), 1)
    },
    "mail": {
        "inbox": {
            f"m{number}": {
                "sender": f"box{number}",
                "subject": subject,
                "text": "see you",
                "flagged": False,
            }
            for number, subject in enumerate(("audit", "party", "budget"), 1)
        },
        "sent": {},
        "next": 9,
    },
    "files": {"memo": {"folder": "old", "text": "needs work", "locked": False, "shared": []}},
}


def blanks(*turns: tuple[str, ...], environment: str = "desk") -> dict[str, Any]:
    """The blanks of a plan, by id."""
    given = assignment()
    catalogue = catalogue_with_tools(load(environment))
    run = ValueChooser(load(environment).tools(), Answers(), given.rng("chance"))
    realise(load(environment), catalogue, planned(environment, *turns), STATE, run)
    return {blank.id: blank for blank in run.blanks.values()}


def test_names_are_listed_and_phrases_may_be_invented() -> None:
    found = blanks(("mail_person", "mark_found"), ("show_file", "add_person"))
    assert found["1.1.name"].closed and set(found["1.1.name"].options) == {"paul", "mina"}
    assert found["1.2.subject"].as_schema() == {"enum": ["audit", "budget", "party"]}
    assert not found["1.1.text"].closed and found["1.1.text"].as_schema()["type"] == "string"
    assert found["2.2.name"].closed, "names are limited to those that the environment has"
    assert not {"paul", "mina"}.intersection(found["2.2.name"].options)
    assert "2.1.file" not in found, "there is but one file"


def test_what_chance_has_put_into_the_world_is_offered_by_where_it_comes_from() -> None:
    """Nobody sees the name that it drew; whoever takes it takes what is answered there."""
    found = blanks(("add_person",), ("switch_team",))
    options = found["2.1.name"].options
    drawn = next(label for label in options if label not in ("paul", "mina"))
    assert drawn == "the value of 1.1.name" and options[drawn] not in options


def test_an_option_of_the_tool_is_no_value_that_chance_put_into_the_world() -> None:
    options = blanks(("plan_event",), ("move_it",))["2.1.day"].options
    assert set(options) == {"monday", "tuesday", "wednesday", "thursday", "friday"}


def test_what_stands_in_a_text_that_chance_drew_is_left_out() -> None:
    drawn = ["Please review before friday"]
    assert _stands_in("review", drawn) and not _stands_in(drawn[0], drawn)
    assert not _stands_in("budget", drawn) and not _stands_in(3, drawn)


async def test_who_takes_what_another_value_will_be_gets_that(stub: Stub) -> None:
    plan = planned("desk", ("add_person",), ("switch_team",))
    async with early(stub, "referring") as who:
        draft = await who.author.execute(assignment(), plan, STATE)
        assert len(who.calls) == 1
    (added, switched) = (turn[0].call.arguments["name"] for turn in draft.turns)
    assert added == switched and added not in ("paul", "mina")


@pytest.mark.parametrize("calls", ["batched", "per_turn"])
async def test_the_values_of_all_turns_are_asked_for_together(stub: Stub, calls: str) -> None:
    async with early(stub, "good", calls=calls) as who:
        plan = planned("desk", ("mail_person", "show_file"), ("mark_found",), ("add_person",))
        draft = await who.author.execute(assignment(), plan, STATE)
        assert who.stages() == ["parameters"]
    names = [[bound.call.name for bound in turn] for turn in draft.turns]
    assert names == [
        ["find_contact", "send_mail", "read_file"],
        ["search_mail", "flag_mail"],
        ["add_contact"],
    ]
    assert all(bound.result.error is None for turn in draft.turns for bound in turn)
    assert draft.turns[0][1].flows["address"].origin == (0, 0)


async def test_a_listed_value_that_is_gone_when_its_turn_comes_is_asked_for_anew(
    stub: Stub,
) -> None:
    """A model that names the same mail wherever it may: once it is deleted, the next turn has
    another, which nobody puts there in silence."""
    plan = planned("desk", ("delete_found",), ("mark_found",))
    async with early(stub, "fond_of_parties") as who:
        for number in range(6):
            given = replace(assignment(), plan_number=number)
            draft = await who.author.execute(given, replace(plan), STATE)
            subjects = [turn[0].call.arguments["subject"] for turn in draft.turns]
            assert subjects[0] == "party" != subjects[1]
        assert len(who.calls) > 6


async def test_what_leaves_no_choice_is_shown_and_what_an_answer_became_is_told_with_the_story(
    tmp_path: Path,
) -> None:
    """Of two mails one is deleted by whoever asks for the party wherever it may."""
    inbox = {key: STATE["mail"]["inbox"][key] for key in ("m1", "m2")}
    state = {**STATE, "mail": {**STATE["mail"], "inbox": inbox}}
    bodies = tmp_path / "bodies"
    plan = planned("desk", ("delete_found", "show_file"), ("mark_found",))
    stories = []
    with Stub(playing("obedient"), bodies=bodies) as stub:
        async with early(stub, "fond_of_parties") as who:
            for number in range(6):
                given = replace(assignment(), plan_number=number)
                draft = await who.author.execute(given, replace(plan, narrative={}), state)
                assert draft.turns[0][0].call.arguments["subject"] == "party"
                stories.append(draft.plan.narrative["story"])
            assert len(who.calls) == len(stories)
    prompts = [
        json.loads(line)["messages"][1]["content"] for line in bodies.read_text().splitlines()
    ]
    only = """(file of read_file): {"one of":["memo"]}"""
    assert all(only in prompt for prompt in prompts)
    other = ["""(subject of search_mail): {"one of":["party"]}""" in prompt for prompt in prompts]
    assert any(other) and not all(other)
    assert other == [story.endswith(" (party became audit.)") for story in stories]


async def test_what_another_list_has_no_more_since_the_user_named_it_is_taken(stub: Stub) -> None:
    """Who has just been added is invited by the address that the user said."""
    plan = planned("desk", ("look_up_event", "add_person"), ("invite_address",))
    events = {"e1": {"title": "fair", "day": "monday", "hour": 9, "room": "", "guests": []}}
    state = {**STATE, "calendar": {"events": events, "next": 4}}
    async with early(stub, "inviting") as who:
        draft = await who.author.execute(assignment(), plan, state)
        assert len(who.calls) == 1
    added, invited = (draft.turns[0][1].call, draft.turns[1][0].call)
    assert invited.arguments["address"] == added.arguments["address"]


async def test_what_a_list_lacks_for_what_the_value_has_become_is_not_taken(stub: Stub) -> None:
    """A team that somebody new has joined is no team of one."""
    plan = planned("desk", ("add_person",), ("mail_lone_member",))
    contacts = {
        name: {"address": f"box{number}", "team": team}
        for number, (name, team) in enumerate(
            (("paul", "sales"), ("mina", "legal"), ("eve", "press"))
        )
    }
    async with early(stub, "joining") as who:
        draft = await who.author.execute(assignment(), plan, {**STATE, "contacts": contacts})
        assert len(who.calls) > 1
    joined, asked = (draft.turns[0][0].call, draft.turns[1][0].call)
    assert joined.arguments["team"] == "sales" != asked.arguments["team"]


async def test_the_story_is_told_with_the_values_and_stays_with_the_plan(tmp_path: Path) -> None:
    plan = replace(planned("desk", ("add_person",)), narrative={})
    bodies = tmp_path / "bodies"
    given = assignment()
    with Stub(playing("obedient"), bodies=bodies) as stub:
        async with early(stub, "good") as who:
            draft = await who.author.execute(given, plan, STATE)
            silent = await who.author.execute(replace(given, narrative=False), replace(plan), STATE)
    prompts = [
        json.loads(line)["messages"][1]["content"] for line in bodies.read_text().splitlines()
    ]
    assert draft.plan.narrative == {"story": "Somebody tidies up."} and not silent.plan.narrative
    assert [given.root.script[0][:40] in prompt for prompt in prompts] == [True, False]


def test_two_lists_of_one_pool_share_what_they_can_and_begin_with_what_is_there() -> None:
    listed = blanks(("add_person",), ("mail_address",))
    new, guest = (list(listed[key].options) for key in ("1.1.address", "2.1.address"))
    assert len({*new} & {*guest}) >= len(guest) - 3


async def test_values_of_a_plan_are_kept_in_its_patched_state(stub: Stub) -> None:
    plan = planned("desk", ("mark_found",), ("add_person",), ("move_file",))
    files = {"memo": {**STATE["files"]["memo"], "locked": True}}
    async with early(stub, "good") as who:
        with pytest.raises(ComposeError, match="file locked"):
            await who.author.execute(assignment(), plan, {**STATE, "files": files})
        asked = len(who.calls)
        draft = await who.author.execute(assignment(), plan, STATE)
        assert len(who.calls) == asked, "the patch touches none of the values"
        fewer = {**STATE["mail"]["inbox"]}
        subject = draft.turns[0][0].call.arguments["subject"]
        for number in [number for number, mail in fewer.items() if mail["subject"] == subject]:
            del fewer[number]
        mail = {**STATE["mail"], "inbox": fewer}
        other = await who.author.execute(assignment(), plan, {**STATE, "mail": mail})
        assert len(who.calls) == asked + 1 and other.turns[1:] == draft.turns[1:]
        assert other.turns[0][0].call.arguments["subject"] != subject
        await who.author.execute(assignment(), planned("desk", ("mark_found",)), STATE)
        assert len(who.calls) == asked + 2, "of another plan nothing is known"


async def test_what_is_to_be_had_stands_in_the_lists_and_little_of_the_world_beside_them(
    tmp_path: Path,
) -> None:
    memo = {**STATE["files"]["memo"], "text": "a long text " * 4}
    state = {**STATE, "files": {f"f{number}": memo for number in range(90)}}
    shown = []
    for number, function in enumerate(("mark_found", "mail_person")):
        bodies = tmp_path / str(number)
        with Stub(bodies=bodies) as stub:
            async with early(stub, "good") as who:
                await who.author.execute(assignment(), planned("desk", (function,)), state)
        prompt = json.loads(bodies.read_text().splitlines()[0])["messages"][1]["content"]
        shown.append(len(prompt.split("The world")[1].split("The calls made")[0]))
    assert shown[0] < 800 < 900 < shown[1], "a text may be invented there"


async def test_what_was_invented_and_refused_is_chosen_from_a_list_then(stub: Stub) -> None:
    money = {"accounts": {"office": 900, "travel": 800}, "bills": {}, "next": 4}
    async with early(stub, "lavish") as who:
        plan = planned("desk", ("move_money",))
        draft = await who.author.execute(assignment(), plan, {**STATE, "ledger": money})
        assert len(who.calls) == 2
    (transfer,) = draft.turns[0]
    assert transfer.result.error is None and transfer.call.arguments["amount"] <= 400


async def test_single_tools_feed_each_other_where_the_root_s_calls_do(stub: Stub) -> None:
    name = bare_environment.NAME
    given = assignment(bare_environment.moved(seed("base")), load(name))
    assert given.profile.edges, "the seed has results that feed calls"
    (producer, consumer, _), *_ = given.profile.edges
    turns = [["list_team"] * count for count in given.profile.calls_per_turn]
    turns[producer[0]][producer[1]] = "find_contact"
    turns[consumer[0]][consumer[1]] = "forward_mail"
    async with early(stub, "good", name) as who:
        draft = await who.author.execute(given, planned(name, *map(tuple, turns)), STATE)
    fed = draft.turns[consumer[0]][consumer[1]]
    assert fed.flows["address"].origin == producer
    assert fed.call.arguments["address"] in {"box1", "box2"}
    assert {
        flow.source for turn in draft.turns for bound in turn for flow in bound.flows.values()
    } <= {"user", "result"}


async def test_a_world_that_breaks_is_no_candidate_s_fault(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Result("the worker died", error="infrastructure")
    monkeypatch.setattr("rods.worlds.desk.world.DeskInstance.call", lambda self, call: broken)
    async with early(stub, "good") as who:
        with pytest.raises(InfrastructureError, match="the worker died"):
            await who.author.execute(assignment(), planned("desk", ("add_person",)), STATE)


async def test_values_that_never_fit_are_given_up(stub: Stub) -> None:
    async with early(stub, "speechless") as who:
        with pytest.raises(ComposeError) as caught:
            await who.author.execute(assignment(), planned("desk", ("mark_found",)), STATE)
        assert (caught.value.type, caught.value.function, caught.value.turn) == (
            "param_gen_failed",
            "search_mail",
            0,
        )
        assert len(who.calls) == 3


KEY = (0, 0, "amount")


def chosen(
    options: list[Any], schema: dict[str, Any], answer: Any, *, legal: bool = True
) -> tuple[Any, dict[Any, UnboundArgument]]:
    """What is bound when a model answers `answer` for an argument with these options, and what is
    left to be asked."""
    tool = Tool("pour", "Kitchen", "Pours.", (Parameter("amount", schema),))
    recipe = Recipe(
        "pour",
        (RecipeStep("pour", {"amount": FromUser("amount", "pour.amount")}),),
        ("pour {amount}",),
    )
    choice = Choice(
        0, 0, recipe, "amount", "pour.amount", options, Scene({}, {}, {}, {}), (), thematic=False
    )
    asking = ValueChooser({"pour": tool}, Answers(), Random(1))
    asking(choice)
    blank = asking.blanks[KEY]
    assert fits(blank.as_schema(), answer) == legal, (
        "what the schema lets pass must be what is meant here"
    )
    binding = ValueChooser({"pour": tool}, Answers({KEY: blank.value(answer)}), Random(1))
    return binding(choice), binding.blanks


@pytest.mark.parametrize(("answer", "value"), [(5, 5.0), (5.0, 5.0), (2.5, 2.5), (7, 7), (7.0, 7)])
def test_a_number_is_the_listed_one_whatever_its_form(answer: Any, value: Any) -> None:
    found, asked = chosen([2.5, 5.0, 7], {"type": "number", "enum": [2.5, 5.0, 7]}, answer)
    assert (found, type(found)) == (value, type(value)) and not asked


@pytest.mark.parametrize(
    ("options", "answer"), [([1, 2], True), ([1.0, 2.0], True), ([True, False], 1)]
)
def test_a_truth_value_is_no_number(options: list[Any], answer: Any) -> None:
    found, asked = chosen(options, {"enum": options}, answer, legal=False)
    assert type(found) is type(options[0])
    assert "is not to be had" in asked[KEY].problem


def test_a_number_that_may_be_invented_stays_as_it_was_given() -> None:
    found, asked = chosen([2.5, 5.0], {"type": "number", "maximum": 9}, 8)
    assert (found, type(found)) == (8, int) and not asked


def test_examples_of_a_blank_are_answers_of_its_schema() -> None:
    tags = {"type": "array"}
    word = {"type": "string"}
    listed = UnboundArgument(
        (0, 0, "0"), "tag", "tags", [["a"], []], {"['a']": ["a"], "[]": []}, False, tags, False
    )
    assert '"such as":[["a"],[]]' in listed.line().replace(", ", ",").replace(": ", ":")
    named = UnboundArgument(
        (0, 0, "0"), "tag", "file", ["f1"], {"the note": "f1"}, False, word, False
    )
    assert '"such as":["the note"]' in named.line().replace(": ", ":")


def test_an_invented_list_may_be_as_long_as_the_longest_example() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert _limited(schema, [[1, 2, 3, 4, 5]])["maxItems"] == 5
    assert _limited(schema, [[1]])["maxItems"] == 4
    assert _limited({**schema, "maxItems": 3}, [[1]])["maxItems"] == 3


def test_what_had_the_value_that_was_refused_is_asked_for_together_with_it() -> None:
    """And what comes before it, or is as small as a number of lines, is not."""
    given = {
        (0, 0, "file"): "plan.txt",
        (1, 0, "file"): "plan.txt",
        (1, 0, "lines"): 3,
        (2, 0, "file"): "plan.txt",
        (2, 1, "files"): ["plan.txt"],
        (3, 0, "lines"): 3,
        (3, 1, "file"): "list.txt",
    }
    answers = Answers(dict(given))
    run = ValueChooser({}, answers, Random(0), place=(1, 0))
    answers.reopen(ComposeError("vm_exec_failed", "no such file", turn=1), run)
    kept = [(0, 0, "file"), (3, 0, "lines"), (3, 1, "file")]
    assert answers.values == {key: given[key] for key in kept}
    assert set(answers.problems) == {(1, 0, "file"), (1, 0, "lines")}


def test_what_the_world_says_of_a_call_stands_before_the_call() -> None:
    """Which may be long, and is cut where it is told."""
    environment = load(bare_environment.NAME)
    plan = planned(bare_environment.NAME, ("reply_mail",))
    given: dict[str, Any] = {"mail": "m99", "text": "word " * 200}
    with pytest.raises(ComposeError) as caught:
        realise(
            environment,
            catalogue_with_tools(environment),
            plan,
            STATE,
            lambda choice: given[choice.slot],
        )
    assert caught.value.detail.startswith('reply_mail gave {"error":"bad text"} for reply_mail(')


def told(argument: str, call: tuple[str, ...], state: dict[str, Any] = STATE) -> dict[str, Any]:
    """What the line of an argument says of a single tool's blank."""
    environment = load(bare_environment.NAME)
    catalogue = catalogue_with_tools(environment)
    prober = Prober(environment, catalogue, state)
    run = ValueChooser(environment.tools(), Answers(), Random(1), prober)
    realise(environment, catalogue, planned(environment.name, call), state, run)
    line = next(blank.line() for blank in run.blanks.values() if blank.argument == argument)
    may: dict[str, Any] = json.loads(line.split("): ", 1)[1])
    return may


def test_an_example_is_what_the_world_has_for_the_argument_and_none_where_anything_is_taken() -> (
    None
):
    assert set(told("file", ("read_file",))["such as"]) == {"memo"}
    assert "such as" not in told("file", ("create_file",))
    assert "such as" not in told("text", ("reply_mail",))


@pytest.mark.parametrize("files", [1, 3])
async def test_what_words_cannot_point_at_feeds_nothing_and_nobody_is_asked(
    stub: Stub, files: int
) -> None:
    """Of several files that a folder lists none is "that file"."""
    name = bare_environment.NAME
    given = assignment(bare_environment.moved(seed("base")), load(name))
    (producer, consumer, _), *_ = given.profile.edges
    turns = [["list_team"] * count for count in given.profile.calls_per_turn]
    turns[producer[0]][producer[1]] = "list_folder"
    turns[consumer[0]][consumer[1]] = "read_file"
    state = {
        **STATE,
        "files": {
            f"{folder}_{number}": {**STATE["files"]["memo"], "folder": folder}
            for folder in ("old", "drafts", "shared", "weekly")
            for number in range(files)
        },
    }
    async with early(stub, "good", name) as who:
        if files == 1:
            draft = await who.author.execute(given, planned(name, *map(tuple, turns)), state)
            fed = draft.turns[consumer[0]][consumer[1]]
            assert fed.flows["file"].origin == producer
        else:
            with pytest.raises(ComposeError, match="words can point at") as caught:
                await who.author.execute(given, planned(name, *map(tuple, turns)), state)
            assert caught.value.type == "conversation_construct_failed" and not who.calls
