"""Worlds of others that tell failures as ordinary results, and one that reads what it says it does
not touch: for TRL's `environment_factory`, and typed functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from rods.environments.typed import TypedEnvironment


class Requests:
    """A desk of requests. Nothing that it says is flagged."""

    def __init__(self) -> None:
        self.requests = dict[str, str]()

    def reset(self) -> str:
        self.requests = {"REQ-1": "open", "REQ-2": "open"}
        return "requests REQ-1 and REQ-2 are open"

    def close_request(self, number: str) -> str:
        """Closes a request.

        Args:
            number: Which.
        """
        if number not in self.requests:
            return "Request not found"
        self.requests[number] = "closed"
        return f"closed {number}"

    def show_request(self, number: str) -> dict[str, Any]:
        """Shows a request.

        Args:
            number: Which.
        """
        if number not in self.requests:
            return {"status": "error", "message": f"there is no {number}"}
        return {"status": "ok", "request": number, "state": self.requests[number]}

    def history(self, number: str) -> str:
        """What happened to a request.

        Args:
            number: Which.
        """
        if number not in self.requests:
            return f"Task {number} not found in {len(self.requests)} requests"
        return f"{number} was opened"

    def get_job(self, job: Literal["nightly", "hourly"]) -> dict[str, Any]:
        """Shows how a job went.

        Args:
            job: Which.
        """
        return {"status": "error" if job == "nightly" else "done", "job": job}

    def list_requests(self) -> list[str]:
        """Lists all requests."""
        return sorted(self.requests)


class Thinking:
    """Its thinking tool counts its calls, though it may be said to change nothing."""

    def __init__(self) -> None:
        self._thoughts = 0
        self._peeked = False
        self.notes = list[str]()

    def reset(self) -> str:
        return ""

    def think(self, thought: str, number: int | Literal["first", "last"]) -> dict[str, int]:
        """Thinks.

        Args:
            thought: What.
            number: Which thought it is.
        """
        self._thoughts += 1
        return {"thoughts": self._thoughts}

    def peek(self) -> str:
        """Looks, and is remembered."""
        self._peeked = True
        return "nothing"

    def count(self) -> int:
        """Counts the notes."""
        return len(self.notes)

    def note(self, text: str) -> str:
        """Writes a note.

        Args:
            text: What.
        """
        self.notes.append(text)
        return f"noted {text}{' (seen)' if self._peeked else ''}"


@dataclass
class Bays:
    taken: dict[str, str] = field(default_factory=lambda: {"B1": "car-7", "B2": ""})


Bay = Annotated[str, Field(max_length=20)]
Answer = dict[str, str]


def _bays(name: str, fails: Sequence[dict[str, Any]] | None) -> TypedEnvironment[Bays]:
    """A garage whose functions answer an object with `error` in place of refusing."""
    world = TypedEnvironment(f"tests.worlds.failing.desks:{name}", Bays, behaviour=1, fails=fails)

    @world.tool("Bays")
    def free_bay(bays: Bays, bay: Bay) -> Answer:
        """Frees a bay."""
        if bay not in bays.taken:
            return {"error": f"no bay {bay}"}
        bays.taken[bay] = ""
        return {"freed": bay}

    @world.tool("Bays", reads=True)
    def show_bay(bays: Bays, bay: Bay) -> Answer:
        """Shows what stands in a bay."""
        if bay not in bays.taken:
            return {"error": f"no bay {bay}"}
        return {"bay": bay, "car": bays.taken[bay]}

    @world.tool("Bays", reads=True)
    def list_bays(bays: Bays) -> list[str]:
        """Lists the bays."""
        return sorted(bays.taken)

    return world


def silent_bays() -> TypedEnvironment[Bays]:
    return _bays("silent_bays", None)


def told_bays() -> TypedEnvironment[Bays]:
    return _bays("told_bays", [{"field": "error"}])


def looked_over_bays() -> TypedEnvironment[Bays]:
    return _bays("looked_over_bays", [])
