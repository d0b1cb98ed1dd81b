"""Where a run stands, read from its files and kept up to date by polling, for `rods up` and `rods
status`; and the versions of what the policy was shown: when they changed, in what, and why.

A poll reads only what is new. No lock is taken, neither process is contacted, and no torch is
needed.
"""

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import orjson

from rods.analysis.variety import variety
from rods.buffers.folds.seeds import DaemonTotals
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Record, believed, group_of
from rods.buffers.run.heartbeat import judge, read_heartbeat
from rods.buffers.run.locks import owner
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, SEEDS
from rods.buffers.state import ClosedStep, LostVariant, RunState
from rods.canonical import JsonMapping, JsonObject, frozen, only, without
from rods.config import Config, Stage
from rods.extension import Door
from rods.interfaces import follows_records
from rods.observations import Update
from rods.rules.curriculum import stage_rules
from rods.rules.zones import ZONES, Moments, mean, moments, plain_sums, variance
from rods.tasks import AnyTask
from rods.turn_statistics import Dynamics, dynamics, label_counts, shares

COMPARED = 400  # active variants, the latest, whose variety is measured
RECENT = 10  # steps that the running mean of the reward covers
UNUSED = 8  # functions that are named
EXAMPLE = 300  # characters of a failure that are shown
BARREN = 5  # finished picks in a row without a variant that a person is told of


class Components(Protocol):
    """The parts of an interface that come and go, for its history."""

    def shown(self, stage: Stage, dialect: str, inputs: object) -> Mapping[str, str]:
        """Those of a stage that are there with `inputs` (rods.interfaces): what each says or does,
        by name."""

    def before(self, inputs: object, closing: Record) -> object:
        """What `inputs` were during the step with this closing record, of what they are after
        it."""

    def cause(self, closing: Record) -> JsonMapping | None:
        """Why the step with this closing record changed what the next one shows: `component`,
        `reason` and more; None: nothing changed."""


COMPONENTS: Door[Components] = Door("components")  # (002)


@frozen
class InterfaceVersion:
    """What the policy was shown from `step` on. `added` and `removed`: components of the interface
    and what they say, against the version before. `why`: what called for the change
    (`Components.cause`)."""

    step: int
    stage: int
    version: str
    added: dict[str, str]
    removed: dict[str, str]
    why: JsonObject | None

    @property
    def reason(self) -> str:
        """`why` in words; empty where nothing called for the change."""
        return str(self.why["reason"]) if self.why else ""


