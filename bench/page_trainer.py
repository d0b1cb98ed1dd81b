"""Does an open page slow the trainer? Steps of a real trainer of nano, while the page over its run is open or is not.

Claim: a step with the page open takes 1.00 ± 0.01 of one without. Anchor: the same trainer in the periods without.
Command: `python -m bench.page_trainer`.

One trainer in a process of its own, with one thread and the same tasks in every step; its learning rate is so small
that steps stay alike. In every other period `rods dash` serves the run in a process of its own, and a client asks over
HTTP as the browser does: it listens to the stream, and when something moves asks for what the views of the run and of
the boundary show. A step counts in the period that holds all of it. Times are those of the step records.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import numpy as np
import orjson
import tomli_w
from numpy.typing import NDArray

from bench.figures import Figure, run
from buffers.log.tail import read
from buffers.run.runfolder import OBSERVATIONS

OPEN_IN = (0, 3)  # of four periods: so that a drift of the machine falls on both
DRAWS = 10_000  # of the bootstrap
CONFIG = {
    "data": {"tasks": "desk-small", "train": 12, "held_out": 4, "random_seed": 7},
    "policy": {"kind": "nano", "dialect": "compact", "carelessness": 0.5},
    "rollouts": {"rollouts_per_task": 4, "max_steps": 6, "max_reply_tokens": 48, "max_context_tokens": 640},
    "training": {
        "batch_tasks": 12,
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


def measure(quick: bool, periods: str = "") -> list[Figure]:
    """Ratio of the median step times, with its bootstrap interval of 95 %."""
    seconds = 5.0 if quick else 25.0
    spans: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    asked = 0
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        path = Path(folder) / "run"
        with _trainer(path):
            for period in range(int(periods or (4 if quick else 24))):
                if opened := period % 4 in OPEN_IN:
                    with _page(path) as client:
                        spans[opened].append(_wait(seconds))
                    asked += client.asked
                else:
                    spans[opened].append(_wait(seconds))
        ends = np.array([record["time"] for record in read(path / OBSERVATIONS) if record["kind"] == "step"])
    shown, alone = _steps(ends, spans[True]), _steps(ends, spans[False])
    low, high = _interval(shown, alone)
    ratio, anchor = float(np.median(shown) / np.median(alone)), 1e3 * float(np.median(alone))
    counted = f"{len(shown)} steps with it and {asked} answers, {len(alone)} steps without"
    told = f"half of its 95 % interval [{low:.4f}, {high:.4f}]"
    return [
        Figure(
            f"a step with the page open ({counted})", ratio, "×", "without it, ms", anchor, reach=1.01, higher=False
        ),
        Figure(told, (high - low) / 2, "×", reach=0.01, higher=False),
    ]


@contextmanager
def _trainer(path: Path) -> Iterator[None]:
    """A trainer that has made its first steps."""
    config = path.with_name("run.toml")
    config.write_text(tomli_w.dumps(CONFIG), encoding="utf-8")
    with subprocess.Popen([sys.executable, "-m", "trainer", str(path), "--config", str(config)]) as child:
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
    """Asks as a browser does that shows the run and its boundary; `asked`: how many answers it got."""

    def __init__(self, address: str) -> None:
        self.asked = 0
        self._address = address
        boundary = self._ask("boundary")
        self._steps, self._dots = self._ask("steps?whole=1")["cursor"], boundary["cursor"]
        self._decided = boundary["decided"]
        self._stream = urlopen(f"{address}events?run=latest")
        self._thread = Thread(target=self._listen, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Once the page is gone."""
        self._thread.join()

    def _listen(self) -> None:
        last: dict[str, int] = {}
        try:
            for text in self._stream:
                if not text.startswith(b"data: "):
                    continue
                now = orjson.loads(text.removeprefix(b"data: "))
                self._ask("status")
                if now["observations"] != last.get("observations"):
                    self._steps = self._ask(f"steps?after={self._steps}")["cursor"]
                    self._dots = self._ask(f"groups?after={self._dots}&decided={self._decided}")["cursor"]
                last = now
        except OSError:
            return  # the page was closed

    def _ask(self, view: str) -> dict[str, str]:
        with urlopen(f"{self._address}api/latest/{view}") as response:
            found: dict[str, str] = orjson.loads(response.read())
        self.asked += 1
        return found


@contextmanager
def _page(path: Path) -> Iterator[_Client]:
    """A page that has read the run's history and is listened to."""
    command = [sys.executable, "-m", "console", "dash", str(path), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        try:
            client = _Client(child.stdout.readline().strip())
            yield client
        finally:
            child.kill()
    client.join()


def _wait(seconds: float) -> tuple[float, float]:
    """Beginning and end of a period, by the clock of the step records."""
    began = time.time()
    time.sleep(seconds)
    return began, time.time()


def _steps(ends: NDArray[np.float64], spans: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    """Seconds of the steps that lie within one of the spans."""
    within = np.zeros(len(ends) - 1, bool)
    for began, ended in spans:
        within |= (ends[:-1] >= began) & (ends[1:] <= ended)
    found: NDArray[np.float64] = np.diff(ends)[within]
    return found


def _interval(shown: NDArray[np.float64], alone: NDArray[np.float64]) -> tuple[float, float]:
    """Of the ratio of medians, steps drawn anew."""
    chance = np.random.default_rng(1)
    drawn = [np.median(chance.choice(each, (DRAWS, len(each))), axis=1) for each in (shown, alone)]
    low, high = np.quantile(drawn[0] / drawn[1], (0.025, 0.975))
    return float(low), float(high)


if __name__ == "__main__":
    run(measure, periods="of 25 s, in every other one of which the page is open (24)")
