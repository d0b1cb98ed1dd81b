"""Recipes of the workspace messages: 10 tools.

Facts: `ms_in` (somebody is logged in). Things: `person` (an id), `written` (the id of whom one has just written to).
"""

from __future__ import annotations

from functools import partial

from rods.composing.catalogue import Words
from worlds.bfcl.catalogue import social_worlds
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe
from worlds.bfcl.catalogue.social_worlds import MESSAGES

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES)
_member = partial(recipe, RECIPES, makes="ms_in")

_add(
    "ms_login",
    "message_login user_id=me:own_id",
    "log me in to the message system (with the user id {me}|as {me})",
    "sign in to my messages, my user id is {me}",
    unless="ms_in",
    makes="ms_in",
)
_add(
    "ms_login_send",
    "message_login user_id=me:own_id; send_message receiver_id=receiver:colleague_id message=note:note",
    "log me in to the messages as {me} and (tell|write to) the user {receiver}: '{note}'",
    unless="ms_in",
    makes="ms_in",
    gives="written=receiver:colleague_id/receiver",
)
_add(
    "ms_login_stats",
    "message_login user_id=me:own_id; get_message_stats",
    "log me in to the messages as {me} and (show|give) me my message statistics",
    unless="ms_in",
    makes="ms_in",
)
_add(
    "ms_status",
    "message_get_login_status",
    "(check|tell me) whether I am (logged in to|signed in to) the message system",
    "see if my messages are open to me or if I have to log in",
    "find out whether my login to the messages still holds",
    "look whether the message system still knows me",
)
_add(
    "ms_users",
    "list_users",
    "(list|show me) (everybody|all users|all people) in (the|my) workspace",
    "tell me who is in (the|my) workspace",
)
_add(
    "ms_id",
    "get_user_id user=name:colleague",
    "(tell me|look up|find out) the user id of {name}",
    "see under which user id I can reach {name}",
    "get me the id that {name} has in the workspace",
    gives="person=0.user_id/name",
)
_member(
    "ms_send_id",
    "send_message receiver_id=receiver:colleague_id message=note:note",
    "(send|write) the message '{note}' to the user {receiver}",
    "(tell the user with the id {receiver} this|let the user with the id {receiver} know): '{note}'",
    gives="written=receiver:colleague_id/receiver",
)
_member(
    "ms_send",
    "get_user_id user=name:colleague; send_message receiver_id=0.user_id message=note:note",
    "(send|write) {name} the message '{note}'",
    "(look up the id of {name} and send|message {name} and say) '{note}'",
    gives="person=0.user_id/name written=0.user_id/name",
)
_member(
    "ms_send_it",
    "send_message receiver_id=^person message=note:note",
    "(send|write) {person} (the message|this message:) '{note}'",
    gives="written=^person/person",
)
_member(
    "ms_send_back",
    "send_message receiver_id=^written message=note:note",
    "send another message to {written}: '{note}'",
    "follow up with {written} and write '{note}'",
)
_member(
    "ms_new_person",
    "add_contact user_name=name:stranger",
    "(add|register) {name} as a new contact",
    "put {name} on my contact list",
    gives="person=0.user_id/name",
)
_member(
    "ms_new_send",
    "add_contact user_name=name:stranger; send_message receiver_id=0.user_id message=note:note",
    "(add|register) {name} as a new contact and (send|write) them '{note}'",
    "put {name} on my contact list, then message them: '{note}'",
    gives="person=0.user_id/name written=0.user_id/name",
)
_member(
    "ms_delete_id",
    "delete_message receiver_id=receiver:addressed",
    "(delete|remove|take back) (the latest message|my last message) to the user {receiver}",
    ends="written",
)
_member(
    "ms_delete",
    "get_user_id user=name:addressed_name; delete_message receiver_id=0.user_id",
    "(delete|remove|take back) (the latest message|my last message) to {name}",
    "make the last thing that I wrote to {name} disappear",
    "unsend what I last sent to {name}",
    ends="written",
)
_member(
    "ms_delete_it",
    "delete_message receiver_id=^written",
    "(delete|take back) (the message|the last message) to {written}",
    ends="written",
)
_member(
    "ms_view",
    "view_messages_sent",
    "(show|list) (me all messages|me every message) that I have sent",
    "(show me|go through) my sent messages",
    "remind me of what I wrote to people",
)
_member(
    "ms_search",
    "search_messages keyword=keyword:keyword",
    "(search|go through) my messages for '{keyword}'",
    "(find|look for) messages (with|containing) the word '{keyword}'",
)
_member(
    "ms_stats",
    "get_message_stats",
    "(show|give) me (my message statistics|the statistics of my messages)",
    "tell me how many messages I got and from how many contacts",
)
_member(
    "ms_send_view",
    "send_message receiver_id=receiver:colleague_id message=note:note; view_messages_sent",
    "send '{note}' to the user {receiver} and then show me everything that I have sent",
    gives="written=receiver:colleague_id/receiver",
)
PART = Part(
    MESSAGES,
    RECIPES,
    domains=social_worlds.MESSAGE_DOMAINS,
    make=social_worlds.make_workspace,
    things={
        "person": Words(("{noun}",), ("the same person", "that person")),
        "written": Words(("{noun}",), ("the same person", "the person you just wrote to")),
    },
    vague={"colleague": ("one of my colleagues", "somebody from my team"), "receiver": ("I have in mind",)},
    supply={
        "colleague": ("I mean {value}.", "That would be {value}.", "It is {value}."),
        "receiver": ("I mean {value}.", "The id is {value}."),
    },
    families={"colleague": "stranger addressed_name", "receiver": "colleague_id addressed"},
    siblings=(
        ("send_message", "delete_message"),
        ("list_users", "get_user_id"),
        ("view_messages_sent", "search_messages"),
    ),
    common="message_login",
)
