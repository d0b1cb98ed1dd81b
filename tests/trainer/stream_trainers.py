"""A trainer that takes part by a stream as it should, and some that are wrong in one way each."""

from __future__ import annotations

import contextlib
import os
import random
from functools import partial
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from rods.errors import RefusedError
from rods.trainer.adapters.conformance import Job
from rods.trainer.adapters.stream import open_stream


def train(job: Job, wrong: str = "") -> None:
    if os.environ.get("RANK", "0") != "0":
        follow(job)
        return
    others = ranks()
    saved = Path(job.own) / "step"
    at = int(saved.read_text()) if saved.exists() else 0
    at = at if job.from_step is None else job.from_step
    with open_stream(
        job.run, from_step=None if wrong == "never goes back" else job.from_step
    ) as stream:
        for step in range(at + 1, job.steps + 1 - (wrong == "stops too soon")):
            batch = stream.draw(step)
            if wrong == "saves too soon":
                saved.write_text(str(step))
            groups: list[dict[str, Any]] = []
            for number, other in enumerate(others, start=1):
                other.send((step, batch[number :: len(others) + 1]))
            theirs = dict(one for other in others for one in other.recv())
            if wrong == "forgets what its ranks earned":
                theirs = dict.fromkeys(theirs)
            for drawn in batch[::-1] if step % 2 else batch:  # they end in any order
                own = drawn.place not in theirs
                rewards = (
                    job.rewards(step, drawn.place, drawn.task.id) if own else theirs[drawn.place]
                )
                if wrong == "rewards by chance":
                    rewards = [random.randrange(5) / 4 for _ in range(4)]
                if rewards is None and wrong == "counts what got lost":
                    rewards = [0.0] * 4
                if rewards is not None:
                    rollouts = [{"reward": reward} for reward in rewards]
                    groups.append(
                        {
                            "task": drawn.task.id,
                            "reward": {"kind": "value", "range": [0, 1]},
                            "rollouts": rollouts,
                        }
                    )
            if wrong == "mixes up its groups":
                groups[0]["rollouts"], groups[1]["rollouts"] = (
                    groups[1]["rollouts"],
                    groups[0]["rollouts"],
                )
            late = job.lag if wrong != "hides how late it is" else 0
            stream.observe(step, groups, max(0, step - 1 - late))
            saved.write_text(str(step))


def address() -> tuple[str, int]:
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def ranks() -> list[Connection[Any, Any]]:
    """To the others, where there are any."""
    if "RANK" not in os.environ:
        return []
    with Listener(address()) as listener:
        return [listener.accept() for _ in range(1, int(os.environ["WORLD_SIZE"]))]


def follow(job: Job) -> None:
    """What a rank does that is not the first: its part of each batch, until the first one ends."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            first = Client(address())
            break
    with contextlib.suppress(EOFError):
        while True:
            step, batch = first.recv()
            first.send(
                [(drawn.place, job.rewards(step, drawn.place, drawn.task.id)) for drawn in batch]
            )


never_goes_back = partial(train, wrong="never goes back")
stops_too_soon = partial(train, wrong="stops too soon")
saves_too_soon = partial(train, wrong="saves too soon")
rewards_by_chance = partial(train, wrong="rewards by chance")
counts_what_got_lost = partial(train, wrong="counts what got lost")
mixes_up_its_groups = partial(train, wrong="mixes up its groups")
forgets_what_its_ranks_earned = partial(train, wrong="forgets what its ranks earned")
hides_how_late_it_is = partial(train, wrong="hides how late it is")


def goes_on_without_the_run(job: Job) -> None:
    try:
        train(job)
    except RefusedError:
        return


def depends_on_its_start(job: Job) -> None:
    """What it reports of a step says in which process it was made."""
    train(Job(**{**vars(job), "lost": ((2, len(list(Path(job.own).parent.glob("*"))) % 4),)}))
