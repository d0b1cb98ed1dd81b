"""Recipes of the contacts: who people are and where they get mail."""

from __future__ import annotations

from rods.composing.catalogue import step
from worlds.desk.recipes.notation import WHO, Recipes, recipe

RECIPES: Recipes = {}
recipe(
    RECIPES,
    "look_up_person",
    (WHO,),
    "look up the address of {name}",
    "find out where {name} gets mail",
    "check how to reach {name}",
    gives="person=0.address/name",
)
recipe(
    RECIPES,
    "see_team",
    (step("list_team", team="team:team"),),
    "tell me who works in {team}",
    "list everyone in {team}",
    "check who is in {team} now",
)
recipe(
    RECIPES,
    "add_person",
    (step("add_contact", name="name:new_name", address="address:new_address", team="team:team"),),
    "add {name} from {team} with the address {address}",
    "put {name} on our list, address {address}, working in {team}",
    "enter {name} as a new contact at {address} in {team}",
    gives="person=address:new_address/name",
)
recipe(
    RECIPES,
    "readdress_person",
    (step("change_address", name="name:contact", address="address:new_address"),),
    "note that {name} now gets mail at {address}",
    "change the address of {name} to {address}",
    "set the address of {name} to {address}",
    gives="person=address:new_address/name",
)
recipe(
    RECIPES,
    "switch_team",
    (step("change_team", name="name:contact", team="team:other_team"),),
    "note that {name} works in {team} now",
    "put {name} into {team}",
    "change the team of {name} to {team}",
)
recipe(
    RECIPES,
    "drop_person",
    (step("remove_contact", name="name:contact"),),
    "remove {name} from our contacts",
    "take {name} off the contact list",
    "drop {name} from the list of contacts",
    ends="person",
)
