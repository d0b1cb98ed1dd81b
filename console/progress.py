"""Where a run stands, read from its files and kept up to date by polling, for `rods up`, `rods watch` and `rods
status`.

A poll reads only what is new. No lock is taken, neither process is contacted, and no torch is needed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from rods.buffers.daemon_log import DaemonTotals
from rods.buffers.log.parts import segments
from rods.buffers.log.records import Record
from rods.buffers.run.control import AskedChanges
from rods.buffers.run.heartbeat import judge, local_time, read_heartbeat
from rods.buffers.run.locks import owner
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, REJECTED, SEEDS
from rods.buffers.state import ClosedStep, RunState
from rods.console.versions import InterfaceVersion, InterfaceVersions
from rods.extension import extensions
from rods.observations import Dynamics, Group, Update, dynamics, label_counts, shares
from rods.rules.zones import Moments, mean, moments, plain_sums, variance

CHUNK = 100  # records, or groups of them, that are taken at once
News = Iterator[tuple[Callable[[list[Any]], None], list[Any]]]  # records, and what takes them
RECENT = 10  # steps that the running mean of the reward covers
EXAMPLE = 300  # characters of a failure that are shown
BARREN = 5  # finished picks in a row without a variant that a person is told of


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """The state of a run at one poll; two are equal when nothing has happened between them. `reward`: the mean progress
    reward of the last step's tasks, `recent`: that of the last ten steps, over which `labels` counts their turns by
    what became of them, `calling` is the share of turns with a call, `replies` those that a turn took, `entropy` the
    policy's in the updates (nats a token), `gradient_norm` theirs before clipping. `zones` counts active tasks by the
    zone of their latest group. `interface`: the version that the last step has shown, where versions follow the policy.
    `difficulty`: of drawn tasks, where a run has any."""

    step: int
    steps: int
    epoch: int
    stage: int
    attempt: int
    reward: float | None
    recent: float
    labels: dict[str, int]
    calling: float | None
    replies: float | None
    entropy: float | None
    gradient_norm: float | None
    interface: InterfaceVersion | None
    difficulty: dict[str, Any] | None
    zones: dict[str, int]
    originals: int
    generated: int
    picked: int
    considered: int  # the last step that the daemon has considered
    outcomes: dict[str, int]  # finished picks
    discards: dict[str, int]  # why picks gave no variant: the reason of the last attempt
    accepted: int
    rejected: int
    staged: int
    injected: int
    refused: int
    retired: int
    revived: int
    preparing: str = ""  # what the trainer does while it has no step yet
    finished: bool = False
    seconds_per_step: float | None = field(default=None, compare=False)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def pace(self) -> str:
        """Seconds a step and the time left, in words; empty before they are known."""
        if self.seconds_per_step is None or self.finished:
            return ""
        left = self.seconds_per_step * (self.steps - self.step)
        rest = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
        return f"{self.seconds_per_step:.1f} s a step, about {rest} left"

    def line(self) -> str:
        """One plain line."""
        if self.preparing and self.reward is None:
            return f"trainer: {self.preparing}"
        reward = "–" if self.reward is None else f"{self.reward:.3f}"
        zones = _counts({zone: count for zone, count in self.zones.items() if count}) or "–"
        drawn = "" if self.difficulty is None else f"  difficulty {self.difficulty['next']}"
        return (
            f"step {self.step}/{self.steps}  epoch {self.epoch}  reward {reward}{drawn}  zones: {zones}  "
            f"staged {self.staged}  injected {self.injected}  retired {self.retired}  "
            f"pool {self.originals}+{self.generated}"
        )

    def lines(self) -> Iterator[str]:
        """What stands below the processes in `rods status`, and in the live view."""
        if self.reward is not None:
            yield f"reward   {self.reward:.3f} in the last step, {self.recent:.3f} over the last ten"
            yield f"zones    {_counts(self.zones)}"
        if self.difficulty is not None:
            yield f"drawn    {_difficulty(**self.difficulty)}"
        if self.labels:
            yield f"turns    {shares(self.labels)}; of {sum(self.labels.values()):,} over the last ten steps"
        went = []
        if self.calling is not None:
            went.append(f"{self.calling:.0%} of turns with a call, {self.replies:.2f} replies a turn")
        if self.entropy is not None:
            went.append(f"entropy {self.entropy:.3f} nats a token")
        if self.gradient_norm is not None:
            went.append(f"gradient norm {self.gradient_norm:.3f}")
        if went:
            yield f"replies  {'; '.join(went)}; over the last ten steps"
        if self.interface is not None:
            why = f"; {self.interface.reason}" if self.interface.reason else ""
            yield f"shown    {self.interface.version} since step {self.interface.step}{why}"
        yield f"pool     {self.originals} originals + {self.generated} variants active; {self.staged} staged"
        yield (
            f"variants {self.injected} injected, {self.refused} refused, {self.retired} retired, {self.revived} revived"
        )
        outcomes = f"; {_counts(dict(sorted(self.outcomes.items())))}" if self.outcomes else ""
        yield f"seeds    {self.picked} picked up to step {self.considered}{outcomes}"
        if self.discards:
            yield "why      " + ", ".join(f"{count} {why}" for why, count in sorted(self.discards.items()))


class Progress:
    """Follows one run. `step` is the last live step of the last poll. `see` is called with each live step as it is
    read, at first with the recent ones at least, and its mean progress reward; `see_daemon` with each record of
    seeds.jsonl and rejected.jsonl."""

    def __init__(
        self,
        path: Path,
        see: Callable[[ClosedStep, float | None], None] = lambda step, reward: None,
        see_daemon: Callable[[Record], None] = lambda record: None,
    ) -> None:
        self._see, self._see_daemon = see, see_daemon
        self.run = Run.open(path)
        self._versions = InterfaceVersions(self.run.config)
        self.state = RunState(self.run, every_step=self._versions.evolves, recent=RECENT)
        self._seeds, self._rejected = self.state.follow(SEEDS), self.state.follow(REJECTED)
        self.asked = AskedChanges(path)
        self._rewards: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._labels: deque[Counter[str]] = deque(maxlen=RECENT)
        self._dynamics: deque[Dynamics] = deque(maxlen=RECENT)
        self._updates: deque[tuple[int, Update]] = deque(maxlen=RECENT)  # by step
        self.totals = DaemonTotals()
        self._zones: dict[str, int] = {}
        self._clock: deque[tuple[float, int]] = deque(maxlen=40)

    @property
    def step(self) -> int:
        return self.state.last_step

    def poll(self, *, finished: bool = False, daemon: bool = True) -> ProgressSample:
        """Reads what is new; of what the `daemon` has written only if that is asked for (`daemon_news` gives it in
        pieces). `finished` marks the last poll of all."""
        state, steps = self.state, 0
        rewards: deque[tuple[int, float]] = deque(maxlen=RECENT)
        latest: deque[ClosedStep] = deque(maxlen=RECENT)
        updates = dict(self._updates)
        for step in state.steps():
            steps += 1
            latest.append(step)
            self._versions.add(step, state.shown())
            updates |= self._update()
            found = [progress_moments(record) for record in step.records]
            if (reward := step_reward(found)) is not None:
                rewards.append((step.step, reward))
            self._see(step, reward)
        if state.rewound:
            self._rewards.clear()
            self._labels.clear()
            self._dynamics.clear()
            self._clock.clear()
            self._versions.forget(state.last_step)
            updates = {}
        self._rewards += rewards
        for step in latest:
            self._labels.append(label_counts(step.records))
            self._dynamics.append(dynamics(step.records))
        self._updates = deque((updates | self._update()).items(), maxlen=RECENT)
        played = sum(self._dynamics, Dynamics())
        if steps or state.merged or state.rewound:
            self._zones = state.zones()
        if steps:
            self._clock.append((time.monotonic(), self.step))
        if daemon:
            for take, records in self.daemon_news():
                take(records)
        self.asked.poll()
        totals = self.totals
        generated = sum(member.generation > 0 for member in state.active.values())
        return ProgressSample(
            step=self.step,
            steps=self.run.config.training.steps,
            epoch=max(0, state.epoch),
            stage=state.stage,
            attempt=state.attempt,
            reward=self._rewards[-1][1] if self._rewards else None,
            recent=sum(mean for _, mean in self._rewards) / len(self._rewards) if self._rewards else 0.0,
            labels=dict(sum(self._labels, Counter())),
            calling=played.calling_share,
            replies=played.replies_a_turn,
            entropy=_mean(one.entropy for _, one in self._updates),
            gradient_norm=_mean(one.gradient_norm for _, one in self._updates),
            interface=self._versions.found[-1] if self._versions.evolves and self._versions.found else None,
            difficulty=state.of_folds("status").get("difficulty"),
            zones=self._zones,
            originals=len(state.active) - generated,
            generated=generated,
            picked=totals.picks.total(),
            considered=totals.considered,
            outcomes=dict(totals.outcomes),
            discards=dict(totals.discards),
            accepted=totals.accepted,
            rejected=sum(alike.count for alike in totals.failures.values()),
            staged=len(state.staging),
            **{kind: state.pool.totals[kind] for kind in ("injected", "refused", "retired", "revived")},
            preparing=self._preparing(),
            finished=finished,
            seconds_per_step=self._pace(),
        )

    def positions(self) -> dict[str, int]:
        """The attempt, and the seq up to which each log was read."""
        logs = ("observations", "pool", "expanded", "seeds", "rejected", "control")
        tails = (*self.state.tails(), self._seeds, self._rejected, self.asked.tail)
        return {"attempt": self.state.attempt, **{log: tail.seq for log, tail in zip(logs, tails, strict=True)}}

    def notes(self) -> list[str]:
        """Reasons why no variants may come, and what extensions have to say, for the user."""
        notes = list(self.run.manifest["warnings"])
        step, considered = self.step, self.totals.considered
        picking = self.asked.holds.get(("picking", ""))
        if picking is not None and picking["value"] == "paused":
            notes.append(
                f"picking is paused by `rods ctl` since {local_time(picking['time'])} ({picking['by']}); "
                f"`rods ctl {self.run.path} resume` lets it go on"
            )
        if considered > step and self.state.attempt > 1:
            notes.append(
                f"the trainer was set back to step {step}; the daemon picks again after step {considered}, the last "
                "one it has considered"
            )
        for extension in extensions():
            notes += extension.notes(self.state.folds.get(extension.name))
        if why := self.barren():
            notes.append(why)
        if sum(self._zones.values()) and not self._zones["boundary"]:
            zones = self.run.config.zones
            notes.append(
                f"no active task is at the boundary (mean reward {zones.boundary_low} to {zones.boundary_high}), so "
                "there is nothing to pick: give tasks that the policy sometimes solves, or widen [zones]"
            )
        return notes

    def barren(self) -> str:
        """Why the last seeds gave no variant; empty while some do, or before there are enough to say so."""
        totals = self.totals
        if totals.barren < BARREN:
            return ""
        told = f"NO VARIANTS: the last {totals.barren} finished seeds gave none"
        if totals.failed:
            (failure, count), *_ = totals.failed.most_common(1)
            evidence = totals.example[failure]
            text = evidence if isinstance(evidence, str) else orjson.dumps(evidence).decode()
            shown = text if len(text) <= EXAMPLE else f"{text[:EXAMPLE]}…"
            told += f"; {count} of {totals.failed.total()} attempts failed in {failure}, the latest with: {shown}"
        return f"{told} (docs/synthesis.md says what each failure means; rejected.jsonl holds every attempt)"

    def process(self, name: str) -> dict[str, Any]:
        """What is known of `trainer` or `daemon`; `life` as rods.buffers.run.heartbeat judges it, or `no
        heartbeat` where there is none of a process that has written its log. Takes some seconds for a
        process of another machine, whose heartbeat is watched."""
        log = OBSERVATIONS if name == "trainer" else SEEDS
        holder = owner(self.run.path, log)
        beat = read_heartbeat(self.run.path, holder.process if holder else name)
        life = judge(beat, holder is not None)
        if life == "never started" and any(part.stat().st_size for part in segments(self.run.path / log)):
            life = "no heartbeat"  # of a recorded run, or of a foreign trainer that has left
        return {
            "life": life,
            "alive": holder is not None,
            "process": holder.process if holder else name,  # a foreign trainer writes as `observe`
            "pid": holder.place.pid if holder else beat.get("pid"),
            "host": holder.place.host if holder else beat.get("host"),
            "job": holder.place.job if holder else beat.get("job", ""),
            "since": holder.since if holder else None,
            "last_heartbeat": beat.get("time"),
            "still": beat.get("still"),
            "state": beat.get("state", ""),
            **{key: beat[key] for key in ("endpoints", "budget") if key in beat},
        }

    def _update(self) -> dict[int, Update]:
        """The latest update that was read, by its step."""
        update = self.state.update
        return {update["step"]: Update.from_json(update)} if update else {}

    def daemon_news(self) -> News:
        """What the daemon has written since the last look, in pieces, and what takes them."""
        yield from pieces(self._seeds.records(), self._take)
        yield from pieces(self._rejected.records(), self._take)

    def _take(self, records: list[Record]) -> None:
        for record in records:
            self._see_daemon(record)
            self.totals.apply(record)

    def _preparing(self) -> str:
        """What the trainer says it does before its first step; empty once there is a step."""
        if self._rewards:
            return ""
        beat = read_heartbeat(self.run.path, "trainer")
        done = beat.get("done")
        share = f" {100 * done:.0f} %" if isinstance(done, (int, float)) else ""
        return f"{beat.get('state', 'starting')}{share}"

    def _pace(self) -> float | None:
        if len(self._clock) < 2:
            return None
        (begin, first), (end, last) = self._clock[0], self._clock[-1]
        return (end - begin) / (last - first) if last > first else None


def pieces(records: Iterator[Any], take: Callable[[list[Any]], None]) -> News:
    while some := list(islice(records, CHUNK)):
        yield take, some


def _counts(named: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in named.items())


def _difficulty(next: int, last: dict[str, Any] | None = None) -> str:
    """The line about drawn tasks: what the last step had, with the levels that its difficulty allowed, and what is
    next."""
    if last is None:
        return f"none yet; the first at difficulty {next}"
    earned = "no reward that counts" if last["mean"] is None else f"mean reward {last['mean']:+.3f}"
    levels = ", ".join(f"{name} {level}" for name, level in last["levels"].items())
    return f"{last['tasks']} in step {last['step']}, difficulty {last['difficulty']} ({levels}): {earned}; next {next}"


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None without any."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def step_reward(progress: list[Moments | None]) -> float | None:
    """The mean progress reward of a step's groups."""
    means = [found.mean for found in progress if found is not None]
    return sum(means) / len(means) if means else None


def progress_moments(record: Record) -> Moments | None:
    """`rods.rules.zones.moments` of the progress in a group's record; of nearly every group without making one."""
    rollouts = record["rollouts"]
    if (sums := plain_sums(rollouts)) is None:
        return moments(Group.from_json(record), "progress")
    return _plain_moments(len(rollouts), *sums)


@lru_cache(maxsize=1 << 14)
def _plain_moments(count: int, total: int, squares: int, scale: int) -> Moments:
    """Of `count` rollouts. Few sums are possible, and a history has a million groups."""
    entry = (0, count, total, squares, scale)
    return Moments(mean([entry]), variance([entry]))
