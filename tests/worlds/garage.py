"""A typed garage of eighteen tools, in which most of what can be known is shown by more than one of
them: `load("tests.worlds.garage:environment")`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from pydantic import Field
from typing_extensions import TypedDict

from rods.calls import Call, ReadsJudged
from rods.environments.base import reference
from rods.environments.typed import ToolError, TypedEnvironment
from rods.tasks import Reads, Task

Number = Annotated[int, Field(ge=1, le=999, description="The order's number.")]
Plate = Annotated[str, Field(max_length=12, description="The car's plate.")]
Day = Annotated[str, Field(max_length=12, description="A day of the week, in small letters.")]
Amount = Annotated[int, Field(ge=1, le=9_999)]
Bay = Annotated[int, Field(ge=1, le=9)]
Words = Annotated[str, Field(max_length=80)]


@dataclass
class Order:
    plate: str
    day: str = "monday"
    service: str = "tyres"
    cost: int = 0
    paid: int = 0
    bay: int = 0
    closed: bool = False
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Garage:
    orders: dict[int, Order] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)


class Line(TypedDict):
    order: int
    plate: str


class Entry(TypedDict):
    order: int
    plate: str
    day: str
    service: str
    cost: int
    closed: bool


class Price(TypedDict):
    order: int
    cost: int
    paid: int


def _order(garage: Garage, order: int) -> Order:
    if order not in garage.orders:
        raise ToolError(f"there is no order {order}")
    return garage.orders[order]


def _of(garage: Garage, plate: str) -> int:
    for number, order in garage.orders.items():
        if order.plate == plate:
            return number
    raise ToolError(f"there is no order of {plate}")


def find_order(garage: Garage, plate: Plate) -> Line:
    """Finds the order of a car by its plate."""
    return {"order": _of(garage, plate), "plate": plate}


def list_day(garage: Garage, day: Day) -> list[Line]:
    """Lists the orders that stand on a day's list."""
    return [
        {"order": number, "plate": order.plate}
        for number, order in garage.orders.items()
        if order.day == day
    ]


def all_orders(garage: Garage) -> list[Entry]:
    """Lists all orders of the week in full."""
    return [_entry(garage, number) for number in garage.orders]


def show_order(garage: Garage, order: Number) -> Entry:
    """Shows an order in full."""
    _order(garage, order)
    return _entry(garage, order)


def _entry(garage: Garage, number: int) -> Entry:
    order = garage.orders[number]
    return {
        "order": number,
        "plate": order.plate,
        "day": order.day,
        "service": order.service,
        "cost": order.cost,
        "closed": order.closed,
    }


def open_order(garage: Garage, plate: Plate, service: Words, day: Day) -> Line:
    """Opens a new order for a car."""
    number = max(garage.orders, default=0) + 1
    garage.orders[number] = Order(plate, day, service)
    return {"order": number, "plate": plate}


def close_order(garage: Garage, order: Number) -> str:
    """Closes an order."""
    _order(garage, order).closed = True
    return f"order {order} is closed"


def close_by_plate(garage: Garage, plate: Plate) -> str:
    """Closes the order of a car."""
    close_order(garage, _of(garage, plate))
    return "it is closed"


def charge(garage: Garage, order: Number, amount: Amount) -> Price:
    """Charges the customer an amount for an order."""
    _order(garage, order).paid += amount
    return price_of(garage, order)


def refund(garage: Garage, order: Number, amount: Amount) -> Price:
    """Pays an amount back."""
    if _order(garage, order).paid < amount:
        raise ToolError(f"only {garage.orders[order].paid} was paid")
    garage.orders[order].paid -= amount
    return price_of(garage, order)


def price_of(garage: Garage, order: Number) -> Price:
    """Says what an order costs, and how much of that is paid."""
    found = _order(garage, order)
    return {"order": order, "cost": found.cost, "paid": found.paid}


def book_bay(garage: Garage, order: Number, bay: Bay) -> str:
    """Books a bay for an order."""
    if bay not in free_bays(garage):
        raise ToolError(f"bay {bay} is taken")
    _order(garage, order).bay = bay
    return f"bay {bay} is booked"


def free_bays(garage: Garage) -> list[int]:
    """Lists the bays that nobody has booked."""
    taken = {order.bay for order in garage.orders.values()}
    return [bay for bay in range(1, 5) if bay not in taken]


def move_car(garage: Garage, plate: Plate, bay: Bay) -> str:
    """Moves a car to another bay."""
    return book_bay(garage, _of(garage, plate), bay)


def add_part(garage: Garage, order: Number, part: Words) -> list[str]:
    """Adds a spare part to an order."""
    _order(garage, order).parts.append(part)
    return garage.orders[order].parts


def parts_of(garage: Garage, order: Number) -> list[str]:
    """Lists the spare parts of an order."""
    return _order(garage, order).parts


def owner_of(garage: Garage, plate: Plate) -> str:
    """Says who owns a car."""
    if plate not in garage.owners:
        raise ToolError(f"nobody owns {plate}")
    return garage.owners[plate]


def note(garage: Garage, order: Number, text: Words) -> str:
    """Writes a note on an order."""
    _order(garage, order).notes.append(text)
    return "noted"


def history(garage: Garage, plate: Plate) -> str:
    """Tells the history of a car, a line an order."""
    lines = [
        f"Order {number}: {order.service} on {order.day} for {order.cost}."
        for number, order in garage.orders.items()
        if order.plate == plate
    ]
    return "\n".join(lines) or f"nothing is known of {plate}"


READS = (
    find_order,
    list_day,
    all_orders,
    show_order,
    price_of,
    free_bays,
    parts_of,
    owner_of,
    history,
)
WRITES = (
    open_order,
    close_order,
    close_by_plate,
    charge,
    refund,
    book_bay,
    move_car,
    add_part,
    note,
)


def garage(
    name: str = "environment", goal_reads: ReadsJudged = "asked"
) -> TypedEnvironment[Garage]:
    world = TypedEnvironment(f"{__name__}:{name}", Garage, behaviour=1, goal_reads=goal_reads)
    for function in (*READS, *WRITES):
        world.tool("Garage", reads=True if function in READS else None)(function)
    return world


# a typed world's hash is read-only, the protocol's is not said to be
WORLD: Any = garage()
STRICT: Any = garage("strict", "all")


def environment() -> TypedEnvironment[Garage]:
    return cast(TypedEnvironment[Garage], WORLD)


def strict() -> TypedEnvironment[Garage]:
    """The same, judged by every result of the ground truth."""
    return cast(TypedEnvironment[Garage], STRICT)


STATE: dict[str, Any] = {
    "orders": {
        "17": {"plate": "B-12", "service": "brakes", "cost": 400, "bay": 2},
        "18": {"plate": "K-77", "service": "oil", "cost": 90},
        "23": {"plate": "M-3", "day": "tuesday", "service": "tyres", "cost": 640},
    },
    "owners": {"B-12": "Ada Berg", "K-77": "Bo Lind"},
}


def call(name: str, /, **arguments: Any) -> Call:
    return Call(name, arguments)


def task(
    *turns: tuple[str, tuple[Call, ...]],
    world: Any = WORLD,
    reads: Reads | None = None,
    **fields: Any,
) -> Task:
    """A task of the texts and calls of its turns, with all tools, in STATE."""
    return Task(
        reference(world),
        "base",
        tuple(text for text, _ in turns),
        tuple(calls for _, calls in turns),
        tuple(world.tools()),
        state=STATE,
        reads=reads,
        **fields,
    )