class InterfaceVersions:
    """Follows the live steps of a run; `entries` are the versions of the interface in them, in
    order."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.evolves = any(map(follows_records, config.curriculum.stages))
        self.entries: list[InterfaceVersion] = []
        self._there: list[dict[str, str]] = []  # the components of each version
        # what a step has changed for the next one, where it has
        self._causes: dict[int, JsonObject] = {}

    def add(self, step: ClosedStep, after: Mapping[str, object]) -> None:
        """Takes the next live step, and what interfaces are given after it
        (rods.interfaces.next_inputs). Versions of later steps, which a start has dropped, are
        forgotten."""
        self.forget(step.step - 1)
        features = COMPONENTS.providers()
        for components in features.values():
            if (cause := components.cause(step.record)) is not None:
                self._causes[step.step] = dict(cause)
        if not step.records or (
            self.entries and self.entries[-1].version == step.records[0]["interface"]
        ):
            return
        rules = stage_rules(self._config.curriculum, step.stage)
        dialect = self._config.policy.dialect
        now: dict[str, str] = {}
        for name, components in features.items():
            now |= components.shown(rules, dialect, components.before(after.get(name), step.record))
        there = self._there[-1] if self._there else {}
        added = only(now, sorted(now.keys() - there))
        removed = only(there, sorted(there.keys() - now))
        cause = self._causes.get(step.step - 1)
        why = cause if cause and cause["component"] in added | removed else None
        version = step.records[0]["interface"]
        self.entries.append(InterfaceVersion(step.step, step.stage, version, added, removed, why))
        self._there.append(now)

    def forget(self, last: int) -> None:
        """Drops the versions and the changes of steps beyond `last`."""
        while self._causes and next(reversed(self._causes)) > last:
            self._causes.popitem()
        while self.entries and self.entries[-1].step > last:
            self.entries.pop()
            self._there.pop()


class ProgressSample:
    """The state of a run at one poll of `progress`. `reward`: the mean progress reward of the last
    step's tasks, `recent`: that of the last ten steps, over which `labels` counts their turns by
    what became of them, `calling` is the share of turns with a call, `replies` those that a turn
    took, `entropy` the policy's in the updates (nats a token), `gradient_norm` theirs before
    clipping. `zones` counts active tasks by the zone of their latest group. `interface`: the
    version that the last step has shown, where versions follow the policy. `variety`: how different
    the active variants are (rods.analysis.variety). `difficulty`: of drawn
    tasks, if any. `finished`: whether it is the last poll of all."""

    def __init__(self, progress: "Progress", finished: bool) -> None:
        state = progress.state
        totals = progress.totals
        recent = progress.recent
        versions = progress.versions
        rewards = [reward for reward, _, _ in recent if reward is not None]
        played = sum((went for _, _, went in recent), Dynamics())
        self.step = progress.step
        self.steps = progress.config.training.steps
        self.epoch = max(0, state.epoch)
        self.stage = state.stage
        self.attempt = state.attempt
        self.reward = rewards[-1] if rewards else None
        self.recent = known_mean(rewards) or 0.0
        self.labels: dict[str, int] = dict(sum((labels for _, labels, _ in recent), Counter()))
        self.calling = played.calling_share
        self.replies = played.replies_a_turn
        self.entropy = known_mean(update.entropy for update in progress.last_updates.values())
        self.gradient_norm = known_mean(
            update.gradient_norm for update in progress.last_updates.values()
        )
        self.interface = versions.entries[-1] if versions.evolves and versions.entries else None
        self.difficulty: JsonObject | None = state.figures("status").get("difficulty")
        self.zones = progress.zones
        self.variety = progress.variety
        self.generated = sum(member.generation > 0 for member in state.active.values())
        self.originals = len(state.active) - self.generated
        self.picked = totals.picks.total()
        self.considered = totals.considered  # the last step that the daemon has considered
        self.outcomes = dict(totals.outcomes)  # finished picks
        # why picks gave no variant: the reason of the last attempt
        self.discards = dict(totals.discards)
        self.accepted = totals.accepted
        self.rejected = sum(count for count, _ in totals.failures.values())
        self.staged = len(state.staging)
        decided = state.pool.totals
        self.injected = decided["injected"]
        self.refused = decided["refused"]
        self.retired = decided["retired"]
        self.revived = decided["revived"]
        self.expands = stage_rules(progress.config.curriculum, state.stage).expand
        self.preparing = progress.preparing()  # what the trainer does while it has no step yet
        self.finished = finished
        self.seconds_per_step = progress.seconds_per_step()

    def standing(self) -> JsonObject:
        """What `rods status --json` and the page say of it."""
        return without(vars(self), "seconds_per_step", "finished", "expands")

    def condition(self, life: str) -> str:
        """The state of the run in a word, while its trainer's life is `life`
        (rods.buffers.run.heartbeat)."""
        words = {"running": "being written", "idle": "being written", "stuck": "stuck"}
        if life in words:
            return words[life]
        if self.step >= self.steps:
            return "finished"
        return "crashed" if life == "dead" else "stopped" if self.step else "empty"

    def written(self) -> Iterator[str]:
        """What the daemon has written by now and what it has not, for the end of `rods up`."""
        yield (
            f"written: {self.accepted} variants from {self.picked} seeds; {self.injected} "
            f"injected, {self.refused} refused, {self.staged} staged for the next epoch"
        )
        barren = {why: count for why, count in self.outcomes.items() if why != "accepted"}
        if barren:
            why = f" ({_counts(self.discards)})" if self.discards else ""
            yield f"not written: {_counts(barren)}{why}"
        if (unfinished := self.picked - sum(self.outcomes.values())) > 0:
            yield (
                f"not written: {unfinished} seeds were picked, and the trainer ended before their "
                f"variants were there; the next start goes on with them"
            )
        if self.expands and (unseen := self.step - self.considered) > 0:
            yield (
                f"not looked at: seeds of the last {unseen} steps, since the trainer ended before "
                f"the daemon came to them"
            )

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
            f"step {self.step}/{self.steps}  epoch {self.epoch}  reward {reward}{drawn}  zones: "
            f"{zones}  staged {self.staged}  injected {self.injected}  retired {self.retired}  "
            f"pool {self.originals}+{self.generated}"
        )

    def lines(self) -> Iterator[str]:
        """What stands below the processes in `rods status`, and in the live view."""
        if self.reward is not None:
            yield (
                f"reward   {self.reward:.3f} in the last step, {self.recent:.3f} over the last ten"
            )
            yield f"zones    {_counts(self.zones)}"
        if self.difficulty is not None:
            yield f"drawn    {_difficulty(**self.difficulty)}"
        if self.labels:
            yield (
                f"turns    {shares(self.labels)}; of {sum(self.labels.values()):,} over the last "
                f"ten steps"
            )
        went = []
        if self.calling is not None:
            went.append(
                f"{self.calling:.0%} of turns with a call, {self.replies:.2f} replies a turn"
            )
        if self.entropy is not None:
            went.append(f"entropy {self.entropy:.3f} nats a token")
        if self.gradient_norm is not None:
            went.append(f"gradient norm {self.gradient_norm:.3f}")
        if went:
            yield f"replies  {'; '.join(went)}; over the last ten steps"
        if self.interface is not None:
            why = f"; {self.interface.reason}" if self.interface.reason else ""
            yield f"shown    {self.interface.version} since step {self.interface.step}{why}"
        yield (
            f"pool     {self.originals} originals + {self.generated} variants active; "
            f"{self.staged} staged"
        )
        decided = ("injected", "refused", "retired", "revived")
        yield "variants " + ", ".join(f"{getattr(self, kind)} {kind}" for kind in decided)
        for generation, row in self.variety["generations"].items():
            yield (
                f"variety  generation {generation}: {row['patterns']} patterns of calls and "
                f"{row['openings']} openings in {row['variants']}; {row['alike']:.0%} of words as "
                f"in the nearest other"
            )
        if self.generated and (unused := self.variety["unused"]):
            yield (
                f"unused   {', '.join(unused[:UNUSED])}{' …' * (len(unused) > UNUSED)}: in no "
                f"active variant → give recipes or tasks with them"
            )
        outcomes = f"; {_counts(dict(sorted(self.outcomes.items())))}" if self.outcomes else ""
        yield f"seeds    {self.picked} picked up to step {self.considered}{outcomes}"
        if self.discards:
            yield "why      " + ", ".join(
                f"{count} {why}" for why, count in sorted(self.discards.items())
            )


class Progress:
    """Follows one run. `step` is the last live step of the last poll, `versions` those of the
    interface; of the last steps `recent` has reward, labels and dynamics, `last_updates` what the
    updates have shown."""

    def __init__(self, path: Path, *, history: bool = False) -> None:
        """`history`: whether `see` and `see_daemon` are called from the beginning of the logs on,
        not only with what follows snapshots. Raises UserError where `path` is no run folder."""
        self.run = Run.open(path)
        self.versions = InterfaceVersions(self.config)
        every_step = history or self.versions.evolves
        self.state = RunState(self.run, every_step=every_step, recent=RECENT)
        self.recent: deque[tuple[float | None, Counter[str], Dynamics]] = deque(maxlen=RECENT)
        self.last_updates: dict[int, Update] = {}  # by step
        self.totals = DaemonTotals(self.run.path, every_record=history)
        self.zones: dict[str, int] = {}
        self.by_type: dict[str, Counter[str | None]] = {}
        self.variety = variety({}, ())
        self._clock: deque[tuple[float, int]] = deque(maxlen=40)

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def step(self) -> int:
        return self.state.last_step

    def poll(self, *, finished: bool = False, daemon: bool = True) -> ProgressSample:
        """Reads what is new; of what the `daemon` has written only if that is asked for. `finished`
        marks the last poll of all."""
        state = self.state
        latest: deque[ClosedStep] = deque(maxlen=RECENT)
        for step in state.steps():
            latest.append(step)
            self.versions.add(step, state.interface_inputs())
            self.take_update()
            self.see(step)
        if state.rewound:
            self.recent.clear()
            self.last_updates.clear()
            self._clock.clear()
            self.versions.forget(state.last_step)
        for step in latest:
            with believed(step.records):
                means = [entry and entry.mean for entry in map(progress_moments, step.records)]
                self.recent.append(
                    (known_mean(means), label_counts(step.records), dynamics(step.records))
                )
        self.take_update()
        if latest or state.merged or state.rewound:
            self.by_type = state.zones_by_type()
            self.zones = {
                zone: sum(counts[zone] for counts in self.by_type.values()) for zone in ZONES
            }
        if state.merged or state.rewound:
            self.variety = self._variety()
        if latest:
            self._clock.append((time.monotonic(), self.step))
        if daemon:
            for log in self.totals.tails.values():
                for record in log.records():
                    self.see_daemon(record)
                    self.totals.apply(record)
        return ProgressSample(self, finished)

    def _variety(self) -> JsonObject:
        generations: dict[int, list[AnyTask]] = {}
        active = [member for member in self.state.active.values() if member.generated]
        for member in active[-COMPARED:]:
            with suppress(LostVariant):
                task = self.state.task(member.task_id)
                generations.setdefault(member.generation, []).append(task)
        return variety(generations, self.run.tasks.columns.tools)

    def see(self, step: ClosedStep) -> None:
        """For who remembers more: called with each live step as it is read."""

    def see_daemon(self, record: Record) -> None:
        """The same with each record of seeds.jsonl and rejected.jsonl."""

    def notes(self) -> list[str]:
        """Reasons why no variants may come, and what features' folds have to say, for the user."""
        notes = list(self.run.manifest["warnings"])
        step = self.step
        considered = self.totals.considered
        if considered > step and self.state.attempt > 1:
            notes.append(
                f"the trainer was set back to step {step}; the daemon picks again after step "
                f"{considered}, the last one it has considered"
            )
        notes += self.state.figures("notes").values()
        notes += self.variety["advice"]
        if why := self.barren(BARREN if self.totals.accepted else 1):
            notes.append(why)
        selection = self.config.selection
        if not selection.seeds_per_step:
            return notes  # no variant is wanted
        if sum(self.zones.values()) and not self.zones["boundary"]:
            zones = self.config.zones
            notes.append(
                f"no active task is at the boundary (mean reward {zones.boundary_low} to "
                f"{zones.boundary_high}), so there is nothing to pick: give tasks that the policy "
                "sometimes solves, or widen [zones]"
            )
        bound = selection.order != "random"  # seeds lie at the boundary alone
        for type, counts in self.by_type.items() if bound and self.zones.get("boundary") else ():
            seen = {zone: counts[zone] for zone in self.zones if counts[zone]}
            if seen and "boundary" not in seen:
                notes.append(
                    f"no {type} task is at the boundary ({_counts(seen)}), so variants of this "
                    "type cannot come: a variant keeps its seed's type"
                )
        return notes

    def barren(self, enough: int = BARREN) -> str:
        """Why the last seeds gave no variant; empty while some do, or before `enough` are finished
        to say so."""
        totals = self.totals
        if totals.barren < enough:
            return ""
        note = (
            f"NO VARIANTS: the last {totals.barren} finished seed{'s' * (totals.barren > 1)} gave "
            f"none"
        )
        if totals.failed:
            (failure, count), *_ = totals.failed.most_common(1)
            evidence = totals.example[failure]
            text = evidence if isinstance(evidence, str) else orjson.dumps(evidence).decode()
            excerpt = text if len(text) <= EXAMPLE else f"{text[:EXAMPLE]}…"
            note += (
                f"; {count} of {totals.failed.total()} attempts failed in {failure}, the latest "
                f"with: {excerpt}"
            )
        return (
            f"{note} (docs/synthesis.md says what each failure means; rejected.jsonl holds every "
            f"attempt)"
        )

    def unwritten(self) -> str:
        """Why models write nothing: no endpoint answers, or none has so far, or they are not asked.
        Empty where they write, or nobody is to ask any."""
        holder = owner(self.run.path, SEEDS)
        beat = read_heartbeat(self.run.path, "daemon")
        endpoints = beat.get("endpoints")
        if holder is None or beat.get("pid") != holder.place.pid or not endpoints:
            return ""
        if all(endpoint["why"] for endpoint in endpoints):
            lines = (
                f"{endpoint['endpoint']} at {', '.join(endpoint['servers']) or 'no address yet'}: "
                f"{endpoint['why']}"
                for endpoint in endpoints
            )
            remedy = (
                "start the server, or correct operation.endpoints (`rods doctor --config FILE`)"
            )
            return f"NO ENDPOINT ANSWERS: {'; '.join(lines)} → {remedy}; calls wait until then"
        waiting = sum(endpoint["in_flight"] for endpoint in endpoints)
        why = {
            "budget spent": "the budget of calls is spent → raise operation.budgets",
            "no seeds": "no task can be a seed now → `rods status` says what zones they are in",
        }.get(beat.get("state", ""), "")
        if waiting and not any(endpoint["answered"] for endpoint in endpoints):
            why = f"{waiting} calls under way, none answered so far → see the server's log"
        return f"NOTHING IS WRITTEN: {why}" if why and not self.totals.accepted else ""

    def process(self, name: str) -> JsonObject:
        """What is known of `trainer` or `daemon`; `life` as rods.buffers.run.heartbeat judges it,
        or `no heartbeat` where there is none of a process that has written its log. Takes some
        seconds for a process of another machine, whose heartbeat is watched."""
        log = OBSERVATIONS if name == "trainer" else SEEDS
        holder = owner(self.run.path, log)
        # a foreign trainer writes as `observe`
        process = holder.process if holder else name
        beat = read_heartbeat(self.run.path, process)
        place = asdict(holder.place) if holder else beat
        life = judge(beat, holder is not None)
        if life == "never started" and any(
            part.stat().st_size for part in segments(self.run.path / log)
        ):
            life = "no heartbeat"  # of a recorded run, or of a foreign trainer that has left
        return {
            "life": life,
            "alive": holder is not None,
            "process": process,
            "pid": place.get("pid"),
            "host": place.get("host"),
            "job": place.get("job", ""),
            "since": holder.since if holder else None,
            "last_heartbeat": beat.get("time"),
            "still": beat.get("still"),
            "state": beat.get("state", ""),
            **only(beat, ("endpoints", "budget", "trying")),
        }

    def take_update(self) -> None:
        """Takes the latest update that was read."""
        if update := self.state.update:
            self.last_updates[update["step"]] = Update.from_json(update)
            while len(self.last_updates) > RECENT:
                del self.last_updates[next(iter(self.last_updates))]

    def preparing(self) -> str:
        """What the trainer says it does before its first step; empty once there is a step."""
        if self.recent:
            return ""
        beat = read_heartbeat(self.run.path, "trainer")
        done = beat.get("done")
        share = f" {100 * done:.0f} %" if isinstance(done, (int, float)) else ""
        rest = f", about {left / 60:.1f} min left" if (left := beat.get("left")) else ""
        return f"{beat.get('state', 'starting')}{share}{rest}"

    def seconds_per_step(self) -> float | None:
        if not self._clock:
            return None
        begin, first = self._clock[0]
        end, last = self._clock[-1]
        return (end - begin) / (last - first) if last > first else None


