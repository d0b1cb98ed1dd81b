"""Draws scenarios in a world of a skeleton (003 §4 without a model): the witness is built call by
call in the world itself, and says what is asked for and what is checked. Things are called by their
labels, so that keys have to be looked up, which are calls of the witness, too. Requests may build
on each other. `grow` draws a world, controls it, and says which of its scenarios were dropped and
why."""

import copy
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random
from rods.config import Sandbox
from rods.conversations import Persona, Script
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.checking import scenarios as controls
from rods.family.environments.checking.worlds import check_world
from rods.family.environments.procedural.operations import (
    Operation,
    assembled,
    documentation,
    operations,
    plan,
)
from rods.family.environments.procedural.skeletons import Skeleton, draw_skeleton, draw_state, words
from rods.tasks import OpenTask, Split
from rods.worlds.checking import CheckReport

Mode = Literal["told", "asked"]  # non-conversational and conversational (003 §4.3)
REQUESTS = (1, 4)  # of a scenario, at least and at most
GUARDS = (0, 2)
TRIES = 40  # drawings of a request that the world accepts
LIKE_TRIES = 150  # drawings of a scenario that is like another one
# How often a kind of change is drawn; links carry the rules.
WEIGHTS = {"set": 3, "move": 2, "add": 1, "remove": 1, "open": 4, "advance": 4}
# of a drawing, by a change that the world accepts
ALTERED = ("witness", "shown", "requests", "touched")
OPENERS = ("Please see to the following: ", "I need this done: ", "Here is what has to happen: ")
CONFINED = Sandbox(workers=1, seconds=10.0)  # a busy machine's clock is no fault of a world
STATES = 2  # in which a world is controlled, beside the empty one
MANNER = "Says one request at a time, and what it knows only when asked."


@frozen
class _Request:
    """A change that was made: of what (its table and key), by which operation, in words with and
    without `details`."""

    operation: Operation
    table: str
    key: str
    text: str
    brief: str
    details: Mapping[str, str]


def draw_scenario(
    skeleton: Skeleton, environment: Environment, random_seed: int, number: int
) -> controls.Scenario | None:
    """Scenario `number` of a random seed, before any control; None where the world accepts too few
    of the changes that were tried."""
    rng = keyed_random(random_seed, "scenario", skeleton.topic, number)
    drawing = _Drawing(skeleton, environment, draw_state(skeleton, random_seed, number), rng)
    for _ in range(rng.randint(*REQUESTS)):
        if not drawing.request():
            return None
    return drawing.scenario(GUARDS)


def draw_like(
    skeleton: Skeleton,
    environment: Environment,
    seed: controls.Scenario,
    mode: Mode,
    random_seed: int,
    *keys: str | int,
    same: bool = False,
) -> tuple[controls.Scenario, controls.Validated]:
    """A scenario with the profile of `seed`, and what its controls found. It changes things by
    other tools, where in `LIKE_TRIES` draws there was such a one; with `same`: by the same. Raises
    LookupError, which says what was in the way."""
    tools = environment.tools()
    wanted = controls.profile(tools, seed, asked=mode == "asked")
    changed = controls.changed_by(tools, seed.witness)
    met = Counter[str]()
    spare = None
    for number in range(LIKE_TRIES):
        rng = keyed_random(random_seed, "scenario", skeleton.topic, *keys, number)
        drawing = _Drawing(
            skeleton, environment, draw_state(skeleton, random_seed, *keys, number), rng, wanted
        )
        if not all(drawing.request() for _ in range(changed.total())):
            met["the world accepted too few changes"] += 1
            continue
        scenario = drawing.scenario((wanted.guards, wanted.guards))
        if controls.profile(tools, scenario, asked=mode == "asked") != wanted:
            met["another profile"] += 1
            continue
        alike = controls.changed_by(tools, scenario.witness) == changed
        if alike != same and (same or spare is not None):
            met["other tools" if same else "the same tools"] += 1
            continue
        validated = controls.validate(environment, scenario)
        if validated.faults:
            met[next(controls.reasons(validated))] += 1
        elif alike == same:
            return scenario, validated
        else:
            spare = scenario, validated
    if spare is None:
        counts = ", ".join(f"{count} {what}" for what, count in met.most_common())
        raise LookupError(
            f"none of {LIKE_TRIES} scenarios of its world has its profile and passes: {counts}"
        )
    return spare


