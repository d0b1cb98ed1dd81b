"""The batch that is played while the weights are updated from the one before it (`rollouts.ahead`).

As soon as a step is on record, the batch of the next one is drawn and played by the weights that
the servers have, those from before the update; they get others once it is played. Its record says
so (`policy_step`), and the log-probabilities with which its tokens were drawn correct the loss.

Nothing is ahead across a merge, which decides what is played behind it, nor behind the last step.
So it depends on a step's number alone which weights play it, and not on stops: a checkpoint waits
for what is ahead and keeps it, and whoever goes on from there trains on it. A batch in which the
machinery broke is not kept: the weights of the checkpoint play it again, and its record says that.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter

from rods.canonical import JsonObject, frozen
from rods.episode.watchdog import Lanes
from rods.files import read_regular
from rods.trainer.engines.base import Sample
from rods.trainer.policy import Batch

FILE = "ahead.json"  # in the policy's folder of a checkpoint
OLDER = 2  # a step's number less the last update in the weights that played it ahead


@frozen
class Played:
    """The samples of the batch with the content id `batch` (`Batch.hash`), played in so many
    `seconds`."""

    batch: str
    seconds: float
    samples: list[Sample]


_PLAYED = TypeAdapter(Played)


class Ahead:
    """What is ahead; in one process (prerequisites.py)."""

    def __init__(self) -> None:
        self._playing: Future[Played] | None = None
        self._played: Played | None = None
        self._waited = 0.0  # seconds, for the latest

    @cached_property
    def _thread(self) -> Lanes:
        return Lanes(1, "ahead", math.inf)

    def begin(self, batch: Batch, play: Callable[[], list[Sample]]) -> None:
        """Has `play` give the samples of `batch`, in a thread."""
        name = batch.hash()

        def played() -> Played:
            began = time.monotonic()
            samples = play()
            return Played(name, round(time.monotonic() - began, 3), samples)

        self._playing = self._thread.submit(copy_context().run, played)

    def wait(self) -> None:
        """Returns once nobody plays any more. Raises what `play` has raised."""
        if self._playing is not None:
            began = time.monotonic()
            self._played = self._playing.result()
            self._playing = None
            self._waited = round(time.monotonic() - began, 3)

    def taken(self, batch: Batch) -> tuple[JsonObject, list[Sample] | None]:
        """The samples of `batch` with what its record and the log say of them; None where it was
        not ahead. Nothing is ahead any more."""
        played = self._played
        self._played = None
        if played is None or played.batch != batch.hash():
            return {}, None
        seconds = {"rollout_seconds": played.seconds, "waited_seconds": self._waited}
        return {"policy_step": batch.step - OLDER, **seconds}, played.samples

    def save(self, folder: Path) -> None:
        """Waits for what is ahead and writes it into `folder`, unless the machinery broke in it."""
        self.wait()
        played = self._played
        if played and all(sample.trace.end != "infrastructure" for sample in played.samples):
            (folder / FILE).write_bytes(_PLAYED.dump_json(played, fallback=str))

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote, if it did. Raises OSError or ValueError for anything else."""
        if (folder / FILE).exists():
            self._played = _PLAYED.validate_json(read_regular(folder / FILE))
