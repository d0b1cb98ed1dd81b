"""BFCL's catalogue for `rods/composing`: the tables and the code of its API classes, put
together."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject
from rods.composing.bind import deep_merge
from rods.composing.catalogue import Catalogue, Recipe, Story
from rods.composing.recipes import merged
from rods.composing.records import ComposeError, Draft
from rods.files import module_table
from rods.worlds.bfcl.catalogue.calculator import CALCULATOR
from rods.worlds.bfcl.catalogue.file_system import FILES
from rods.worlds.bfcl.catalogue.scenario import (
    FIRST_NAMES,
    WORDS,
    ClassCatalogue,
    ScenarioRequest,
    tables,
)
from rods.worlds.bfcl.catalogue.social import MESSAGES, TICKETS, TWEETS, shared_mentions
from rods.worlds.bfcl.catalogue.trading import TRADING
from rods.worlds.bfcl.catalogue.travel import TRAVEL
from rods.worlds.bfcl.catalogue.vehicle import VEHICLE
from rods.worlds.bfcl.classes import MODULES, STATELESS
from rods.worlds.bfcl.ownership import READING

CLASSES: tuple[ClassCatalogue, ...] = (
    FILES,
    VEHICLE,
    TRADING,
    TRAVEL,
    CALCULATOR,
    MESSAGES,
    TWEETS,
    TICKETS,
)
RICH = 200_000.0  # more than any purchase of a plan
EXPIRES = 3_600  # seconds that a session of the travel agency lasts
SHOWN = 64  # BFCL shows every tool of a task's classes
_MENDS: Mapping[str, JsonObject] = module_table(__file__, "mends.toml")


def catalogue(groups: Mapping[str, str]) -> Catalogue:
    """The catalogue of an environment whose tools belong to the API classes `groups` (tool →
    class)."""
    whole = merged([*(api.tables for api in CLASSES), tables("crossing"), WORDS])
    whole = whole.model_copy(
        update={"stories": {name: _often_quiet(story) for name, story in whole.stories.items()}}
    )
    return whole.catalogue(
        "bfcl",
        domains={name: domain for api in CLASSES for name, domain in api.domains.items()},
        make_state=partial(make_state, groups),
        patch=partial(patch, groups),
        pad=pad,
        topics=lambda rng: {
            "topic": rng.choice(WORDS.pools["topics"]),
            "friend": rng.choice(FIRST_NAMES),
        },
        lookups=READING & {tool for recipe in whole.recipes.values() for tool in recipe.tools},
        shown=SHOWN,
        present=lambda state: state["classes"],
        repeated=0.1,
        misjudged=shared_mentions,
    )


def _often_quiet(story: Story) -> Story:
    """Users do not comment on everything: every other later turn and every third last one go
    without a lead."""
    later = story.later
    closing = story.closing
    return replace(
        story, later=later + ("",) * len(later), closing=closing + ("",) * (len(closing) // 2)
    )


def make_state(
    groups: Mapping[str, str],
    recipes: Sequence[Recipe],
    avoid: JsonMapping | None,
    narrative: Mapping[str, str],
    rng: random.Random,
) -> JsonObject:
    """A world with the seed's API classes and those that the recipes call, without the words of
    `avoid`."""
    called = {groups[tool] for recipe in recipes for tool in recipe.tools}
    classes = list(avoid["classes"]) if avoid else []
    classes += [name for name in MODULES if name in called and name not in classes]
    request = ScenarioRequest(recipes, frozenset(_words(avoid)), narrative, rng)
    makers = {api.group: api.make for api in CLASSES}
    config = {name: make(request) for name in classes if (make := makers.get(name)) is not None}
    for name in classes:  # a class without recipes keeps the seed's scenario
        if name not in config and name not in STATELESS and avoid:
            config[name] = avoid["config"].get(name, {})
    return {"classes": classes, "config": config, "long_context": False}


def patch(
    groups: Mapping[str, str], state: JsonMapping, error: ComposeError, rng: random.Random
) -> JsonObject | None:
    """What to merge into the state so that the refused call succeeds, as 004 Appendix C.2 has it:
    money, login, market status, open orders, fuel. None where no scenario is the reason."""
    group = "" if error.call is None else groups.get(error.call.name, "")
    if error.call is None or group not in state["config"]:
        return None
    mended = next(
        (
            change
            for complaint, change in _mends(group, state["config"][group], error.call)
            if complaint in error.detail
        ),
        None,
    )
    return {"config": {group: mended}} if mended else None


def _mends(
    group: str, scenario: JsonMapping, call: Call
) -> Iterator[tuple[str, JsonObject | None]]:
    """What a refusal says, and what to merge into the scenario then; None where nothing there would
    help."""
    orders, cards, users = (
        scenario.get(name, {}) for name in ("orders", "credit_card_list", "user_map")
    )
    yield from _MENDS.get(group, {}).items()
    if group == "TradingBot":
        number = str(call.arguments.get("order_id"))
        yield (
            "Insufficient",
            {"account_info": {"balance": RICH}} if "account_info" in scenario else None,
        )
        if number in orders:
            yield "already completed", {"orders": {number: {"status": "Open"}}}
        if orders and number.isdigit():
            like = next(iter(orders.values()))
            yield (
                "Order with ID",
                {"orders": {number: {**like, "id": int(number), "status": "Open"}}},
            )
    elif group == "TravelAPI":
        card = call.arguments.get("card_id")
        token = call.arguments.get("access_token", "")
        valid = {} if scenario.get("access_token") else {"access_token": token}
        yield "Token expired", valid | {"token_expires_in": EXPIRES}
        yield "Token not initialized", valid | {"token_expires_in": EXPIRES}
        rich = {"credit_card_list": {card: {"balance": RICH}}} if card in cards else None
        yield "Insufficient funds", rich
        yield "Balance is less", rich
    elif group == "MessageAPI":
        yield "currently logged in", {"current_user": next(iter(users.values()))} if users else None
    elif group == "TicketAPI":
        makers = [
            ticket.get("created_by")
            for ticket in scenario.get("ticket_queue", ())
            if ticket.get("created_by")
        ]
        yield "not authenticated", {"current_user": makers[0]} if makers else None


def pad(draft: Draft, spoken: frozenset[str], rng: random.Random) -> JsonObject:
    """The draft's world, padded as BFCL pads (by its flag) and with more entries of our own."""
    state = deep_merge(draft.state, {"long_context": True})
    for api in CLASSES:
        if api.pad is not None and api.group in state["config"]:
            api.pad(state["config"][api.group], spoken, rng)
    return state


def _words(value: Any) -> Iterator[str]:
    """Every key and every short text of a state, in lower case."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key).lower()
            yield from re.findall(r"[a-z]{4,}", str(key).lower())
            yield from _words(item)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    elif isinstance(value, str):
        yield value.lower()
