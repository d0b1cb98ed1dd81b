"""A run as a taskset of verifiers, for prime-rl and for loops of one's own (docs/trainers.md): what
it yields is drawn from the run, and what the traces say of that is observed before the next draw.

verifiers numbers what a taskset yields (`idx`), so each trace says which draw it is of. What
prime-rl draws while it collects its batch s belongs to step s of the run, which is closed once
prime-rl is past s and the groups have come, or are given up. Nothing waits: while groups of an
epoch are under way, its last step goes on from the front of the order, and is closed without what
is under way of that. A start draws what is on record again, for those who count draws."""

import atexit
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar
from weakref import finalize

import orjson
import verifiers.v1 as vf

from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import MANIFEST
from rods.buffers.state import read_state
from rods.canonical import JsonObject
from rods.files import BULK, bounded_lines, open_regular
from rods.trainer.adapters.stream import DrawnTask, open_stream
from rods.trainer.adapters.verifiers_world import WorldData, WorldTask


class StreamConfig(vf.TasksetConfig):  # type: ignore[misc]
    run: Path = Path("run")  # its folder
    run_config: Path | None = None  # the file that it is made from, where there is none
    # prime-rl's folder `rollouts`, or a traces.jsonl: then `training.batch_tasks` draws are a step
    traces: Path = Path("rollouts")
    group_size: int = 8  # rollouts of a task, as the trainer is told
    # the same; a group that has not come so many steps later got lost
    max_off_policy_steps: int = 8
    reward_range: tuple[float, float] = (0.0, 1.0)  # lowest and highest
    # of the checkpoint to resume from; by default the newest one beside `rollouts`
    resume_step: int | None = None


class StreamTaskset(vf.Taskset[WorldTask, StreamConfig]):  # type: ignore[misc]
    INFINITE: ClassVar[bool] = True

    def load(self) -> Iterator[WorldTask]:
        with closing(Draws(self.config)) as draws:
            for drawn in draws:
                yield WorldTask(WorldData.of(drawn.task), self.config.task)


