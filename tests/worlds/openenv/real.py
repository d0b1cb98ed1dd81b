"""Environments made with OpenEnv's own package: one of actions, one of tools."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class MoveAction(Action):
    """Moves the piece."""

    by: int = Field(ge=-3, le=3, description="So many fields.")


class MoveObservation(Observation):
    at: int


class MoveState(State):
    at: int = 0


class Moves(Environment[MoveAction, MoveObservation, MoveState]):
    """A piece on a line; at 5 the episode ends."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **given: Any
    ) -> MoveObservation:
        self.at = int(given.get("at", 0))
        return MoveObservation(at=self.at)

    def step(
        self, action: MoveAction, timeout_s: float | None = None, **given: Any
    ) -> MoveObservation:
        if self.at + action.by < 0:
            raise ValueError("no field there")
        self.at += action.by
        return MoveObservation(at=self.at, done=self.at >= 5, reward=float(self.at >= 5))

    @property
    def state(self) -> MoveState:
        return MoveState(at=self.at)


class NoteState(State):
    notes: list[str] = Field(default_factory=list)


class Notes(MCPEnvironment):
    """Tools of MCP's."""

    def __init__(self) -> None:
        server = FastMCP("notes")
        self.notes: list[str] = []

        def write(text: str) -> dict[str, int]:
            """Writes a note."""
            if not text:
                raise ValueError("an empty note")
            self.notes.append(text)
            return {"notes": len(self.notes)}

        def read(number: int = 1) -> str:
            """Reads a note."""
            return self.notes[number - 1]

        for tool in (write, read):
            server.tool()(tool)
        super().__init__(server)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **given: Any
    ) -> Observation:
        self.notes.clear()
        return Observation()

    def _step_impl(
        self, action: Action, timeout_s: float | None = None, **given: Any
    ) -> Observation:
        raise ValueError("tools only")

    @property
    def state(self) -> NoteState:
        return NoteState(notes=self.notes)
