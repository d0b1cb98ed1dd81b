"""Stage I by a model: the pattern, what is offered, what is refused, the story and its switch."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from bench.fixtures.llm_stub import Stub
from rods.asking import Unreadable
from rods.calls import Call
from rods.composing.catalogue import Catalogue
from rods.composing.records import BoundCall, ComposeError, Draft, Plan, PlannedTurn
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.catalogue_free import catalogue_with_tools, linking, single_tools
from rods.daemon.authors.catalogue_free.probing import Prober
from rods.daemon.authors.llm import planning
from rods.daemon.authors.llm.planning import Pattern, _places, pattern
from rods.daemon.authors.llm.questions import Context
from rods.environments.base import Result
from rods.tasks import TASK_TYPES, TaskType
from tests.daemon.authors.catalogue_free import bare_environment
from tests.daemon.authors.llm.early import early, planned
from tests.daemon.authors.llm.world import assignment, playing
from tests.daemon.pipelines import seed
from tests.environments import desk_tasks, load


@pytest.mark.parametrize("type", TASK_TYPES)
@pytest.mark.parametrize("structured", [True, False])
async def test_a_plan_has_the_root_s_shape_and_other_functions(
    stub: Stub, type: TaskType, structured: bool
) -> None:
    given = assignment(seed(type))
    async with early(stub, "good", structured=structured) as who:
        made = await who.author.plan(given)
        assert made.narrative == {}, "told with the values"
    tools = load("desk").tools()
    for turn, wanted in zip(made.turns, given.profile.calls_per_turn, strict=True):
        assert bool(turn.tools) == bool(wanted) and abs(len(turn.tools) - wanted) <= 1
        assert all(name in tools for name in turn.tools)
    assert Counter(name for turn in made.turns for name in turn.tools) != Counter(
        given.profile.tools
    )


async def test_without_narrative_nobody_is_asked_for_a_story(stub: Stub) -> None:
    async with early(stub, "good") as who:
        made = await who.author.plan(replace(assignment(), narrative=False))
    assert made.narrative == {}


async def test_the_same_functions_may_be_demanded(stub: Stub) -> None:
    given = assignment()
    async with early(stub, "good") as who:
        made = await who.author.plan(replace(given, same=True))
    assert [turn.tools for turn in made.turns] == [
        tuple(call.name for call in calls) for calls in given.seed.calls
    ]


def prober(given: Assignment[Any], catalogue: Catalogue) -> Prober:
    return Prober(
        load(given.seed.environment.name), catalogue, given.seed.state, linking.feeding(given)
    )


@pytest.mark.parametrize("environment", ["desk", bare_environment.NAME])
@pytest.mark.parametrize("functions", ["other", "same"])
def test_blocked_functions_are_never_offered(
    environment: str, functions: Literal["other", "same"]
) -> None:
    root = (
        seed("long_context")
        if environment == "desk"
        else bare_environment.moved(seed("long_context"))
    )
    given = assignment(root, load(environment))
    catalogue = catalogue_with_tools(load(environment))
    given = replace(given, same=functions == "same")
    for number in range(5):
        try:
            offered = [
                name
                for turn in pattern(prober(given, catalogue), given, given.rng(f"{number}")).offered
                for name in turn
            ]
        except ComposeError as error:
            assert error.type == "no_pattern" and number
            return
        assert offered and not given.blocked.intersection(offered)
        assert not any(
            given.blocked.intersection(catalogue.recipes[name].tools) for name in offered
        )
        given = replace(given, blocked=given.blocked | {offered[0]})


def test_whatever_is_chosen_from_the_pattern_has_the_root_s_depth() -> None:
    given = assignment(seed("miss_func"))
    catalogue = catalogue_with_tools(load("desk"))
    for number in range(10):
        found = pattern(prober(given, catalogue), given, given.rng(f"{number}"))
        assert found.depth == given.profile.depth
        for turn, places in enumerate(found.turns):
            for options in places:
                assert len({len(catalogue.recipes[name].steps) for name in options}) == 1, (
                    turn,
                    options,
                )


@pytest.mark.parametrize(
    ("habit", "told"),
    [
        ("inventive", "is no function"),
        ("long_winded", "comes down to the 3 calls"),
        ("insistent", "twice"),
    ],
)
async def test_a_plan_that_does_not_fit_is_said_why(stub: Stub, habit: str, told: str) -> None:
    async with early(stub, habit, structured=False) as who:
        with pytest.raises(ComposeError, match=told) as caught:
            await who.author.plan(assignment(seed("long_context")))
        assert caught.value.said.startswith("<reason>") and who.stages() == ["plan"] * 3


@pytest.mark.parametrize("names", [(), ("list_team",), ("list_team", "list_folder")])
async def test_what_has_to_differ_is_asked_for_where_there_is_a_choice_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """`names`: what is offered in the first place instead of the seed's own function."""
    given = assignment()
    own: list[list[tuple[str, ...]]] = [
        [(call.name,) for call in calls] for calls in given.seed.calls
    ]
    own[0][0] = names or own[0][0]
    monkeypatch.setattr(planning, "pattern", lambda *_: Pattern(tuple(map(tuple, own))))
    with Stub(playing("obedient"), bodies=tmp_path / "bodies") as stub:
        async with early(stub, "good") as who:
            with nullcontext() if names else pytest.raises(ComposeError, match="exactly the tools"):
                await who.author.plan(given)
    assert bool(who.calls) is bool(names), "for what cannot be met nobody is asked"
    if not names:
        return
    asked = json.loads((tmp_path / "bodies").read_text().splitlines()[0])["messages"][1]["content"]
    assert ("must not call exactly the same ones" in asked) is (len(names) > 1)


