"""New states of the car, and what may be chosen in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.composing.catalogue import Domain, Scene, Worded
from worlds.bfcl.catalogue.notation import Wish

GROUP = "VehicleControlAPI"
ZIP_CODES = {
    "Rivermist": "83214",
    "Stonebrook": "74532",
    "Maplecrest": "56108",
    "Silverpine": "62947",
    "Shadowridge": "71354",
    "Sunset Valley": "83462",
    "Oakendale": "47329",
    "Willowbend": "52013",
    "Crescent Hollow": "69238",
    "Autumnville": "51479",
    "San Francisco": "94016",
}
_ROADS = (  # the cities between which the car knows a distance
    ("Rivermist", "Stonebrook"),
    ("Maplecrest", "Silverpine"),
    ("Shadowridge", "Sunset Valley"),
    ("Oakendale", "Willowbend"),
    ("Crescent Hollow", "Autumnville"),
    ("San Francisco", "Rivermist"),
    ("Silverpine", "Oakendale"),
    ("San Francisco", "Silverpine"),
    ("Stonebrook", "San Francisco"),
)


def make(wish: Wish) -> dict[str, Any]:
    """A parked car with the engine off; doors as the recipes need them."""
    rng = wish.rng
    names = {each.name for each in wish.recipes}
    doors = ["driver", "passenger", "rear_left", "rear_right"]
    opened = set() if "car_start_ready" in names else set(rng.sample(doors, rng.randint(2, 4)))
    front, rear = rng.randint(56, 72) / 2, rng.randint(56, 72) / 2
    return {
        "fuelLevel": rng.randint(6, 44) / 2,
        "batteryVoltage": rng.randint(121, 130) / 10,
        "engineState": "stopped",
        "doorStatus": {door: "unlocked" if door in opened else "locked" for door in doors},
        "acTemperature": float(rng.randint(18, 27)),
        "fanSpeed": rng.randrange(30, 80, 5),
        "acMode": "auto",
        "humidityLevel": float(rng.randrange(35, 65, 5)),
        "headLightStatus": "off",
        "parkingBrakeStatus": "released",
        "parkingBrakeForce": 0.0,
        "slopeAngle": 0.0,
        "distanceToNextVehicle": float(rng.randrange(20, 120, 5)),
        "cruiseStatus": "inactive",
        "destination": "None",
        "frontLeftTirePressure": front,
        "frontRightTirePressure": front,
        "rearLeftTirePressure": rear,
        "rearRightTirePressure": rear,
    }


def car(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The car's attributes in a state or a snapshot, under the names of the scenario."""
    changed = state.get("objects", {}).get(GROUP)
    if changed is not None:
        return {**changed, "engineState": changed["engine_state"]}
    scenario: Mapping[str, Any] = state["config"][GROUP]
    return scenario


_NAMES = {
    "driver": "driver's door",
    "passenger": "passenger door",
    "rear_left": "rear left door",
    "rear_right": "rear right door",
}


def _doors(scene: Scene, status: str) -> list[Worded]:
    """One or two doors of that status."""
    doors = [door for door, now in car(scene.state)["doorStatus"].items() if now == status]
    found = [Worded([door], f"the {_NAMES[door]}") for door in doors]
    if {"rear_left", "rear_right"} <= set(doors):
        found.append(Worded(["rear_left", "rear_right"], "both rear doors"))
    if {"driver", "passenger"} <= set(doors):
        found.append(Worded(["driver", "passenger"], "both front doors"))
    return found


def _room(scene: Scene) -> float:
    level: float = car(scene.state)["fuelLevel"]
    return 49 - level


def _partners(town: Any) -> list[str]:
    return [one if other == town else other for one, other in _ROADS if town in (one, other)]


def _town_of(zip_code: Any) -> str | None:
    return next((town for town, code in ZIP_CODES.items() if code == zip_code), None)


def _other_zips(scene: Scene) -> list[str]:
    return [ZIP_CODES[town] for town in _partners(_town_of(scene.chosen.get("zip")))]


_MESSAGES = (
    ["tires checked"],
    ["oil change due", "washer fluid low"],
    ["trip started"],
    ["left the garage", "heading north"],
    ["fuel stop planned"],
    ["passengers on board", "luggage loaded"],
    ["battery replaced in May"],
    ["service booked", "keys handed over"],
    ["winter tires mounted"],
    ["test drive finished", "no faults found"],
    ["road closed ahead"],
    ["engine warm", "ready to go"],
)
_ADDRESSES = tuple(
    f"{number} {street}, {town}"
    for number, street, town in (
        (18, "Alder Lane", "Rivermist"),
        (204, "Station Road", "Stonebrook"),
        (77, "Mill Street", "Maplecrest"),
        (9, "Orchard Way", "Silverpine"),
        (331, "Harbor Drive", "San Francisco"),
        (52, "Chapel Hill", "Oakendale"),
        (140, "Quarry Road", "Willowbend"),
        (6, "Linden Court", "Autumnville"),
        (85, "Fountain Square", "Shadowridge"),
        (412, "Garden Avenue", "Sunset Valley"),
        (23, "Bridge Street", "Crescent Hollow"),
        (610, "Foundry Lane", "Rivermist"),
        (31, "Market Place", "Stonebrook"),
        (98, "Vineyard Road", "Silverpine"),
    )
)
DOMAINS: Mapping[str, Domain] = {
    "open_doors": lambda scene: _doors(scene, "unlocked"),
    "shut_doors": lambda scene: _doors(scene, "locked"),
    "pedal": lambda scene: (0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8),
    "degrees": lambda scene: [float(each) / 2 if each % 2 else each // 2 for each in range(32, 54)],
    "fahrenheit": lambda scene: range(62, 81),
    "fan": lambda scene: range(15, 100, 5),
    "climate_mode": lambda scene: ("cool", "heat", "defrost", "auto"),
    "messages": lambda scene: _MESSAGES,
    "gallons": lambda scene: [each for each in range(2, 31) if each <= _room(scene)],
    "liters": lambda scene: [each for each in range(8, 130) if each * 0.264172 <= _room(scene)],
    "town": lambda scene: list(ZIP_CODES),
    "other_town": lambda scene: _partners(scene.chosen.get("town")),
    "town_on": lambda scene: _partners(_town_of(scene.chosen.get("zone"))),
    "zip": lambda scene: sorted({ZIP_CODES[town] for road in _ROADS for town in road}),
    "other_zip": _other_zips,
    "distance": lambda scene: range(110, 900, 5),
    "address": lambda scene: _ADDRESSES,
    "speed": lambda scene: range(35, 100, 5),
    "gap": lambda scene: range(20, 130, 10),
}
