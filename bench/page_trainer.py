"""Does an open page slow the trainer? Steps of a real trainer of nano, while somebody looks at its
run or nobody does.

Claim: a step with the page open takes 1.00 ± 0.01 of one without. Anchor: the same trainer's steps
without. Command: `python -m bench.page_trainer`; the interval needs a quiet machine and half an
hour.

One trainer in a process of its own, with one thread, the same tasks in every step and the likeliest
reply to each; its learning rate is so small that all steps do the same work. `rods dash` serves the
run in another process. Of four steps a client looks at the middle two: it asks over HTTP as the
browser does, once a second for what has moved, and then for what the views of the run and of the
boundary show. At the other two it has gone, and the page reads nothing. Times are those of
the step records. A machine that others share drifts by tens of percent within a minute, and at
times takes a processor away for half a second; so each four steps are compared in themselves, and
the mean over them is trimmed by a fifth at both ends (the whole mean is told, too).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from urllib.request import urlopen

import numpy as np
import orjson
import tomli_w
from numpy.typing import NDArray

from bench.figures import Figure, run
from rods.buffers.log.tail import Tail, read
from rods.buffers.run.runfolder import OBSERVATIONS

TRIMMED = 0.2  # of the blocks, at both ends
POLL = 1.0  # seconds between looks of the browser
DRAWS = 10_000  # of the bootstrap
LATE = 0.2  # seconds behind the end of a step within which the page must have been opened or closed
CONFIG = {
    "data": {"tasks": "desk-small", "train": 6, "held_out": 4, "random_seed": 7},
    "policy": {"kind": "nano", "dialect": "compact", "carelessness": 0.5},
    "rollouts": {
        "rollouts_per_task": 4,
        "max_steps": 6,
        "max_reply_tokens": 48,
        "max_context_tokens": 640,
        "temperature": 0.001,
    },
    "training": {
        "batch_tasks": 6,
        "steps": 1_000_000,
        "learning_rate": 1e-9,
        "optimizer": "muon",
        "kl": 0.0,
        "checkpoint_steps": 1_000_000,
    },
    "selection": {"seeds_per_step": 0},
    "operation": {"threads": 1, "log_level": "warning"},
}
RUNS = Path(__file__).parent.parent / "runs"  # a real disk, as a user's run has


def measure(quick: bool, minutes: str = "") -> list[Figure]:
    """Geometric mean over the blocks of four steps, trimmed, with its bootstrap interval of 95
    %."""
    seconds = 60 * float(minutes or (1 if quick else 30))
    spans: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        path = Path(folder) / "run"
        with _trainer(path), _page(path) as (page, address):
            client = _Client(address)
            steps = _Steps(path)
            spent = 0.0
            until = time.monotonic() + seconds
            steps.wait(1)
            while time.monotonic() < until:
                spent -= _cpu(page)
                began = time.time()
                with client.looking():
                    steps.wait(2)
                spans.append((began, time.time()))
                spent += _cpu(page)
                steps.wait(2)  # the second is the first of the next four
        ends = np.array(
            [record["time"] for record in read(path / OBSERVATIONS) if record["kind"] == "step"]
        )
    blocks = np.array([block for span in spans if (block := _block(ends, *span)) is not None])
    shown = blocks[:, 1] + blocks[:, 2]
    alone = blocks[:, 0] + blocks[:, 3]
    logs = np.log(shown / alone)
    low, high = _interval(logs, TRIMMED)
    whole = "{:.4f} [{:.4f}, {:.4f}]".format(np.exp(logs.mean()), *_interval(logs, 0.0))
    counted = f"{2 * len(blocks)} steps with it and {client.asked} answers; whole mean {whole}"
    looked = sum(ended - began for began, ended in spans)
    told = f"half of its 95 % interval [{low:.4f}, {high:.4f}]"
    return [
        Figure(
            f"a step with the page open ({counted})",
            float(np.exp(_trimmed(logs, TRIMMED))),
            "×",
            "without it, ms",
            1e3 * float(np.median(alone)) / 2,
            reach=1.01,
            higher=False,
        ),
        Figure("of one core the page itself took", spent / looked, "×", reach=0.02, higher=False),
        Figure(told, (high - low) / 2, "×", reach=0.01, higher=False),
    ]


@contextmanager
def _trainer(path: Path) -> Iterator[None]:
    """A trainer that has made its first steps."""
    config = path.with_name("run.toml")
    config.write_text(tomli_w.dumps(CONFIG), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", "rods.trainer", str(path), "--config", str(config)]
    ) as child:
        try:
            log = path / OBSERVATIONS
            while not (log.exists() and log.read_bytes().count(b'"kind":"step"') >= 3):
                if child.poll() is not None:
                    raise RuntimeError("the trainer has ended")
                time.sleep(0.1)
            yield
        finally:
            child.kill()


class _Client:
    """Asks as a browser does that shows the run and its boundary; `asked`: how many answers it
    got."""

    def __init__(self, address: str) -> None:
        self.asked = 0
        self._address = address
        self._steps = self._ask("steps")["cursor"]

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Until the end of the block, as an open tab does."""
        done = Event()
        thread = Thread(target=self._poll, args=(done,))
        thread.start()
        yield
        done.set()
        thread.join()

    def _poll(self, done: Event) -> None:
        last: dict[str, str] = {}
        while not done.wait(POLL):
            now = self._ask("positions")
            if now == last:
                continue
            self._ask("status")
            if now["observations"] != last.get("observations"):
                self._steps = self._ask(f"steps?after={self._steps}")["cursor"]
                self._ask("boundary")
            last = now

    def _ask(self, view: str) -> dict[str, str]:
        with urlopen(f"{self._address}api/latest/{view}") as response:
            found: dict[str, str] = orjson.loads(response.read())
        self.asked += 1
        return found


