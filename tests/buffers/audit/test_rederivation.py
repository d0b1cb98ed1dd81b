"""The live history is derived again from the logs alone, and comes to where the run stands."""

from __future__ import annotations

import shutil
from pathlib import Path

from rods.buffers.audit.rederivation import Findings, Rederivation
from rods.buffers.folds.pool import windows_json
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import LOST, line, record
from rods.buffers.log.tail import read_raw
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import POOL
from rods.buffers.state import read_state


def walked(run: Run) -> Rederivation:
    found = Rederivation(run, Findings(str(run.path)))
    found.walk()
    return found


def test_it_ends_where_the_run_stands(past: Run) -> None:
    history = walked(past)
    state = read_state(past)
    assert history.findings.problems == []
    assert list(history.pool.active.values()) == list(state.active.values())
    assert (
        history.pool.revivable == state.pool.revivable
        and history.pool.injected == state.pool.injected
    )
    assert windows_json(history.observations.tracker, history.pool) == windows_json(
        state.tracker, state.pool
    )
    assert len(history.staging) == len(state.staging)
    counts = history.findings.counts
    assert (counts["steps"], counts["epochs"]) == (state.last_step, state.epoch + 1)
    assert counts["merges dropped by a later start"] > 0


def test_what_was_lost_of_a_merge_is_derived_again(past: Run, tmp_path: Path) -> None:
    shutil.copytree(past.path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    (part,) = segments(run.path / POOL)
    lines = part.read_bytes().splitlines(keepends=True)
    closing = read_state(run).pool.latest
    assert closing is not None and closing["first"] < closing["seq"]
    taken = next(one for one in read_raw(part) if one["seq"] == closing["first"])
    lines[taken["seq"] - 1] = line(taken["seq"], record(LOST, log=POOL, number=taken["seq"]))
    part.write_bytes(b"".join(lines))
    history = walked(run)
    restored = {
        seq: {**content, "crc": taken["crc"], "seq": seq}
        for seq, content in history.restored.items()
    }
    assert restored == {taken["seq"]: taken} and history.findings.problems == []


def test_findings_are_counted_and_said() -> None:
    findings = Findings("runs/x")
    findings.count("steps", 3)
    findings.count("steps")
    assert findings.ok and list(findings.lines()) == ["runs/x: 4 steps", "everything agrees"]
    findings.problem("step 4", "follows step 2")
    findings.notes.append("a note")
    assert not findings.ok and list(findings.lines())[1:] == [
        "  note: a note",
        "  step 4: follows step 2",
        "1 problem",
    ]
    assert findings.as_json()["problems"] == [{"where": "step 4", "what": "follows step 2"}]
