"""Desk's small tasks as house rules have them: calls put in or amended where the plain one would
break a rule."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from rods.calls import Call
from rods.environments.base import reference
from rods.family.house_rules.house import House, HouseInstance
from rods.tasks import TASK_TYPES, Task
from rods.worlds.desk.generator import data_set, fresh_task


def house_tasks(
    house: House, random_seed: int, train: int, held_out: int, told: bool = False
) -> list[Task]:
    """`train` originals and `held_out` tasks apart from them, the four types in turn; each needs a
    rule at least. `told`: a user who asks for such a call says the rule."""

    def draw(purpose: str, place: int) -> Task:
        for attempt in itertools.count():
            type = TASK_TYPES[place % len(TASK_TYPES)]
            plain, _ = fresh_task(random_seed, f"house {purpose} {attempt}", place, type, "small")
            if (task := kept(house, plain)) is not None and task.provenance["rules"]:
                return with_rules(house, task) if told else task
        raise AssertionError("unreachable: attempts never end")

    return data_set(train, held_out, draw)


def keeping(instance: HouseInstance, call: Call) -> Sequence[Call]:
    """The calls that do what a plain one does, and keep to the rules."""
    rule = instance.broken(call)
    return [call] if rule is None else rule.kept_by(call)


def kept(house: House, task: Task) -> Task | None:
    """The task with calls that keep to the rules of the house; None where they do not go through
    there. `rules` of the provenance: which tools had to mind one, by turn."""
    instance = house.reset(task.state)
    tools = list(task.tools)
    turns = []
    rules = []
    hidden = {name for names in task.held_out.values() for name in names}
    for turn, plain in enumerate(task.calls):
        made: list[Call] = []
        for call in plain:
            calls = keeping(instance, call)
            rules += [[turn, call.name]] if calls != [call] else []
            if any(instance.call(one).error for one in calls):
                return None
            made += calls
        if hidden & {call.name for call in made if call not in plain} - set(task.tools_at(turn)):
            return None
        tools += [name for call in made if (name := call.name) not in tools]
        turns.append(tuple(made))
    ordered = tuple(name for name in house.tools() if name in tools)
    provenance = {"generator": "house_rules", "rules": rules}
    return replace(
        task,
        environment=reference(house),
        calls=tuple(turns),
        tools=ordered,
        provenance=provenance,
        id="",
    )


def with_rules(house: House, task: Task) -> Task:
    """The task with the rules that the calls of a turn have to mind at the end of what its user
    says there."""
    minded: dict[int, dict[str, str]] = {}
    for turn, tool in task.provenance["rules"]:
        minded.setdefault(turn, {})[tool] = f"{tool} {house.rules[tool].told.brief}"
    said = {
        turn: f"{task.script[turn]} rules {' . '.join(rules.values())}"
        for turn, rules in minded.items()
    }
    return replace(
        task, script=tuple(said.get(turn, text) for turn, text in enumerate(task.script)), id=""
    )
