"""A shelf of notes that are found by their titles, with tools, schemas and a state and nothing
else.

`load("tests.rods.composing.shelf_environment:environment")`.
"""

from __future__ import annotations

from typing import Any

from rods.environments.base import Environment, Parameter, Tool
from tests.rods.toy_environment import TOOLS, Toy, World

NAME = "tests.rods.composing.shelf_environment:environment"
FIND = Tool(
    "find",
    "Notes",
    "Finds the notes that have a word in their title.",
    (Parameter("title", {"type": "string"}),),
)
NEWEST = Tool("newest", "Notes", "Tells the number of the newest note.")
STATE: dict[str, Any] = {
    "notes": {
        "201": {"title": "boiler", "body": "check the valve"},
        "202": {"title": "attic", "body": "old boxes"},
        "203": {"title": "cellar", "body": "red wine"},
    },
    "counters": {"visits": 3, "sales": 1, "calls": 4},
}


class Shelf(World):
    def find(self, title: str) -> Any:
        return {
            "note_ids": [
                int(key) for key, note in self.state["notes"].items() if title in note["title"]
            ]
        }

    def newest(self) -> Any:
        return {"note_id": max(map(int, self.state["notes"]))}


def environment() -> Environment:
    made = Toy("environment", Shelf, tools={**TOOLS, "find": FIND, "newest": NEWEST})
    made.name = NAME
    return made
