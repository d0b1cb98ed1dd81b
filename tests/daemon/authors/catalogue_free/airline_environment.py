"""An airline of typed functions that brings no catalogue: searches show several flights, accounts
hold amounts that a call takes.
`load("tests.daemon.authors.catalogue_free.airline_environment:environment")`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from rods.calls import Call
from rods.environments.typed import ToolError, TypedEnvironment
from rods.tasks import EnvironmentRef, Task, TaskType

FlightId = Annotated[str, Field(max_length=8, description="The flight's code.")]
BookingId = Annotated[int, Field(ge=1, le=9999, description="The booking's number.")]
AccountId = Annotated[int, Field(ge=1, le=9999, description="The account's number.")]
Points = Annotated[int, Field(ge=1, le=100_000, description="How many points.")]
Name = Annotated[str, Field(max_length=30)]
City = Annotated[str, Field(max_length=30)]


@dataclass
class Flight:
    origin: City
    destination: City
    departs: Annotated[str, Field(max_length=5)]
    fare: Annotated[int, Field(ge=1, le=5000)]


@dataclass
class Booking:
    passenger: Name
    flight_id: FlightId
    bags: Annotated[int, Field(ge=0, le=9)] = 0


@dataclass
class Account:
    member: Name
    points: Annotated[int, Field(ge=0, le=100_000)] = 0


@dataclass
class Airline:
    flights: dict[str, Flight] = field(default_factory=dict)
    bookings: dict[int, Booking] = field(default_factory=dict)
    accounts: dict[int, Account] = field(default_factory=dict)


STATE: dict[str, Any] = {
    "flights": {
        "RA101": {"origin": "Oslo", "destination": "Lisbon", "departs": "07:40", "fare": 210},
        "RA118": {"origin": "Oslo", "destination": "Lisbon", "departs": "18:05", "fare": 165},
        "RA230": {"origin": "Lisbon", "destination": "Vienna", "departs": "11:20", "fare": 140},
        "RA245": {"origin": "Vienna", "destination": "Oslo", "departs": "15:55", "fare": 185},
    },
    "bookings": {
        "512": {"passenger": "Maren Oduya", "flight_id": "RA101", "bags": 1},
        "537": {"passenger": "Tobias Lind", "flight_id": "RA230", "bags": 0},
        "560": {"passenger": "Ines Varga", "flight_id": "RA245", "bags": 2},
    },
    "accounts": {
        "318": {"member": "Maren Oduya", "points": 9000},
        "342": {"member": "Tobias Lind", "points": 2500},
        "377": {"member": "Ines Varga", "points": 640},
    },
}
NAME = "tests.daemon.authors.catalogue_free.airline_environment:environment"
WORLD = TypedEnvironment(NAME, Airline, behaviour=1)


def _booking(airline: Airline, number: int) -> Booking:
    if number not in airline.bookings:
        raise ToolError(f"there is no booking {number}")
    return airline.bookings[number]


def _account(airline: Airline, number: int) -> Account:
    if number not in airline.accounts:
        raise ToolError(f"there is no account {number}")
    return airline.accounts[number]


@WORLD.tool("Airline")
def find_flights(airline: Airline, origin: City) -> list[dict[str, str | int]]:
    """Finds the flights that leave a city."""
    found: list[dict[str, str | int]] = [
        {
            "flight_id": code,
            "destination": flight.destination,
            "departs": flight.departs,
            "fare": flight.fare,
        }
        for code, flight in airline.flights.items()
        if flight.origin == origin
    ]
    if not found:
        raise ToolError(f"nothing leaves {origin}")
    return found


@WORLD.tool("Airline")
def see_flight(airline: Airline, flight_id: FlightId) -> Flight:
    """Shows a flight."""
    if flight_id not in airline.flights:
        raise ToolError(f"there is no flight {flight_id}")
    return airline.flights[flight_id]


@WORLD.tool("Airline")
def find_booking(airline: Airline, passenger: Name) -> dict[str, int | str]:
    """Finds the booking of a passenger."""
    for number, booking in airline.bookings.items():
        if booking.passenger == passenger:
            return {"booking_id": number, "flight_id": booking.flight_id, "bags": booking.bags}
    raise ToolError(f"{passenger} has no booking")


@WORLD.tool("Airline")
def book_flight(airline: Airline, flight_id: FlightId, passenger: Name) -> dict[str, int]:
    """Books a flight for a passenger."""
    see_flight_of(airline, flight_id)
    number = max(airline.bookings, default=500) + 7
    airline.bookings[number] = Booking(passenger, flight_id)
    return {"booking_id": number}


@WORLD.tool("Airline")
def rebook(airline: Airline, booking_id: BookingId, flight_id: FlightId) -> Booking:
    """Moves a booking to another flight."""
    see_flight_of(airline, flight_id)
    booking = _booking(airline, booking_id)
    if booking.flight_id == flight_id:
        raise ToolError("it is booked on that flight already")
    booking.flight_id = flight_id
    return booking


@WORLD.tool("Airline")
def add_bags(
    airline: Airline, booking_id: BookingId, bags: Annotated[int, Field(ge=1, le=5)]
) -> Booking:
    """Adds bags to a booking."""
    booking = _booking(airline, booking_id)
    booking.bags += bags
    return booking


@WORLD.tool("Airline")
def find_account(airline: Airline, member: Name) -> dict[str, int]:
    """Finds the loyalty account of a member."""
    for number, account in airline.accounts.items():
        if account.member == member:
            return {"account_id": number, "points": account.points}
    raise ToolError(f"{member} has no account")


@WORLD.tool("Airline")
def redeem_points(airline: Airline, account_id: AccountId, points: Points) -> Account:
    """Takes points off a loyalty account."""
    account = _account(airline, account_id)
    if account.points < points:
        raise ToolError("there are not so many points")
    account.points -= points
    return account


@WORLD.tool("Airline")
def credit_points(airline: Airline, account_id: AccountId, points: Points) -> Account:
    """Credits points to a loyalty account."""
    account = _account(airline, account_id)
    account.points += points
    return account


def see_flight_of(airline: Airline, flight_id: str) -> Flight:
    if flight_id not in airline.flights:
        raise ToolError(f"there is no flight {flight_id}")
    return airline.flights[flight_id]


def environment() -> TypedEnvironment[Airline]:
    return WORLD


BAGS = (
    Call("find_booking", {"passenger": "Tobias Lind"}),
    Call("add_bags", {"booking_id": 537, "bags": 2}),
)
REBOOKED = Call("rebook", {"booking_id": 537, "flight_id": "RA118"})
CREDIT = (
    Call("find_account", {"member": "Ines Varga"}),
    Call("credit_points", {"account_id": 377, "points": 300}),
)


def seed(number: int = 0, type: TaskType = "base") -> Task:
    """The seed `number` of four, whose results feed calls of their own turn, of the next one, or
    both."""
    script, calls = [
        (
            (
                "Add 2 bags to the booking of Tobias Lind.",
                "Credit 300 points to the account of Ines Varga.",
            ),
            (BAGS, CREDIT),
        ),
        (("Which booking has Tobias Lind?", "Add 2 bags to that booking."), (BAGS[:1], BAGS[1:])),
        (
            ("What is in the account of Ines Varga?", "Credit 300 points to that account."),
            (CREDIT[:1], CREDIT[1:]),
        ),
        (
            ("Which flights leave Oslo?", "Move booking 537 to the flight at 18:05."),
            ((Call("find_flights", {"origin": "Oslo"}),), (REBOOKED,)),
        ),
    ][number % 4]
    return Task(
        EnvironmentRef(NAME, WORLD.hash), type, script, calls, tuple(WORLD.tools()), {}, STATE
    )
