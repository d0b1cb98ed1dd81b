"""Desk's catalogue for `rods/composing`: the tables of `recipes/`, and which values are sensible at
a moment.

A domain looks at the state, but not at everything: that a file is locked or an account too poor
shows only when the call runs.
"""

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rods.canonical import JsonObject
from rods.composing.catalogue import Catalogue, Domain, Scene
from rods.composing.recipes import merged, read
from rods.worlds.desk import pools
from rods.worlds.desk.states import make_state, pad, patch

SHOWN = 14  # tools shown with a task: prompts stay short
_FILES = ("contacts", "mail", "calendar", "files", "ledger", "words")


@cache
def catalogue() -> Catalogue:
    tables = merged([read(Path(__file__).parent / "recipes" / f"{name}.toml") for name in _FILES])
    return tables.catalogue(
        "desk",
        domains=DOMAINS,
        make_state=make_state,
        patch=patch,
        pad=pad,
        topics=_topics,
        shown=SHOWN,
    )


def _topics(rng: random.Random) -> dict[str, str]:
    return {"topic": rng.choice(pools.TOPICS)}


def _files(scene: Scene) -> JsonObject:
    files: JsonObject = scene.state["files"]
    return files


def _lone(values: list[str]) -> list[str]:
    """The values that occur exactly once, in order of the alphabet."""
    return sorted(value for value, count in Counter(values).items() if count == 1)


def _others(pool: Sequence[str], taken: set[str]) -> list[str]:
    return [value for value in pool if value not in taken]


def _subjects(scene: Scene) -> list[str]:
    return [mail["subject"] for mail in scene.state["mail"]["inbox"].values()]


def _titles(scene: Scene) -> list[str]:
    return [event["title"] for event in scene.state["calendar"]["events"].values()]


def _addresses(scene: Scene) -> set[str]:
    return {contact["address"] for contact in scene.state["contacts"].values()}


def _vendors(scene: Scene) -> list[str]:
    return _lone(
        [bill["vendor"] for bill in scene.state["ledger"]["bills"].values() if not bill["paid"]]
    )


def _other(entries: str, slot: str, field: str, pool: Sequence[str]) -> Domain:
    """The values of a pool that the chosen entry does not have in that field, and that are not
    chosen yet."""

    def others(scene: Scene) -> list[str]:
        entry = scene.state[entries].get(scene.chosen.get(slot, ""), {})
        return _others(pool, {entry.get(field, ""), scene.chosen.get(field, "")})

    return others


def _hours(scene: Scene) -> list[int]:
    """Those at which nothing begins on the day that was chosen, if one was."""
    events = scene.state["calendar"]["events"].values()
    full = {event["hour"] for event in events if event["day"] == scene.chosen.get("day")}
    return [hour for hour in pools.HOURS if hour not in full]


def _event(scene: Scene) -> JsonObject:
    event: JsonObject = scene.state["calendar"]["events"].get(
        scene.chosen["event"], {"room": "", "guests": []}
    )
    return event


DOMAINS: dict[str, Domain] = {
    "contact": lambda scene: list(scene.state["contacts"]),
    "new_name": lambda scene: _others(pools.NAMES, set(scene.state["contacts"])),
    "address": lambda scene: _others(pools.ADDRESSES, _addresses(scene)),
    "new_address": lambda scene: _others(pools.ADDRESSES, _addresses(scene)),
    "team": lambda scene: pools.TEAMS,
    "other_team": _other("contacts", "name", "team", pools.TEAMS),
    "lone_team": lambda scene: _lone(
        [contact["team"] for contact in scene.state["contacts"].values()]
    ),
    "subject": lambda scene: _lone(_subjects(scene)),
    "spare_subject": lambda scene: _others(
        _lone(_subjects(scene)), {scene.narrative.get("topic", "")}
    ),
    "new_subject": lambda scene: pools.TOPICS,
    "text": lambda scene: pools.TEXTS,
    "new_text": _other("files", "file", "text", pools.TEXTS),
    "title": lambda scene: _lone(_titles(scene)),
    "spare_title": lambda scene: _others(_lone(_titles(scene)), {scene.narrative.get("topic", "")}),
    "new_title": lambda scene: _others(pools.TOPICS, set(_titles(scene))),
    "day": lambda scene: pools.DAYS,
    "lone_day": lambda scene: _lone(
        [event["day"] for event in scene.state["calendar"]["events"].values()]
    ),
    "hour": _hours,
    "room": lambda scene: pools.ROOMS,
    "other_room": lambda scene: _others(pools.ROOMS, {_event(scene)["room"]}),
    "new_guest": lambda scene: _others(
        pools.ADDRESSES, {*_addresses(scene), *_event(scene)["guests"]}
    ),
    "file": lambda scene: list(_files(scene)),
    "new_file": lambda scene: _others(pools.FILES, set(_files(scene))),
    "new_reader": lambda scene: _others(
        pools.ADDRESSES, {*_addresses(scene), *_files(scene)[scene.chosen["file"]]["shared"]}
    ),
    "locked_file": lambda scene: [name for name, file in _files(scene).items() if file["locked"]],
    "folder": lambda scene: pools.FOLDERS,
    "other_folder": _other("files", "file", "folder", pools.FOLDERS),
    "lone_folder": lambda scene: _lone([file["folder"] for file in _files(scene).values()]),
    "account": lambda scene: list(scene.state["ledger"]["accounts"]),
    "target": lambda scene: _others(
        list(scene.state["ledger"]["accounts"]), {scene.chosen.get("source", "")}
    ),
    "amount": lambda scene: pools.AMOUNTS,
    "vendor": _vendors,
    "new_vendor": lambda scene: _others(pools.VENDORS, set(_vendors(scene))),
}
