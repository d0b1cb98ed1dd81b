"""Desk's initial states: fresh ones, patched ones, and long ones."""

import copy
import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from rods.analysis.containment import values_in
from rods.canonical import JsonMapping, JsonObject
from rods.composing.catalogue import Recipe
from rods.composing.records import ComposeError, Draft
from rods.worlds.desk import pools
from rods.worlds.desk.declared_tools import REGISTRY

LOCKED = 0.25  # share of files that are locked at first
TOPICAL = 0.7  # probability that the world holds a mail, an event about the story's topic
RICH = 1600  # what an account holds after a repair
# entries that padding adds
LONG = {"contacts": 8, "mail": 7, "calendar": 6, "files": 8, "accounts": 3, "bills": 5}


def make_state(
    recipes: Sequence[Recipe],
    avoid: JsonMapping | None,
    narrative: Mapping[str, str],
    rng: random.Random,
) -> JsonObject:
    """A world with the classes that the recipes call, and none of the names that `avoid` holds."""
    groups = {REGISTRY[tool].tool.group for recipe in recipes for tool in recipe.tools}
    maker = StateMaker(rng, set(), avoided=_words(avoid or {}))
    topic = narrative.get("topic") if rng.random() < TOPICAL else None
    state: JsonObject = {"today": rng.choice(pools.DAYS)}
    if "contacts" in groups:
        state["contacts"] = maker.contacts(rng.randint(3, 5))
    if "mail" in groups:
        state["mail"] = {
            "inbox": maker.mails(rng.randint(3, 4), topic),
            "sent": {},
            "next": rng.choice(pools.NEXT_IDS),
        }
    if "calendar" in groups:
        state["calendar"] = {
            "events": maker.events(rng.randint(3, 4), topic, {}),
            "next": rng.choice(pools.NEXT_IDS),
        }
    if "files" in groups:
        state["files"] = maker.files(rng.randint(3, 4))
    if "ledger" in groups:
        state["ledger"] = {
            "accounts": maker.accounts(3),
            "bills": maker.bills(rng.randint(2, 3)),
            "next": rng.choice(pools.NEXT_IDS),
        }
    return state


def patch(state: JsonMapping, error: ComposeError, rng: random.Random) -> JsonObject | None:
    """What to merge into the state so that the failed call, or the empty domain, works next
    time."""
    maker = StateMaker(rng, _words(state))
    if error.domain is not None:
        return _supplied(state, error.domain, maker)
    if error.call is None:
        return None
    arguments = error.call.arguments
    if "not enough money" in error.detail:
        account = arguments.get("source", arguments.get("account"))
        return {"ledger": {"accounts": {account: RICH}}}
    if "hour taken" in error.detail:
        return _freed(state, arguments["day"], arguments["hour"], rng)
    if arguments.get("file") in state.get("files", {}):
        if "file locked" in error.detail:
            return {"files": {arguments["file"]: {"locked": False}}}
        if "not locked" in error.detail:
            return {"files": {arguments["file"]: {"locked": True}}}
    if "no change" in error.detail and error.call.name == "flag_mail":
        return {"mail": {"inbox": {arguments["mail"]: {"flagged": False}}}}
    return None


def pad(draft: Draft, spoken: frozenset[str], rng: random.Random) -> JsonObject:
    """The draft's state with many more entries in every class that it has. Names, subjects, titles
    and hours that are spoken of stay unique; where the request is about the only one of a team,
    folder or day, these stay as they are."""
    state = copy.deepcopy(dict(draft.state))
    lone = any(
        "lone" in name or name == "clear_day" for turn in draft.plan.turns for name in turn.recipes
    )
    maker = StateMaker(rng, _words(state) | spoken, spoken if lone else frozenset())
    if "contacts" in state:
        state["contacts"] |= maker.contacts(LONG["contacts"])
    if "mail" in state:
        state["mail"]["inbox"] |= maker.mails(LONG["mail"], None)
    if "calendar" in state:
        events = state["calendar"]["events"]
        events |= maker.events(LONG["calendar"], None, events)
    if "files" in state:
        state["files"] |= maker.files(LONG["files"])
    if "ledger" in state:
        state["ledger"]["accounts"] |= maker.accounts(LONG["accounts"])
        state["ledger"]["bills"] |= maker.bills(LONG["bills"])
    return state


