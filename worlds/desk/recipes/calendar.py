"""Recipes of the calendar: events, their rooms and their guests."""

from __future__ import annotations

from rods.composing.catalogue import Step, step
from worlds.desk.recipes.notation import EVENT, NEW_EVENT, SPARE_EVENT, WHO, Recipes, recipe

RECIPES: Recipes = {}
recipe(
    RECIPES,
    "plan_event",
    (NEW_EVENT,),
    "plan the {title} on {day} at {hour}",
    "put the {title} on my calendar, {day} at {hour}",
    "set up an event called {title} for {day} at {hour}",
    gives="event=0.event/title",
)
recipe(
    RECIPES,
    "look_up_event",
    (EVENT,),
    "tell me when the {title} is",
    "find the {title} on my calendar",
    "check the day and hour of the {title}",
    gives="event=0.event/title",
)
recipe(
    RECIPES,
    "see_day",
    (step("list_day", day="day:day"),),
    "tell me what is on my calendar for {day}",
    "list my events on {day}",
    "check how full {day} is",
)
recipe(RECIPES, "see_today", (Step("list_day"),), "tell me what is on today", "list what my calendar holds for today")
recipe(
    RECIPES,
    "shift_event",
    (EVENT, step("move_event", event="0.event", day="day:day", hour="hour:hour")),
    "move the {title} to {day} at {hour}",
    "change the {title} to {day} at {hour}",
    "make the {title} start on {day} at {hour}",
    gives="event=0.event/title",
)
recipe(
    RECIPES,
    "drop_event",
    (SPARE_EVENT, step("cancel_event", event="0.event")),
    "cancel the {title}",
    "take the {title} off my calendar",
    "call off the {title} because it will not happen",
    ends="event",
)
recipe(
    RECIPES,
    "invite_person",
    (EVENT, WHO, step("invite_guest", event="0.event", address="1.address")),
    "invite {name} to the {title}",
    "add {name} as a guest of the {title}",
    "make sure that {name} is invited to the {title}",
    gives="event=0.event/title person=1.address/name",
)
recipe(
    RECIPES,
    "room_for_event",
    (EVENT, step("book_room", event="0.event", room="room:room")),
    "book {room} for the {title}",
    "get us {room} as the room for the {title}",
    gives="event=0.event/title",
)
recipe(
    RECIPES,
    "move_it",
    (step("move_event", event="^event", day="day:day", hour="hour:hour"),),
    "move {event} to {day} at {hour}",
    "change {event} to {day} at {hour}",
)
recipe(
    RECIPES,
    "cancel_it",
    (step("cancel_event", event="^event"),),
    "cancel {event}",
    "take {event} off my calendar",
    ends="event",
)
recipe(
    RECIPES,
    "invite_to_it",
    (WHO, step("invite_guest", event="^event", address="0.address")),
    "invite {name} to {event}",
    "add {name} as a guest of {event}",
    gives="person=0.address/name",
)
recipe(
    RECIPES,
    "invite_address",
    (step("invite_guest", event="^event", address="address:new_guest"),),
    "invite {address} to {event}",
    "add {address} to the guests of {event}",
)
recipe(
    RECIPES,
    "invite_them",
    (step("invite_guest", event="^event", address="^person"),),
    "invite {person} to {event}",
    "add {person} to the guests of {event}",
)
recipe(
    RECIPES,
    "room_for_it",
    (step("book_room", event="^event", room="room:other_room"),),
    "book {room} for {event}",
    "get {room} as the room for {event}",
)
recipe(
    RECIPES,
    "plan_in_room",
    (NEW_EVENT, step("book_room", event="0.event", room="room:room")),
    "plan the {title} on {day} at {hour} and book {room} for it",
    "set up an event called {title} in {room}, {day} at {hour}",
    gives="event=0.event/title",
)
recipe(
    RECIPES,
    "plan_with_guest",
    (NEW_EVENT, WHO, step("invite_guest", event="0.event", address="1.address")),
    "plan the {title} on {day} at {hour} and invite {name}",
    "set up the {title} with {name} as a guest, {day} at {hour}",
    gives="event=0.event/title person=1.address/name",
)
recipe(
    RECIPES,
    "clear_day",
    (step("list_day", day="day:lone_day"), step("cancel_event", event="0.events.0")),
    "cancel the only event that I have on {day}",
    "clear {day} by calling off the one event there",
    ends="event",
)
recipe(
    RECIPES,
    "plan_same_day",
    (EVENT, step("create_event", title="new:new_title", day="0.day", hour="hour:hour")),
    "plan the {new} at {hour} on the day of the {title}",
    "put the {new} on the day when the {title} is, at {hour}",
    gives="event=1.event/new",
)
