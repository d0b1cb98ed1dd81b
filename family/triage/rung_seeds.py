"""Variants of tasks that a hint has taught: where triage finds that a policy solves a task once
rung 1, 2 or 3 is told, a variant of it is written whose requests tell what that rung does, in the
words of the tools' documents. Rungs 4 and 5 tell the ground truth, so nothing is written of them.
The variant passes the gates before its words are added and after, and waits for the next merge like
one that somebody else wrote. Each finding is tried once by a daemon."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from rods.analysis.profile import profile
from rods.buffers.audit.rederivation import Findings
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED
from rods.buffers.state import RunState
from rods.canonical import Texts
from rods.daemon.authors.base import Rejection, in_thread
from rods.daemon.writers import Beside
from rods.environments.base import Environment
from rods.errors import InfrastructureError
from rods.family.triage.rungs import VALUES, requested
from rods.gates import check
from rods.gates.ground_truth import Checked, replayed
from rods.tasks import AnyTask, Task

WHOSE = "triage"
Job = Callable[[], Awaitable[None]]


def taught(finding: Record) -> tuple[str, int] | None:
    """The task and the rung that teaches it, where a variant can be written of that."""
    teachable = finding["diagnosis"] == "teachable" and finding["rung"] < VALUES
    return (finding["task"], finding["rung"]) if teachable else None


class RungSeeds:
    """Writes these variants, one at a time."""

    def __init__(self, daemon: Beside, findings: Iterable[Record]) -> None:
        self._daemon = daemon
        self._waiting = [*filter(None, map(taught, findings))]
        self._tried = {key for _, key, _ in staged(daemon.run)}

    def add(self, finding: Record) -> None:
        """Takes a new finding."""
        self._waiting += filter(None, [taught(finding)])

    def due(self, state: RunState) -> list[Job]:
        """What can be written now: one variant, or none."""
        limit = self._daemon.run.config.selection.max_generation
        while self._waiting and not self._daemon.stalled:
            key = self._waiting.pop(0)
            seed = state.task(key[0])
            within = not limit or seed.provenance.get("generation", 0) < limit
            if isinstance(seed, Task) and within and key not in self._tried:
                self._tried.add(key)
                return [partial(self._write, seed, key[1])]
        return []

    async def _write(self, seed: Task, rung: int) -> None:
        """Writes the variant of `seed` that tells `rung`."""
        daemon = self._daemon
        pick = f"rung-{rung}-{seed.id}"
        variant = await daemon.variant(pick, seed)
        if not isinstance(variant, Task):
            return
        told, checked = await in_thread(daemon.threads, self._told, variant, seed, rung)
        if checked.rejections:
            failed = Rejection.at_gates("admission", checked.rejections, None, told.as_json())
            await daemon.log.rejected(
                pick,
                0,
                stage=failed.stage,
                error=failed.error,
                evidence=failed.evidence,
                raw=failed.raw,
            )
        else:
            await daemon.log.admitted(WHOSE, [told])

    def _told(self, variant: Task, seed: Task, rung: int) -> tuple[Task, Checked]:
        """The variant with the words of `rung`, and what the gates say of it."""
        run = self._daemon.run
        environment = run.environments.load(variant.environment.name)
        provenance = {**variant.provenance, "triaged": seed.id, "rung": rung}
        script = with_rung(environment, variant, variant.script, rung)
        told = replace(variant, script=script, provenance=provenance, id="")
        root = run.training.get(variant.provenance["root"], seed)
        assert isinstance(root, Task), "a variant has its root's kind"
        shape = profile(environment, root)
        return told, check(environment, told, shape, run.config.gates, self._daemon.held_out)


def with_rung(environment: Environment, task: Task, script: Texts, rung: int) -> Texts:
    """`script` with what a user adds who tells `rung` of the ground truth of `task`. Raises
    InfrastructureError."""
    results, _ = replayed(environment, task)
    assert results is not None, "gates have run it"
    added = zip(script, requested(environment.tools(), task, results, rung), strict=True)
    return tuple(" ".join(both).strip() for both in added)


def staged(run: Run) -> Iterator[tuple[int, tuple[str, int], AnyTask]]:
    """The variants on record that tell a rung: their seq, the task that was triaged and the rung,
    and the variant."""
    for entry in read(run.path / EXPANDED):
        about = entry["task"].get("provenance", {})
        if "rung" in about:
            yield entry["seq"], (about["triaged"], about["rung"]), AnyTask.from_json(entry["task"])


def audit(run: Run, findings: Findings, triaged: Iterable[Record], replay: bool) -> None:
    """Whether each such variant follows from a finding, and with `replay`, tells what its rung
    does."""
    known = {taught(finding) for finding in triaged}
    for seq, key, task in staged(run):
        findings.count("variants that tell a rung")
        where = f"{EXPANDED}, record {seq}"
        if key not in known:
            findings.problem(where, f"no finding says that {key[0]} is teachable at rung {key[1]}")
        elif replay and isinstance(task, Task):
            environment = run.environments.load(task.environment.name)
            try:
                same = with_rung(environment, task, ("",) * len(task.script), key[1])
            except (InfrastructureError, AssertionError):
                continue  # its ground truth is looked at elsewhere
            if not all(text.endswith(end) for text, end in zip(task.script, same, strict=True)):
                findings.problem(where, f"its requests do not tell rung {key[1]}")