@dataclass
class StateMaker:
    """Makes entries from the pools. Names and ids in `taken` are never used, names in `avoided`
    only when no others are left; `closed` are teams, folders and days that get nothing new."""

    rng: random.Random
    taken: set[str]
    closed: frozenset[str] = frozenset()
    avoided: Set[str] = frozenset()

    def contacts(self, count: int) -> JsonObject:
        names = self._some(pools.NAMES, count)
        addresses = self._some(pools.ADDRESSES, count)
        return {
            name: {"address": address, "team": self._open(pools.TEAMS)}
            for name, address in zip(names, addresses, strict=False)
        }

    def mails(self, count: int, topic: str | None) -> JsonObject:
        return {
            number: {
                "sender": self.rng.choice(pools.ADDRESSES),
                "subject": subject,
                "text": self.rng.choice(pools.TEXTS),
                "flagged": self.rng.random() < 0.2,
            }
            for number, subject in zip(
                self._ids("m", count), self._topics(count, topic), strict=False
            )
        }

    def events(self, count: int, topic: str | None, others: JsonMapping) -> JsonObject:
        """Events at times that neither `others` nor spoken hours take."""
        hours = [hour for hour in pools.HOURS if str(hour) not in self.taken]
        full = {(event["day"], event["hour"]) for event in others.values()}
        times = [(day, hour) for day in pools.DAYS if day not in self.closed for hour in hours]
        times = [time for time in times if time not in full]
        titles = self._topics(count, topic)
        slots = self.rng.sample(times, min(count, len(times)))
        return {
            number: {"title": title, "day": day, "hour": hour, "room": "", "guests": []}
            for number, title, (day, hour) in zip(
                self._ids("e", count), titles, slots, strict=False
            )
        }

    def files(self, count: int) -> JsonObject:
        return {
            name: {
                "folder": self._open(pools.FOLDERS),
                "text": self.rng.choice(pools.TEXTS),
                "locked": self.rng.random() < LOCKED,
                "shared": [],
            }
            for name in self._some(pools.FILES, count)
        }

    def accounts(self, count: int) -> dict[str, int]:
        return {name: self.rng.choice(pools.BALANCES) for name in self._some(pools.ACCOUNTS, count)}

    def bills(self, count: int) -> JsonObject:
        return {
            number: {"vendor": vendor, "amount": self.rng.choice(pools.AMOUNTS), "paid": False}
            for number, vendor in zip(
                self._ids("i", count), self._some(pools.VENDORS, count), strict=False
            )
        }

    def _some(self, pool: Sequence[str], count: int) -> list[str]:
        free = [value for value in pool if value not in self.taken]
        other = [value for value in free if value not in self.avoided]
        if len(other) >= count:
            free = other
        return self.rng.sample(free, min(count, len(free)))

    def _open(self, pool: Sequence[str]) -> str:
        return self.rng.choice([value for value in pool if value not in self.closed])

    def _topics(self, count: int, topic: str | None) -> list[str]:
        topics = self._some(pools.TOPICS, count)
        if topic is not None and topic not in topics and topics:
            topics[self.rng.randrange(len(topics))] = topic
        return topics

    def _ids(self, letter: str, count: int) -> list[str]:
        free = [
            f"{letter}{number}"
            for number in pools.FIRST_IDS
            if f"{letter}{number}" not in self.taken
        ]
        return self.rng.sample(free, min(count, len(free)))


def _supplied(state: JsonMapping, domain: str, maker: StateMaker) -> JsonObject | None:
    """One more entry for an empty domain."""
    if domain in ("contact", "lone_team"):
        teams = {contact["team"] for contact in state["contacts"].values()}
        maker.closed = frozenset(teams) if len(teams) < len(pools.TEAMS) else frozenset()
        return {"contacts": maker.contacts(1)}
    if domain in ("subject", "spare_subject"):
        return {"mail": {"inbox": maker.mails(1, None), **_next(state["mail"])}}
    if domain in ("title", "spare_title", "lone_day"):
        days = {event["day"] for event in state["calendar"]["events"].values()}
        maker.closed = frozenset(days) if len(days) < len(pools.DAYS) else frozenset()
        calendar = state["calendar"]
        return {
            "calendar": {"events": maker.events(1, None, calendar["events"]), **_next(calendar)}
        }
    if domain == "locked_file" and state["files"]:
        return {"files": {maker.rng.choice(sorted(state["files"])): {"locked": True}}}
    if domain in ("file", "locked_file", "lone_folder"):
        folders = {file["folder"] for file in state["files"].values()}
        maker.closed = frozenset(folders) if len(folders) < len(pools.FOLDERS) else frozenset()
        return {"files": maker.files(1)}
    if domain in ("account", "target"):
        return {"ledger": {"accounts": maker.accounts(1)}}
    if domain == "vendor":
        return {"ledger": {"bills": maker.bills(1), **_next(state["ledger"])}}
    return None


def _next(part: JsonMapping) -> dict[str, int]:
    """The number of the next id, above all that a maker gives."""
    return {"next": max(part["next"], pools.NEXT_IDS[0])}


def _freed(state: JsonMapping, day: str, hour: int, rng: random.Random) -> JsonObject | None:
    """Moves whichever event stands at that time to a free one."""
    events = state["calendar"]["events"]
    taken = {(event["day"], event["hour"]) for event in events.values()} | {(day, hour)}
    free = [(other, at) for other in pools.DAYS for at in pools.HOURS if (other, at) not in taken]
    for number, event in events.items():
        if (event["day"], event["hour"]) == (day, hour):
            new_day, new_hour = rng.choice(free)
            return {"calendar": {"events": {number: {"day": new_day, "hour": new_hour}}}}
    return None  # the time was taken by the plan itself


def _words(value: Any) -> set[str]:
    """Every key and text in a state, names of teams, folders and days included."""
    return {leaf for leaf in values_in(value, keys=True) if isinstance(leaf, str)}
