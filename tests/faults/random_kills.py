"""kill -9 at random moments: trainer and daemon as real processes, the daemon writing with a language model (the stub
endpoint), so that calls are in flight when it dies. One of the two is killed and started again, over and over.

What stands in a log at the moment of a kill, whole lines, must stand there in the end: a kill takes nothing back.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from buffers.creation import toml
from buffers.reading import segments
from buffers.run import Run
from rods.config import parse_config
from rods.environments import desk
from rods.errors import EXIT_OK, EXIT_REQUEUE
from tests.faults.table import Row
from tests.faults.workloads import LOGS, VALUES, Verdict, judge
from tests.llm_stub import Script, Stub

PROGRAMS = ("trainer", "daemon")
CODES = {"trainer": EXIT_REQUEUE, "daemon": EXIT_OK}  # of one that was asked to stop
Known = tuple[int, str]  # so many bytes of a log, and their hash
LONGEST = 0.8  # seconds that a process lives, at most, once it has begun to work


class Pair:
    """Both programs of a run. What they print goes into a file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = {name: self._start(name) for name in PROGRAMS}

    def kill(self, name: str) -> str | None:
        """Kills a program and starts it again. Returns what it said if it had ended of itself."""
        process = self.processes[name]
        process.kill()
        code = process.wait()
        self.processes[name] = self._start(name)
        return None if code == -9 else f"{name} had ended with {code}: {self._said(name)}"

    def stop(self) -> list[str]:
        """Asks both to stop. Returns what was wrong with that."""
        wrong = []
        for name, process in self.processes.items():
            process.terminate()
            if (code := process.wait()) != CODES[name]:
                wrong.append(f"{name} stopped with {code}: {self._said(name)}")
        return wrong + [f"{name}: {self._said(name)}" for name in PROGRAMS if "Traceback" in self._said(name)]

    def working(self, name: str) -> bool:
        """Whether the program that runs now has come as far as its heartbeat."""
        beat = self.folder / f"heartbeat.{name}.json"
        return beat.exists() and f'"pid":{self.processes[name].pid},' in beat.read_text(errors="replace")

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        with self._errors(name).open("ab") as errors:
            return subprocess.Popen([sys.executable, "-m", name, str(self.folder)], stderr=errors)

    def _errors(self, name: str) -> Path:
        return self.folder.with_name(f"{name}.err")

    def _said(self, name: str) -> str:
        return self._errors(name).read_text(errors="replace")[-1500:]


def random_kills(scratch: Path, count: int, random_seed: int = 0) -> Row:
    """`count` kills, or as many as there is patience for (Ctrl-C); then one look at everything."""
    row = Row("kill -9 at random moments, under load from the stub endpoint")
    folder, chance = scratch / "random" / "run", random.Random(random_seed)
    with Stub(Script(answer="tests.llm_stub.roles:answer", latency=0.05)) as stub:
        _create(folder, stub)
        pair = Pair(folder)
        seen: dict[str, Known] = {}
        with suppress(KeyboardInterrupt):  # what was tried so far counts
            for number in range(count):
                name = chance.choice(PROGRAMS)
                if chance.random() < 0.8:  # the others die while they start
                    _until_working(pair, name)
                time.sleep(chance.uniform(0, LONGEST))
                ended = pair.kill(name)
                row.add(f"kill {number}, {name}", Verdict(_vanished(folder, seen), wrong=[ended] if ended else []))
        wrong = pair.stop()
    told = judge(folder)
    row.add("the run in the end", Verdict(_vanished(folder, seen), told["twice"], wrong + told["problems"]))
    return row


def _create(folder: Path, stub: Stub) -> None:
    values = {section: dict(keys) for section, keys in VALUES.items()}
    values["training"] |= {"batch_tasks": 8, "steps": 1_000_000, "checkpoint_steps": 5}
    values["operation"] |= {"steps_per_second": 8.0, "idle_exit_seconds": 0.0, "poll_seconds": 0.05}
    values["operation"] |= {"endpoints": [{"model": "stub", "urls": [stub.url]}], "log_part_bytes": 200_000}
    values["pipeline"] = {"author": "llm"}
    values["pool"] |= {"max_generated": 40}
    tasks = [task for task in desk.generate(7, 60, 8) if task.type == "base"]
    config = parse_config(values, where="tests.faults")
    folder.parent.mkdir(parents=True)
    folder.with_suffix(".toml").write_text(toml(config.model_dump(mode="json")))
    Run.create(folder, config, tasks)


def _until_working(pair: Pair, name: str) -> None:
    deadline = time.monotonic() + 120
    while not pair.working(name) and pair.processes[name].poll() is None:
        assert time.monotonic() < deadline, f"{name} does not begin to work"
        time.sleep(0.01)


def _vanished(folder: Path, seen: dict[str, Known]) -> int:
    """How many logs no longer begin with the whole lines that were `seen` in them before; then takes down today's."""
    vanished = 0
    for log in LOGS:
        data = _content(folder / log)
        if log in seen:
            vanished += _known(data[: seen[log][0]]) != seen[log]
        seen[log] = _known(data[: data.rfind(b"\n") + 1])
    return vanished


def _known(data: bytes) -> Known:
    return len(data), hashlib.sha256(data).hexdigest()


def _content(log: Path) -> bytes:
    return b"".join(part.read_bytes() for part in segments(log))
