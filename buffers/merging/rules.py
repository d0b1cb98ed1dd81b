"""What a merge decides, as a function of pool, tracker, candidates and configuration (004 §3.4).

Order: revive, burn-in (layer 1), drift (layer 2), truncated, unsampled; then inject; then capacity
(layer 3).
A static pool is injected once, whole, and nothing else happens to it; without retirement variants
are injected and stay (004 Appendix R). The trainer writes the decisions, `rods verify` derives them
again from the logs. Reasons to refuse a variant are functions of manifest, tasks.jsonl and logs
alone; nothing is executed here (`rods verify --replay` does that).
"""

import math
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from rods.buffers.folds.pool import Candidate, Member, Pool
from rods.buffers.log.record_bytes import Record
from rods.buffers.run.run import Run
from rods.config import Config, PoolRules, Stage
from rods.gates.ground_truth import can_vary
from rods.gates.similarity import SimilarityIndex, contamination, held_out_index
from rods.rules import order, retirement
from rods.rules.curriculum import opening, selects, stage_rules
from rods.rules.retirement import Decision
from rods.rules.tracker import Standing, Tracker
from rods.tasks import AnyTask, TaskType


class Refusal(NamedTuple):
    reason: str
    detail: str


class Admission:
    """Examines variants at a merge, before they join the pool (the daemon has asked before, at the
    end of its pipeline); `admitted` and `left` tell it how the pool changes.

    Nothing that was ever in the pool comes in again. Near duplicates are looked for among the given
    tasks, the active variants, and those that a re-test may bring back, since a revival must not
    bring two of a kind together. What has left for good is left out, so that memory does not grow
    with history."""

    def __init__(
        self, run: Run, injected: Container[str] = (), neighbours: Iterable[AnyTask] = ()
    ) -> None:
        """`injected`: ids of the variants that were ever injected; `neighbours`: of these the ones
        that are active or may be revived."""
        self.run = run
        self._pool = SimilarityIndex(run.training.tasks)
        self._held_out = held_out_index(run.guarded)
        self._given = run.tasks.by_id
        self._injected = injected
        for task in neighbours:
            self._pool.add(task)

    def examine(self, content: Any) -> Refusal | AnyTask:
        """The variant, or why it is refused."""
        try:
            task = AnyTask.from_json(content)
            sound = can_vary(task)
        except ValueError as error:
            return Refusal("schema", str(error))
        if not sound:
            what = "it has no ground-truth calls and no witness: nothing says that it is sound"
            return Refusal("schema", what)
        generation = task.provenance.get("generation")
        if not isinstance(generation, int) or generation < 1:
            return Refusal(
                "schema", f"'provenance.generation' is {generation!r}; a variant's is at least 1"
            )
        if task.split != "train":
            return Refusal("split", f"its split is {task.split!r}, its seed's is 'train'")
        if self.run.manifest["environments"].get(task.environment.name) != task.environment.hash:
            return Refusal(
                "unknown_environment", f"{task.environment.name} {task.environment.hash}"
            )
        if task.id in self._given or task.id in self._pool or task.id in self._injected:
            return Refusal("duplicate", f"task {task.id} is known")
        if self.run.config.gates.duplicates and (match := self._pool.find(task)):
            return Refusal("near_duplicate", str(match))
        if self.run.config.gates.contamination and (reasons := contamination(task, self._held_out)):
            return Refusal("contaminated", str(reasons[0]))
        return task

    def admitted(self, task: AnyTask) -> None:
        """`task` is in the pool from now on."""
        self._pool.add(task)

    def left(self, task_id: str) -> None:
        """That variant has left the pool for good. Given ones stay neighbours: there are only so
        many."""
        if task_id not in self._given:
            self._pool.remove(task_id)


def share(fraction: float, count: int) -> Fraction:
    """`fraction` of `count`, exactly as the decimal number in the configuration says (0.29 of 100
    is 29)."""
    return Fraction(str(fraction)) * count