def _counts(named: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in named.items())


def _difficulty(next: int, last: JsonObject | None = None) -> str:
    """The line about drawn tasks: what the last step had, with the levels that its difficulty
    allowed, and what is next."""
    if last is None:
        return f"none yet; the first at difficulty {next}"
    earned = "no reward that counts" if last["mean"] is None else f"mean reward {last['mean']:+.3f}"
    levels = ", ".join(f"{name} {level}" for name, level in last["levels"].items())
    return (
        f"{last['tasks']} in step {last['step']}, difficulty {last['difficulty']} ({levels}): "
        f"{earned}; next {next}"
    )


def known_mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None without any."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def progress_moments(record: Record) -> Moments | None:
    """`rods.rules.zones.moments` of the progress in a group's record; of nearly every group without
    making one."""
    rollouts = record["rollouts"]
    if (sums := plain_sums(rollouts)) is None:
        return moments(group_of(record), "progress")
    return _plain_moments(len(rollouts), *sums)


@lru_cache(maxsize=1 << 14)
def _plain_moments(count: int, total: int, squares: int, scale: int) -> Moments:
    """Of `count` rollouts. Few sums are possible, and a history has a million groups."""
    entry = (0, count, total, squares, scale)
    return Moments(mean([entry]), variance([entry]))
