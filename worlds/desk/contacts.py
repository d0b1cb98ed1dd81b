"""Contacts: who works in which team, and at which address they get mail."""

from __future__ import annotations

from typing import Any

from worlds.desk.pools import TEAMS
from worlds.desk.registry import MAX_ENTRIES, Refused, State, one_of, text, tool

NAME = text("who")
ADDRESS = text("mail box, as box12")
TEAM = one_of("team", TEAMS)


@tool("contacts", "Look up the address of a contact.", name=NAME)
def find_contact(state: State, name: str) -> dict[str, Any]:
    return {"address": _contact(state, name)["address"]}


@tool("contacts", "List the names in a team.", team=TEAM)
def list_team(state: State, team: str) -> dict[str, Any]:
    return {"names": sorted(name for name, contact in state["contacts"].items() if contact["team"] == team)}


@tool("contacts", "Add a new contact.", name=NAME, address=ADDRESS, team=TEAM)
def add_contact(state: State, name: str, address: str, team: str) -> dict[str, Any]:
    contacts = state["contacts"]
    if name in contacts:
        raise Refused("contact exists")
    if len(contacts) >= MAX_ENTRIES:
        raise Refused("too many contacts")
    contacts[name] = {"address": address, "team": team}
    return {"ok": True}


@tool("contacts", "Change the address of a contact.", name=NAME, address=ADDRESS)
def change_address(state: State, name: str, address: str) -> dict[str, Any]:
    contact = _contact(state, name)
    if contact["address"] == address:
        raise Refused("no change")
    contact["address"] = address
    return {"ok": True}


@tool("contacts", "Put a contact into another team.", name=NAME, team=TEAM)
def change_team(state: State, name: str, team: str) -> dict[str, Any]:
    contact = _contact(state, name)
    if contact["team"] == team:
        raise Refused("no change")
    contact["team"] = team
    return {"ok": True}


@tool("contacts", "Remove a contact.", name=NAME)
def remove_contact(state: State, name: str) -> dict[str, Any]:
    _contact(state, name)
    del state["contacts"][name]
    return {"ok": True}


def _contact(state: State, name: str) -> dict[str, Any]:
    contact: dict[str, Any] | None = state["contacts"].get(name)
    if contact is None:
        raise Refused("no such contact")
    return contact
