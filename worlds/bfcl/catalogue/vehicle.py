"""Recipes of the car: 21 of its 22 tools (asking weather.com always fails), and new states of it.

Facts: `engine` runs, `locked` doors, `doors` were touched, brake pedal `held` and `pressed` all the way, `parked`,
`lights` on, `cruise` control on. An engine starts only behind locked doors and with the brake pressed all the way.
Things: `zone` (a zip code), `miles` (a distance), `shop` (an address), `gallons` (of fuel).
"""

from __future__ import annotations

from functools import partial

from rods.composing.catalogue import Words
from worlds.bfcl.catalogue import vehicle_worlds
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe
from worlds.bfcl.catalogue.phrases import story
from worlds.bfcl.catalogue.vehicle_worlds import GROUP

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES)
_ALL = '["driver","passenger","rear_left","rear_right"]'
_LOCK = f"lockDoors unlock=!false door=!{_ALL}"
_PRESS = "pressBrakePedal pedalPosition=!1.0"
_START = 'startEngine ignitionMode=!"START"'

# --- getting ready to drive
_add(
    "car_start",
    f"{_LOCK}; {_PRESS}; {_START}",
    "lock (all doors|all four doors|every door), press the brake (all the way|fully) and start the (engine|car)",
    "get the (engine|car) running, with (all doors|all four doors) locked and the brake pedal (fully|all the way) down",
    "(start|fire up) the engine once (all doors|all four doors) are locked and the brake is (fully pressed|all "
    "the way down)",
    unless="engine locked doors held",
    makes="engine locked held pressed",
)
_add(
    "car_start_ready",
    f"{_PRESS}; {_START}",
    "(start|fire up) the engine with the brake pedal pressed (all the way|fully), (the doors are locked "
    "already|all doors are locked)",
    "press the brake (all the way|fully) and start the (car|engine), the doors are locked (anyway|already)",
    unless="engine locked doors held",
    makes="engine locked held pressed doors",
)
_add(
    "car_start_locked",
    f"{_PRESS}; {_START}",
    "press the brake (all the way|fully) and (start|fire up) the (engine|car)",
    "(start|fire up) the (engine|car) with the brake pedal (all the way|fully) down",
    when="locked",
    unless="engine held",
    makes="engine held pressed",
)
_add(
    "car_start_pressed",
    _START,
    "(start|fire up) the engine (now|)",
    "get the (engine|car) (running|going)",
    when="locked pressed",
    unless="engine",
    makes="engine",
)
_add(
    "car_lock_all",
    _LOCK,
    "lock (all doors|all four doors|every door) of the car",
    "make sure that (all doors|all four doors) (of the car|) (are|end up) locked",
    unless="locked",
    makes="locked",
)
_add(
    "car_lock_some",
    "lockDoors unlock=!false door=doors:open_doors",
    "lock {doors}",
    "make sure that {doors} (cannot be opened|cannot be opened from outside)",
    unless="locked",
    makes="doors",
)
_add(
    "car_unlock_some",
    "lockDoors unlock=!true door=doors:shut_doors",
    "unlock {doors}",
    "(open up|release the lock of) {doors} (for my passengers|so that we can load the car)",
    when="locked",
    ends="locked",
    makes="doors",
)
_add(
    "car_press",
    _PRESS,
    "press the brake pedal (all the way|fully|as far as it goes)",
    "put the brake pedal (all the way|fully) down",
    "hold the car with the brake pedal pressed to the floor",
    "step on the brake as hard as you can",
    unless="held",
    makes="held pressed",
)
_add(
    "car_press_some",
    "pressBrakePedal pedalPosition=pedal:pedal",
    "press the brake pedal (to|down to) the position {pedal}",
    "set the brake pedal to {pedal}",
    unless="held",
    makes="held",
)
_add(
    "car_release",
    "releaseBrakePedal",
    "(release|let go of) the brake pedal",
    "take the pressure off the brake pedal",
    when="held",
    ends="held pressed",
)
_add(
    "car_park",
    'activateParkingBrake mode=!"engage"',
    "(engage|set|put on) the parking brake",
    "make sure that the parking brake is (engaged|set)",
    unless="parked",
    makes="parked",
)
_add(
    "car_unpark",
    'activateParkingBrake mode=!"release"',
    "(release|take off) the parking brake (again|)",
    when="parked",
    ends="parked",
)
_add(
    "car_park_lock",
    f'activateParkingBrake mode=!"engage"; {_LOCK}',
    "(engage|set) the parking brake and lock (all doors|all four doors|every door)",
    unless="parked locked",
    makes="parked locked",
)
_add(
    "car_all_safe",
    f'{_LOCK}; activateParkingBrake mode=!"engage"; {_PRESS}; {_START}',
    "lock (all doors|all four doors), engage the parking brake, press the brake pedal (all the way|fully) and "
    "start the engine",
    unless="engine locked doors held parked",
    makes="engine locked held pressed parked",
)
_add(
    "car_lights",
    'setHeadlights mode=!"on"',
    "(turn|switch) (on the headlights|the headlights on)",
    "make sure that the headlights are on",
    "light up the road with the headlights",
    "get the headlights going, it is dark out here",
    unless="lights",
    makes="lights",
)
_add(
    "car_lights_auto",
    'setHeadlights mode=!"auto"',
    "(set|put|switch) the headlights to automatic",
    "let the headlights work automatically",
    "leave it to the headlights when to come on",
    "have the headlights decide for themselves, in auto mode",
    unless="lights",
    makes="lights",
)
_add(
    "car_lights_off",
    'setHeadlights mode=!"off"',
    "(turn|switch) (off the headlights|the headlights off) (again|)",
    when="lights",
    ends="lights",
)
_add(
    "car_lights_lock",
    f'setHeadlights mode=!"on"; {_LOCK}',
    "(turn|switch) on the headlights and lock (all doors|all four doors|every door)",
    unless="lights locked",
    makes="lights locked",
)
# --- climate
_add(
    "car_climate",
    "adjustClimateControl temperature=degrees:degrees",
    "set the (climate control|air conditioning) to {degrees} degrees Celsius",
    "bring the inside of the car to {degrees} degrees Celsius",
)
_add(
    "car_climate_mode",
    "adjustClimateControl temperature=degrees:degrees fanSpeed=fan:fan mode=mode:climate_mode",
    "set the (climate control|air conditioning) to {degrees} degrees Celsius in {mode} mode with the fan at "
    "{fan} percent",
    "switch the climate to {mode} mode, at {degrees} degrees Celsius and a fan speed of {fan}",
)
_add(
    "car_climate_fan",
    "adjustClimateControl temperature=degrees:degrees fanSpeed=fan:fan",
    "set the climate control to {degrees} degrees Celsius and the fan to {fan} percent",
    "run the fan at {fan} percent with {degrees} degrees Celsius inside the car",
    "bring the car to {degrees} degrees Celsius, with the fan at {fan} percent",
    "have {degrees} degrees Celsius in here and let the fan blow at {fan} percent",
)
_add(
    "car_climate_fahrenheit",
    'adjustClimateControl temperature=degrees:fahrenheit unit=!"fahrenheit"',
    "set the (climate control|air conditioning) to {degrees} degrees Fahrenheit",
)
# --- what the car says
for _option, _lines in {
    "fuel": (
        "(tell me|check|show me) how much fuel is (in the tank|left)",
        "(check|show me) the (fuel gauge|fuel level)",
    ),
    "battery": ("(tell me|check|show me) the (voltage of the battery|battery voltage)", "see how the battery is doing"),
    "doors": ("(tell me|check|show me) which doors are (locked|unlocked)", "give me the status of the doors"),
    "climate": (
        "(tell me|show me|check) the climate settings (of the car|)",
        "report what the climate control is set to",
    ),
    "headlights": ("(tell me|check|show me) whether the headlights are on", "give me the status of the headlights"),
    "parkingBrake": (
        "(tell me|check|show me) the (state|status) of the parking brake",
        "find out whether the parking brake is engaged",
    ),
    "brakePedal": (
        "(tell me|check|show me) the (state|status) of the brake pedal",
        "find out how hard the brake pedal is pressed",
    ),
    "engine": ("(tell me|check|show me) whether the engine is running", "give me the status of the engine"),
}.items():
    _add(f"car_show_{_option.lower()}", f'displayCarStatus option=!"{_option}"', *_lines)
