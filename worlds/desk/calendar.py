"""Calendar: events at a day and an hour, with rooms and guests. One event at a time."""

from __future__ import annotations

from typing import Any

from worlds.desk.contacts import ADDRESS
from worlds.desk.pools import DAYS, HOURS, ROOMS
from worlds.desk.registry import MAX_ENTRIES, Refused, State, one_of, text, tool, whole

EVENT = text("id, as e12")
TITLE = text("title")
DAY = one_of("day", DAYS)
HOUR = whole("hour", HOURS[0], HOURS[-1])
ROOM = one_of("room", ROOMS)


@tool("calendar", "Look up the id, day and hour of an event by title.", title=TITLE)
def find_event(state: State, title: str) -> dict[str, Any]:
    for number, event in sorted(state["calendar"]["events"].items()):
        if event["title"] == title:
            return {"event": number, "day": event["day"], "hour": event["hour"]}
    raise Refused("no such event")


@tool("calendar", "List the events of a day, or of today.", day=one_of("day, else today", DAYS, required=False))
def list_day(state: State, day: str | None = None) -> dict[str, Any]:
    wanted = day or state["today"]
    events = state["calendar"]["events"]
    return {"events": sorted(number for number, event in events.items() if event["day"] == wanted)}


@tool("calendar", "Create an event.", title=TITLE, day=DAY, hour=HOUR)
def create_event(state: State, title: str, day: str, hour: int) -> dict[str, Any]:
    calendar = state["calendar"]
    _free(state, day, hour)
    if len(calendar["events"]) >= MAX_ENTRIES:
        raise Refused("too many events")
    number = f"e{calendar['next']}"
    calendar["next"] += 1
    calendar["events"][number] = {"title": title, "day": day, "hour": hour, "room": "", "guests": []}
    return {"event": number}


@tool("calendar", "Move an event to another day and hour.", event=EVENT, day=DAY, hour=HOUR)
def move_event(state: State, event: str, day: str, hour: int) -> dict[str, Any]:
    found = _event(state, event)
    _free(state, day, hour)
    found["day"], found["hour"] = day, hour
    return {"ok": True}


@tool("calendar", "Cancel an event.", event=EVENT)
def cancel_event(state: State, event: str) -> dict[str, Any]:
    _event(state, event)
    del state["calendar"]["events"][event]
    return {"ok": True}


@tool("calendar", "Add a guest to an event.", event=EVENT, address=ADDRESS)
def invite_guest(state: State, event: str, address: str) -> dict[str, Any]:
    guests = _event(state, event)["guests"]
    if address in guests:
        raise Refused("no change")
    if len(guests) >= MAX_ENTRIES:
        raise Refused("too many guests")
    guests.append(address)
    guests.sort()  # who was invited first does not matter
    return {"ok": True}


@tool("calendar", "Book a room for an event.", event=EVENT, room=ROOM)
def book_room(state: State, event: str, room: str) -> dict[str, Any]:
    found = _event(state, event)
    if found["room"] == room:
        raise Refused("no change")
    found["room"] = room
    return {"ok": True}


def _event(state: State, event: str) -> dict[str, Any]:
    found: dict[str, Any] | None = state["calendar"]["events"].get(event)
    if found is None:
        raise Refused("no such event")
    return found


def _free(state: State, day: str, hour: int) -> None:
    for event in state["calendar"]["events"].values():
        if event["day"] == day and event["hour"] == hour:
            raise Refused("hour taken")
