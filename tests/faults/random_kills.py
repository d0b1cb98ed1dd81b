"""kill -9 at random moments: trainer and daemon as real processes, the daemon writing with a
language model (the stub endpoint), so that calls are in flight when it dies. One of the two is
killed and started again, over and over.

What stands in a log at the moment of a kill, whole lines, must stand there in the end: a kill takes
nothing back. A run bears RUN_KILLS of them, is asked to stop and looked at; then comes a new one,
so that young runs are killed as well. The processes come from a server that has imported their
programs: a start costs milliseconds, and nothing is struck while it only imports.
"""

from __future__ import annotations

import hashlib
import importlib
import multiprocessing
import os
import random
import shutil
import sys
import time
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import tomli_w

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.log.parts import segments
from rods.buffers.run.creation import create_run
from rods.config import parse_config
from rods.errors import EXIT_OK, EXIT_REQUEUE
from rods.worlds import desk
from tests.faults.table import Row
from tests.faults.workloads import LOGS, VALUES, Verdict, judge

PROGRAMS = ("trainer", "daemon")
CODES = {"trainer": EXIT_REQUEUE, "daemon": EXIT_OK}  # of one that was asked to stop
IMPORTED = (
    "__main__",
    "tests.faults.random_kills",
    "rods.trainer.main",
    "rods.trainer.simulated",
    "rods.daemon.main",
)
Known = tuple[int, str]  # so many bytes of a log, and their hash
RUN_KILLS = 25
LONGEST = 0.8  # seconds that a process lives, at most, once it has begun to work
STARTING = 0.02  # the same for one that is killed while it starts


class Pair:
    """Both programs of a run. What they print goes into a file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server = multiprocessing.get_context("forkserver")
        self._server.set_forkserver_preload(list(IMPORTED))
        self.processes = {name: self._start(name) for name in PROGRAMS}

    def kill(self, name: str) -> str | None:
        """Kills a program and starts it again. Returns what it said if it had ended of itself."""
        process = self.processes[name]
        process.kill()
        process.join()
        self.processes[name] = self._start(name)
        code = process.exitcode
        return None if code == -9 else f"{name} had ended with {code}: {self._said(name)[-1500:]}"

    def stop(self) -> list[str]:
        """Asks both to stop. Returns what was wrong with that."""
        wrong = []
        for name, process in self.processes.items():
            _until_working(self, name)  # one that only begins ends at once, with the same code
            process.terminate()
            process.join()
            if process.exitcode != CODES[name]:
                wrong.append(f"{name} stopped with {process.exitcode}: {self._said(name)[-1500:]}")
            said = self._said(name)
            if (at := said.find("Traceback")) >= 0:
                wrong.append(f"{name}: {said[at : at + 1500]}")
        return wrong

    def working(self, name: str) -> bool:
        """Whether the program that runs now has come as far as its heartbeat."""
        beat = self.folder / f"heartbeat.{name}.json"
        return beat.exists() and f'"pid":{self.processes[name].pid},' in beat.read_text(
            errors="replace"
        )

    def _start(self, name: str) -> ForkServerProcess:
        process = self._server.Process(
            target=_program, args=(name, str(self.folder), str(self._errors(name)))
        )
        process.start()
        return process

    def _errors(self, name: str) -> Path:
        return self.folder.with_name(f"{name}.err")

    def _said(self, name: str) -> str:
        return self._errors(name).read_text(errors="replace")


def _program(name: str, folder: str, errors: str) -> None:
    """The process: what `python -m rods.trainer` and `python -m rods.daemon` do."""
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.argv = [name, folder]
    importlib.import_module(f"rods.{name}.__main__").main()


def random_kills(scratch: Path, count: int, random_seed: int = 0) -> Row:
    """`count` kills, or as many as there is patience for (Ctrl-C), and a look at every run in the
    end."""
    row = Row("kill -9 at random moments, under load from the stub endpoint")
    begun = 0
    with (
        Stub(Script(answer="bench.fixtures.llm_stub.roles:answer", latency=0.05)) as stub,
        suppress(KeyboardInterrupt),  # what was tried so far counts
    ):
        while begun < count:
            chance = random.Random(f"{random_seed} {begun}")
            folder = scratch / f"random.{begun}" / "run"
            _create(folder, stub)
            _killed_again_and_again(folder, chance, min(RUN_KILLS, count - begun), row)
            begun += RUN_KILLS
            if row.survived == row.tried:
                shutil.rmtree(folder.parent)
    return row


def _killed_again_and_again(folder: Path, chance: random.Random, count: int, row: Row) -> None:
    pair = Pair(folder)
    seen: dict[str, Known] = {}
    for number in range(count):
        name = chance.choice(PROGRAMS)
        if chance.random() < 0.8:
            _until_working(pair, name)
            time.sleep(chance.uniform(0, LONGEST))
        else:
            time.sleep(chance.uniform(0, STARTING))
        ended = pair.kill(name)
        row.add(
            f"{folder}, kill {number}, {name}",
            Verdict(_vanished(folder, seen), wrong=[ended] if ended else []),
        )
    wrong = pair.stop()
    told = judge(folder)
    row.add(
        f"{folder} in the end",
        Verdict(_vanished(folder, seen), told["twice"], wrong + told["problems"]),
    )


def _create(folder: Path, stub: Stub) -> None:
    values = {section: dict(keys) for section, keys in VALUES.items()}
    values["training"] |= {"batch_tasks": 8, "steps": 1_000_000, "checkpoint_steps": 5}
    values["operation"] |= {"steps_per_second": 8.0, "idle_exit_seconds": 0.0, "poll_seconds": 0.05}
    values["operation"] |= {
        "endpoints": [{"model": "stub", "urls": [stub.url]}],
        "log_part_bytes": 200_000,
    }
    values["pipeline"] = {"author": "llm"}
    values["pool"] |= {"max_generated": 40}
    tasks = [task for task in desk.generate(7, 60, 8) if task.type == "base"]
    config = parse_config(values, where="tests.faults")
    folder.parent.mkdir(parents=True)
    folder.with_suffix(".toml").write_text(tomli_w.dumps(config.model_dump(mode="json")))
    create_run(folder, config, tasks)


def _until_working(pair: Pair, name: str) -> None:
    deadline = time.monotonic() + 120
    while not pair.working(name) and pair.processes[name].exitcode is None:
        assert time.monotonic() < deadline, f"{name} does not begin to work"
        time.sleep(0.01)


def _vanished(folder: Path, seen: dict[str, Known]) -> int:
    """How many logs no longer begin with the whole lines that were `seen` in them before; then
    takes down today's."""
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
