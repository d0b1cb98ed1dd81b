"""A schedule of tasks that others wrote, for any trainer: `draw` says which tasks a step's batch
has, `observe` takes what they earned.

    with open_schedule("schedules/mine", "prompts.jsonl") as schedule:
        for step in range(schedule.step + 1, 1001):
            batch = schedule.draw(step)
            …                                  # roll out each task, in groups
            schedule.observe(step, rewards)    # task → its rewards; on the disk when this returns
            …                                  # the update

Both are records of one log, `schedule.jsonl`, on the disk before they are answered. A draw depends
on nothing but the rules, the tasks and the records before it, so that the log says again why each
task was drawn (`rods schedule FOLDER --replay`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import SupportsFloat

import orjson
from pydantic import ValidationError

from rods.buffers.log import disk
from rods.buffers.log.record_bytes import Record, misfit, record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.locks import Ownership
from rods.canonical import JsonMapping, content_id, frozen
from rods.errors import CorruptLogError, RefusedError, UserError, first_fault
from rods.family.schedule.rules import Role, Rules, Seen, Standings, choose
from rods.family.schedule.sources import SourceTask, tasks_of
from rods.files import TASKS, bounded_lines, explained, open_regular
from rods.observations import millionths

LOG = "schedule.jsonl"
NAMES = "tasks.jsonl"  # the ids of its tasks, each with its domain
Rewards = Sequence[SupportsFloat | None]


@frozen
class ScheduledTask:
    """A place of a batch: the task's id, its row as the source has it, its domain, and why it was
    drawn."""

    id: str
    row: JsonMapping
    domain: str
    role: Role


class History:
    """A log of a schedule, folded: what was drawn and rewarded, and where all tasks stand."""

    def __init__(self, rules: Rules, domains: Mapping[str, str]) -> None:
        self.rules = rules
        self.domains = domains
        self.attempt = 0
        self._fold([])

    def add(self, records: Iterable[Record]) -> None:
        """Takes the next records. A `start` drops what lies beyond its step."""
        for each in records:
            if each["kind"] == "start":
                self.attempt = each["attempt"]
                if each["from_step"] < self.drawn:
                    self._fold([old for old in self._live if old["step"] <= each["from_step"]])
            elif each["kind"] != "schedule":
                self._add(each)

    def _fold(self, live: Sequence[Record]) -> None:
        self.standings = Standings(self.rules, self.domains)
        self._live: list[Record] = []
        self.draws: dict[int, list[tuple[str, Role]]] = {}
        self.rewarded: dict[int, Record] = {}
        self.drawn = 0  # the last step that was
        self.step = 0  # the last one with rewards
        for each in live:
            self._add(each)

    def _add(self, each: Record) -> None:
        step: int = each["step"]
        tasks = each["tasks"] if each["kind"] == "scheduled" else [*each["rewards"]]
        if not self.domains.keys() >= {*tasks} or step > self.drawn + 1:
            raise misfit(LOG, each, "it does not follow from the records before it")
        self._live.append(each)
        if each["kind"] == "scheduled":
            self.drawn = step
            self.draws[step] = list(zip(tasks, each["roles"], strict=True))
            self.standings.draw(step, tasks)
        else:
            self.step = max(self.step, step)
            self.rewarded[step] = each
            self.standings.observe(step, _seen(each, self.rules))


class Schedule(AbstractContextManager["Schedule"]):
    """A schedule for as long as it is open, by one process. `open_schedule` makes it."""

    def __init__(self, folder: Path, tasks: Sequence[SourceTask], rules: Rules) -> None:
        self.folder = folder
        self.rules = rules
        self.tasks = {task.id: task for task in tasks}
        domains = {task.id: task.domain for task in tasks}
        if unknown := rules.shares.keys() - {*domains.values()}:
            what = f"no task is of the domain {min(unknown)!r}"
            raise UserError(what, where="shares", remedy=f"there are {sorted({*domains.values()})}")
        with explained("cannot make the folder", folder, "choose another one"):
            folder.mkdir(parents=True, exist_ok=True)
        self._ownership = Ownership(folder, LOG, "trainer")
        try:
            header = record(
                "schedule",
                rules=rules.model_dump(mode="json"),
                tasks=content_id([*domains.items()]),
            )
            before = [*read(folder / LOG)] if (folder / LOG).exists() else []
            if before:
                _check_same(folder, before[0], header)
            else:
                disk.replace(folder / NAMES, _names(domains))
            self.history = History(rules, domains)
            self.history.add(before)
            self._log = LogWriter(folder / LOG)
            if not before:
                self._log.append([header])
        except BaseException:
            self._ownership.release()
            raise

    @property
    def step(self) -> int:
        """The last step that was rewarded; 0 before the first. A trainer without a checkpoint of
        its own goes on behind it."""
        return self.history.step

    def start(self, from_step: int) -> None:
        """Goes on behind the step of a checkpoint; what was drawn and rewarded later counts no
        more. Raises RefusedError for one that is not on record."""
        if from_step < 0 or (from_step and from_step not in self.history.rewarded):
            what = f"from_step is {from_step}, and the last step with rewards is {self.step}"
            raise RefusedError(what, where=self.folder, remedy="give a step that has rewards")
        self._append(record("start", attempt=self.history.attempt + 1, from_step=from_step))

    def draw(self, step: int, n: int | None = None) -> tuple[ScheduledTask, ...]:
        """The `n` tasks of `step` (from 1), `Rules.batch_tasks` by default, no two of them the
        same. A step drawn again has the tasks that it had. Steps are drawn in order, as far ahead
        of their rewards as one likes; what is under way is not drawn again while there is anything
        else. Raises RefusedError for a step out of turn, and for another `n` than before."""
        size = self.rules.batch_tasks if n is None else n
        drawn = self.history.draws.get(step)
        if drawn is None:
            following = self.history.drawn + 1
            if step != following:
                what = f"step {step} is drawn, and step {following} is next"
                raise RefusedError(what, where=self.folder, remedy=f"draw step {following}")
            if not 0 < size <= len(self.tasks):
                what = f"{size} tasks of {len(self.tasks)} are asked for"
                raise UserError(what, where=f"step {step}", remedy="ask for fewer, from 1 on")
            drawn = choose(self.history.standings, step, size)
            tasks, roles = zip(*drawn, strict=True)
            self._append(
                record(
                    "scheduled",
                    attempt=self.history.attempt,
                    step=step,
                    tasks=[*tasks],
                    roles=[*roles],
                )
            )
        elif n is not None and n != len(drawn):
            what = f"step {step} was drawn with {len(drawn)} tasks, not {n}"
            raise RefusedError(what, where=self.folder, remedy="draw it with as many as before")
        return tuple(
            ScheduledTask(name, self.tasks[name].row, self.tasks[name].domain, role)
            for name, role in drawn
        )

    def observe(
        self, step: int, rewards: Mapping[str, Rewards], policy_step: int | None = None
    ) -> bool:
        """Takes what the tasks of `step` earned: by id the rewards of a task's rollouts, None for
        one that broke. A group that got lost is left out; one of which fewer than half are there
        counts for nothing. `policy_step` is the last update in the weights that rolled out,
        `step` − 1 by default. False: the same was on record already. Raises RefusedError for a step
        that was not drawn, or has other rewards on record, UserError for other tasks and for
        rewards outside their range."""
        age = step - 1 if policy_step is None else policy_step
        drawn = dict(self.history.draws.get(step, ()))
        if not drawn:
            what = f"step {step} was not drawn"
            raise RefusedError(what, where=self.folder, remedy="draw it first")
        if type(age) is not int or not 0 <= age < step:
            what = f"policy_step is {policy_step!r}"
            raise UserError(what, where=f"step {step}", remedy=f"give one from 0 to {step - 1}")
        if other := rewards.keys() - drawn.keys():
            what = f"task {min(map(str, other))} was not drawn for it"
            raise UserError(what, where=f"step {step}", remedy="report the tasks of the draw")
        given = {
            task: _checked(task, rewards[task], self.rules) for task in drawn if task in rewards
        }
        content = record(
            "rewarded", attempt=self.history.attempt, step=step, policy_step=age, rewards=given
        )
        if (before := self.history.rewarded.get(step)) is not None:
            if (before["rewards"], before["policy_step"]) == (given, age):
                return False
            what = f"step {step} has other rewards on record"
            raise RefusedError(what, where=self.folder, remedy="go back by from_step, or step on")
        self._append(content)
        return True

    def close(self) -> None:
        """Gives the folder back."""
        self._log.close()
        self._ownership.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, content: Record) -> None:
        self._ownership.check()
        self._log.append([content])
        self.history.add([content])


def open_schedule(
    folder: Path | str,
    tasks: Path | str | Iterable[JsonMapping],
    rules: Rules | JsonMapping | None = None,
    *,
    from_step: int | None = None,
    domain: str = "domain",
) -> Schedule:
    """The schedule in `folder`, made where there is none. `tasks` is a source (`sources.tasks_of`);
    the column `domain` says to which domain a row belongs. A trainer that has restored a checkpoint
    gives its step as `from_step`, 0 for none. Raises UserError for what is no source or no rule,
    RefusedError where the folder belongs to another process, other tasks or other rules."""
    try:
        checked = rules if isinstance(rules, Rules) else Rules.model_validate(rules or {})
    except ValidationError as error:
        raise UserError(first_fault(error), where="rules", remedy="docs/schedule.md") from error
    schedule = Schedule(Path(folder), tasks_of(tasks, domain), checked)
    if from_step is not None:
        try:
            schedule.start(from_step)
        except BaseException:
            schedule.close()
            raise
    return schedule


def opened(folder: Path) -> Iterator[tuple[Record, History]]:
    """Each record of a schedule's log with the history of those before it, without the tasks and
    beside whoever writes it."""
    with explained("no schedule", folder, "name the folder that open_schedule was given"):
        with open_regular(folder / NAMES) as file:
            rows = [*map(orjson.loads, bounded_lines(file, folder / NAMES, TASKS))]
        (folder / LOG).stat()
    domains = {row["id"]: row["domain"] for row in rows}
    history: History | None = None
    for each in read(folder / LOG):
        if history is None:
            history = History(Rules.model_validate_json(orjson.dumps(each["rules"])), domains)
        yield each, history
        history.add([each])


def mismatch(each: Record, history: History) -> str:
    """In what a draw is another one than follows from the records before it; empty: in nothing."""
    if each["kind"] != "scheduled":
        return ""
    tasks = choose(history.standings, each["step"], len(each["tasks"]))
    recorded = [*zip(each["tasks"], each["roles"], strict=True)]
    if tasks == recorded:
        return ""
    place = next(place for place, pair in enumerate(tasks) if pair != recorded[place])
    return f"step {each['step']}, place {place}: {recorded[place]}, and {tasks[place]} follows"


def _names(domains: Mapping[str, str]) -> bytes:
    return b"".join(
        orjson.dumps({"id": name, "domain": domain}) + b"\n" for name, domain in domains.items()
    )


def _check_same(folder: Path, before: Record, header: Record) -> None:
    """Raises RefusedError where the schedule was made with other rules or tasks."""
    if before["kind"] != "schedule":
        raise CorruptLogError("begins with no schedule", where=folder / LOG)
    rules = [
        f"{name} {value!r}, now {header['rules'].get(name)!r}"
        for name, value in before["rules"].items()
        if header["rules"].get(name) != value
    ]
    if rules or before["tasks"] != header["tasks"]:
        what = f"was made with {'; '.join(rules) or 'other tasks, or in another order'}"
        raise RefusedError(what, where=folder, remedy="give these, or choose a new folder")


def _checked(task: str, rewards: Rewards, rules: Rules) -> list[float | None]:
    try:
        earned = [None if each is None else float(each) for each in rewards]
        for each in earned:
            millionths(rules.reward_range[0] if each is None else each, *rules.reward_range)
    except (TypeError, ValueError, OverflowError) as error:
        remedy = (
            f"give numbers in the range {rules.reward_range} (reward_range), None for a rollout"
        )
        raise UserError(str(error), where=f"task {task}", remedy=f"{remedy} that broke") from error
    return earned


def _seen(each: Record, rules: Rules) -> Iterator[tuple[str, Seen]]:
    """The groups of a record that count."""
    for task, rewards in each["rewards"].items():
        valid = [
            millionths(reward, *rules.reward_range) for reward in rewards if reward is not None
        ]
        if valid and 2 * len(valid) >= len(rewards):
            yield task, Seen(each["policy_step"], len(valid), sum(valid))
