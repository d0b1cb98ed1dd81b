"""What a trainer reports of its rollouts: one `Rollout` an episode, one `Group` a task and step.
Progress is two integers, so that means are exact. A rollout is *valid* unless it was cut by length
or met an infrastructure failure."""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from functools import cache
from typing import Any, Literal, get_args

from rods.canonical import Json, JsonMapping, JsonObject, frozen, present, rounded
from rods.extension import Door
from rods.faults import ENDS, INVALID_ENDS, LABELS, End, Label

Record = JsonMapping
# What the trace of an episode gives (rods/episode/rewards.py), and what a group may be scored by: a
# `value` is a number that a trainer of one's own gives a whole rollout.
EpisodeReward = Literal[
    "progress",
    "binary",
    "format",
    "format_codes",
    "progress_format",
    "toolrl",
    "exact_calls",
    "rubric",
]
RewardKind = EpisodeReward | Literal["value"]
REWARD_KINDS: tuple[RewardKind, ...] = (*get_args(EpisodeReward), "value")
# a group that is scored by one of these says nothing about a zone
FORMAT_REWARDS: frozenset[RewardKind] = frozenset({"format", "format_codes"})
# of a group's task: it is in the pool, or retired and tried again, or drawn for the step
Role = Literal["active", "retest", "drawn"]
ROLES: tuple[Role, ...] = get_args(Role)
LARGEST = 1e6  # advantage of a rollout that is believed
WHOLE = 1 << 53  # below it every reader of JSON takes a number for a whole one
LONGEST_NAME = 300  # characters of what a group names
# the parts of its range that a `value` is counted in, so that its sums are exact, too
MILLIONTHS = 1_000_000

# fields that features add to rollouts (000), each with a check that raises ValueError for what it
# cannot be
ROLLOUT_FIELDS: Door[Mapping[str, Callable[[Json], None]]] = Door("rollout_fields")
# asked for each rollout
_added_checks = cache(lambda: [item for checks in ROLLOUT_FIELDS for item in checks.items()])


def added_fields(record: JsonMapping) -> JsonObject:
    """The fields of a rollout's record that features add. Raises ValueError naming the one at
    fault."""
    fields = {}
    for name, check in _added_checks():
        if value := record.get(name):
            check(value)
            fields[name] = value
    return fields


@frozen
class Rollout:
    """One episode's earnings."""

    #: turns, 0 ≤ resolved ≤ expected. Of a task with checks: those that hold; with a rubric: 0, 1
    #: or 2; of a `value`: whole millionths of its range
    resolved: int
    #: the turns that the task has. With checks: all of them; with a rubric: 2; of a `value`:
    #: 1,000,000
    expected: int
    binary: int  #: 1 where all is resolved (of a `value`: the highest), else 0
    #: the form of its replies, by a format reward that follows from the kind of reward: 0 to 1 with
    #: `progress_format`, `toolrl` and `exact_calls`, else 0 to 2; 0 where a trainer of one's own
    #: gives none
    format: float
    reward: float | None  #: what was trained on; null where it must not count (infrastructure)
    #: `step_limit`: too many replies in a turn; `length`, `context`: cut; `infrastructure`: the
    #: machinery broke
    end: End
    #: only with `selection.order = "advantage"`: the estimate that is trained on, its mean over the
    #: rollout's tokens
    advantage: float | None = None
    #: the diagnosis of the first turns that the policy played, in order, one label a turn
    #: (rods/episode/diagnosis.py); a turn that was cut off has none, nor have those after it;
    #: absent where the trainer gives none
    labels: tuple[Label, ...] = ()
    #: the fields that extensions add (ROLLOUT_FIELDS), as JSON, by name
    added: JsonMapping = field(default_factory=dict)
    #: in how many turns the policy wrote a call (000 Appendix F.1: *is tool call*); absent where
    #: the trainer gives none
    calling: int | None = None
    #: its replies in all turns (000 Appendix F.1: *interaction rounds*); absent where the trainer
    #: gives none
    replies: int | None = None
    #: with the rewards `format` and `format_codes`: what of `format` the calls have earned, 0 to 1
    #: (000 Fig. 5a: *tool call reward*); the rest is the replies' (*format reward*)
    call_format: float | None = None

    @property
    def valid(self) -> bool:
        return self.end not in INVALID_ENDS

    def as_json(self) -> JsonObject:
        always = ("resolved", "expected", "binary", "format", "reward", "end")
        record = {name: getattr(self, name) for name in always} | dict(self.added)
        return record | present(
            advantage=self.advantage,
            labels=list(self.labels) or None,
            calling=self.calling,
            replies=self.replies,
            call_format=self.call_format,
        )

    @staticmethod
    def from_json(record: Any) -> "Rollout":
        """Raises ValueError for what no episode earns, naming the field at fault."""
        resolved, expected = resolved_and_expected(record)
        binary = record.get("binary")
        end = record.get("end")
        reward = record.get("reward")
        advantage = record.get("advantage")
        calls = record.get("call_format")
        if advantage is not None and not abs(_number(advantage, "advantage")) <= LARGEST:
            raise ValueError(
                f"an advantage of {advantage}; it must lie between -{LARGEST:g} and {LARGEST:g}"
            )
        if binary not in (0, 1):
            raise ValueError(f"binary is {binary!r}; it must be 0 or 1")
        if end not in ENDS:
            raise ValueError(f"unknown end reason {end!r}; there are {', '.join(ENDS)}")
        return Rollout(
            resolved=resolved,
            expected=expected,
            binary=int(binary),
            format=_number(record.get("format", 0.0), "format"),
            reward=None if reward is None else _number(reward, "reward"),
            end=end,
            advantage=advantage,
            labels=_labels(record) if "labels" in record else (),
            added=added_fields(record),
            calling=_count(record, "calling", expected),
            replies=_count(record, "replies"),
            call_format=None if calls is None else _number(calls, "call_format"),
        )


