"""The same rewards make the same pool, to the byte, whichever way they come.

TRL runs in any environment that has torch. Where the Tinker cookbook, verl or
verifiers is not installed, its adapter is driven by the interface that it has; `make tinker`, `make
verl` and `make verifiers` run this with the libraries themselves.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import orjson
import pytest

from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import OBSERVATIONS, POOL
from rods.trainer.adapters.conformance import Job, run_beside_daemon
from tests import forked
from tests.trainer.adapters.interfaces import stand_in
from tests.trainer.forked_trainers import Forked

pytestmark = [pytest.mark.slow, pytest.mark.needs("adapters")]
STEPS = 6  # the third and the last one open an epoch
LOST = ((2, 1), (4, 3))  # places whose groups got lost
RODS = (sys.executable, "-m", "rods.console", "trainer")
# Each trains a run up to a step with the rewards of a `Job`; with the library that it stands in
# for, and what else it imports that not every environment has.
WAYS = {
    "stream": ("tests.trainer.stream_trainers:train", None, ()),
    "shell": (f"{__name__}:by_shell", None, ()),
    "trl": ("tests.trainer.adapters.test_trl_stream:train", None, ("trl", "torch")),
    "tinker": ("tests.trainer.adapters.tinker_given:train", "tinker_cookbook", ()),
    "verl": ("tests.trainer.adapters.test_verl_dataset:train", "verl", ("torch", "transformers")),
    "verifiers": ("tests.trainer.adapters.test_verifiers_stream:train_flat", "verifiers", ()),
    "prime-rl": ("tests.trainer.adapters.test_verifiers_stream:train", "verifiers", ()),
}


def by_shell(job: Job) -> None:
    """`rods trainer observe` takes the steps, as one attempt, while `rods trainer merge` opens
    epochs."""
    observing = [*RODS, "observe", job.run]
    with subprocess.Popen(
        observing, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as taken:
        assert taken.stdin and taken.stdout
        begun = threading.Event()
        while not any(record["kind"] == "start" for record in read(Path(job.run) / OBSERVATIONS)):
            begun.wait(0.05)  # what is merged before it belongs to no attempt
        step = 0
        epoch = 0
        while step < job.steps:
            told = subprocess.run(
                [*RODS, "merge", job.run, "--epoch", str(epoch)], stdout=subprocess.PIPE, check=True
            )
            slots = [orjson.loads(line) for line in told.stdout.splitlines()]
            slots += slots[: -len(slots) % 4]  # the last batch is filled from the front
            for at in range(0, min(len(slots), 4 * (job.steps - step)), 4):
                step += 1
                for place, slot in enumerate(slots[at : at + 4]):
                    task = slot["task"]["id"]
                    rewards = [{"reward": each} for each in job.rewards(step, place, task) or ()]
                    kind = {"kind": "value", "range": [0, 1]}
                    group = {
                        "task": task,
                        "role": slot["role"],
                        "reward": kind,
                        "rollouts": rewards,
                    }
                    taken.stdin.write(orjson.dumps(group).decode() + "\n" if rewards else "")
                taken.stdin.write(f'{{"end_step": {step}}}\n')
                taken.stdin.flush()
                assert taken.stdout.readline()  # on record
            epoch += 1
    assert taken.returncode == 0


def train(job: Job) -> None:
    """In a process of its own: the way that RODS_WAY names."""
    target, library, _ = WAYS[os.environ["RODS_WAY"]]
    if library is not None:
        stand_in(library)
    module, _, function = target.partition(":")
    trained: Callable[[Job], Any] = getattr(importlib.import_module(module), function)
    trained(job)


class Way(Forked):
    imports: tuple[str, ...] = ("rods.trainer.adapters.conformance", __name__)
    trainer = f"{__name__}:train"

    def __init__(self, name: str) -> None:
        self.name = name
        target, library, _ = WAYS[name]
        if library is None:  # else its stand-in is made first, by the process itself
            self.imports = (*self.imports, target.partition(":")[0])

    def process(self, job: Job, env: Mapping[str, str], said: IO[str]) -> forked.Process:
        return super().process(
            job, {**env, "RODS_WAY": self.name, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}, said
        )

    def pool(self, folder: Path) -> bytes:
        with run_beside_daemon(folder) as job:
            self.trained(job(STEPS, lost=LOST))
            return (Path(job(0).run) / POOL).read_bytes()


@pytest.mark.timeout(600)
def test_the_same_rewards_make_the_same_pool_whichever_way_they_come(tmp_path: Path) -> None:
    ways = [name for name, (*_, wanted) in WAYS.items() if all(find_spec(each) for each in wanted)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        pools = dict(
            zip(ways, threads.map(lambda name: Way(name).pool(tmp_path / name), ways), strict=True)
        )
    assert {"stream", "shell", "tinker", "verifiers", "prime-rl"} <= {*pools}
    assert all(pool == pools["stream"] for pool in pools.values()), [
        name for name, pool in pools.items() if pool != pools["stream"]
    ]
    kinds = [orjson.loads(line)["kind"] for line in pools["stream"].splitlines()]
    assert kinds.count("epoch") == 3 and "injected" in kinds
