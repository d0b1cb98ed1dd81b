"""Desk as an `Environment`: a small office of contacts, mail, calendar, files and ledger.

The state is a plain JSON object as `SHAPE` has it; classes that it leaves out are empty. There is no clock: `today`
stands in the state. Equal states and calls give equal results, byte for byte. Desk is made for demonstrations, tests
and docs, and small enough to be learnt by a policy of half a million parameters.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from rods.calls import Call
from rods.canonical import content_id
from rods.environments.base import Features, Result, Tool
from rods.tasks import state_json
from rods.worlds.desk import pools
from rods.worlds.desk.checks import CHECKS
from rods.worlds.desk.declared_tools import REGISTRY, RULES, fault
from rods.worlds.desk.pools import DAYS, FOLDERS, HOURS, MAX_BALANCE, MAX_MONEY, ROOMS, TEAMS
from rods.worlds.desk.tools import MAX_ENTRIES, Refused, State

if TYPE_CHECKING:
    from rods.composing.catalogue import Catalogue

BEHAVIOUR = 1  # raise it whenever a call may give another result or state than before (the golden transcript tells)
_REMEMBERED = 1024  # checked states kept, so that the rollouts of a group check their task's state once


class DeskInstance:
    """One desk. `state` is its own; nothing in it is shared."""

    __slots__ = ("state",)

    def __init__(self, state: State) -> None:
        self.state = state

    def call(self, call: Call) -> Result:
        registered = REGISTRY.get(call.name) or CHECKS.get(call.name)
        if registered is None:
            return Result('{"error":"no such tool"}', {"error": "no such tool"}, "unknown_tool")
        arguments = call.arguments
        wrong = fault(registered, arguments)
        if wrong is not None:
            kind, message = wrong
            return Result(f'{{"error":"{message}"}}', {"error": message}, kind)
        try:
            value = registered.function(self.state, **arguments)
        except Refused as refusal:
            return Result(f'{{"error":"{refusal}"}}', {"error": str(refusal)}, "tool")
        return Result(orjson.dumps(value).decode(), value)

    def snapshot(self) -> dict[str, Any]:
        copy: dict[str, Any] = orjson.loads(orjson.dumps(self.state))
        return copy

    def fork(self) -> "DeskInstance":
        return DeskInstance(self.snapshot())

    def same_state(self, other: object) -> bool:
        return isinstance(other, DeskInstance) and self.state == other.state


class Desk:
    """The environment. `hash` covers schemas, data and `BEHAVIOUR`."""

    name = "desk"
    features = Features()

    def __init__(self) -> None:
        self._tools = {name: registered.tool for name, registered in REGISTRY.items()}
        data = {name: list(value) for name, value in sorted(vars(pools).items()) if isinstance(value, (tuple, range))}
        schemas = {name: tool.schema() for name, tool in self._tools.items()}
        self.hash = content_id({"schemas": schemas, "data": data, "behaviour": BEHAVIOUR})
        self._legal: dict[bytes, bytes] = {}

    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def checks(self) -> Mapping[str, Tool]:
        return {name: registered.tool for name, registered in CHECKS.items()}

    def reset(self, state: Mapping[str, Any] | None) -> DeskInstance:
        try:
            given = state_json(state or {})
        except (TypeError, orjson.JSONEncodeError) as error:
            raise ValueError(f"the state is not JSON: {error}") from error
        legal = self._legal.get(given)
        if legal is None:
            legal = _exactly(orjson.dumps(completed(orjson.loads(given))))
            if len(self._legal) >= _REMEMBERED:
                self._legal.clear()
            self._legal[_exactly(given)] = legal
        return DeskInstance(orjson.loads(legal))

    def explain(self, call: Call, result: Result) -> str:
        """The rule that a refused call has broken, for hints (rods.family.feedback.hints); empty where the refusal says
        it all."""
        return RULES.get(str(result.value.get("error")), "") if isinstance(result.value, dict) else ""

    def catalogue(self) -> "Catalogue":
        """What composing needs to write tasks for desk."""
        from rods.worlds.desk.catalogue import catalogue  # composing imports environments, so only on demand

        return catalogue()


def _exactly(text: bytes) -> bytes:
    """A copy without the slack of some kilobytes that orjson leaves behind its results: these are kept."""
    return bytes(memoryview(text))


@cache
def environment() -> Desk:
    """The environment, made once a process."""
    return Desk()


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 60 and value.isprintable()


def _texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_ENTRIES and all(map(_text, value)) and value == sorted(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


# Every field and what is legal there: a test, a tuple of values, the fields of an object, or [entries by name].
SHAPE: dict[str, Any] = {
    "today": DAYS,
    "contacts": [{"address": _text, "team": TEAMS}],
    "mail": {
        "inbox": [{"sender": _text, "subject": _text, "text": _text, "flagged": _flag}],
        "sent": [{"address": _text, "subject": _text, "text": _text}],
        "next": _whole(0, 10**6),
    },
    "calendar": {
        "events": [
            {"title": _text, "day": DAYS, "hour": _whole(HOURS[0], HOURS[-1]), "room": ("", *ROOMS), "guests": _texts}
        ],
        "next": _whole(0, 10**6),
    },
    "files": [{"folder": FOLDERS, "text": _text, "locked": _flag, "shared": _texts}],
    "ledger": {
        "accounts": [_whole(0, MAX_BALANCE)],
        "bills": [{"vendor": _text, "amount": _whole(1, MAX_MONEY), "paid": _flag}],
        "next": _whole(0, 10**6),
    },
}
IDS = (("mail", "inbox", "m"), ("mail", "sent", "m"), ("calendar", "events", "e"), ("ledger", "bills", "i"))


def completed(state: Any) -> State:
    """`state` with its missing classes added, empty. Raises ValueError for anything illegal, naming its place."""
    if not isinstance(state, dict):
        raise ValueError("the state must be an object")
    if unknown := [key for key in state if key not in SHAPE]:
        raise ValueError(f"the state has an unknown part {unknown[0]!r}; desk knows {', '.join(SHAPE)}")
    full: State = {
        "today": DAYS[0],
        "contacts": {},
        "mail": {"inbox": {}, "sent": {}, "next": 10},
        "calendar": {"events": {}, "next": 10},
        "files": {},
        "ledger": {"accounts": {}, "bills": {}, "next": 10},
        **state,
    }
    for key, shape in SHAPE.items():
        _hold(full[key], shape, key)
    for part, kind, letter in IDS:
        for name in full[part][kind]:
            number = name[1:]
            legal = name[0] == letter and number.isascii() and number.isdigit() and int(number) < full[part]["next"]
            _expect(legal, f"{part}.{kind}.{name}", f"must be {letter} and a number below next")
    times = [(event["day"], event["hour"]) for event in full["calendar"]["events"].values()]
    _expect(len(set(times)) == len(times), "calendar.events", "has two events at one time")
    return full


def _hold(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, list):
        few = isinstance(value, dict) and len(value) <= MAX_ENTRIES
        _expect(few, where, f"must hold at most {MAX_ENTRIES} entries")
        for name, entry in value.items():
            _expect(_text(name), where, f"has a bad name {name!r}")
            _hold(entry, shape[0], f"{where}.{name}")
    elif isinstance(shape, dict):
        whole = isinstance(value, dict) and set(value) == set(shape)
        _expect(whole, where, f"must have exactly {', '.join(shape)}")
        for field, inner in shape.items():
            _hold(value[field], inner, f"{where}.{field}")
    elif isinstance(shape, tuple):
        _expect(value in shape, where, f"must be one of {', '.join(map(str, shape))}, not {value!r}")
    else:
        _expect(shape(value), where, f"must not be {value!r}")


def _expect(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise ValueError(f"the state's {where} {what}")
