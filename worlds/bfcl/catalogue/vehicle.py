"""BFCL's car: new states of it, and what may be chosen in one."""

from collections.abc import Mapping, Sequence
from typing import Any

from rods.canonical import JsonMapping, JsonObject
from rods.composing.catalogue import Domain, Scene, Worded
from rods.worlds.bfcl.catalogue.scenario import ClassCatalogue, ScenarioRequest, tables

GROUP = "VehicleControlAPI"
_TABLES = tables("vehicle")
_DOORS: Mapping[str, str] = _TABLES.pools["doors"]
ZIP_CODES: Mapping[str, str] = _TABLES.pools["zip_codes"]
_PARKED: JsonMapping = _TABLES.pools["parked"]  # what is so in every new car
# the cities between which the car knows a distance
_ROADS: Sequence[tuple[str, str]] = _TABLES.pools["roads"]


def make(request: ScenarioRequest) -> JsonObject:
    """A parked car with the engine off; doors as the recipes need them."""
    rng = request.rng
    names = {recipe.name for recipe in request.recipes}
    doors = ["driver", "passenger", "rear_left", "rear_right"]
    opened = set() if "car_start_ready" in names else set(rng.sample(doors, rng.randint(2, 4)))
    front = rng.randint(56, 72) / 2
    rear = rng.randint(56, 72) / 2
    return {
        **_PARKED,
        "fuelLevel": rng.randint(6, 44) / 2,
        "batteryVoltage": rng.randint(121, 130) / 10,
        "doorStatus": {door: "unlocked" if door in opened else "locked" for door in doors},
        "acTemperature": float(rng.randint(18, 27)),
        "fanSpeed": rng.randrange(30, 80, 5),
        "humidityLevel": float(rng.randrange(35, 65, 5)),
        "distanceToNextVehicle": float(rng.randrange(20, 120, 5)),
        "frontLeftTirePressure": front,
        "frontRightTirePressure": front,
        "rearLeftTirePressure": rear,
        "rearRightTirePressure": rear,
    }


def car(state: JsonMapping) -> JsonMapping:
    """The car's attributes in a state or a snapshot, under the names of the scenario."""
    changed = state.get("objects", {}).get(GROUP)
    if changed is not None:
        return {**changed, "engineState": changed["engine_state"]}
    scenario: JsonMapping = state["config"][GROUP]
    return scenario


def _doors(scene: Scene, status: str) -> list[Worded]:
    """One or two doors of that status."""
    doors = [door for door, now in car(scene.state)["doorStatus"].items() if now == status]
    choices = [Worded([door], f"the {_DOORS[door]}") for door in doors]
    if {"rear_left", "rear_right"} <= set(doors):
        choices.append(Worded(["rear_left", "rear_right"], "both rear doors"))
    if {"driver", "passenger"} <= set(doors):
        choices.append(Worded(["driver", "passenger"], "both front doors"))
    return choices


def _partners(town: Any) -> list[str]:
    return [start if end == town else end for start, end in _ROADS if town in (start, end)]


def _towns_on(zip_code: Any) -> list[str]:
    """The cities to which the car knows the distance from the one with this code."""
    return _partners(next((town for town, code in ZIP_CODES.items() if code == zip_code), None))


DOMAINS: Mapping[str, Domain] = {
    "open_doors": lambda scene: _doors(scene, "unlocked"),
    "shut_doors": lambda scene: _doors(scene, "locked"),
    "gallons": lambda scene: [
        fuel for fuel in range(2, 31) if fuel <= 49 - car(scene.state)["fuelLevel"]
    ],
    "liters": lambda scene: [
        fuel for fuel in range(8, 130) if fuel * 0.264172 <= 49 - car(scene.state)["fuelLevel"]
    ],
    "town": lambda scene: list(ZIP_CODES),
    "other_town": lambda scene: _partners(scene.chosen.get("town")),
    "town_on": lambda scene: _towns_on(scene.chosen.get("zone")),
    "zip": lambda scene: sorted({ZIP_CODES[town] for road in _ROADS for town in road}),
    "other_zip": lambda scene: [ZIP_CODES[town] for town in _towns_on(scene.chosen.get("zip"))],
    "distance": lambda scene: range(110, 900, 5),
}
VEHICLE = ClassCatalogue(GROUP, _TABLES, DOMAINS, make)
