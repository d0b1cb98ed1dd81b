"""Where a run stands, read from its files and kept up to date by polling, for `rods up` and `rods status`.

A poll reads only what is new. No lock is taken, neither process is contacted, and no torch is needed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from buffers.control import AskedChanges
from buffers.daemon_log import outcome
from buffers.log.parts import segments
from buffers.log.records import Record
from buffers.run.heartbeat import judge, local_time, read_heartbeat
from buffers.run.locks import owner
from buffers.run.run import Run
from buffers.run.runfolder import OBSERVATIONS, REJECTED, SEEDS
from buffers.state import ClosedStep, RunState
from console.versions import InterfaceVersion, InterfaceVersions
from rods.observations import Dynamics, Group, Update, dynamics, label_counts
from rods.rules.zones import Moments, mean, moments, plain_sums, variance

CHUNK = 200  # records that are taken at once
RECENT = 10  # steps that the running mean of the reward covers
EXAMPLE = 300  # characters of a failure that are shown
BARREN = 5  # finished picks in a row without a variant that a person is told of


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """The state of a run at one poll. `reward` is the mean progress reward of the last step's tasks, `recent` that of
    the last ten steps, and `labels` counts their turns by what became of them; `zones` counts active tasks by the zone
    of their latest group. `calling`: share of their turns with a call, `replies`: those that a turn took, `entropy`: of
    the policy in the updates, nats a token, `gradient_norm`: theirs before clipping, all over the last ten steps.
    `interface`: the version that the last step has shown, where versions follow the policy. `difficulty`: of drawn
    tasks (rods.rules.difficulty), where a run has any. Two samples are equal when nothing has happened between them."""

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
        zones = ", ".join(f"{count} {zone.replace('_', ' ')}" for zone, count in self.zones.items() if count) or "–"
        drawn = "" if self.difficulty is None else f"  difficulty {self.difficulty['next']}"
        return (
            f"step {self.step}/{self.steps}  epoch {self.epoch}  reward {reward}{drawn}  zones: {zones}  "
            f"staged {self.staged}  injected {self.injected}  retired {self.retired}  "
            f"pool {self.originals}+{self.generated}"
        )


@dataclass(slots=True)
class Failures:
    """Candidates that failed alike: how many, and the seq of the latest in rejected.jsonl."""

    count: int = 0
    latest: int = 0


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
        self.state = RunState(self.run, every_step=self._versions.evolves, recent=RECENT, by_number=True)
        self._seeds, self._rejected = self.state.follow(SEEDS), self.state.follow(REJECTED)
        self.asked = AskedChanges(path)
        self._rewards: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._labels: deque[Counter[str]] = deque(maxlen=RECENT)
        self._dynamics: deque[Dynamics] = deque(maxlen=RECENT)
        self._updates: deque[tuple[int, Update]] = deque(maxlen=RECENT)  # by step
        self._outcomes: Counter[str] = Counter()
        self._discards: Counter[str] = Counter()
        self.picks: Counter[str] = Counter()  # by the type of the seed
        self._accepted = self._considered = 0
        self.failures: dict[tuple[str, str], Failures] = {}  # by stage and error
        self._barren = 0  # finished picks since the last one that gave a variant
        self._failed: Counter[str] = Counter()  # attempts since then, by "stage: error"
        self._example: dict[str, str] = {}  # the latest evidence of each
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
            self._versions.add(step, state.shown)
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
        counts = state.pool.totals
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
            difficulty=state.difficulty.as_json() if self.run.config.source.drawn else None,
            zones=self._zones,
            originals=len(state.active) - generated,
            generated=generated,
            picked=self.picks.total(),
            considered=self._considered,
            outcomes=dict(self._outcomes),
            discards=dict(self._discards),
            accepted=self._accepted,
            rejected=sum(kind.count for kind in self.failures.values()),
            staged=len(state.staging),
            injected=counts["injected"],
            refused=counts["refused"],
            retired=counts["retired"],
            revived=counts["revived"],
            preparing=self._preparing(),
            finished=finished,
            seconds_per_step=self._pace(),
        )

    def positions(self) -> dict[str, int]:
        """The attempt, and the seq up to which each log was read."""
        return {
            "attempt": self.state.attempt,
            **{
                name: tail.seq
                for name, tail in zip(("observations", "pool", "expanded"), self.state.tails(), strict=True)
            },
            "seeds": self._seeds.seq,
            "rejected": self._rejected.seq,
            "control": self.asked.tail.seq,
        }

    def notes(self) -> list[str]:
        """Reasons why no variants may come, for the user."""
        notes = list(self.run.manifest["warnings"])
        step, considered = self.step, self._considered
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
        if self._barren < BARREN:
            return ""
        told = f"NO VARIANTS: the last {self._barren} finished seeds gave none"
        if self._failed:
            (failure, count), *_ = self._failed.most_common(1)
            told += (
                f"; {count} of {self._failed.total()} attempts failed in {failure}, the latest with: "
                f"{self._example[failure]}"
            )
        return f"{told} (docs/synthesis.md says what each failure means; rejected.jsonl holds every attempt)"

    def process(self, name: str) -> dict[str, Any]:
        """What is known of `trainer` or `daemon`; `life` as buffers.run.heartbeat judges it, or `no
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

    def daemon_news(self) -> Iterator[tuple[Callable[[list[Record]], None], list[Record]]]:
        """What the daemon has written since the last look, in pieces, and what takes them."""
        for tail, take in ((self._seeds, self._take_seeds), (self._rejected, self._take_rejected)):
            records = tail.records()
            while some := list(islice(records, CHUNK)):
                yield take, some

    def _take_seeds(self, records: list[Record]) -> None:
        for record in records:
            self._see_daemon(record)
            if record["kind"] == "picked":
                self.picks[str(record.get("type", "?"))] += 1
            elif record["kind"] == "considered":
                self._considered = max(self._considered, record["step"])
            elif record["kind"] == "finished":
                self._outcomes[outcome(record)] += 1
                if record.get("why") and not record.get("accepted"):
                    self._discards[record["why"]] += 1
                self._accepted += len(record.get("accepted", ()))
                if not record.get("dropped_stale"):
                    self._barren = 0 if record.get("accepted") else self._barren + 1
        if not self._barren:
            self._failed.clear()

    def _take_rejected(self, records: list[Record]) -> None:
        for record in records:
            self._see_daemon(record)
            kind = self.failures.setdefault((record["stage"], record["error"]), Failures())
            kind.count, kind.latest = kind.count + 1, record["seq"]
            failure = f"{record['stage']}: {record['error']}"
            self._failed[failure] += 1
            evidence = record["evidence"]
            text = evidence if isinstance(evidence, str) else orjson.dumps(evidence).decode()
            self._example[failure] = text if len(text) <= EXAMPLE else f"{text[:EXAMPLE]}…"

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
