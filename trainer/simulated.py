"""The simulated policy: a trainer's part without weights, for tests, load and study of the loop. It
is never evidence for the method: how it learns is assumed, not measured.

Every task has a fixed difficulty, a drawn one that of its levels; the policy has one number, its
skill, on the same scale. A turn is resolved with the probability σ((skill − difficulty) / WIDTH),
independently of the others. A step raises the skill by `policy.growth` times the share of its
groups that disagree (reward variance above 0). So mastered and hopeless tasks teach nothing, which
is the one claim about GRPO that the loop rests on.

With `policy.plays` the conversations of drawn tasks are really played, whoever plays tools, user
and verifier is asked. The policy is told what its task expects; it makes each of the calls, and
asks the user for what its words leave out, with that same probability. Every draw is keyed by
(random_seeds.rollouts, step, slot, rollout): a resumed run repeats itself exactly."""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson

from rods.canonical import JsonObject, canonical, rounded
from rods.config import Config
from rods.episode.drivers import run_lockstep
from rods.episode.engine import Trace
from rods.episode.rewards import RANGES
from rods.errors import UserError
from rods.extension import Door
from rods.faults import LABELS, SUCCESSES, Label
from rods.files import read_regular
from rods.gates.reference_policy import ReferencePolicy
from rods.interfaces import follows_records
from rods.observations import EpisodeReward, Group, Rollout
from rods.players import Players
from rods.tasks import AnyTask, Task
from rods.trainer import advantages
from rods.trainer.batches import groups as groups_of
from rods.trainer.policy import Batch
from rods.trainer.training_run import TrainingRun

WIDTH = 0.12  # how fast the chance of a turn falls as difficulty passes skill
SPREAD = (-0.1, 1.1)  # the keyed part of a difficulty is uniform in this range
TYPE_OFFSET = {"base": -0.05, "long_context": 0.0, "miss_func": 0.05, "miss_param": 0.05}
EXTRA_CALL = 0.02  # difficulty per call beyond one a turn
VARIANT_NOISE = 0.08  # a variant lies within so much of its root
STATE = "simulated.json"
# how difficult the simulated policy finds a task of the feature, from 0 to 1; None: of others (001)
DIFFICULTIES: Door[Callable[[AnyTask], float | None]] = Door("difficulties")


def difficulty(task: AnyTask) -> float:
    """The difficulty of `task`: what a feature says of its own, else keyed by its id; a variant
    takes its root's key and a little noise."""
    for difficulty_of in DIFFICULTIES:
        if (own := difficulty_of(task)) is not None:
            return own
    root = str(task.provenance.get("root", task.id))
    low, high = SPREAD
    value = low + (high - low) * _uniform(1, "difficulty", root)[0] + TYPE_OFFSET[task.type]
    if isinstance(task, Task):
        value += EXTRA_CALL * (sum(len(turn) for turn in task.calls) - task.expected)
    if root != task.id:
        value += VARIANT_NOISE * (2 * _uniform(1, "variant", task.id)[0] - 1)
    return value


def turn_chance(task: AnyTask, skill: float) -> float:
    """The probability that one turn of `task` is resolved."""
    return 1 / (1 + math.exp(-(skill - difficulty(task)) / WIDTH))


def rollout(task: AnyTask, chance: float, reward: EpisodeReward, *key: str | int) -> Rollout:
    """One episode whose turns are resolved with `chance` each, drawn with `key` and nothing
    else. Its format rewards rise with its turns."""
    turns = task.expected
    resolved = sum(draw < chance for draw in _uniform(turns, "rollout", *key))
    binary = int(resolved == turns)
    progress = resolved / turns
    low, high = RANGES[reward]
    value = float(binary) if reward == "binary" else low + (high - low) * progress
    return Rollout(resolved, turns, binary, RANGES["format"][1] * progress, value, "finished")


def _labelled(played: Rollout, task: AnyTask) -> Rollout:
    """The rollout with labels for an evolving interface: every task fails in one way of its own,
    keyed by its root."""
    if not isinstance(task, Task):  # only turns have labels
        return played
    failures = [label for label in LABELS if label not in SUCCESSES]
    root = str(task.provenance.get("root", task.id))
    failure = failures[int(len(failures) * _uniform(1, "failure", root)[0])]
    good: list[Label] = ["pass"] * played.resolved
    return replace(played, labels=(*good, *[failure] * (played.expected - played.resolved)))


