"""Does an open page slow the trainer? Steps of a real trainer of nano, while somebody looks at its run or nobody does.

Claim: a step with the page open takes 1.00 ± 0.01 of one without. Anchor: the same trainer in the periods without.
Command: `python -m bench.page_trainer`; the interval needs a quiet machine and half an hour.

One trainer in a process of its own, with one thread and the same tasks in every step; its learning rate is so small
that steps stay alike. `rods dash` serves the run in another process. In every other period a client asks over HTTP as
the browser does: it listens to the stream, and when something moves asks for what the views of the run and of the
boundary show; in the others it has gone, and the page reads nothing. A step counts in the period that holds all of it.
Times are those of the step records. A machine that others share drifts by tens of percent within a minute, so periods
are short, and each block of four of them, without · with · with · without, is compared in itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from socket import SHUT_RDWR
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np
import orjson
import tomli_w
from numpy.typing import NDArray

from bench.figures import Figure, run
from buffers.log.tail import read
from buffers.run.runfolder import OBSERVATIONS

PERIOD = 5.0  # seconds
WITH = (1, 2)  # of a block's four periods: so that a steady drift falls on both
DRAWS = 10_000  # of the bootstrap
CONFIG = {
    "data": {"tasks": "desk-small", "train": 6, "held_out": 4, "random_seed": 7},
    "policy": {"kind": "nano", "dialect": "compact", "carelessness": 0.5},
    "rollouts": {"rollouts_per_task": 4, "max_steps": 6, "max_reply_tokens": 48, "max_context_tokens": 640},
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
    """Geometric mean over the blocks of the ratio of their median steps, with its bootstrap interval of 95 %."""
    blocks = max(2, round(float(minutes or (1 if quick else 30)) * 60 / (4 * PERIOD)))
    spans: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        path = Path(folder) / "run"
        with _trainer(path), _page(path) as (page, address):
            client, spent = _Client(address), 0.0
            for period in range(4 * blocks):
                if period % 4 in WITH:
                    spent -= _cpu(page)
                    with client.looking():
                        spans.append(_wait())
                    spent += _cpu(page)
                else:
                    spans.append(_wait())
        ends = np.array([record["time"] for record in read(path / OBSERVATIONS) if record["kind"] == "step"])
    steps = [_steps(ends, *span) for span in spans]
    shown = [np.concatenate([steps[block + each] for each in WITH]) for block in range(0, len(steps), 4)]
    alone = [np.concatenate([steps[block], steps[block + 3]]) for block in range(0, len(steps), 4)]
    logs = np.array([np.log(np.median(one) / np.median(two)) for one, two in zip(shown, alone, strict=True)])
    low, high = _interval(logs)
    counted = f"{len(np.concatenate(shown))} steps with it and {client.asked} answers in {blocks} blocks"
    told = f"half of its 95 % interval [{low:.4f}, {high:.4f}]"
    anchor = 1e3 * float(np.median(np.concatenate(alone)))
    return [
        Figure(
            f"a step with the page open ({counted})",
            float(np.exp(logs.mean())),
            "×",
            "without it, ms",
            anchor,
            reach=1.01,
            higher=False,
        ),
        Figure("of one core the page itself took", spent / (2 * blocks * PERIOD), "×", reach=0.02, higher=False),
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

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Until the end of the block, as an open tab does."""
        with closing(HTTPConnection(urlsplit(self._address).netloc)) as tab:
            tab.request("GET", "/events?run=latest")
            thread = Thread(target=self._listen, args=(tab.getresponse(),))
            thread.start()
            yield
            tab.sock.shutdown(SHUT_RDWR)  # wakes the one who listens
            thread.join()

    def _listen(self, stream: Iterable[bytes]) -> None:
        last: dict[str, int] = {}
        for text in stream:
            if not text.startswith(b"data: "):
                continue
            now = orjson.loads(text.removeprefix(b"data: "))
            self._ask("status")
            if now["observations"] != last.get("observations"):
                self._steps = self._ask(f"steps?after={self._steps}")["cursor"]
                self._dots = self._ask(f"groups?after={self._dots}&decided={self._decided}")["cursor"]
            last = now

    def _ask(self, view: str) -> dict[str, str]:
        with urlopen(f"{self._address}api/latest/{view}") as response:
            found: dict[str, str] = orjson.loads(response.read())
        self.asked += 1
        return found


@contextmanager
def _page(path: Path) -> Iterator[tuple[int, str]]:
    """Process and address of a page."""
    command = [sys.executable, "-m", "console", "dash", str(path), "--port", "0"]
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


def _wait() -> tuple[float, float]:
    """Beginning and end of a period, by the clock of the step records."""
    began = time.time()
    time.sleep(PERIOD)
    return began, time.time()


def _steps(ends: NDArray[np.float64], began: float, ended: float) -> NDArray[np.float64]:
    """Seconds of the steps that lie within a period."""
    found: NDArray[np.float64] = np.diff(ends)[(ends[:-1] >= began) & (ends[1:] <= ended)]
    return found


def _interval(logs: NDArray[np.float64]) -> tuple[float, float]:
    """Of their geometric mean, blocks drawn anew."""
    drawn = np.random.default_rng(1).choice(logs, (DRAWS, len(logs))).mean(axis=1)
    low, high = np.quantile(np.exp(drawn), (0.025, 0.975))
    return float(low), float(high)


if __name__ == "__main__":
    run(measure, minutes="that it takes (30)")