class Draws:
    """The draws of one start, in order, and the fold of the traces. Raises what `open_stream`
    does."""

    def __init__(self, config: StreamConfig) -> None:
        self.config = config
        self.stepwise = config.traces.suffix != ".jsonl"
        step = config.resume_step
        if step is None and self.stepwise:
            saved = (config.traces.parent / "checkpoints").glob("step_*")
            step = max((int(path.name[5:]) for path in saved if path.name[5:].isdigit()), default=0)
        newest = (
            read_state(Run.open(config.run)).last_step if (config.run / MANIFEST).exists() else None
        )
        back = None if step is None or newest is None else min(step, newest)
        self.stream = open_stream(config.run, config=config.run_config, from_step=back)
        # of steps behind it old traces do not count
        self.resumed = self.stream.step if step is None else step
        self.due = self.resumed + 1  # the step whose batch the trainer collects
        self.number = 0  # of the next draw
        # by step: number and task of a draw
        self.open: dict[int, list[tuple[tuple[int, str], DrawnTask]]] = {}
        # its rewards, and the updates in the weights
        self.rollouts: dict[tuple[int, str], list[tuple[Any, Any]]] = {}
        self.last: dict[int, int] = {}  # step → its last draw, as old traces tell
        paths = (
            config.traces.glob("step_*/train/*/traces.jsonl") if self.stepwise else [config.traces]
        )
        self.begun = {path: path.stat().st_size for path in paths if path.exists()}
        self.read: dict[Path, int] = {}  # bytes
        self.close = atexit.register(finalize(self.stream, self._close))  # once

    def __iter__(self) -> Iterator[DrawnTask]:
        for step in range(1, self.stream.step + 1):
            for drawn in self.stream.draw(step):
                self.number += 1
                yield drawn
        while True:
            self.fold()
            step = max(self.open, default=self.stream.step)
            if step not in self.open or (self._past(step) and self.stream.left(step + 1) > 0):
                step += 1
            places = self.open.setdefault(step, [])
            drawn = self.stream.draw(step, len(places) + 1)[-1]
            places.append(((self.number, drawn.task.id), drawn))
            if step > self.resumed:
                self.rollouts.pop((self.number, drawn.task.id), None)
            self.number += 1
            yield drawn

    def _close(self) -> None:
        try:
            self.fold()
        finally:
            self.stream.close()

    def fold(self) -> None:
        """Reads what the traces say by now, and closes steps that are complete."""
        while self.stepwise and _bytes(batch := self._path(self.due, "effective")) > self.begun.get(
            batch, 0
        ):
            self.due += 1
        for step in range(self.stream.step + 1, self.due + 1) if self.stepwise else [0]:
            if _bytes(path := self._path(step, "all")):
                self._read(path, step <= self.resumed)
        for step in sorted(self.open):
            now = self.due if self.stepwise else max(self.open) + self._past(max(self.open))
            own = self.open[step][: self.stream.left(step)]  # what follows them is from the front
            here = all(
                len(self.rollouts.get(draw, ())) >= self.config.group_size for draw, _ in own
            )
            if not self._past(step) or not (here or now > step + self.config.max_off_policy_steps):
                break
            self._observe(step, self.open.pop(step))

    def _observe(self, step: int, places: list[tuple[tuple[int, str], DrawnTask]]) -> None:
        by_draw = [(drawn, self.rollouts.pop(draw, [])) for draw, drawn in places]
        if not any(rollouts for _, rollouts in by_draw):
            # all got lost: one group says so
            by_draw[0][1].extend([(None, None)] * self.config.group_size)
        by_task = [
            (drawn, [reward for reward, _ in rollouts]) for drawn, rollouts in by_draw if rollouts
        ]
        groups = [drawn.group(rewards, self.config.reward_range) for drawn, rewards in by_task]
        policy = [
            version for _, rollouts in by_draw for _, version in rollouts if version is not None
        ]
        self.stream.observe(step, groups, min([*policy, step - 1]) if policy else None)

    def _past(self, step: int) -> bool:
        """Whether no further draw belongs to the open step `step`."""
        if not self.stepwise:
            return len(self.open[step]) >= self.stream.config.training.batch_tasks
        return self.due > step and self.number > self.last.get(step, -1)

    def _path(self, step: int, which: str) -> Path:
        return (
            self.config.traces / f"step_{step}/train/{which}/traces.jsonl"
            if self.stepwise
            else self.config.traces
        )

    def _read(self, path: Path, old: bool) -> None:
        """Takes the whole lines that are new; with `old` those that were there at the start,
        too."""
        begun = self.begun.get(path, 0)
        with open_regular(path) as file:
            at = file.seek(self.read.get(path, 0 if old or not self.stepwise else begun))
            for line in takewhile(
                lambda line: line.endswith(b"\n"), bounded_lines(file, path, 4 * BULK)
            ):
                at += len(line)
                # what a kill has cut, and what was appended to it
                with suppress(orjson.JSONDecodeError):
                    self._take(orjson.loads(line), at <= begun)
        self.read[path] = at

    def _take(self, episode: JsonObject, old: bool) -> None:
        number = episode["task"]["data"]["idx"]
        work = (episode.get("run") or {}).get("work") or {}
        traces = [trace for trace in episode["traces"] if trace["agent"].get("trainable", True)]
        scores = (
            [each["score"] * each["weight"] for each in traces[0]["rewards"].values() if each]
            if traces
            else []
        )
        rollout = (
            sum(scores) if episode["ok"] and scores else None,
            (work.get("policy") or {}).get("start"),
        )
        self.rollouts.setdefault((number, episode["task"]["key"]), []).append(rollout)
        if old and (step := work.get("step")):
            self.last[step] = max(number, self.last.get(step, -1))


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