class SimulatedPolicy:
    """Skill, and how practice raises it. Its state is one number in one file."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.skill = config.policy.skill
        self.count = config.rollouts.rollouts_per_task

    def save(self, folder: Path) -> None:
        (folder / STATE).write_bytes(orjson.dumps({"skill": self.skill}))

    def load(self, folder: Path) -> None:
        path = folder / STATE
        try:
            self.skill = float(orjson.loads(read_regular(path))["skill"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"not a simulated policy's state ({error})", where=path) from error

    def validate(self, tasks: Sequence[AnyTask]) -> list[float | None]:
        """The expected progress: a greedy policy without chance."""
        return [turn_chance(task, self.skill) for task in tasks]

    def groups(self, batch: Batch) -> list[Group]:
        """The rollouts of a batch, one group a slot."""
        key = (self.config.random_seeds.rollouts, batch.step)
        followed = follows_records(batch.rules)
        groups = []
        for slot in batch.slots:
            chance = turn_chance(slot.task, self.skill)
            drawn = [
                rollout(slot.task, chance, batch.rules.reward, *key, slot.index, index)
                for index in range(self.count)
            ]
            if followed:
                drawn = [_labelled(played, slot.task) for played in drawn]
            groups.append(batch.group(slot, drawn))
        return groups

    def played(self, batch: Batch, players: Players, records: list[JsonObject]) -> list[Group]:
        """As `groups`, with the conversations of drawn tasks played; adds their traces to
        `records`, as JSON objects."""
        seed = self.config.random_seeds.rollouts
        by_slot: list[Sequence[Trace | Rollout]] = [group.rollouts for group in self.groups(batch)]
        drawn = [slot for slot in batch.slots if slot.role == "drawn"]
        tasks = [slot.task for slot in drawn]
        waiting = players.jobs(tasks, self.config, batch.rules, batch.interface)
        places = [(slot.index, index) for slot in drawn for index in range(self.count)]
        policies: list[ReferencePolicy] = []
        for place, job in zip(places, waiting, strict=True):
            key = batch.step, *place
            asks, *makes = _uniform(1 + len(job.task.goal_calls), "played", seed, *key)
            chance = turn_chance(job.task, self.skill)
            calls = [
                call for call, draw in zip(job.task.goal_calls, makes, strict=True) if draw < chance
            ]
            policies.append(ReferencePolicy(job, calls, asks=asks < chance))
        traces = iter(
            run_lockstep(
                waiting, lambda needs: [policies[number].reply(need) for number, need in needs]
            )
        )
        for slot in drawn:
            by_slot[slot.index] = played = [next(traces) for _ in range(self.count)]
            records += [
                {"slot": slot.index, "rollout": index, "spans": [], **trace.as_json()}
                for index, trace in enumerate(played)
            ]
        return groups_of(batch, by_slot, self.config, players)

    def practise(self, groups: Sequence[Group]) -> None:
        """One update from the groups whose rewards differ; rounded, for equal skill on every
        machine."""
        trained = [group.disagrees for group in groups if not group.replaced]
        self.skill = rounded(self.skill + self.config.policy.growth * sum(trained) / len(trained))


def train(training: TrainingRun) -> None:
    """Drives `training` to its end in a plain loop, at `operation.steps_per_second` if that is
    set."""
    config = training.config
    policy = SimulatedPolicy(training.config)
    training.begin(policy)
    players = training.run.players if config.policy.plays else None
    pause = 1 / config.operation.steps_per_second if config.operation.steps_per_second else 0.0
    due = time.monotonic()
    while training.stopping is None:
        traces: list[JsonObject] = []
        play = (
            partial(policy.played, players=players, records=traces)
            if players is not None
            else policy.groups
        )
        batch, groups = training.roll_out(training.next_batch(), play)
        if config.selection.order == "advantage":
            groups = estimated(groups, config)
        training.record(batch, groups, traces if batch.traced else ())
        policy.practise(groups)
        training.after_update()
        if pause:
            # after a wait, catch up for at most a second
            due = max(due + pause, time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))


def estimated(groups: Sequence[Group], config: Config) -> list[Group]:
    """The groups with the advantages that a trainer would take from their rewards; no hook, which
    reads traces."""
    estimate = advantages.of_groups(groups, config)
    return advantages.with_advantages(groups, advantages.reweighted(estimate, None))


def _uniform(count: int, *key: str | int) -> list[float]:
    """`count` numbers in [0, 1) from the key alone."""
    data = hashlib.shake_256(canonical(["simulated", *key])).digest(4 * count)
    return [int.from_bytes(data[4 * i : 4 * i + 4], "big") / 2**32 for i in range(count)]
