"""A schedule of tasks that others wrote, for any trainer: `draw` says which tasks a step's batch
has, `observe` takes what they earned.

    with open_schedule("schedules/mine", "prompts.jsonl") as schedule:
        for step in range(schedule.step + 1, 1001):
            batch = schedule.draw(step)
            …                                  # roll out each task, in groups
            schedule.observe(step, rewards)    # task → its rewards; on the disk when this returns
            …                                  # the update

Both are records of one log, `schedule.jsonl`, on the disk before they are answered. A draw depends
on nothing but the rules, the tasks and the records before it, so that the log says again which
tasks are drawn and why (`rods trainer schedule FOLDER --replay`).
"""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsFloat

from rods.buffers.log.disk import refusals
from rods.buffers.log.record_bytes import Record, misfit, record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.locks import Ownership
from rods.errors import RefusedError, UserError
from rods.family.schedule.rows import ScheduledTask, Source, tasks_of
from rods.family.schedule.standings import Rules as Rules, Seen, Standings, choose
from rods.observations import millionths

LOG = "schedule.jsonl"
Rewards = Mapping[str, Iterable[SupportsFloat | None]]


class History:
    """A log of a schedule, folded: what was drawn and rewarded, and where all tasks stand."""

    def __init__(self, header: Record) -> None:
        self.header = header
        try:
            self.rules = Rules.model_validate(header["rules"], strict=False)
        except (KeyError, ValueError) as error:
            raise misfit(LOG, header, f"no rules ({error})") from error
        self.attempt = 0
        self._fold([])

    def add(self, new: Record) -> None:
        """Takes the next record. A `start` drops what lies beyond its step."""
        if new["kind"] == "start":
            self.attempt = new["attempt"]
            self._fold([old for old in self._live if old["step"] <= new["from_step"]])
        elif new["kind"] != "schedule":
            self._add(new)

    def _fold(self, live: Sequence[Record]) -> None:
        self.standings = Standings(self.rules, self.header["domains"])
        self.draws: dict[int, list[tuple[str, str]]] = {}  # step → its tasks and why
        self.rewarded: dict[int, Record] = {}
        self.drawn = 0  # the last step that was
        self.step = 0  # the last one with rewards
        self._live: list[Record] = []
        for old in live:
            self._add(old)

    def _add(self, new: Record) -> None:
        step: int = new["step"]
        draw = new["kind"] == "scheduled"
        tasks = [task for task, _ in new["tasks"]] if draw else list(new["rewards"])
        if not self.standings.tasks.keys() >= {*tasks} or step > self.drawn + draw:
            raise misfit(LOG, new, "it does not follow from the records before it")
        self._live.append(new)
        if draw:
            self.drawn = step
            self.draws[step] = [(task, role) for task, role in new["tasks"]]
            self.standings.draw(step, tasks)
        else:
            self.step = max(self.step, step)
            self.rewarded[step] = new
            self.standings.observe(step, seen(new, self.rules))