def task(
    skeleton: Skeleton,
    environment: Environment,
    scenario: controls.Scenario,
    validated: controls.Validated,
    mode: Mode = "told",
    split: Split = "train",
    origin: JsonMapping | None = None,
) -> OpenTask:
    """The scenario as a task. `told` says everything at once; `asked` is a user who is played.
    Witness, guards, mutants and where it comes from (`origin`) are kept in provenance."""
    requests = scenario.requests
    numbered = " ".join(f"({number}) {text}" for number, text in enumerate(requests, 1))
    opener = keyed_random(0, "opener", *requests).choice(OPENERS)
    whole = opener + (numbered if len(requests) > 1 else requests[0])
    user: Script | Persona = Script((whole,))
    if mode == "asked":
        turns = len(requests) + len(scenario.knows) + 2
        user = Persona(whole, scenario.brief, scenario.knows, MANNER, turns, tuple(requests[1:]))
    provenance = {"source": "generated", "topic": skeleton.topic, **(origin or {})}
    return controls.as_task(
        environment, scenario, validated, user, split, documentation(skeleton), provenance
    )


class _Drawing:
    """A scenario while it is drawn; one that may not come to more than the profile `like` has."""

    def __init__(
        self,
        skeleton: Skeleton,
        environment: Environment,
        state: JsonObject,
        rng: random.Random,
        like: controls.ScenarioProfile | None = None,
    ) -> None:
        self.skeleton = skeleton
        self.rng = rng
        self.state = state
        self.like = like
        self.tools = environment.tools()
        self.instance = environment.reset(copy.deepcopy(state))
        self.operations = operations(skeleton)
        self.now: JsonObject = self.instance.snapshot()
        self.kinds = {kind.noun: kind for kind in skeleton.kinds}
        self.tables = {kind.noun: kind.plural for kind in skeleton.kinds} | {
            skeleton.link.noun: skeleton.link.plural
        }
        self.witness: list[controls.WitnessCall] = []
        self.shown: dict[str, int] = {}  # key → the call of the witness whose result has shown it
        self.requests: list[_Request] = []
        self.touched: set[tuple[str, str]] = set()  # (key, attribute or role)

    def request(self) -> bool:
        """Draws changes until the world accepts one; whether it did."""
        changes = [change for change in self.operations if change.role in WEIGHTS]
        roles = sorted({change.role for change in changes})
        for _ in range(TRIES):
            role = self.rng.choices(roles, [WEIGHTS[name] for name in roles])[0]
            operation = self.rng.choice([change for change in changes if change.role == role])
            kinds = controls.kinds_of(self.tools, self.witness)
            group = self.tools[operation.name].group
            if self.like and kinds[group, False] >= self.like.groups.get(group, (0, 0))[1]:
                continue  # the profile has no other change in the operation's group
            arguments = self._arguments(operation)
            if arguments is None:
                continue
            key = str(arguments.get(operation.noun, ""))
            about = operation.detail if role == "set" else role
            if (key, about) in self.touched or (
                role == "remove" and any(key == other for other, _ in self.touched)
            ):
                continue
            before = self.now
            backup = {name: copy.copy(getattr(self, name)) for name in ALTERED}
            fork = self.instance.fork() if self.like else self.instance
            result = self.instance.call(Call(operation.name, arguments))
            if result.error is not None:
                continue
            self.now = self.instance.snapshot()
            self._accepted(operation, arguments, result.value, before)
            if self.like is None or self._fits(self.like):
                return True
            self.__dict__.update(backup, now=before, instance=fork)
        return False

    def _fits(self, like: controls.ScenarioProfile) -> bool:
        """Whether there are at most as many calls of each kind and checks as in the profile."""
        kinds = controls.kinds_of(self.tools, self.witness).items()
        within = all(
            count <= like.groups.get(group, (0, 0))[0 if reads else 1]
            for (group, reads), count in kinds
        )
        return within and len(self._checks()) <= like.checks

    def _arguments(self, operation: Operation) -> JsonObject | None:
        arguments: JsonObject = {}
        for slot in operation.slots:
            if slot.takes == "key":
                keys = list(self.now[self.tables[slot.of]])
                fresh = [key for key in keys if key not in self.state[self.tables[slot.of]]]
                if not keys:
                    return None
                arguments[slot.name] = self.rng.choice(
                    fresh if fresh and self.rng.random() < 0.5 else keys
                )
            elif slot.takes == "label":
                kind = self.kinds[slot.of]
                used = {entry[kind.label] for entry in self.now[kind.plural].values()}
                if not (free := [label for label in kind.labels if label not in used]):
                    return None
                arguments[slot.name] = self.rng.choice(free)
            else:
                assert slot.attribute is not None
                arguments[slot.name] = slot.attribute.draw(self.rng)
        return arguments

    def _accepted(
        self, operation: Operation, arguments: JsonObject, value: Any, before: JsonObject
    ) -> None:
        takes = {
            slot.name: self._looked_up(slot.of, arguments[slot.name], before)
            for slot in operation.slots
            if slot.takes == "key"
        }
        self.witness.append(controls.WitnessCall(Call(operation.name, arguments), takes))
        key = str(arguments.get(operation.noun, ""))
        if operation.role in ("add", "open"):
            key = str(value)
            self.shown[key] = len(self.witness) - 1
        self.touched |= {(taken, "") for name, taken in arguments.items() if name in takes}
        self.touched.add((key, operation.detail if operation.role == "set" else operation.role))
        text, brief, details = self._words(operation, arguments, before)
        self.requests.append(
            _Request(operation, self.tables[operation.noun], key, text, brief, details)
        )

    def _looked_up(self, noun: str, key: str, before: JsonObject) -> int:
        """The number of the call that has shown this key; where none has, one that does is
        added."""
        if key in self.shown:
            return self.shown[key]
        takes: dict[str, int] = {}
        if noun in self.kinds:
            role = "find"
            arguments = {self.kinds[noun].label: self._called(noun, key, before)}
        else:
            holder = self.skeleton.holder.noun
            role = "links"
            arguments = {holder: before[self.tables[noun]][key][holder]}
            takes[holder] = self._looked_up(holder, arguments[holder], before)
        look_up = next(
            operation
            for operation in self.operations
            if (operation.role, operation.noun) == (role, noun)
        )
        self.witness.append(controls.WitnessCall(Call(look_up.name, arguments), takes))
        self.shown[key] = len(self.witness) - 1
        return self.shown[key]

    def _called(self, noun: str, key: str, state: JsonMapping) -> str:
        """The label of a thing."""
        return str(state[self.tables[noun]][key][self.kinds[noun].label])

    def _ends(self, entry: JsonMapping, state: JsonMapping) -> dict[str, str]:
        """The labels of the two that a link names."""
        nouns = (self.skeleton.holder.noun, self.skeleton.item.noun)
        return {noun: self._called(noun, entry[noun], state) for noun in nouns}

    def _words(
        self, operation: Operation, arguments: JsonMapping, before: JsonObject
    ) -> tuple[str, str, dict[str, str]]:
        """What is asked for: with its details, without them, and the details by topic."""
        holder = self.skeleton.holder.noun
        item = self.skeleton.item.noun
        names = dict(arguments)
        if operation.noun == self.skeleton.link.noun:
            opens = operation.role == "open"
            ends = self._ends(
                arguments if opens else before[self.skeleton.link.plural][names[operation.noun]],
                before,
            )
            names |= {"holder": ends[holder], "item": ends[item]}
        else:
            keys = [slot for slot in operation.slots if slot.takes == "key"]
            names |= {
                slot.name: self._called(slot.of, arguments[slot.name], before) for slot in keys
            }
        details = {
            words(slot.name): words(str(arguments[slot.name]))
            for slot in operation.slots
            if slot.attribute
        }
        brief = operation.brief.format(**names)
        listing = ", ".join(f"{name}: {value}" for name, value in details.items())
        text = f"{brief} ({listing})" if listing else brief
        if operation.asks:
            text = operation.asks.format(**names | {"value": details[words(operation.detail)]})
        facts = {name: f"The {name} should be {value}." for name, value in details.items()}
        return f"{text[0].upper()}{text[1:]}.", f"{brief[0].upper()}{brief[1:]}.", facts

    def scenario(self, guards: tuple[int, int]) -> controls.Scenario:
        """What was drawn, with the checks of what it came to."""
        first = self.requests[0]
        requests = tuple(request.text for request in self.requests)
        checks = tuple(self._checks())
        guard_calls = tuple(self._guards(guards))
        return controls.Scenario(
            self.state,
            requests,
            tuple(self.witness),
            checks,
            guard_calls,
            first.brief,
            first.details,
        )

    def _checks(self) -> list[Call]:
        checks = [check for request in self.requests for check in self._aims(request)]
        return [check for at, check in enumerate(checks) if check not in checks[:at]]

    def _aims(self, request: _Request) -> list[Call]:
        """What is true of the final state through this request."""
        noun = request.operation.noun
        role = request.operation.role
        if role == "remove":
            label = self._called(noun, request.key, self.state)
            return [Call(f"{noun}_is_gone", {self.kinds[noun].label: label})]
        if request.key not in self.now[request.table]:
            return []  # it was taken away again
        entry = self.now[request.table][request.key]
        if role in ("open", "advance"):
            ends = self._ends(entry, self.now)
            aims = [Call(f"{noun}_is", {**ends, "stage": entry["stage"]})]
            extra = self.skeleton.link.extra
            if role == "open" and extra:
                aims.append(
                    Call(f"{noun}_{extra.name}_is", {**ends, extra.name: entry[extra.name]})
                )
            return aims
        kind = self.kinds[noun]
        name_of = {kind.label: entry[kind.label]}
        aims = []
        names = [request.operation.detail] if role == "set" else []
        if role == "add":
            aims = [Call(f"{noun}_is_known", name_of)]
            names = [attribute.name for attribute in kind.attributes]
        aims += [Call(f"{noun}_{name}_is", {**name_of, name: entry[name]}) for name in names]
        if kind.at and role != "set":
            place = self._called(kind.at, entry[kind.at], self.now)
            aims.append(Call(f"{noun}_is_in", {**name_of, kind.at: place}))
        return aims

    def _guards(self, many: tuple[int, int]) -> list[Call]:
        """Of what is to stay as it is: attributes of others that a tool could change, and how many
        of a kind there are."""
        guards = []
        touched = {key for key, _ in self.touched}
        for kind in self.skeleton.kinds:
            settable = [attribute.name for attribute in kind.attributes if attribute.settable]
            for key, entry in self.state[kind.plural].items():
                if settable and key not in touched and key in self.now[kind.plural]:
                    name = self.rng.choice(settable)
                    guards.append(
                        Call(
                            f"{kind.noun}_{name}_is",
                            {kind.label: entry[kind.label], name: entry[name]},
                        )
                    )
        for noun, table in self.tables.items():
            count = len(self.state[table])
            if count == len(self.now[table]) and self.state[table].keys() == self.now[table].keys():
                guards.append(Call(f"{noun}_count_is", {"count": count}))
        return self.rng.sample(guards, min(self.rng.randint(*many), len(guards)))


