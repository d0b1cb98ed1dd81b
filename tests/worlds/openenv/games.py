"""Environments as others write them: one with OpenEnv's methods, one for TRL's
`environment_factory`."""

from __future__ import annotations

import random
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class GuessAction(BaseModel):
    """Guesses the number."""

    model_config = ConfigDict(extra="forbid")  # as OpenEnv's actions

    number: int = Field(ge=1, le=9, description="Your guess.")
    metadata: dict[str, str] = Field(default_factory=dict)


class GuessObservation(BaseModel):
    said: str
    done: bool = False
    reward: float | None = None
    metadata: dict[str, str] = Field(default_factory=dict)


class GuessState(BaseModel):
    episode_id: str | None = None
    step_count: int = 0
    guesses: list[int] = []


class GuessGame:
    """A number from 1 to 9 by `seed`. Like most, it does not say that others may live beside it."""

    living: ClassVar[list[GuessGame]] = []

    def __init__(self) -> None:
        assert not GuessGame.living, "another one lives"
        GuessGame.living.append(self)
        self.number = 0
        self.guesses = list[int]()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> GuessObservation:
        self.number = random.Random(seed or 0).randint(1, 9)
        self.guesses = []
        return GuessObservation(said="Guess a number from 1 to 9.")

    def step(self, action: GuessAction) -> GuessObservation:
        if action.number in self.guesses:
            raise ValueError("you said that")
        self.guesses.append(action.number)
        if action.number == self.number:
            return GuessObservation(said="right", done=True, reward=1.0)
        return GuessObservation(
            said="higher" if action.number < self.number else "lower", reward=-0.1
        )

    @property
    def state(self) -> GuessState:
        return GuessState(episode_id="x", step_count=len(self.guesses), guesses=self.guesses)

    def close(self) -> None:
        GuessGame.living.remove(self)


class Pantry:
    """What stands on shelves, for TRL."""

    def __init__(self) -> None:
        self.shelves: dict[str, list[str]] = {}
        self.hidden = object()

    def reset(self, shelves: dict[str, list[str]] | None = None, **row: object) -> str:
        self.shelves = {
            name: list(things) for name, things in (shelves or {"top": ["tea"]}).items()
        }
        return f"There are {len(self.shelves)} shelves."

    def put(self, thing: str, shelf: Literal["top", "bottom"] = "top") -> dict[str, int]:
        """Puts something on a shelf.

        Args:
            thing: What it is called,
                in one word.
            shelf: Where it goes.

        Returns:
            How many things stand there.
        """
        if thing in self.shelves.setdefault(shelf, []):
            raise ValueError(f"{thing} is there already")
        self.shelves[shelf].append(thing)
        return {"things": len(self.shelves[shelf])}

    async def count(self) -> str:
        """Counts everything."""
        return str(sum(map(len, self.shelves.values())))

    def get_reward(self) -> float:
        return float("jam" in self.shelves.get("bottom", []))

    def _private(self) -> None:
        """No tool."""
