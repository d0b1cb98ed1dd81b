"""Recipes of the support tickets: 9 tools.

Facts: `tk_in` (logged in), `tk_out` (logged out). Things: `ticket` (the number of a ticket that one has opened).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rods.composing.catalogue import Words
from worlds.bfcl.catalogue import social_worlds
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe
from worlds.bfcl.catalogue.social_worlds import TICKETS

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES)
_LOGIN = "ticket_login username=agent:agent password=password:ticket_password"


def _member(name: str, steps: str, *phrases: str, **rest: Any) -> None:
    """A recipe for which one must be logged in."""
    _add(name, steps, *phrases, unless="tk_out", makes="tk_in", **rest)


_add(
    "tk_login",
    _LOGIN,
    "log me in to the ticket system as {agent} with the password {password}",
    "sign in to support, my user name is {agent} and the password {password}",
    unless="tk_in tk_out",
    makes="tk_in",
)
_add(
    "tk_login_create",
    f"{_LOGIN}; create_ticket title=title:title priority=priority:priority",
    "log me in to the ticket system as {agent}, password {password}, and open a ticket called '{title}' with "
    "priority {priority}",
    unless="tk_in tk_out",
    makes="tk_in",
    gives="ticket=1.id/title",
)
_add(
    "tk_login_list",
    f"{_LOGIN}; get_user_tickets",
    "log me in to the ticket system as {agent}, password {password}, and list my tickets",
    unless="tk_in tk_out",
    makes="tk_in",
)
_add(
    "tk_status",
    "ticket_get_login_status",
    "(check|tell me) whether I am (logged in to|signed in to) the ticket system",
    "see if the ticket system has me logged in",
    "find out whether I have an open session with support",
)
_add(
    "tk_logout",
    "logout",
    "log me out of the ticket system",
    "(end|close) my session in the ticket system",
    when="tk_in",
    unless="tk_out",
    makes="tk_out",
)
_member(
    "tk_create",
    "create_ticket title=title:title description=description:description priority=priority:priority",
    "(open|file|create) a support ticket (titled|called) '{title}' with priority {priority} and the description "
    "'{description}'",
    "file a ticket with the title '{title}', priority {priority}, and say in it '{description}'",
    gives="ticket=0.id/title",
)
_member(
    "tk_create_plain",
    "create_ticket title=title:title description=description:description",
    "(open|file|create) a support ticket (titled|called) '{title}' with the description '{description}'",
    gives="ticket=0.id/title",
)
_member(
    "tk_create_short",
    "create_ticket title=title:title priority=priority:priority",
    "(open|file|create) a ticket (titled|called) '{title}' with priority {priority}, no description needed",
    gives="ticket=0.id/title",
)
_member(
    "tk_create_show",
    "create_ticket title=title:title description=description:description priority=priority:priority;"
    " get_ticket ticket_id=0.id",
    "file a ticket called '{title}', priority {priority}, saying '{description}', and show it to me once it is there",
    gives="ticket=0.id/title",
)
_add(
    "tk_show",
    "get_ticket ticket_id=^ticket",
    "(show|open) {ticket} (for me|so that I can check it)",
    "(give|show) me the details of {ticket}",
)
_add(
    "tk_close",
    "close_ticket ticket_id=^ticket",
    "close {ticket}",
    "(close|shut) {ticket}, it is no longer needed",
    ends="ticket",
)
_add(
    "tk_resolve",
    "resolve_ticket ticket_id=^ticket resolution=solution:solution",
    "(mark {ticket} as resolved|resolve {ticket}) with the note '{solution}'",
    ends="ticket",
)
_add(
    "tk_edit",
    "edit_ticket ticket_id=^ticket updates=update:update",
    "(edit|update) {ticket} and set its {update}",
    "change {ticket}: set the {update}",
)
_add(
    "tk_old_show",
    "get_ticket ticket_id=number:ticket_number",
    "(show|open|pull up) the ticket {number}",
    "(give|show) me the details of the ticket {number}",
)
_add(
    "tk_old_close",
    "close_ticket ticket_id=number:ticket_number",
    "(close|shut) the ticket {number}",
    "close the ticket {number}",
)
_add(
    "tk_old_resolve",
    "resolve_ticket ticket_id=number:ticket_number resolution=solution:solution",
    "mark the ticket {number} as resolved with the note '{solution}'",
    "resolve the ticket {number} and give '{solution}' as the solution",
)
_add(
    "tk_old_edit",
    "edit_ticket ticket_id=number:ticket_number updates=update:update",
    "(edit|update) the ticket {number} and set its {update}",
    "go to the ticket {number} and change its {update}",
)
_add(
    "tk_old_check_close",
    "get_ticket ticket_id=number:ticket_number; close_ticket ticket_id=number:ticket_number",
    "show me the ticket {number} and then close it",
)
_member(
    "tk_list",
    "get_user_tickets",
    "(list|show me) (all my tickets|every ticket I opened)",
)
_member(
    "tk_list_status",
    "get_user_tickets status=status:status",
    "(list|show me) those of my tickets that are {status}",
    "(tell me|check) which of my tickets are {status}",
    "filter my tickets by the status {status}",
    "go through my tickets and pick out the ones that are {status}",
)
_member(
    "tk_list_first",
    "get_user_tickets; get_ticket ticket_id=0.0.id",
    "list my tickets and (show|open) the first one in detail",
)
PART = Part(
    TICKETS,
    RECIPES,
    domains=social_worlds.TICKET_DOMAINS,
    make=social_worlds.make_queue,
    things={"ticket": Words(("the '{noun}' ticket", "the ticket '{noun}'"), ("that ticket", "the ticket"))},
    vague={
        "title": ("something fitting", "something clear"),
        "ticket_number": ("that came in last week", "that I told you about"),
        "status": ("in a certain state",),
    },
    supply={
        "title": ("Call it '{value}'.", "The title is '{value}'."),
        "ticket_number": ("I mean {value}.", "It is number {value}."),
        "status": ("I mean {value}.", "The status is {value}."),
    },
    siblings=(("close_ticket", "resolve_ticket"), ("get_ticket", "get_user_tickets"), ("create_ticket", "edit_ticket")),
    common="ticket_login",
)