async def test_the_planner_sees_what_functions_do_and_all_that_has_failed(tmp_path: Path) -> None:
    failures = tuple(
        ComposeError(
            "vm_exec_failed", f"failure {number} {'x' * 500}", function=f"gone_{number}", turn=0
        )
        for number in range(9)
    )
    blocked = frozenset(error.function or "" for error in failures)
    prompts = []
    for number, given in enumerate(
        (assignment(), replace(assignment(), failures=failures, blocked=blocked))
    ):
        bodies = tmp_path / f"{number}"
        with Stub(playing("obedient"), bodies=bodies) as stub:
            async with early(stub, "good") as who:
                await who.author.plan(given)
        prompts.append(json.loads(bodies.read_text().splitlines()[0])["messages"][1]["content"])
    first, again = prompts
    for prompt in prompts:
        assert '{"name"' not in prompt, "recipes are chosen by what they do"
    assert all(error.detail in again and str(error.function) in again for error in failures)
    assert f"Blocked since then, never to be chosen: {', '.join(sorted(blocked))}\n" in again
    assert "failed so far" not in first and "Blocked" not in first


async def test_where_there_is_no_choice_nobody_is_asked(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Pattern(((("see_team",),), (("add_person",),)), 1)
    monkeypatch.setattr(planning, "pattern", lambda *_: wanted)
    async with early(stub, "good") as who:
        made = await who.author.plan(assignment(seed("base")))
        assert [turn.recipes for turn in made.turns] == [("see_team",), ("add_person",)]
        assert who.stages() == []


def test_no_function_that_nobody_asks_for_is_offered_and_none_in_two_turns() -> None:
    for number in range(6):
        given = replace(assignment(seed("base")), plan_number=number)
        catalogue = catalogue_with_tools(load("desk"))
        taking = {
            name for name, recipe in catalogue.recipes.items() if recipe.needs & {*recipe.ends}
        }
        odd = {
            name: replace(recipe, odd=name.startswith("see_"))
            for name, recipe in catalogue.recipes.items()
        }
        looked = prober(given, replace(catalogue, recipes=odd))
        wanted = pattern(looked, given, given.rng("pattern"), lambda plan: None)
        offered = [name for turn in wanted.offered for name in turn]
        assert not any(name.startswith("see_") for name in offered)
        assert taking.isdisjoint(
            places[0] for turn in wanted.turns for places in turn if not places[1:]
        )
        forced = [places[0] for turn in wanted.turns for places in turn if len(places) == 1]
        assert all(offered.count(name) == 1 for name in forced)


async def test_of_single_tools_a_planner_sees_the_schemas(tmp_path: Path) -> None:
    with Stub(playing("obedient"), bodies=tmp_path / "bodies") as stub:
        async with early(stub, "good", recipes=False) as who:
            with suppress(ComposeError):  # whatever it answers
                await who.author.plan(assignment())
    wanted = assignment().profile.depth
    body = json.loads((tmp_path / "bodies").read_text().splitlines()[0])
    prompt = body["messages"][1]["content"]
    assert linking.chain(wanted) in prompt, "how far results feed calls is said at once"
    assert all(text in prompt for text in assignment().root.script), "whose story it is not"
    offered = {
        name
        for line in re.findall(r"^turn \d+: (\[\[.*\]\])$", prompt, re.MULTILINE)
        for options in json.loads(line)
        for name in options
    }
    schemas = {
        one["name"]: one
        for one in map(json.loads, re.findall(r'^\{"name".*$', prompt, re.MULTILINE))
    }
    catalogue = single_tools(load("desk"))
    tools = load("desk").tools()
    assert schemas.keys() == {tool for name in offered for tool in catalogue.recipes[name].tools}
    for name, schema in schemas.items():
        assert schema["arguments"].keys() == {each.name for each in tools[name].parameters}
        assert all(
            schema["arguments"][each.name]["type"] == each.schema["type"]
            for each in tools[name].parameters
        )


def test_a_pattern_says_what_a_turn_in_vain_asks_of_the_next() -> None:
    wanted = Pattern(((), (("see_day",),)))
    assert "no earlier turn calls" in _places(wanted, "miss_func")
    assert "only the user can say" in _places(wanted, "miss_param")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nobody is logged in", "everything; nobody is logged in"),
        (
            "there is no {}, nor was there ever",
            "everything; nothing is there yet that it takes as file",
        ),
    ],
)
def test_no_refusal_quotes_a_value_that_was_only_tried(
    monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    def refusing(world: object, call: Call) -> Result:
        return Result(text.format(*call.arguments.values()), error="tool")

    monkeypatch.setattr("rods.worlds.desk.world.DeskInstance.call", refusing)
    given = assignment(seed("base"))
    refused = linking.refused(prober(given, single_tools(load("desk"))), ["read_file"])
    assert refused == f"read_file: {shown}"


def test_what_comes_to_nothing_in_a_turn_that_is_asked_for_in_vain_is_not_offered() -> None:
    miss_param = [task for task in desk_tasks(7, 24, 8) if task.type == "miss_param"]
    given = assignment(miss_param[1])
    turn = given.profile.calls_per_turn.index(0) + 1
    looked = prober(given, catalogue_with_tools(load("desk")))
    options = pattern(looked, given, given.rng("1")).turns[turn][0]
    assert len(options) > 2

    def without(names: Container[str], plan: Plan) -> ComposeError | None:
        known = plan.turns[turn].recipes[0] not in names
        return None if known else ComposeError("no_pattern", "comes to nothing")

    for name in options:
        left = pattern(looked, given, given.rng("1"), partial(without, [name])).turns[turn][0]
        assert left and name not in left
    with pytest.raises(ComposeError, match="comes to nothing") as caught:
        pattern(looked, given, given.rng("1"), partial(without, looked.catalogue.recipes))
    assert caught.value.type == "no_pattern" and caught.value.functions == ()


def doomed(given: Assignment[Any], *turns: tuple[str, ...]) -> ComposeError | None:
    """Why nothing comes of these functions in desk, one tuple a turn."""
    looked = prober(given, catalogue_with_tools(load("desk")))
    context = SimpleNamespace(environment=looked.environment, catalogue=looked.catalogue)
    return planning._doomed(cast(Context, context), given, looked, planned("desk", *turns))


def test_a_trial_in_which_another_call_fails_tells_nothing_of_a_plan() -> None:
    """Now and then chance has a locked file written."""
    given = assignment(seed("miss_func"))
    for attempt in range(1, 7):
        plan = ("write_file",), (), ("answer_found",), ("read_it", "write_to_sender")
        doom = doomed(replace(given, attempt=attempt), *plan)
        assert doom is not None and "can be done without reply_mail" in doom.detail


@pytest.mark.parametrize(
    ("turns", "useless"),
    [
        ((("plan_event",), ("room_for_it", "cancel_it")), "room_for_it"),
        ((("shift_event",), ("cancel_it",)), "shift_event"),
        ((("plan_event",), ("move_it",), ("move_it",)), "move_it"),
        ((("read_found",), ("read_it", "write_to_sender")), "read_it"),
        ((("read_found",), ("answer_it", "write_to_sender")), ""),
        ((("shift_event",), ("room_for_it",)), ""),
        ((("see_bill",), ("pay_it",)), ""),
    ],
)
def test_what_another_turn_undoes_or_has_shown_already_is_no_plan(
    turns: tuple[tuple[str, ...], ...], useless: str
) -> None:
    doom = doomed(assignment(), *turns)
    assert (doom is not None) is bool(useless), doom
    assert doom is None or (doom.functions == (useless,) and doom.type == "no_pattern")


@pytest.mark.needs("bfcl")
def test_a_look_up_of_what_a_list_has_shown_is_no_plan_until_something_changes() -> None:
    card = {"card_number": "4000", "cardholder_name": "Ann", "expiry_date": "05/28", "cvv": 123}
    travel = {
        "credit_card_list": {"card_1": {**card, "balance": 1480.0}},
        "access_token": "abc123",
        "token_expires_in": 3600,
        "user_first_name": "Ann",
        "user_last_name": "Roe",
        "budget_limit": None,
        "booking_record": {},
    }
    state = {"classes": ["TravelAPI"], "config": {"TravelAPI": travel}, "long_context": False}

    def bound(recipe: str, tool: str, **arguments: Any) -> BoundCall:
        return BoundCall(Call(tool, arguments), Result("", None), {}, recipe, {})

    cards = bound("cards", "get_all_credit_cards")
    balance = bound("balance", "get_credit_card_balance", access_token="abc123", card_id="card_1")
    limit = bound("limit", "set_budget_limit", access_token="abc123", budget_limit=900.0)
    plan = Plan((PlannedTurn((), ()),))
    for turns, useless in (
        ((cards, balance), "balance"),
        ((balance, cards), ""),
        ((cards, limit, balance), ""),
    ):
        draft = Draft(plan, state, tuple((each,) for each in turns))
        assert planning._useless(load("bfcl"), draft) == useless


def test_a_function_is_not_offered_behind_one_that_may_forbid_it_nor_taken_there() -> None:
    catalogue = catalogue_with_tools(load("desk"))
    every = partial(pattern, tried=lambda plan: None)
    for given in map(assignment, desk_tasks(7, 24, 8)):
        turns = every(prober(given, catalogue), given, given.rng("1")).turns
        wide = [places[0] for places in turns if places and places[0][1:]]
        if len(wide) > 1:
            break
    early, later, *_ = wide
    recipes = dict(catalogue.recipes)
    for name in early:
        recipes[name] = replace(recipes[name], makes=("done",))
    for name in {*later} - {*early}:
        recipes[name] = replace(recipes[name], unless=("done",))
    changed = replace(catalogue, recipes=recipes)
    for number in range(4):
        made = set[str]()
        for places in every(prober(given, changed), given, given.rng(f"{number}")).turns:
            for options in places:
                assert sum(bool(made & {*recipes[name].unless}) for name in options) <= 1
                made.update(*(recipes[name].makes for name in options))
    unfit = next(name for name in later if recipes[name].unless)
    wanted = Pattern((((early[0],),), ((unfit,),)))
    with pytest.raises(Unreadable, match="cannot come once there is done"):
        planning._check(changed, given, wanted, [[early[0]], [unfit]])
    unspoken = replace(changed, silent=frozenset({"done"}))
    planning._check(unspoken, given, wanted, [[early[0]], [unfit]])


def test_nothing_is_offered_that_forbids_what_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = planned("desk", ("look_up_event",), ("see_balance",))
    monkeypatch.setattr(planning, "sketch", lambda *_: drawn)
    given = assignment(seed("base"))
    catalogue = catalogue_with_tools(load("desk"))
    (first,), _ = pattern(prober(given, catalogue), given, given.rng("1")).turns
    spoilt = first[first[0] == "look_up_event"]
    recipes = dict(catalogue.recipes)
    recipes[spoilt] = replace(recipes[spoilt], makes=("done",))
    recipes["see_balance"] = replace(recipes["see_balance"], unless=("done",))
    changed = replace(catalogue, recipes=recipes)
    (left,), _ = pattern(prober(given, changed), given, given.rng("1")).turns
    assert {*first} - {*left} == {spoilt}


def test_of_the_sketches_that_work_the_one_that_goes_on_from_earlier_turns_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apart = planned("desk", ("look_up_event",), ("see_balance",))
    going_on = planned("desk", ("look_up_event",), ("room_for_it",))
    drawn = iter([apart, going_on, apart])
    monkeypatch.setattr(planning, "sketch", lambda *_: next(drawn))
    given = assignment(seed("base"))
    looked = prober(given, catalogue_with_tools(load("desk")))
    turns = pattern(looked, given, given.rng("1")).turns
    assert "room_for_it" in turns[1][0]


def test_what_a_sketch_fails_by_is_drawn_no_more_for_its_pattern() -> None:
    given = assignment(seed("base"))
    first = list[tuple[str, ...]]()

    def failing(plan: Plan) -> ComposeError:
        first.append(plan.turns[0].recipes)
        return ComposeError("no_pattern", "in vain", functions=first[-1])

    looked = prober(given, catalogue_with_tools(load("desk")))
    with pytest.raises(ComposeError, match="in vain"):
        pattern(looked, given, given.rng("1"), failing)
    assert len(set(first)) == len(first) == planning.DRAWN


@pytest.mark.parametrize(
    ("feeding", "error", "told"),
    [
        (False, "no_pattern", "can be done without transfer_money"),
        (True, "conversation_construct_failed", "longest chain has 1 calls.*must have 3 calls"),
    ],
)
async def test_a_plan_that_nothing_comes_of_is_said_why_before_anything_is_asked_for_it(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, feeding: bool, error: str, told: str
) -> None:
    """Moving money is spending it here and getting it there."""
    given = assignment(seed("miss_func"))
    state = {
        "today": "monday",
        "ledger": {"accounts": {"cash": 500, "office": 200}, "bills": {}, "next": 1},
    }
    given = replace(given, seed=replace(given.seed, state=state, id=""))
    if not feeding:
        turns = (tuple(replace(node, flows={}) for node in turn) for turn in given.profile.turns)
        given = replace(given, profile=replace(given.profile, turns=tuple(turns)))
    wanted = Pattern(((), (("transfer_money",),)))
    monkeypatch.setattr(planning, "pattern", lambda *_: wanted)
    async with early(stub, "good") as who:
        with pytest.raises(ComposeError, match=told) as caught:
            await who.author.plan(given)
    assert caught.value.type == error and not caught.value.functions
    assert who.stages() == []
    # where there is a choice, too, if nothing comes of any that chance draws
    wanted = Pattern(((), (("transfer_money", "transfer_money"),)))
    for draws, asked in ((planning.DRAWS, set[str]()), (0, {"plan"})):
        monkeypatch.setattr(planning, "DRAWS", draws)
        async with early(stub, "good") as who:
            with pytest.raises(ComposeError):
                await who.author.plan(given)
        assert set(who.stages()) == asked


def narrowed(
    monkeypatch: pytest.MonkeyPatch,
    drawn: Pattern,
    works: str,
    doom: ComposeError | None = None,
    failures: tuple[ComposeError, ...] = (),
) -> Pattern:
    """What is left of a pattern where plans can be made that begin with the function `works`, and
    the others fail by `doom`."""
    given = replace(assignment(), failures=failures)
    looked = prober(given, single_tools(load("desk")))
    context = SimpleNamespace(environment=looked.environment, catalogue=looked.catalogue)

    def trial(*given: Any) -> tuple[bool, ComposeError | None]:
        *_, plan = given
        fits = plan.turns[0].tools[0] == works
        return fits, None if fits else doom

    monkeypatch.setattr(planning, "_trial", trial)
    return planning._satisfiable(cast(Context, context), given, looked, drawn)


def test_where_places_hang_together_only_what_stands_in_plans_that_work_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = (0, 0), (1, 0), (2, 0)
    takers = ("read_mail", "book_room")
    drawn = Pattern(
        ((("find_event", "search_mail"),), (takers,), (("list_team", "list_day"),)),
        pairs={(first, second): [("find_event", "book_room"), ("search_mail", "read_mail")]},
    )
    left = narrowed(monkeypatch, drawn, "search_mail")
    assert left.turns[:2] == ((("search_mail",),), (("read_mail",),))
    assert left.turns[third[0]] == drawn.turns[third[0]], "it hangs on nothing"
    assert left.pairs == {(first, second): [("search_mail", "read_mail")]}
    assert [names[:1] for names in left.known[:2]] == [["search_mail"], ["read_mail"]]
    assert narrowed(monkeypatch, drawn, "list_team") == drawn, "nothing is known of what fails"
    doom = ComposeError("no_pattern", "in vain")
    for failures in ((), (doom,)):
        with pytest.raises(ComposeError, match="in vain"):
            narrowed(monkeypatch, drawn, "list_team", doom, failures)


async def test_whoever_plans_in_vain_is_told_a_plan_that_is_known_to_work(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_trial", lambda *_: (True, None))
    doom = ComposeError("no_pattern", "in vain")
    monkeypatch.setattr(planning, "_doomed", lambda *_: doom)
    async with early(stub, "good", recipes=False) as who:
        with pytest.raises(ComposeError, match=r"in vain\. These are known to go together: \["):
            await who.author.plan(assignment())


async def test_where_all_is_blocked_what_only_took_part_in_a_failure_is_offered_again(
    stub: Stub,
) -> None:
    given = assignment()
    names = set(load("desk").tools()) | catalogue_with_tools(load("desk")).recipes.keys()
    failed = ComposeError(
        "vm_exec_failed", "no money", function="pay_bill", functions=sorted(names)
    )
    given = replace(given, failures=(failed,), blocked=frozenset(failed.functions))
    async with early(stub, "good") as who:
        made = await who.author.plan(given)
        assert "pay_bill" not in {tool for turn in made.turns for tool in turn.tools}
        alone = tuple(ComposeError("vm_exec_failed", "", function=name) for name in names)
        with pytest.raises(ComposeError) as caught:
            await who.author.plan(replace(given, failures=alone))
    assert caught.value.type == "no_pattern"