@contextmanager
def _page(path: Path) -> Iterator[tuple[int, str]]:
    """Process and address of a page."""
    command = [sys.executable, "-m", "rods.console", "dash", str(path), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        try:
            yield child.pid, child.stdout.readline().strip()
        finally:
            child.kill()


def _cpu(process: int) -> float:
    """Seconds that it has taken so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Steps:
    """Tells when a trainer's steps end."""

    def __init__(self, path: Path) -> None:
        self._log = Tail(path / OBSERVATIONS)
        self._log.poll()

    def wait(self, count: int) -> None:
        """Until so many more have ended."""
        while (count := count - sum(record["kind"] == "step" for record in self._log.poll())) > 0:
            time.sleep(0.02)


def _block(ends: NDArray[np.float64], began: float, ended: float) -> NDArray[np.float64] | None:
    """Seconds of the last step before, the two within, and the first after the time of looking;
    None where it was not two whole steps, as on a machine that stood still."""
    first = int(np.searchsorted(ends, began)) - 1
    if (
        first < 1
        or first + 3 >= len(ends)
        or began - ends[first] > LATE
        or not 0 <= ended - ends[first + 2] < LATE
    ):
        return None
    found: NDArray[np.float64] = np.diff(ends[first - 1 : first + 4])
    return found


def _trimmed(logs: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The mean over the last axis without the lowest and the highest `share`."""
    without = int(share * logs.shape[-1])
    kept: NDArray[np.float64] = np.sort(logs)[..., without : logs.shape[-1] - without].mean(axis=-1)
    return kept


def _interval(logs: NDArray[np.float64], share: float) -> tuple[float, float]:
    """Of their geometric mean, blocks drawn anew."""
    drawn = _trimmed(np.random.default_rng(1).choice(logs, (DRAWS, len(logs))), share)
    low, high = np.quantile(np.exp(drawn), (0.025, 0.975))
    return float(low), float(high)


if __name__ == "__main__":
    run(measure, minutes="that it takes (30)")
