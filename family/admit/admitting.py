"""Judges a file of tasks on several cores, line by line: who is asked, near duplicates among the
lines and of what is there already, and a verdict for each."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import orjson

from rods.buffers.daemon_log import DaemonLog
from rods.buffers.log.disk import replace as replace_file
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EVALUATION, EXPANDED
from rods.canonical import JsonObject
from rods.config import Config
from rods.daemon.attempt_worker import AttemptWorker
from rods.daemon.authors.base import NO_CALLS
from rods.daemon.compute import Compute, GateCheck, compute_of
from rods.environments.base import Environment
from rods.errors import InfrastructureError
from rods.family.admit.task_faults import judge
from rods.faults import Reason, Reasons
from rods.gates.similarity import DuplicateIndex, held_out_index
from rods.tasks import AnyTask
from rods.worlds.checking.task_files import record_faults, task_records

OF_RUN = Path(EVALUATION) / "admit"
VERDICTS = ".verdicts.jsonl"
TOGETHER = 256  # lines that workers have at a time
JUDGE = f"{judge.__module__}:{judge.__name__}"


@dataclass(slots=True)
class Line:
    """A line of the file, the task that it makes, if any, and the reasons against it by kind; those
    of the kind `lost` say that nothing is known."""

    number: int
    task: AnyTask | None = None
    reasons: dict[str, Reasons] = field(default_factory=dict)
    strict: bool = False  # a doubt refuses, too

    @property
    def certain(self) -> list[str]:
        """The kinds of faults that refuse the task."""
        return [
            kind
            for kind, faults in self.reasons.items()
            if any(self.strict or not fault.doubt for fault in faults)
        ]

    @property
    def kinds(self) -> list[str]:
        """The same, or, where there are none, what is doubted."""
        return self.certain or [kind for kind, faults in self.reasons.items() if faults]

    @property
    def verdict(self) -> Literal["accepted", "doubtful", "refused", "undecided"]:
        if "lost" in self.reasons:
            return "undecided"
        return "refused" if self.certain else "doubtful" if self.kinds else "accepted"

    @property
    def accepted(self) -> bool:
        return self.verdict == "accepted"

    def as_json(self) -> JsonObject:
        """As docs/admit.md has it; `rods data check --findings` reads the same."""
        return {
            "line": self.number,
            "task": self.task.id if self.task else "",
            "verdict": self.verdict,
            "fault": self.verdict == "refused",
            "kinds": self.kinds,
            "what": ", ".join([self.verdict, *self.kinds]),
            "evidence": [
                # what a world says may be no text that JSON can hold
                f"{kind}: {'perhaps ' * reason.doubt}{reason}".encode(errors="replace").decode()
                for kind, reasons in self.reasons.items()
                for reason in reasons
            ],
        }


@dataclass
class Admitting:
    """Who judges by `config`, beside what is `given`. `folder`: where generated worlds lie.
    `strict`: what is doubtful is refused, as where rules write a variant."""

    config: Config
    folder: Path
    environment: Environment
    given: Sequence[AnyTask]
    run: Run | None = None  # that they are to join
    strict: bool = False

    def read(self, file: Path) -> Iterator[Line]:
        """The lines of a file with the tasks that they make. Raises UserError where it cannot be
        read."""
        for number, _, record, broken in task_records(file):
            line = Line(number, strict=self.strict)
            if faults := broken or record_faults(record):
                line.reasons["record"] = [
                    Reason(": ".join(filter(None, (where, what))) + f" → {remedy}" * bool(remedy))
                    for where, what, remedy in faults
                ]
            else:
                line.task = AnyTask.from_json(record)
            yield line

    async def judged(self, lines: Iterator[Line]) -> list[Line]:
        """The lines in their order, with what is wrong with each. What is accepted is a neighbour
        of those behind it; what is not, of none."""
        context = self.folder, self.config, held_out_index(self.given)
        done: list[Line] = []
        with closing(compute_of(*context) or AttemptWorker(*context)) as worker:
            while together := [*islice(lines, TOGETHER)]:
                await asyncio.gather(*(self._judge(line, worker) for line in together))
                done += together
        for line in done:
            if line.task and self.run and line.task.split != "train":
                line.reasons["split"] = [Reason(f"it is held out: {line.task.split}")]
        if self.config.gates.duplicates:
            find_duplicates(done, self.given)
        return done

    def keep(self, lines: Sequence[Line], target: Path) -> None:
        """Writes the verdicts; of what is to join a run in its folder, too."""
        if self.run:
            folder = self.run.path / OF_RUN
            folder.mkdir(parents=True, exist_ok=True)
            write(lines, folder / target.name)
        write(lines, target)

    def owned(self, lines: Sequence[Line], whose: str) -> list[AnyTask]:
        """What is accepted, with whose it is."""
        about = {"generation": 1, "model": whose, "whose": whose}
        return [
            replace(task, provenance={**task.provenance, **about, "root": task.id})
            for line in lines
            if (task := line.task) and line.accepted
        ]

    async def stage(self, log: DaemonLog, tasks: Sequence[AnyTask], whose: str) -> None:
        """Has a run take `tasks`, but for those that are there already."""
        there = await asyncio.to_thread(
            lambda: {entry["task"]["id"] for entry in read(log.run.path / EXPANDED)}
        )
        await log.admitted(whose, [task for task in tasks if task.id not in there])

    async def _judge(self, line: Line, worker: Compute | AttemptWorker) -> None:
        task = line.task
        if task is None:
            return
        if task.environment.name != self.environment.name:
            line.reasons["world"] = [Reason(f"it was written for {task.environment.name}")]
            return
        gates = self.config.gates.model_copy(update={"profile": False})
        item = GateCheck(task, NO_CALLS, gates, JUDGE)
        try:
            said = await worker.judged(item) if isinstance(worker, Compute) else worker.made(item)
            if isinstance(said, InfrastructureError):
                raise said
        except InfrastructureError as error:
            line.reasons["lost"] = [Reason(str(error))]
            return
        line.reasons = said.reasons
        line.task = said.task or task


def find_duplicates(lines: Sequence[Line], given: Sequence[AnyTask]) -> None:
    """Says which tasks are `given`, or come before, in the same or in nearly the same form."""
    neighbours = DuplicateIndex(given, staging=True)
    same = {_content(task): task.id for task in given}
    for line in lines:
        task = line.task
        if task and not line.certain:
            if other := same.get(key := _content(task)):
                line.reasons["duplicates"] = [Reason(f"it is task {other} once more")]
            elif not line.kinds:
                near = neighbours.admit(task)
                line.reasons["duplicates"] = [Reason(text, doubt=True) for text in near]
            same[key] = task.id


def write(lines: Iterable[Line], target: Path) -> None:
    """Writes verdicts as JSON lines. Raises UserError."""
    replace_file(target, b"".join(orjson.dumps(line.as_json()) + b"\n" for line in lines))


def _content(task: AnyTask) -> str:
    """What an exact duplicate has as well, whatever its split and its text for the system prompt:
    a hash."""
    return replace(task, id="", system="").id