_add(
    "car_show_two",
    'displayCarStatus option=!"fuel"; displayCarStatus option=!"battery"',
    "(tell me|check|show me) both the fuel level and the battery voltage",
)
_add(
    "car_tires",
    "check_tire_pressure",
    "(check|measure|read) the (pressure of all tires|tire pressures)",
    "(tell me|find out) whether the tires have (enough air|the right pressure)",
)
_add(
    "car_shop",
    "find_nearest_tire_shop",
    "(find|look up|tell me) (the nearest tire shop|where the closest tire shop is)",
    "(find|look up) a place nearby that can (look at|fix) my tires",
    gives="shop=0.shopLocation/",
)
_add(
    "car_tires_shop",
    "check_tire_pressure; find_nearest_tire_shop",
    "(check|measure) the tire pressures and (find|look up) the nearest tire shop (as well|)",
    gives="shop=1.shopLocation/",
)
_add(
    "car_speed",
    "get_current_speed",
    "(tell me|check|read off) (how fast I am going|my current speed)",
)
_add(
    "car_weather",
    "get_outside_temperature_from_google",
    "(tell me|look up|ask Google for) (the temperature outside|the outside temperature)",
    "find out how (warm|cold) it is outside, Google will know",
)
_add(
    "car_log",
    "display_log messages=messages:messages",
    "(put|show) these entries (on the log display|in the log): {messages}",
    "display the log with the entries {messages}",
    "let the log screen read {messages}",
    "write {messages} to the log of the car and show it",
)
# --- fuel
_add(
    "car_fill",
    "fillFuelTank fuelAmount=gallons:gallons",
    "(fill|put) {gallons} gallons of fuel into the tank",
    "(refuel the car|top up the tank) with {gallons} gallons",
)
_add(
    "car_fill_show",
    'fillFuelTank fuelAmount=gallons:gallons; displayCarStatus option=!"fuel"',
    "(fill|put) {gallons} gallons of fuel into the tank and show me the new fuel level",
)
_add(
    "car_gallons",
    "liter_to_gallon liter=liters:liters",
    "(work out|tell me) how many gallons {liters} liters (are|make)",
    "convert {liters} liters (to|into) gallons",
    gives="gallons=0.gallon/",
)
_add(
    "car_liters",
    "gallon_to_liter gallon=gallons:gallons",
    "(work out|tell me) how many liters {gallons} gallons (are|make)",
    "convert {gallons} gallons (to|into) liters",
)
_add(
    "car_fill_liters",
    "liter_to_gallon liter=liters:liters; fillFuelTank fuelAmount=0.gallon",
    "(fill|put) {liters} liters of fuel into the tank, which takes gallons, so convert first",
    "convert {liters} liters to gallons and (fill|put) exactly that much into the tank",
)
_add(
    "car_fill_it",
    "fillFuelTank fuelAmount=^gallons",
    "(fill|put) {gallons} into the tank",
    "refuel the car with {gallons}",
    ends="gallons",
)
_add(
    "car_fill_start",
    f"fillFuelTank fuelAmount=gallons:gallons; {_LOCK}; {_PRESS}; {_START}",
    "put {gallons} gallons into the tank, lock (all doors|all four doors), press the brake (fully|all the way) "
    "and start the engine",
    unless="engine locked doors held",
    makes="engine locked held pressed",
)
# --- the way
_add(
    "car_zip",
    "get_zipcode_based_on_city city=town:town",
    "(tell me|look up|find) the zip code of {town}",
    "find out which zip code {town} has",
    gives="zone=0.zipcode/town",
)
_add(
    "car_distance",
    "get_zipcode_based_on_city city=town:town; get_zipcode_based_on_city city=other:other_town;"
    " estimate_distance cityA=0.zipcode cityB=1.zipcode",
    "(work out|tell me|estimate) how far it is from {town} to {other}",
    "(estimate|give me) the distance between {town} and {other}",
    gives="miles=2.distance/other",
)
_add(
    "car_distance_zip",
    "estimate_distance cityA=zip:zip cityB=other:other_zip",
    "(estimate|work out) the distance between the zip codes {zip} and {other}",
    gives="miles=0.distance/other",
)
_add(
    "car_distance_on",
    "get_zipcode_based_on_city city=other:town_on; estimate_distance cityA=^zone cityB=0.zipcode",
    "(work out|tell me) how far it is from {zone} to {other}",
    gives="miles=1.distance/other",
)
_add(
    "car_can_reach",
    "get_zipcode_based_on_city city=town:town; get_zipcode_based_on_city city=other:other_town;"
    " estimate_distance cityA=0.zipcode cityB=1.zipcode; estimate_drive_feasibility_by_mileage distance=2.distance",
    "(work out|tell me) how far it is from {town} to {other} and whether (my fuel|the fuel in the tank) "
    "(lasts|is enough) for that",
    "estimate the way from {town} to {other} and check that I can drive it without refueling",
    gives="miles=2.distance/other",
)
_add(
    "car_can_reach_on",
    "get_zipcode_based_on_city city=other:town_on; estimate_distance cityA=^zone cityB=0.zipcode;"
    " estimate_drive_feasibility_by_mileage distance=1.distance",
    "(work out|tell me) how far it is from {zone} to {other} and whether the fuel in the tank is enough for that",
    gives="miles=1.distance/other",
)
_add(
    "car_can_reach_zip",
    "estimate_distance cityA=zip:zip cityB=other:other_zip; estimate_drive_feasibility_by_mileage distance=0.distance",
    "(estimate|work out) the distance between the zip codes {zip} and {other} and tell me whether my fuel is "
    "enough for it",
    gives="miles=0.distance/other",
)
_add(
    "car_can_drive",
    "estimate_drive_feasibility_by_mileage distance=miles:distance",
    "(tell me|check|find out) whether I can drive {miles} miles (with the fuel in the tank|on the fuel that I have)",
)
_add(
    "car_can_drive_it",
    "estimate_drive_feasibility_by_mileage distance=^miles",
    "(tell me|check|find out) whether (my fuel|the fuel in the tank) is enough for {miles}",
    "see if I can manage {miles} without refueling",
)
_add(
    "car_navigate",
    "set_navigation destination=address:address",
    "(set|point) the navigation to {address}",
    "(guide me|give me directions) to {address}",
    "navigate to {address}",
    "plan the route to {address} and start it",
    "bring up the way to {address} on the navigation",
)
_add(
    "car_navigate_shop",
    "find_nearest_tire_shop; set_navigation destination=0.shopLocation",
    "(find|look up) the nearest tire shop and (set the navigation to it|guide me there)",
    "(guide|take) me to the nearest tire shop",
)
_add(
    "car_navigate_there",
    "set_navigation destination=^shop",
    "(set|point) the navigation to {shop}",
    "guide me to {shop}",
)
_add(
    "car_tires_navigate",
    "check_tire_pressure; find_nearest_tire_shop; set_navigation destination=1.shopLocation",
    "(check|measure) the tire pressures, find the nearest tire shop and (set the navigation to it|guide me there)",
)
_add(
    "car_cruise",
    "setCruiseControl speed=speed:speed activate=!true distanceToNextVehicle=gap:gap",
    "(set|switch on) the cruise control (at|with) {speed} miles per hour, keeping {gap} meters to the car ahead",
    "(hold|keep) a speed of {speed} with the cruise control and stay {gap} meters behind the next vehicle",
    when="engine",
    unless="cruise",
    makes="cruise",
)
_add(
    "car_cruise_off",
    "setCruiseControl speed=speed:speed activate=!false distanceToNextVehicle=gap:gap",
    "switch the cruise control off, with the speed at {speed} and the distance to the next vehicle at {gap} meters",
    when="cruise",
    ends="cruise",
)