@dataclass(slots=True)
class Grown:
    """One world: its `name`, what its controls said (`report`), its tasks, and how many scenarios
    were dropped by the control that they failed ("drawing": the world accepted too few changes)."""

    name: str
    skeleton: Skeleton
    report: CheckReport
    tasks: list[OpenTask] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def grow(
    folder: Path,
    random_seed: int,
    number: int,
    scenarios: int,
    modes: Sequence[Mode],
    split: Split = "train",
    sandbox: Sandbox = CONFINED,
    topics: Sequence[str] = (),
) -> Grown:
    """World `number` of a random seed (`topics`: as in `draw_skeleton`), kept below
    `folder`, with the tasks of those of its `scenarios` that pass all controls, in turn of the
    `modes`; none where the world itself fails one. Its code runs confined as `sandbox` says."""
    skeleton = draw_skeleton(random_seed, number, topics)
    name = addressed.keep(assembled(skeleton), folder)
    place = f"{folder}/{name}"
    states = [draw_state(skeleton, random_seed, "control", at) for at in range(STATES)]
    with Environments(sandbox) as environments:
        grown = Grown(
            name,
            skeleton,
            check_world(place, plan(skeleton), states, environments, random_seed=random_seed),
        )
        if not grown.report.ok:
            return grown
        environment = environments.load(place)
        for at in range(scenarios):
            scenario = draw_scenario(skeleton, environment, random_seed, at)
            if scenario is None:
                grown.dropped["drawing"] += 1
                continue
            validated = controls.validate(environment, scenario, random_seed)
            if validated.faults:
                grown.dropped.update([next(controls.reasons(validated))])
                continue
            origin = {
                "random_seed": random_seed,
                "world": number,
                "scenario": at,
                **({"topics": list(topics)} if topics else {}),
            }
            mode = modes[at % len(modes)]
            grown.tasks.append(
                task(skeleton, environment, scenario, validated, mode, split, origin)
            )
    return grown
