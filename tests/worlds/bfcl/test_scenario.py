"""New states: the classes' shapes and invariants, nothing of the seed's, and what the recipes
need."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rods.calls import Call
from rods.composing.catalogue import Catalogue, Scene
from rods.environments.base import Result
from rods.worlds.bfcl import environment, fetch, tasks
from rods.worlds.bfcl.catalogue.file_system import current
from rods.worlds.bfcl.catalogue.travel import ROUTES
from tests.environments import load


@pytest.fixture(scope="module")
def book() -> Catalogue:
    fetch()
    return environment().catalogue()


def made(book: Catalogue, *names: str, seed: int = 0, avoid: Any = None) -> dict[str, Any]:
    return book.make_state(
        [book.recipes[name] for name in names], avoid, {"topic": "book fair"}, random.Random(seed)
    )


def test_every_class_gets_the_shape_that_the_benchmark_gives_it(book: Catalogue) -> None:
    for task in tasks()[:200:7]:
        assert task.state is not None
        fresh = book.make_state([], task.state, {}, random.Random(1))
        assert fresh["classes"] == task.state["classes"]
        for group, scenario in fresh["config"].items():
            theirs = task.state["config"].get(group, {})
            known = scenario.keys() & theirs.keys()
            assert len(known) >= min(3, len(theirs)) and scenario != theirs
            assert all(
                type(scenario[key]) is type(theirs[key])
                for key in known
                if theirs[key] is not None and scenario[key] is not None
            )
        load("bfcl").reset(fresh)


def test_equal_generators_make_equal_worlds(book: Catalogue) -> None:
    assert made(book, "fs_enter_read", "tr_buy", seed=4) == made(
        book, "fs_enter_read", "tr_buy", seed=4
    )
    assert made(book, "fs_enter_read", seed=4) != made(book, "fs_enter_read", seed=5)


def test_names_of_the_seed_are_avoided(book: Catalogue) -> None:
    old = made(book, "fs_read", seed=1)
    new = made(book, "fs_read", seed=2, avoid=old)
    assert not current(old).names() & current(new).names()


@pytest.mark.parametrize(
    ("login", "use", "group", "field"),
    [
        ("tr_login", "tr_account", "TradingBot", "authenticated"),
        ("tw_login", "tw_post", "TwitterAPI", "authenticated"),
        ("ms_login", "ms_view", "MessageAPI", "current_user"),
        ("tk_login", "tk_list", "TicketAPI", "current_user"),
        ("tv_sign_in", "tv_history_on", "TravelAPI", "access_token"),
    ],
)
def test_one_is_logged_in_unless_a_recipe_logs_in(
    book: Catalogue, login: str, use: str, group: str, field: str
) -> None:
    assert not made(book, login, use)["config"][group][field]
    assert made(book, use)["config"][group][field]


def test_trees_are_as_deep_as_the_recipes_go(book: Catalogue) -> None:
    folder = current(made(book, "fs_enter", "fs_enter_look", "fs_enter_read"))
    for _ in range(3):
        folder = next(inner for inner in folder.folders.values() if inner.folders)
    assert folder.files


def test_a_new_card_is_the_user_s_or_one_of_the_family(book: Catalogue) -> None:
    state = made(book, "tv_register")
    account = state["config"]["TravelAPI"]
    holders = list(book.domains["holder"](Scene(state, {}, {}, {})))
    assert holders[0] == f"{account['user_first_name']} {account['user_last_name']}"
    assert all(name.endswith(account["user_last_name"]) for name in holders)
    assert len(holders) == len(set(holders)) > 6


def test_domains_see_the_place_where_one_stands(book: Catalogue) -> None:
    state = made(book, "fs_enter", "fs_read")
    world = load("bfcl").reset(state)
    there = Scene(world.snapshot(), {}, {}, {})
    (folder, *_) = book.domains["folder"](there)
    here = set(book.domains["file"](there))
    world.call(Call("cd", {"folder": folder}))
    inside = set(book.domains["file"](Scene(world.snapshot(), {}, {}, {})))
    assert inside == set(current(state).folders[folder].files) and not inside & here
    world.call(Call("touch", {"file_name": "brand_new.txt"}))
    assert "brand_new.txt" in book.domains["file"](Scene(world.snapshot(), {}, {}, {}))


def test_flights_are_known_to_the_class(book: Catalogue) -> None:
    world = load("bfcl").reset(made(book, "tv_airports"))
    for start, goals in ROUTES.items():
        for goal in goals:
            call = Call(
                "get_flight_cost",
                {
                    "travel_from": start,
                    "travel_to": goal,
                    "travel_date": "2026-05-05",
                    "travel_class": "first",
                },
            )
            assert world.call(call).error is None


def test_padding_keeps_what_was_there_in_front(book: Catalogue) -> None:
    from rods.composing.records import Draft

    state = made(book, "fs_read", "tr_history", "tv_history")
    draft = Draft(None, state, ())  # type: ignore[arg-type]
    padded = book.pad(draft, frozenset({"budget"}), random.Random(3))
    assert padded["long_context"] and not state["long_context"]
    assert list(current(padded).files)[: len(current(state).files)] == list(current(state).files)
    for group, part in (("TradingBot", "orders"), ("TravelAPI", "booking_record")):
        old, new = (list(one["config"][group][part]) for one in (state, padded))
        assert new[: len(old)] == old and len(new) > len(old) + 4
    load("bfcl").reset(padded)


def test_no_two_tickets_have_one_number_or_one_title(book: Catalogue) -> None:
    offered = 0
    for seed in range(60):
        state = made(book, "tk_create", seed=seed)
        queue = state["config"]["TicketAPI"]["ticket_queue"]
        world = load("bfcl").reset(state)
        title = book.domains["title"](Scene(world.snapshot(), {}, {}, {}))[0]
        result = world.call(Call("create_ticket", {"title": title}))
        titles = [ticket["title"] for ticket in queue] + [title]
        numbers = [ticket["id"] for ticket in queue] + [result.value["id"]]
        assert len(set(titles)) == len(titles) and len(set(numbers)) == len(numbers)
        left = book.domains["title"](Scene(world.snapshot(), {}, {}, {}))
        assert not set(left) & set(titles)
        offered += len(left)
    assert offered > 500


def test_nobody_is_mentioned_twice(book: Catalogue) -> None:
    world = load("bfcl").reset(made(book, "tw_post_mention"))
    scene = Scene(world.snapshot(), {}, {}, {})
    (first, second, *_) = book.domains["mentions"](scene)
    calls = [
        Call("post_tweet", {"content": "Hello", "mentions": first}),
        Call("mention", {"tweet_id": 1, "mentioned_usernames": second}),
    ]
    scene.calls = [(call, Result("{}", {})) for call in calls]
    left = book.domains["mentions"](scene)
    assert left and not {name for names in left for name in names} & {*first, *second}
