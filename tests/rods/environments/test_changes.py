"""What a way has done to a state beside what another way did: other orders, other keys and other
choices are no more than that; anything beside them is."""

from __future__ import annotations

from typing import Any

import pytest

from rods.environments.changes import changes, within

START: dict[str, Any] = {
    "rooms": {"r1": {"name": "Attic"}, "r2": {"name": "Cellar"}},
    "bookings": {
        "k1": {"room": "r1", "day": 1, "hours": 2},
        "k2": {"room": "r1", "day": 2, "hours": 2},
        "k3": {"room": "r2", "day": 3, "hours": 1},
    },
    "staff": [{"id": "s1", "shift": "early"}, {"id": "s2", "shift": "late"}],
    "log": ["opened"],
    "desk": {"day": 5, "open": True},
    "next": 4,
    "note": "none",
}


def state(**tables: Any) -> dict[str, Any]:
    return {**START, **tables}


def bookings(*gone: str, **entries: Any) -> dict[str, Any]:
    kept = {key: entry for key, entry in START["bookings"].items() if key not in gone}
    return {**kept, **entries}


NEW = {"room": "r2", "day": 6, "hours": 1}
MOVED = {"room": "r1", "day": 4, "hours": 2}
WITNESS = state(bookings=bookings(k1=MOVED, k4=NEW), log=["opened", "moved", "booked"], next=5)


@pytest.mark.parametrize(
    "end",
    [
        START,
        WITNESS,
        state(bookings=bookings(k1=MOVED)),  # half of it
        state(bookings=bookings(k2={**MOVED, "day": 9}, k9=NEW), next=10),  # another choice
        state(bookings=bookings("k1", k4=MOVED, k5=NEW), next=6),  # booked anew, not moved
        state(bookings=bookings(k1=MOVED, k4=NEW), log=["booked", "opened", "moved", "moved"]),
    ],
)
def test_other_ways_are_within_what_a_witness_does(end: dict[str, Any]) -> None:
    assert within(changes(START, end), changes(START, WITNESS))


@pytest.mark.parametrize(
    "end",
    [
        state(bookings=bookings(k1=MOVED, k2=MOVED, k4=NEW)),  # one more is changed
        state(bookings=bookings("k2", k1=MOVED, k4=NEW)),
        state(bookings=bookings(k1=MOVED, k4=NEW, k5=NEW)),
        state(bookings=bookings("k1", k4=NEW, k5=NEW, k6=NEW)),
        state(bookings=bookings(k1={**MOVED, "hours": 9})),  # in another field
        state(rooms={**START["rooms"], "r3": {"name": "Hall"}}),
        state(rooms={"r1": {"name": "Attic"}}),
        state(staff=[{"id": "s1", "shift": "late"}, {"id": "s2", "shift": "late"}]),
        state(log=[]),
        state(desk={"day": 6, "open": True}),
        state(note="some"),
    ],
)
def test_what_the_witness_left_as_it_was_has_to_stay(end: dict[str, Any]) -> None:
    assert not within(changes(START, end), changes(START, WITNESS))


def test_the_records_of_a_list_are_known_by_their_keys_in_any_order() -> None:
    swapped = state(staff=[*reversed(START["staff"])])
    assert within(changes(START, swapped), {})
    late = state(staff=[{"id": "s1", "shift": "late"}, START["staff"][1]])
    more = state(staff=[*late["staff"], {"id": "s3", "shift": "late"}])
    assert changes(START, late) == {"staff": (0, 1, 0, ["shift"])}
    assert changes(START, more) == {"staff": (0, 1, 1, ["shift"])}
    assert not within(changes(START, more), changes(START, late))


def test_a_witness_that_takes_an_entry_away_may_be_done_by_changing_one() -> None:
    taken = state(bookings=bookings("k1", k4=MOVED))
    moved = state(bookings=bookings(k1=MOVED))
    assert within(changes(START, moved), changes(START, taken))
    assert within(changes(START, taken), changes(START, moved))
