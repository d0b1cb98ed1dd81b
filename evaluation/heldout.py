"""Held-out scores of a run: its policy at a checkpoint, rolled out on the tasks that it never trains on.

Scores lie in `eval/heldout_step_<step>.a<attempt>.jsonl`, one line a rollout, written whole or not at all; they never
enter the observations. The same checkpoint is scored once: asking again reads the file. Every checkpoint of a run
meets the same tasks with the same draws, so that differences are paired (DESIGN §5.5: identity interface only).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson

from buffers.lineage import Lineage, known_starts
from buffers.run import Run
from evaluation import engines
from evaluation.scoring import Estimate, estimate, paired
from rods import runfolder
from rods.errors import UserError
from rods.observations import Rollout
from rods.tasks import Task
from trainer.checkpoints import Checkpoint, Checkpoints

Which = Literal["start", "end"] | int


def score_run(path: Path, which: Which) -> dict[str, Any]:
    """Scores the run in `path` at its first checkpoint, its newest, or the one of a step; returns the summary.

    Raises UserError when the run has no such checkpoint or no held-out tasks.
    """
    run = Run.open(path)
    checkpoint = _checkpoint(path, which)
    file = _file(path, checkpoint)
    if not file.exists():
        tasks = run.held_out
        if not tasks:
            raise UserError(
                "the run has no held-out tasks", where=str(path), remedy="create a run with data.held_out above 0"
            )
        engine = engines.load(run.config, checkpoint.policy)
        scored = engine.rollouts(tasks, run.config.training.heldout_rollouts)
        _write(file, checkpoint, scored)
    return summary(file)


def compare(path: Path) -> dict[str, Any]:
    """Scores start and end and pairs them: {"start", "end", "difference": {"progress", "binary"}, "left_out"}.

    `left_out` counts tasks that only one end could score (infrastructure failures).
    """
    return _compared(score_run(path, "start"), score_run(path, "end"))


def scored(path: Path) -> dict[str, Any] | None:
    """The same from the files that exist: the first and the last live step scored; None below two. Scores nothing."""
    live = _lineage(path).live
    found = sorted(
        (int(step), int(attempt), file)
        for file in (path / runfolder.EVALUATION).glob("heldout_step_*.a*.jsonl")
        for step, attempt in [file.stem.removeprefix("heldout_step_").split(".a")]
        if live(int(attempt), int(step))
    )
    if len({step for step, *_ in found}) < 2:
        return None
    return _compared(summary(found[0][-1]), summary(found[-1][-1]))


def _compared(start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    before, after = _means(Path(start["file"])), _means(Path(end["file"]))
    common = before.keys() & after.keys()
    difference = {
        measure: paired(
            {task: before[task][index] for task in common}, {task: after[task][index] for task in common}
        ).as_json()
        for index, measure in enumerate(("progress", "binary"))
    }
    left_out = len(before.keys() ^ after.keys())
    return {"start": start, "end": end, "difference": difference, "left_out": left_out}


def summary(file: Path) -> dict[str, Any]:
    """The means of one file of scores with their 95 % intervals over tasks, overall and by type."""
    means = _means(file)
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    types = {line["task"]: line["type"] for line in lines}

    def _estimate(tasks: Sequence[str], index: int) -> dict[str, Any]:
        result: Estimate = estimate([means[task][index] for task in tasks])
        return result.as_json()

    by_type = {
        name: _estimate([task for task in means if types[task] == name], 0)
        for name in sorted({types[task] for task in means})
    }
    return {
        "step": lines[0]["step"],
        "attempt": lines[0]["attempt"],
        "rollouts_per_task": len(lines) // len(types),
        "progress": _estimate(list(means), 0),
        "binary": _estimate(list(means), 1),
        "progress_by_type": by_type,
        "file": str(file),
    }


def _checkpoint(path: Path, which: Which) -> Checkpoint:
    checkpoints = Checkpoints(path)
    live = _lineage(path).live
    named = checkpoints.named(live)
    if which == "end":
        found = checkpoints.newest(live)
    else:
        step = 0 if which == "start" else which
        found = next((item for item in reversed(named) if item.position.step == step and item.intact()), None)
    if found is None:
        steps = ", ".join(str(item.position.step) for item in named) or "none yet"
        raise UserError(
            f"no checkpoint for {which!r} (there are: {steps})",
            where=str(path),
            remedy="start `rods-train` on the run first, or name one of these steps",
        )
    return found


def _lineage(path: Path) -> Lineage:
    return known_starts(path / runfolder.OBSERVATIONS)


def _file(path: Path, checkpoint: Checkpoint) -> Path:
    position = checkpoint.position
    return path / runfolder.EVALUATION / f"heldout_step_{position.step:08d}.a{position.attempt}.jsonl"


def _write(file: Path, checkpoint: Checkpoint, scored: Iterator[tuple[Task, list[Rollout]]]) -> None:
    """Writes one line a rollout into a temporary file, fsyncs it, and renames it into place."""
    file.parent.mkdir(exist_ok=True)
    temporary = file.with_suffix(".part")
    head = {"step": checkpoint.position.step, "attempt": checkpoint.position.attempt}
    with temporary.open("wb") as out:
        for task, rollouts in scored:
            for index, rollout in enumerate(rollouts):
                record = {"task": task.id, "type": task.type, "split": task.split, **head, "rollout": index}
                out.write(orjson.dumps({**record, **rollout.as_json()}) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    temporary.rename(file)


def _means(file: Path) -> dict[str, tuple[float, float]]:
    """Mean progress and mean binary accuracy by task, over rollouts without infrastructure failure."""
    rollouts: dict[str, list[tuple[float, int]]] = {}
    for line in file.read_bytes().splitlines():
        record = orjson.loads(line)
        if record["end"] != "infrastructure":
            value = (record["resolved"] / record["expected"], record["binary"])
            rollouts.setdefault(record["task"], []).append(value)
    return {
        task: (sum(progress for progress, _ in values) / len(values), sum(binary for _, binary in values) / len(values))
        for task, values in rollouts.items()
    }
