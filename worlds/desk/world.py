"""Desk as an `Environment`: a small office of contacts, mail, calendar, files and ledger.

The state is a plain JSON object as `SHAPE` has it; classes that it leaves out are empty. There is
no clock: `today` stands in the state. Equal states and calls give equal results, byte for byte.
Desk is made for demonstrations, tests and docs, and small enough to be learnt by a policy of half a
million parameters.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id
from rods.environments.base import Features, Result, Tools
from rods.tasks import state_json
from rods.worlds.desk import pools
from rods.worlds.desk.checks import CHECKS
from rods.worlds.desk.declared_tools import REGISTRY, RULES, fault
from rods.worlds.desk.pools import DAYS, FOLDERS, HOURS, MAX_BALANCE, MAX_MONEY, ROOMS, TEAMS
from rods.worlds.desk.tools import MAX_ENTRIES, Refused, State

if TYPE_CHECKING:
    from rods.composing.catalogue import Catalogue

# raise it whenever a call may give another result or state than before (the golden transcript
# tells)
BEHAVIOUR = 1
# checked states kept, so that the rollouts of a group check their task's state once
_REMEMBERED = 1024


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

    def snapshot(self) -> JsonObject:
        copy: JsonObject = orjson.loads(orjson.dumps(self.state))
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
        data = {
            name: list(value)
            for name, value in sorted(vars(pools).items())
            if isinstance(value, (tuple, range))
        }
        self.hash = content_id(
            {
                "schemas": {name: tool.schema() for name, tool in self._tools.items()},
                "data": data,
                "behaviour": BEHAVIOUR,
            }
        )
        self._legal: dict[bytes, bytes] = {}

    def tools(self) -> Tools:
        return self._tools

    def checks(self) -> Tools:
        return {name: registered.tool for name, registered in CHECKS.items()}

    def reset(self, state: JsonMapping | None) -> DeskInstance:
        try:
            written = state_json(state or {})
        except (TypeError, orjson.JSONEncodeError) as error:
            raise ValueError(f"the state is not JSON: {error}") from error
        legal = self._legal.get(written)
        if legal is None:
            legal = _exactly(orjson.dumps(completed(orjson.loads(written))))
            if len(self._legal) >= _REMEMBERED:
                self._legal.clear()
            self._legal[_exactly(written)] = legal
        return DeskInstance(orjson.loads(legal))

    def explain(self, call: Call, result: Result) -> str:
        """The rule that a refused call has broken, for hints (rods.family.feedback.hints); empty
        where the refusal says it all."""
        return (
            RULES.get(str(result.value.get("error")), "") if isinstance(result.value, dict) else ""
        )

    def catalogue(self) -> "Catalogue":
        """What composing needs to write tasks for desk."""
        # composing imports environments, so only on demand
        from rods.worlds.desk.catalogue import catalogue

        return catalogue()


def _exactly(text: bytes) -> bytes:
    """A copy without the slack of some kilobytes that orjson leaves behind its results: these are
    kept."""
    return bytes(memoryview(text))


@cache
def environment() -> Desk:
    """The environment, made once a process."""
    return Desk()


def _fields(**fields: Any) -> JsonObject:
    """The schema of an object with just these fields."""
    return {
        "type": "object",
        "properties": fields,
        "required": [*fields],
        "additionalProperties": False,
    }


def _entries(entry: JsonMapping) -> JsonObject:
    """The schema of entries by name."""
    return {
        "type": "object",
        "maxProperties": MAX_ENTRIES,
        "propertyNames": _TEXT,
        "additionalProperties": entry,
    }


# that can be printed
_TEXT = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": r"^([^\p{C}\p{Z}]| )+$"}
_TEXTS = {"type": "array", "maxItems": MAX_ENTRIES, "items": _TEXT}
_FLAG = {"type": "boolean"}
_DAY = {"enum": [*DAYS]}
_NEXT = {"type": "integer", "minimum": 0, "maximum": 10**6}
_HOUR = {"type": "integer", "minimum": HOURS[0], "maximum": HOURS[-1]}
_EVENT = _fields(title=_TEXT, day=_DAY, hour=_HOUR, room={"enum": ["", *ROOMS]}, guests=_TEXTS)
_BILL = _fields(
    vendor=_TEXT, amount={"type": "integer", "minimum": 1, "maximum": MAX_MONEY}, paid=_FLAG
)
_ACCOUNTS = _entries({"type": "integer", "minimum": 0, "maximum": MAX_BALANCE})
_INBOX = _entries(_fields(sender=_TEXT, subject=_TEXT, text=_TEXT, flagged=_FLAG))
_SENT = _entries(_fields(address=_TEXT, subject=_TEXT, text=_TEXT))
SHAPE = _fields(
    today=_DAY,
    contacts=_entries(_fields(address=_TEXT, team={"enum": [*TEAMS]})),
    mail=_fields(inbox=_INBOX, sent=_SENT, next=_NEXT),
    calendar=_fields(events=_entries(_EVENT), next=_NEXT),
    files=_entries(_fields(folder={"enum": [*FOLDERS]}, text=_TEXT, locked=_FLAG, shared=_TEXTS)),
    ledger=_fields(accounts=_ACCOUNTS, bills=_entries(_BILL), next=_NEXT),
)
_CHECKER = Checker(SHAPE)
IDS = (
    ("mail", "inbox", "m"),
    ("mail", "sent", "m"),
    ("calendar", "events", "e"),
    ("ledger", "bills", "i"),
)


def completed(state: Any) -> State:
    """`state` with its missing classes added, empty. Raises ValueError for anything illegal, naming
    its place."""
    if not isinstance(state, dict):
        raise ValueError("the state must be an object")
    full = {
        "today": DAYS[0],
        "contacts": {},
        "mail": {"inbox": {}, "sent": {}, "next": 10},
        "calendar": {"events": {}, "next": 10},
        "files": {},
        "ledger": {"accounts": {}, "bills": {}, "next": 10},
        **state,
    }
    if what := _CHECKER.fault(full):
        raise ValueError(
            f"the state, {what}" if what.startswith(("in ", "at ")) else f"the state {what}"
        )
    for part, kind, letter in IDS:
        for name in full[part][kind]:
            number = name[1:]
            if not (
                name[0] == letter
                and number.isascii()
                and number.isdigit()
                and int(number) < full[part]["next"]
            ):
                raise ValueError(
                    f"the state's {part}.{kind}.{name} must be {letter} and a number below next"
                )
    events = full["calendar"]["events"].values()
    files = full["files"].values()
    if len({(event["day"], event["hour"]) for event in events}) < len(events):
        raise ValueError("the state's calendar.events has two events at one time")
    for listed in (*(event["guests"] for event in events), *(file["shared"] for file in files)):
        if listed != sorted(listed):
            raise ValueError(
                f"the state has {', '.join(listed)}, which must stand in the order of the alphabet"
            )
    return full
