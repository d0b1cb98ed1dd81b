"""A clinic of typed functions whose state names days and rooms by `Literal`, and which brings no
catalogue. `load("tests.daemon.authors.catalogue_free.typed_environment:environment")`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from rods.calls import Call
from rods.environments.typed import ToolError, TypedEnvironment
from rods.tasks import EnvironmentRef, Task

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
Number = Annotated[int, Field(ge=1, le=999)]
Name = Annotated[str, Field(max_length=30)]


@dataclass
class Visit:
    patient: Annotated[str, Field(max_length=30)]
    day: Day
    room: Literal["North", "South"] | None = None
    urgent: bool = False


@dataclass
class Clinic:
    visits: dict[int, Visit] = field(default_factory=dict)
    beds: dict[str, int] = field(default_factory=dict)


STATE: dict[str, Any] = {
    "visits": {
        "11": {"patient": "Maren Oduya", "day": "Monday", "room": "North", "urgent": False},
        "14": {"patient": "Tobias Lind", "day": "Thursday", "room": None, "urgent": False},
        "19": {"patient": "Ines Varga", "day": "Friday", "room": "South", "urgent": False},
    },
    "beds": {"Blue Ward": 4, "Long Ward": 7},
}
NAME = "tests.daemon.authors.catalogue_free.typed_environment:environment"
WORLD = TypedEnvironment(NAME, Clinic, behaviour=1)


def _visit(clinic: Clinic, visit: int) -> Visit:
    if visit not in clinic.visits:
        raise ToolError(f"there is no visit {visit}")
    return clinic.visits[visit]


@WORLD.tool("Visits")
def find_visit(clinic: Clinic, patient: Name) -> dict[str, int]:
    """Finds the visit of a patient."""
    for number, visit in clinic.visits.items():
        if visit.patient == patient:
            return {"visit": number}
    raise ToolError(f"nobody is called {patient}")


@WORLD.tool("Visits")
def see_visit(clinic: Clinic, visit: Number) -> Visit:
    """Shows a visit."""
    return _visit(clinic, visit)


@WORLD.tool("Visits")
def move_visit(clinic: Clinic, visit: Number, day: Day) -> Visit:
    """Moves a visit to another day."""
    _visit(clinic, visit).day = day
    return clinic.visits[visit]


@WORLD.tool("Visits")
def press_visit(clinic: Clinic, visit: Number, urgent: bool) -> Visit:
    """Marks a visit as urgent, or as not urgent."""
    _visit(clinic, visit).urgent = urgent
    return clinic.visits[visit]


@WORLD.tool("Visits")
def list_day(clinic: Clinic, day: Day) -> list[str]:
    """Lists the patients of a day."""
    return [visit.patient for visit in clinic.visits.values() if visit.day == day]


def environment() -> TypedEnvironment[Clinic]:
    return WORLD


def seed() -> Task:
    """A visit is looked up and moved; then a day is listed."""
    move = (
        Call("find_visit", {"patient": "Maren Oduya"}),
        Call("move_visit", {"visit": 11, "day": "Tuesday"}),
    )
    calls = (move, (Call("list_day", {"day": "Friday"}),))
    texts = ("Please move the visit of Maren Oduya to Tuesday.", "Who comes on Friday?")
    return Task(
        EnvironmentRef(NAME, WORLD.hash), "base", texts, calls, tuple(WORLD.tools()), {}, STATE
    )
