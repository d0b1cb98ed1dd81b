"""Killed at any moment, nothing is lost, nothing is done twice, and in lockstep nothing comes out
differently."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.run.runfolder import EXPANDED, POOL, SEEDS
from tests.daemon.runs import Daemon, Trainer, epochs, idle, make_run, seeds, until, variants

MANY = {"seeds_per_step": 8, "groups": [["base", "long_context", "miss_func", "miss_param"]]}
ENOUGH = 6  # accepted variants
MOST_STEPS = 30  # after the last kill; one step's picks are mostly enough


class Killer(threading.Thread):
    """Keeps one daemon running, kills it with -9 at random moments and starts it again, `deaths`
    times; then lets the last one live."""

    def __init__(self, path: Path, deaths: int, random_seed: int) -> None:
        super().__init__()
        self.path = path
        self.deaths = deaths
        self.chance = random.Random(random_seed)
        self.process = Daemon(path)
        self.stopped = threading.Event()
        self.died = 0

    def run(self) -> None:
        for _ in range(self.deaths):
            size = self.written()
            # bytes: a kill after any write, wherever it falls in a record
            wanted = self.chance.randint(1, 4000)
            while self.written() < size + wanted and not self.stopped.wait(0.002):
                pass
            self.process.kill()
            if self.stopped.is_set():
                return
            self.died += 1
            self.process = Daemon(self.path)

    def written(self) -> int:
        logs = [self.path / SEEDS, *self.path.glob(EXPANDED)]
        return sum(log.stat().st_size for log in logs if log.exists())

    def stop(self) -> None:
        self.stopped.set()
        self.join()
        self.process.kill()


def outcome(path: Path) -> dict[str, Any]:
    """What must not depend on who was killed when: picks, variants, decisions. The order of the
    expanded log may."""
    decisions = [
        {
            key: value
            for key, value in record.items()
            if key not in ("seq", "id", "crc", "first", "attempt", "time")
        }
        for record in epochs(path)
    ]
    for decision in decisions:
        decision.pop("expanded_seq"), decision.pop("deferred")
    return {
        "picks": [
            (record["step"], record["rank"], record["task"], record["score"])
            for record in seeds(path, "picked")
        ],
        "variants": sorted(
            (record["pick"], record["index"], record["task"]["id"]) for record in variants(path)
        ),
        "discarded": sorted(
            (record["pick"], record["why"]) for record in seeds(path, "finished") if record["why"]
        ),
        "epochs": {decision["epoch"]: decision for decision in decisions},
    }


def once(records: list[Record], *keys: str) -> bool:
    found = [tuple(record[key] for key in keys) for record in records]
    return len(found) == len(set(found))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_in_lockstep_the_pool_of_every_epoch_is_the_same_whoever_is_killed(tmp_path: Path) -> None:
    settings = {"sync": "lockstep", "selection": MANY}
    calm = make_run(tmp_path / "calm", settings)
    with Daemon(calm.path), Trainer(calm) as trainer:
        trainer.play(13)
        until(lambda: idle(calm.path, 13))
    stormy = make_run(tmp_path / "stormy", settings)
    killer = Killer(stormy.path, deaths=7, random_seed=1)
    killer.start()
    with Trainer(stormy) as trainer:
        trainer.play(9)
    # the trainer was killed too, and resumes an older checkpoint
    with Trainer(stormy, from_step=4) as trainer:
        trainer.play(9)
        until(lambda: idle(stormy.path, 13), 60)
    killer.stop()
    assert killer.died == 7
    assert outcome(stormy.path) == outcome(calm.path)
    assert len(outcome(calm.path)["variants"]) > 20
    for path in (calm.path, stormy.path):
        report = verify(path)
        assert report.ok, list(report.lines())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("each", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_at_random_moments_it_loses_and_repeats_nothing(tmp_path: Path, each: int) -> None:
    several = {"variants_per_seed": each}
    run = make_run(
        tmp_path / "run", {"selection": MANY, "pool": {"staging_epochs": 0.0}, "pipeline": several}
    )
    killer = Killer(run.path, deaths=6, random_seed=each)
    killer.start()
    with Trainer(run) as trainer:
        while killer.is_alive():
            trainer.play(1, pause=0.25)
        # how much was written until the last kill hangs on the machine; the last daemon goes on
        for _ in range(MOST_STEPS):
            trainer.play(1)
            until(lambda: idle(run.path, trainer.step))
            if len(variants(run.path)) >= ENOUGH:
                break
    killer.stop()
    assert killer.died == 6
    picked = seeds(run.path, "picked")
    finished = seeds(run.path, "finished")
    staged = variants(run.path)
    assert once(picked, "pick") and once(seeds(run.path, "considered"), "step")
    assert once(finished, "pick") and once(staged, "pick", "index")
    assert {record["pick"] for record in finished} == {record["pick"] for record in picked}
    told = {task for record in finished for task in record["accepted"]}
    assert told == {record["task"]["id"] for record in staged} and len(told) >= ENOUGH
    assert {record["index"] for record in staged} == set(range(each))
    report = verify(run.path)
    assert report.ok, list(report.lines())
    assert (run.path / POOL).stat().st_size