def _labels(record: JsonMapping) -> tuple[Label, ...]:
    """The labels of a rollout's record, which has some. Raises ValueError for labels that no
    rollout can have."""
    labels = record["labels"]
    expected = record["expected"]
    if not isinstance(labels, list) or len(labels) > expected:
        raise ValueError(
            f"labels is {labels!r}; it must be a list of at most {expected}, one for each turn "
            f"played"
        )
    if unknown := [label for label in labels if label not in LABELS]:
        raise ValueError(f"unknown label {unknown[0]!r}; there are {', '.join(LABELS)}")
    return tuple(labels)


def _count(record: JsonMapping, name: str, most: int | None = None) -> int | None:
    """A count of a record, None where it has none. Raises ValueError unless it is a whole number
    from 0 to `most`."""
    value = record.get(name)
    bound = WHOLE if most is None else most + 1
    if value is not None and (type(value) is not int or not 0 <= value < bound):
        raise ValueError(
            f"{name} is {value!r}; it must be a whole number, "
            f"{f'0 to {most}' if most else '0 or more'}"
        )
    return value


def resolved_and_expected(record: Any) -> tuple[int, int]:
    """The resolved and the expected turns of a rollout's record. Raises ValueError where they are
    no such numbers."""
    if not isinstance(record, dict):
        raise ValueError(f"a rollout is {record!r}; it must be an object")
    for name in ("resolved", "expected"):
        if type(record.get(name)) is not int:  # a bool is an int to isinstance
            instead = "" if name in record else ", unless the group has a `reward`"
            raise ValueError(
                f"{name} is {record.get(name)!r}; it must be a whole number of turns{instead}"
            )
    resolved = record["resolved"]
    expected = record["expected"]
    if not 0 <= resolved <= expected or expected < 1:
        raise ValueError(f"resolved {resolved} of {expected} turns is impossible")
    return resolved, expected