PART = Part(
    GROUP,
    RECIPES,
    domains=vehicle_worlds.DOMAINS,
    make=vehicle_worlds.make,
    stories=(
        story(
            "road trip",
            GROUP,
            (
                "We are about to leave for (a weekend at the lake|the mountains|the coast).",
                "I'm taking {friend} to the (airport|station) later.",
                "{friend} and I are driving out to the {topic} today.",
                "It's my first long drive with this car.",
                "There is a long drive ahead of (me|us).",
            ),
            (
                "(Good|Great), one thing less to worry about.",
                "{friend} asked me to take care of this too.",
                "Before we set off, there is more.",
                "That sounds (fine|good).",
                "Let me think what else the trip needs.",
                "The luggage is in, (now this|so let's go on).",
            ),
            (
                "And then we can (go|leave).",
                "One last thing before we hit the road.",
                "{friend} is waiting, so just this.",
                "After that the keys are yours.",
            ),
        ),
        story(
            "cold morning",
            GROUP,
            (
                "It's a cold morning and the car stood outside all night.",
                "I'm sitting in the car and want everything in order.",
                "The car has been in the garage for (two|three) weeks.",
                "I just (picked up|borrowed) this car and don't know it well.",
            ),
            (
                "(Alright|Okay), that's a start.",
                "So far so good.",
                "I'd rather be careful today.",
                "(Okay|Fine), what else.",
                "The (street|windshield) is still icy, so take your time.",
            ),
            (
                "That should be all for this morning.",
                "After that I'm ready.",
                "Just one more thing, then I'm off.",
            ),
        ),
    ),
    things={
        "zone": Words(("{noun}",), ("that city", "there")),
        "miles": Words(("the way to {noun}",), ("that distance", "that way")),
        "shop": Words(("that tire shop", "the tire shop"), ("that shop", "the address you found")),
        "gallons": Words(("that many gallons", "exactly that amount"), ("that amount",)),
    },
    vague={
        "degrees": ("a few more",),
        "gallons": ("some",),
        "liters": ("some",),
        "town": ("my home town", "the city where my sister lives"),
        "address": ("my new office", "my friend's place"),
        "speed": ("a comfortable number of",),
        "gap": ("enough",),
        "distance": ("quite a few",),
    },
    supply={
        "degrees": ("Make it {value}.", "I mean {value} degrees."),
        "gallons": ("I mean {value} gallons.", "Make it {value}."),
        "liters": ("I mean {value} liters.", "It's {value} liters."),
        "town": ("That is {value}.", "I mean {value}."),
        "address": ("The address is {value}.", "It's at {value}."),
        "speed": ("Make that {value} miles per hour.", "I mean {value}."),
        "gap": ("Keep {value} meters.", "I mean {value} meters."),
        "distance": ("It is {value} miles.", "I mean {value} miles."),
    },
    families={"degrees": "fahrenheit", "town": "other_town town_on"},
    siblings=(
        ("liter_to_gallon", "gallon_to_liter"),
        ("pressBrakePedal", "activateParkingBrake"),
        ("estimate_distance", "estimate_drive_feasibility_by_mileage"),
        ("get_outside_temperature_from_google", "get_outside_temperature_from_weather_com"),
    ),
    swaps={"estimate_distance": ("cityA", "cityB")},
    common="lockDoors pressBrakePedal startEngine",
)