@dataclass
class _Merge:
    """One merge in progress: decisions take effect on the pool, a copy, as they are made."""

    rules: PoolRules
    pool: Pool
    tracker: Tracker
    admission: Admission
    epoch: int
    step: int
    decisions: list[Record] = field(default_factory=list)

    def decide(self, kind: str, task_id: str, **fields: Any) -> None:
        record = {"kind": kind, "epoch": self.epoch, "step": self.step, "task": task_id, **fields}
        self.pool.apply(record)
        self.decisions.append(record)
        if kind == "retired" and task_id not in self.pool.revivable:
            self.admission.left(task_id)

    def by_rule(self, decision: Decision | None) -> None:
        """Carries out what a rule of rods.rules.retirement has decided, if anything."""
        if decision is not None:
            fields = asdict(decision)
            kind = "revived" if decision.rule == "retest" else "retired"
            self.decide(kind, fields.pop("task"), **fields)

    def standing(self, member: Member) -> Standing:
        return self.tracker.standing(member.task_id, member.since)

    def retire(self) -> None:
        """Revives, then layers 1 and 2, then what is cut each time, then what was never sampled;
        each looks at what the one before has left."""
        for retired in self.pool.too_hard:
            task_id = retired.member.task_id
            self.by_rule(retirement.revived(task_id, self.tracker.standing(task_id, retired.step)))
        last_merge = self.pool.epochs[-1].step if self.pool.epochs else 0
        for member in self.pool.generated:
            standing = self.standing(member)
            later = self.tracker.standing(member.task_id, max(member.since, last_merge)).counted
            self.by_rule(
                retirement.burn_in(member.task_id, standing, standing.counted - later, self.rules)
            )
        for rule in (retirement.drift, retirement.truncated):
            for member in self.pool.generated:
                self.by_rule(rule(member.task_id, self.standing(member), self.rules))
        patience = self.rules.unsampled_epochs
        if not 0 < patience <= self.epoch:
            return
        first_step = self.pool.epochs[self.epoch - patience].step + 1
        for member in self.pool.generated:
            task = member.task_id
            standing = self.standing(member)
            last = self.tracker.last_step(task)
            self.by_rule(
                retirement.unsampled(
                    task, standing, member.epoch, last, self.epoch, first_step, self.rules
                )
            )

    def observed(self) -> list[tuple[str, Standing]]:
        """The variants that layer 3 may evict: those of which a group has counted, and those of
        which none has in all of `unsampled_epochs` epochs. Machinery that fails each time says
        nothing against them, so they leave only where others want their places."""
        patience = self.rules.unsampled_epochs
        return [
            (member.task_id, standing)
            for member in self.pool.generated
            if (standing := self.standing(member)).groups
            or 0 < patience <= self.epoch - member.epoch
        ]

    def budget(self) -> int:
        """How many variants may be injected."""
        rules = self.rules
        room = rules.max_generated - len(self.pool.generated)
        if rules.static:
            return room
        most = math.floor(share(rules.inject_fraction, len(self.pool.active))) or int(
            rules.inject_fraction > 0
        )
        if not rules.retirement:
            return most
        if rules.capacity:  # layer 3 makes room, if need be among those that were observed
            room += len(self.observed())
        return min(most, room)

    def inject(self, candidates: list[Candidate]) -> list[Candidate]:
        """Admits candidates in order until the budget is spent; returns the deferred ones."""
        budget = self.budget()
        admitted = 0
        for candidate in candidates:
            if admitted >= budget:
                break
            content = candidate.content
            where = {"expanded": candidate.seq, "pick": candidate.pick}
            judged = self.admission.examine(content)
            if isinstance(judged, Refusal):
                self.decide(
                    "refused", content["id"], **where, rule=judged.reason, detail=judged.detail
                )
                continue
            self.decide(
                "injected",
                judged.id,
                **where,
                type=judged.type,
                generation=judged.provenance["generation"],
            )
            self.admission.admitted(judged)
            admitted += 1
        return [candidate for candidate in candidates if candidate.seq not in self.pool.decided]

    def retests(self, active: int, types: Container[TaskType]) -> list[str]:
        """Which retired tasks of these types are tried again, in a pool of so many `active` ones:
        those seen longest ago. One that a re-test found mastered has nothing left to show."""
        waiting = sorted(
            (self.tracker.last_step(task_id) or 0, task_id)
            for retired in self.pool.too_hard
            for task_id in [retired.member.task_id]
            if retired.member.type in types
            and self.tracker.standing(task_id, retired.step).latest != "mastered"
        )
        most = math.ceil(share(self.rules.retest_fraction, active))
        return [task_id for _, task_id in waiting[:most]]


def derive(
    config: Config,
    pool: Pool,
    tracker: Tracker,
    candidates: list[Candidate],
    admission: Admission,
    *,
    epoch: int,
    stage: int,
    step: int,
    expanded_seq: int,
) -> tuple[list[Record], Record]:
    """The merge that opens `epoch` after `step` in `stage` (counted from 1): its decisions in order
    (without seq, id, attempt), and the fields of the record that closes them. `candidates` wait in
    the order in which they are to be admitted. `admission` learns of what comes and what leaves;
    the pool handed in stays as it is."""
    merge = _Merge(config.pool, pool.copy(), tracker, admission, epoch, step)
    rules = stage_rules(config.curriculum, stage)
    injecting = _fills(config, pool, rules) if config.pool.static else rules.expand
    retiring = rules.expand and config.pool.retirement and not config.pool.static
    if retiring:
        merge.retire()
    deferred = merge.inject(candidates) if injecting else candidates
    if retiring and config.pool.capacity:  # layer 3
        excess = len(merge.pool.generated) - config.pool.max_generated
        for decision in retirement.capacity(merge.observed(), excess):
            merge.by_rule(decision)
    active = [member.task_id for member in merge.pool.active.values() if member.type in rules.types]
    retests = merge.retests(len(active), rules.types) if retiring else []
    slots = order.slots(config.random_seeds.order, epoch, active, retests)
    kinds = [record["kind"] for record in merge.decisions]
    seqs = [candidate.seq for candidate in deferred]
    generated = len(merge.pool.generated)
    closing: Record = {
        "epoch": epoch,
        "step": step,
        "stage": stage,
        "expanded_seq": expanded_seq,
        "counts": {
            "active": len(merge.pool.active),
            "originals": len(merge.pool.active) - generated,
            "generated": generated,
            "slots": len(slots),
            "retests": len(retests),
            **{kind: kinds.count(kind) for kind in ("revived", "retired", "injected", "refused")},
        },
        "deferred": {
            "count": len(seqs),
            "first": min(seqs, default=0),
            "last": max(seqs, default=0),
        },
        "retests": retests,
        "order": order.order_hash(slots),
    }
    return merge.decisions, closing


def _fills(config: Config, pool: Pool, rules: Stage) -> bool:
    """Whether a static pool is injected by the merge into an epoch of a stage with these `rules`:
    the first one after the opening epoch in which seeds would be picked."""
    first = opening(config.curriculum, [epoch.stage for epoch in pool.epochs])
    if first is None or not selects(rules):
        return False
    return not any(
        selects(stage_rules(config.curriculum, epoch.stage)) for epoch in pool.epochs[first + 1 :]
    )
