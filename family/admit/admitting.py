"""Judges a file of tasks on several cores, line by line: who is asked, near duplicates among the
lines and of what is there already, and a verdict for each."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rods.canonical import JsonObject
from rods.config import Config
from rods.daemon.attempt_worker import AttemptWorker
from rods.daemon.authors.base import NO_CALLS
from rods.daemon.compute import Compute, GateCheck, compute_of
from rods.environments.base import Environment
from rods.errors import InfrastructureError
from rods.family.admit.judging import Judged, judge
from rods.faults import Reason, Reasons
from rods.gates.similarity import SimilarityIndex, held_out_index
from rods.tasks import AnyTask
from rods.worlds.checking.task_files import record_faults, task_records
from rods.worlds.sources import TASK_READERS

Verdict = Literal["accepted", "doubtful", "refused", "undecided"]
TOGETHER = 256  # lines that workers have at a time
JUDGE = f"{judge.__module__}:{judge.__name__}"


@dataclass(slots=True)
class Line:
    """A line of the file, the task that it makes, if any, and the reasons against it by kind;
    `lost`: why nothing is known."""

    number: int
    task: AnyTask | None = None
    reasons: dict[str, Reasons] = field(default_factory=dict)
    lost: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.lost:
            return "undecided"
        reasons = [reason for kind in self.reasons.values() for reason in kind]
        if not reasons:
            return "accepted"
        return "doubtful" if all(reason.doubt for reason in reasons) else "refused"

    @property
    def kinds(self) -> list[str]:
        """The kinds of its faults; those of which there are doubts alone, where it is doubtful."""
        certain = self.verdict == "refused"
        return [
            kind
            for kind, reasons in self.reasons.items()
            if not certain or not all(reason.doubt for reason in reasons)
        ]

    def as_json(self) -> JsonObject:
        """As docs/admit.md has it; `rods data check --findings` reads the same."""
        evidence = [
            f"{kind}: {'perhaps ' if reason.doubt else ''}{reason}"
            for kind, reasons in self.reasons.items()
            for reason in reasons
        ]
        return {
            "line": self.number,
            "task": self.task.id if self.task else "",
            "verdict": self.verdict,
            "fault": self.verdict == "refused",
            "kinds": self.kinds,
            "what": f"{self.verdict}: {', '.join(self.kinds)}".removesuffix(": "),
            "evidence": [self.lost] if self.lost else evidence,
        }


@dataclass
class Admitting:
    """Who judges: against `config`, with what is `given` already and what is `held_out`. `folder`:
    where generated worlds lie. `world`: what is wrong with the world, whoever's task it is."""

    config: Config
    folder: Path
    environment: Environment
    given: Sequence[AnyTask]
    held_out: Sequence[AnyTask]
    world: Reasons = field(default_factory=list)

    def read(self, file: Path, source: str) -> Iterator[Line]:
        """The lines of a file with the tasks that they make. Raises UserError where it cannot be
        read."""
        for number, _, record, broken in task_records(file):
            try:
                faults = broken or self._faults(record)
                if faults:
                    said = [": ".join(filter(None, fault[:2])) for fault in faults]
                    yield Line(number, None, {"record": [*map(Reason, said)]})
                else:
                    yield Line(number, self._task(record, {"source": f"{source}:{number}"}))
            except InfrastructureError as error:
                yield Line(number, lost=str(error))
            except Exception as error:  # noqa: BLE001
                # what readers and worlds raise; one line never ends the rest
                yield Line(number, None, {"record": [Reason(f"{error}")]})

    async def judged(self, lines: Iterator[Line]) -> AsyncIterator[Line]:
        """The lines in their order, with what is wrong with each. What is accepted is a neighbour
        of those behind it; what is not, of none."""
        held_out = held_out_index(self.held_out)
        compute = compute_of(self.folder, self.config, held_out)
        here = None if compute else AttemptWorker(self.folder, self.config, held_out)
        neighbours = SimilarityIndex(self.given)
        try:
            while together := [*islice(lines, TOGETHER)]:
                await asyncio.gather(*(self._judge(line, compute, here) for line in together))
                for line in together:
                    self._compare(line, neighbours)
                    yield line
        finally:
            if compute is not None:
                compute.close()
            if here is not None:
                here.close()

    @staticmethod
    def _foreign(record: Any) -> bool:
        """Whether a record is in another form than ours."""
        return not isinstance(record, dict) or record.keys().isdisjoint(("goal", "environment"))

    def _faults(self, record: Any) -> Sequence[Sequence[str]]:
        if self._foreign(record) and any(TASK_READERS):
            return ()
        return record_faults(record)

    def _task(self, record: Any, source: JsonObject) -> AnyTask:
        """The task of a sound record, or of one in another form. Raises ValueError, and what a
        world raises."""
        if not self._foreign(record):
            task = AnyTask.from_json(record)
            return replace(task, provenance={**task.provenance, **source})
        why = ValueError("no form is known that it has")
        for reader in TASK_READERS:
            try:
                return reader(self.environment, record, source)
            except ValueError as error:
                why = error
        raise why

    async def _judge(self, line: Line, compute: Compute | None, here: AttemptWorker | None) -> None:
        """Asks a worker, or does it here."""
        if line.task is None:
            return
        if line.task.environment.name != self.environment.name:
            name = line.task.environment.name
            line.reasons["world"] = [Reason(f"written for {name}, not {self.environment.name}")]
            return
        gates = self.config.gates.model_copy(update={"profile": False})
        item = GateCheck(line.task, NO_CALLS, gates, JUDGE)
        try:
            judged: Judged | InfrastructureError
            if compute is not None:
                judged = await compute.judged(item)
            else:
                assert here is not None
                judged = here.made(item)
            if isinstance(judged, InfrastructureError):
                raise judged
        except InfrastructureError as error:
            line.lost = str(error)
            return
        line.reasons = judged.reasons
        if self.world:
            line.reasons["world"] = [*line.reasons.get("world", ()), *self.world]
        results = [list(turn) for turn in judged.results]
        if any(results):
            recorded = {"results": results, **line.task.provenance}
            line.task = replace(line.task, provenance=recorded)

    def _compare(self, line: Line, neighbours: SimilarityIndex) -> None:
        task = line.task
        if task is None or not self.config.gates.duplicates:
            return
        if task.id in neighbours:
            line.reasons["duplicates"] = [Reason(f"it is task {task.id} itself")]
        elif match := neighbours.find(task):
            line.reasons["duplicates"] = [Reason(str(match), match.turn)]
        if line.verdict == "accepted":
            neighbours.add(task)