@frozen
class Group:
    """The rollouts of one task in one step."""

    task: str  #: the task's id
    stage: int  #: of the curriculum, from 1
    interface: str  #: the exact version of what the policy was shown; `identity` is the plain one
    #: `reward.kind` in a record: what the rollouts are scored by; `value` is a reward of your own
    reward: RewardKind
    range: tuple[float, float]  #: `reward.range` in a record: the reward's lowest and highest value
    rollouts: tuple[Rollout, ...]  #: at least one
    #: `retest`: a retired task that is tried again; `drawn`: drawn for the step, and no window
    #: is kept
    role: Role = "active"
    #: windows are kept by it: what all versions share of an interface that changes while the
    #: policy learns; empty: the version itself
    lineage: str = ""
    #: only with `rollouts.refill`, where it is true: it counts like any other, but the update was
    #: computed without it, since its rollouts were all rewarded alike
    replaced: bool = False

    @property
    def disagrees(self) -> bool:
        """Whether its rollouts were rewarded differently: only then has any of them an advantage
        over the others."""
        rewards = (one.reward for one in self.rollouts)
        return len({rounded(reward) for reward in rewards if reward is not None}) > 1

    def as_json(self) -> JsonObject:
        return present(
            task=self.task,
            role=self.role,
            replaced=self.replaced or None,
            stage=self.stage,
            interface=self.interface,
            lineage=self.lineage or None,
            reward={"kind": self.reward, "range": list(self.range)},
            rollouts=[rollout.as_json() for rollout in self.rollouts],
        )

    @staticmethod
    def from_json(record: JsonObject) -> "Group":
        """Raises ValueError naming the field at fault."""
        try:
            reward = record["reward"]
            stage = record["stage"]
            if type(stage) is not int or not 0 < stage < WHOLE:
                raise ValueError(f"stage is {stage!r}; it must be a whole number from 1")
            rollouts = tuple(Rollout.from_json(item) for item in record["rollouts"])
            low, high = (
                _number(bound, "a bound of the reward's range") for bound in reward["range"]
            )
            group = Group(
                task=record["task"],
                stage=stage,
                interface=record.get("interface", "identity"),
                reward=reward["kind"],
                range=(low, high),
                rollouts=rollouts,
                role=record.get("role", "active"),
                lineage=record.get("lineage", ""),
                replaced=record.get("replaced", False),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"a group lacks or misshapes {error}") from error
        if type(group.replaced) is not bool:
            raise ValueError(f"replaced is {group.replaced!r}; it must be true or false")
        if not (math.isfinite(high - low) and low < high):
            raise ValueError(
                f"the reward's range is [{low}, {high}]; give two finite numbers, the lower one "
                f"first"
            )
        for rollout in rollouts:
            if rollout.reward is not None and not low <= rollout.reward <= high:
                raise ValueError(
                    f"a reward of {rollout.reward} lies outside its range [{low}, {high}]"
                )
            if group.reward == "value":
                _check_value(rollout, low, high)
        for name in ("task", "interface", "lineage"):
            value = record.get(name, "")
            if not (isinstance(value, str) and value.isprintable() and len(value) <= LONGEST_NAME):
                raise ValueError(
                    f"{name} is {str(value)[:80]!r}; it must be a name of at most {LONGEST_NAME} "
                    "printable characters"
                )
        if not rollouts:
            raise ValueError("a group needs at least one rollout")
        if math.lcm(*(rollout.expected for rollout in rollouts)) >= WHOLE:
            raise ValueError("the expected turns of its rollouts have no common multiple in reach")
        if group.reward not in REWARD_KINDS:
            raise ValueError(f"unknown reward kind {group.reward!r}")
        if group.role not in ROLES:
            raise ValueError(f"unknown role {group.role!r}")
        return group


def millionths(reward: Any, low: Any, high: Any) -> int:
    """How far into its range [`low`, `high`] a reward lies, from 0 to `MILLIONTHS`. One beyond it
    by less than counts, as a sum of floats may be, is at the bound. Raises ValueError outside."""
    least, most = (_number(bound, "a bound of the reward's range") for bound in (low, high))
    value = _number(reward, "reward")
    if math.isfinite(most - least) and least < most:
        part = (value - least) / (most - least) * MILLIONTHS
        if -0.5 <= part <= MILLIONTHS + 0.5:
            return round(part)
    raise ValueError(f"a reward of {value} lies outside its range [{least}, {most}]")


def _check_value(rollout: Rollout, low: float, high: float) -> None:
    """Raises ValueError where the two integers of a rollout are not its reward."""
    if rollout.reward is None and rollout.valid:
        raise ValueError("a rollout of kind value says no reward")
    counted = 0 if rollout.reward is None else millionths(rollout.reward, low, high)
    if (rollout.resolved, rollout.expected) != (counted, MILLIONTHS):
        what = (
            f"resolved {rollout.resolved} of {rollout.expected} is not the reward {rollout.reward}"
        )
        raise ValueError(f"{what}, which is {counted} millionths of its range: leave both out")


@frozen
class Update:
    """What the update after a step has shown (None: unknown): the `entropy` of the policy that made
    the rollouts, in nats a token over its own trained tokens at the temperature of sampling; the
    gradient's norm before clipping."""

    entropy: float | None = None
    gradient_norm: float | None = None

    def as_json(self) -> dict[str, float]:
        """What is known, to 6 decimals; a number that JSON cannot say is not."""
        return {
            name: round(value, 6)
            for name, value in present(**asdict(self)).items()
            if math.isfinite(value)
        }

    @staticmethod
    def from_json(record: JsonMapping) -> "Update":
        """Raises ValueError naming the field at fault."""
        fields = present(entropy=record.get("entropy"), gradient_norm=record.get("gradient_norm"))
        for name, value in fields.items():
            if _number(value, name) < 0:
                raise ValueError(f"{name} is {value!r}; it must be a finite number, at least 0")
        return Update(**fields)


def _number(value: Any, name: str) -> float:
    """`value`, if it is a finite number. Raises ValueError that names it."""
    if type(value) not in (float, int) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{name} is {value!r:.80}; it must be a number, and finite")
    return float(value)