class Schedule(AbstractContextManager["Schedule"]):
    """A schedule for as long as it is open, by one process. `open_schedule` makes it."""

    def __init__(
        self, folder: Path, tasks: Sequence[ScheduledTask], rules: Rules, from_step: int | None
    ) -> None:
        self.folder = folder
        self.tasks = {task.id: task for task in tasks}
        domains = {task.id: task.domain for task in tasks}
        if unknown := rules.shares.keys() - {*domains.values()}:
            what = f"no task is of the domain {min(unknown)!r}"
            raise UserError(what, where="shares", remedy="name domains that rows have")
        header = record("schedule", rules=rules.model_dump(mode="json"), domains=domains)
        with refusals(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._ownership = Ownership(folder, LOG, "trainer")
        try:
            before = [*read(folder / LOG)]
            first = before[0] if before else header
            self.history = History(first)
            if (first["rules"], [*first["domains"].items()]) != (
                header["rules"],
                [*domains.items()],
            ):
                what = "was made with other rules, or of other tasks or in another order"
                raise self._refused(what, "give those, or take a new folder")
            for old in before:
                self.history.add(old)
            if from_step is not None:
                from_step = _integer(from_step, "from_step")
                # rewards of an earlier one may have been lost
                if not 0 <= from_step <= self.step:
                    what = f"step {from_step} has no rewards on record"
                    raise self._refused(what, f"go back to one from 0 to {self.step}")
            self._log = LogWriter(folder / LOG)
            if not before:
                self._append(header)
            if from_step is not None:
                attempt = self.history.attempt + 1
                self._append(record("start", attempt=attempt, from_step=from_step))
        except BaseException:
            self._ownership.release()
            raise

    @property
    def step(self) -> int:
        """The last step that was rewarded; 0 before the first. A trainer without a checkpoint of
        its own goes on behind it."""
        return self.history.step

    def draw(self, step: int, n: int | None = None) -> tuple[ScheduledTask, ...]:
        """The `n` tasks of `step` (from 1), `Rules.batch_tasks` by default, no two of them the
        same. A step drawn again has the tasks that it had, whatever `n` is. Steps are drawn in
        order, as far ahead of their rewards as one likes; what is under way is not drawn again
        while there is anything else. Raises RefusedError for a step out of turn."""
        step = _integer(step, "step")
        drawn = self.history.draws.get(step)
        if drawn is None:
            size = self.history.rules.batch_tasks if n is None else _integer(n, "n")
            if step != self.history.drawn + 1:
                raise self._refused(f"step {step} is not next", f"draw {self.history.drawn + 1}")
            if not 0 < size <= len(self.tasks):
                what = f"{size} tasks of {len(self.tasks)} are asked for"
                raise UserError(what, where=f"step {step}", remedy="ask for fewer, from 1 on")
            drawn = choose(self.history.standings, step, size)
            at = {"attempt": self.history.attempt, "step": step}
            self._append(record("scheduled", **at, tasks=drawn))
        return tuple(replace(self.tasks[name], role=role) for name, role in drawn)

    def observe(
        self,
        step: int,
        rewards: Mapping[str, Sequence[SupportsFloat | None]],
        policy_step: int | None = None,
    ) -> bool:
        """Takes what the tasks of `step` earned: by id the rewards of a task's rollouts, None for
        one that broke. A group that got lost is left out; one of which more than half broke counts
        for nothing. `policy_step` is the last update in the weights that rolled out, `step` − 1 by
        default. False: the same was on record already. Raises RefusedError for a step that was not
        drawn, or has other rewards on record, UserError for other tasks and for rewards outside
        their range."""
        step = _integer(step, "step")
        if step not in self.history.draws:
            raise self._refused(f"step {step} was not drawn", "draw it first")
        age = step - 1 if policy_step is None else _integer(policy_step, "policy_step")
        if not 0 <= age < step:
            what = f"policy_step is {policy_step!r}"
            raise UserError(what, where=f"step {step}", remedy=f"give one from 0 to {step - 1}")
        drawn = dict(self.history.draws[step])
        if not isinstance(rewards, Mapping):
            remedy = "give a mapping from a task's id to the rewards of its rollouts"
            raise UserError(
                f"rewards are a {type(rewards).__name__}", where=f"step {step}", remedy=remedy
            )
        if other := rewards.keys() - drawn.keys():
            what = f"task {min(map(str, other))} was not drawn"
            raise UserError(what, where=f"step {step}", remedy="report the tasks of the draw")
        rules = self.history.rules
        earned = {name: _checked(name, rewards[name], rules) for name in drawn if name in rewards}
        if (before := self.history.rewarded.get(step)) is not None:
            if (before["rewards"], before["policy_step"]) == (earned, age):
                return False
            raise self._refused(f"step {step} has other rewards on record", "go back by from_step")
        at = {"attempt": self.history.attempt, "step": step, "policy_step": age}
        self._append(record("rewarded", **at, rewards=earned))
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
        self.history.add(content)

    def _refused(self, what: str, remedy: str) -> RefusedError:
        return RefusedError(what, where=self.folder, remedy=remedy)


def open_schedule(
    folder: Path | str,
    tasks: Source,
    rules: Rules = Rules(),  # noqa: B008 it is frozen
    *,
    from_step: int | None = None,
    domain: str = "domain",
) -> Schedule:
    """The schedule in `folder`, made where there is none. `tasks` is a source (`rows.tasks_of`);
    the column `domain` says to which domain a row belongs. A trainer that has restored a checkpoint
    gives its step as `from_step`, 0 for none: what was drawn and rewarded later counts no more.
    Raises UserError for what is no source, RefusedError where the folder belongs to another
    process, other tasks or other rules, and for a `from_step` without rewards."""
    return Schedule(Path(folder), tasks_of(tasks, domain), rules, from_step)


def opened(folder: Path) -> Iterator[tuple[Record, History]]:
    """Each record of a schedule's log behind the first one with the history of those before it,
    beside whoever writes it."""
    history: History | None = None
    for new in read(folder / LOG):
        history = history or History(new)
        yield new, history
        history.add(new)


def follows(drawn: Record, history: History) -> bool:
    """Whether a draw is the one that follows from the records before it."""
    tasks = [(task, role) for task, role in drawn["tasks"]]
    return choose(history.standings, drawn["step"], len(tasks)) == tasks


def _integer(value: Any, name: str) -> int:
    """`value`, which may be of numpy's. Raises UserError for what is no integer."""
    try:
        return int(operator.index(value))
    except TypeError as error:
        what = f"{name} is {value!r}"
        raise UserError(what, remedy="give an integer") from error


def _checked(task: str, rewards: Iterable[Any], rules: Rules) -> list[float | None]:
    try:
        # unlike float, fsum takes no text
        earned = [None if each is None else math.fsum((each,)) for each in rewards]
        for each in earned:
            if each is not None:
                millionths(each, *rules.reward_range)
    except (TypeError, ValueError, OverflowError) as error:
        remedy = "give numbers in reward_range, and None for a rollout that broke"
        raise UserError(str(error), where=f"task {task}", remedy=remedy) from error
    return earned


def seen(rewarded: Record, rules: Rules) -> Iterator[tuple[str, Seen]]:
    """The groups of a record that count."""
    for task, rewards in rewarded["rewards"].items():
        valid = [millionths(each, *rules.reward_range) for each in rewards if each is not None]
        if valid and 2 * len(valid) >= len(rewards):
            yield task, Seen(rewarded["policy_step"], len(valid), sum(valid))
