"""One attempt at one variant, or the gates of what a model wrote, as a value that another process
can be given, and as the value that comes back.

An attempt of an author that only computes follows from its configuration, its seed, and what went
wrong before; so it may be made in any process that has the worlds, and twice: the daemon accepts
one answer for each item, by awaiting it. Workers write nothing, hold no key of an endpoint, and
admit nothing.
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rods.analysis.profile import Profile
from rods.canonical import JsonObject, frozen
from rods.config import COMPUTES, Config, Gates, Operation
from rods.daemon.authors.base import Assignment, Attempted, V
from rods.errors import InfrastructureError
from rods.functions import named_function
from rods.gates.ground_truth import Checked
from rods.gates.similarity import SimilarityIndex
from rods.logs import log
from rods.tasks import AnyTask, Task

TRIES = 3  # workers that an item may lose
# seconds before a worker that did not start is tried anew: the first time, and at most
PAUSE = 0.5
PAUSES = 30.0


@frozen
class GateCheck:
    """The gates that are on for `task`, which was to have this profile. `judge`, where it names a
    function, is asked in their place: of the environment, of this, and of the worker's pipeline."""

    task: AnyTask
    profile: Profile
    gates: Gates
    judge: str = ""

    def __str__(self) -> str:
        return f"gates of {self.task.id}"


WorkItem = Assignment[Any] | GateCheck


class Place(Protocol):
    """A worker elsewhere. `at_once`: how many items a message has at most, more where a message
    costs much."""

    at_once: int

    async def make(self, items: Sequence[WorkItem]) -> Sequence[Any]:
        """What comes of each item (rods.daemon.attempt_worker). Raises `LostWorker`."""

    async def renew(self) -> None:
        """Ends the worker, if it lives, and starts another one; returns when it can be given
        items."""

    def end(self) -> None:
        """Ends the worker at once."""


class LostWorker(Exception):
    """A worker has died, or cannot be reached; what it was at may be made anew."""


@dataclass(slots=True)
class _Asked:
    """An item that somebody waits for, and how many workers were lost over it."""

    item: WorkItem
    answer: asyncio.Future[Any]
    lost: int = 0


class Compute:
    """Where attempts are made, for the life of a daemon: places that are free take items as they
    come, so a slow one takes fewer. An item whose worker is lost, or gives no answer in time, goes
    to the next free place, alone, so that it can lose no others."""

    def __init__(self, operation: Operation, places: Sequence[Place]) -> None:
        self.at_once = sum(place.at_once for place in places)
        self._seconds = operation.compute_seconds
        self._places = places
        self._waiting: deque[_Asked] = deque()
        self._some = asyncio.Event()  # set where some wait, and cleared by who finds none
        self._serving: list[asyncio.Task[None]] = []  # a task for each place, from the first item
        self._ready = 0
        self._lost = 0

    async def attempt(self, assignment: Assignment[V]) -> Attempted[V]:
        """What comes of an attempt, wherever it is made and however often. Raises
        InfrastructureError when workers were lost over it again and again."""
        attempted: Attempted[V] = await self._answer(assignment)
        return attempted

    async def checked(self, task: Task, profile: Profile, gates: Gates) -> Checked:
        """The same of gates. Raises InfrastructureError also where a world broke in the worker."""
        checked: Checked = await self.judged(GateCheck(task, profile, gates))
        return checked

    async def judged(self, item: GateCheck) -> Any:
        """What its judge says. Raises as `checked`."""
        said = await self._answer(item)
        if isinstance(said, InfrastructureError):
            raise said
        return said

    async def _answer(self, item: WorkItem) -> Any:
        if not self._serving:
            self._serving = [asyncio.create_task(self._serve(place)) for place in self._places]
        asked = _Asked(item, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        self._some.set()
        return await asked.answer

    async def _serve(self, place: Place) -> None:
        """Has `place` take items, with a new worker after each that is lost."""
        while True:
            await _renewed(place)
            self._ready += 1
            try:
                while await self._made(place, await self._taken(place)):
                    pass
            finally:
                self._ready -= 1

    async def _taken(self, place: Place) -> Sequence[_Asked]:
        """What waits, as far as it is the place's share; one over which workers were lost stays
        alone."""
        while not self._waiting:
            self._some.clear()
            await self._some.wait()
        share = min(place.at_once, math.ceil(len(self._waiting) / len(self._places)))
        taken = [self._waiting.popleft()]
        while not taken[0].lost and len(taken) < share and not self._waiting[0].lost:
            taken.append(self._waiting.popleft())
        return taken

    async def _made(self, place: Place, taken: Sequence[_Asked]) -> bool:
        """Whether the items were answered, and the worker lives."""
        items = [asked.item for asked in taken]
        try:
            answers = await asyncio.wait_for(place.make(items), self._seconds * len(items))
        except (LostWorker, TimeoutError) as error:
            why = str(error) or f"no answer in {self._seconds * len(items):.0f} s"
            log.warning("worker lost", why=why, over=[str(item) for item in items])
            self._lost += 1
            for asked in reversed(taken):
                asked.lost += 1
                if asked.lost < TRIES:
                    self._waiting.appendleft(asked)
                    self._some.set()
                elif not asked.answer.done():
                    asked.answer.set_exception(
                        InfrastructureError(
                            f"{TRIES} workers were lost over it, the last one: {why}"
                        )
                    )
            return False
        except Exception as error:  # noqa: BLE001 - whoever awaits an answer has it raised
            for asked in taken:
                if not asked.answer.done():
                    asked.answer.set_exception(error)
            return False
        for asked, answer in zip(taken, answers, strict=True):
            if not asked.answer.done():
                asked.answer.set_result(answer)
        return True

    def status(self) -> JsonObject:
        """Fields of the heartbeat."""
        counts = {"places": len(self._places), "ready": self._ready, "lost": self._lost}
        return {"compute": counts}

    def close(self) -> None:
        """Ends the workers at once: what they are at is made anew at the next start."""
        for task in self._serving:
            task.cancel()
        for place in self._places:
            place.end()


async def _renewed(place: Place) -> None:
    """Returns once the place has a new worker."""
    wait = PAUSE
    while True:
        try:
            await place.renew()
        except LostWorker as error:
            log.warning("no worker", why=str(error), seconds=wait)
            await asyncio.sleep(wait)
            wait = min(2 * wait, PAUSES)
        else:
            return


def compute_of(folder: Path, config: Config, held_out: SimilarityIndex) -> Compute | None:
    """Where attempts for the run in `folder` are made by `operation.compute`, none of which may
    match `held_out`; None: in threads of its own. Raises UserError for a cluster that does not
    answer."""
    name = config.operation.compute
    places = next((places[name] for places in COMPUTES if name in places), None)
    if places is None:
        return None
    made = named_function(places, where="operation.compute")(folder, config, held_out)
    return Compute(config.operation, made)
