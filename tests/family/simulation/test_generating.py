"""Tasks drawn without a model: their calls conform, their users know what is needed, and no two are
much alike."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from rods.analysis.containment import Text, leaves
from rods.analysis.schemas import Checker, limits
from rods.environments.base import Parameter, Tool
from rods.errors import UserError
from rods.family.simulation.difficulty import Levels, levels
from rods.family.simulation.documents import SimulatedTool, ToolRepository, from_environment
from rods.family.simulation.generating import CRITERIA, WANTED, DrawnTask, _request, draw_task
from rods.family.simulation.repository import shipped
from rods.family.simulation.settings import DifficultyRules
from rods.gates.similarity import SimilarityIndex
from rods.tasks import EnvironmentRef, Task
from tests.environments import load

EASY = Levels(tools=1, calls=1, turns=0, system=0, persona=0, ambiguity=0, criteria=0)


@cache
def drawn() -> tuple[DrawnTask, ...]:
    """A thousand tasks as a run would draw them, from the easiest to the hardest."""
    keys = [(difficulty, slot) for difficulty in range(1, 101, 3) for slot in range(30)][:1000]
    rules = DifficultyRules()
    return tuple(draw_task(shipped(), levels(rules, d, 4, d, slot), 4, d, slot) for d, slot in keys)


def values(task: DrawnTask) -> list[Any]:
    return [leaf for call in task.calls for _, leaf in leaves(dict(call.arguments))]


def test_every_expected_call_satisfies_its_tool_s_schema() -> None:
    tools = shipped().tools
    assert len(drawn()) == 1000
    for task in drawn():
        for call in task.calls:
            by_name = {each.name: each for each in tools[call.name].tool.parameters}
            required = {name for name, each in by_name.items() if each.required}
            assert required <= call.arguments.keys() <= by_name.keys()
            for name, value in call.arguments.items():
                assert Checker(limits(by_name[name])).fault(value) == "", call


def test_a_task_has_what_its_levels_ask_for() -> None:
    for task in drawn():
        given = task.levels
        assert len(task.tools) == len(set(task.tools)) == given.tools
        assert 1 <= len(task.calls) <= given.calls and {call.name for call in task.calls} <= set(
            task.tools
        )
        assert len({str(call) for call in task.calls}) == len(task.calls)
        assert 1 + len(task.further) == min(given.expected_turns, len(task.calls))
        assert task.criteria == CRITERIA[: given.criteria + 1] and task.first_query and task.manner
    short = sum(len(task.calls) < task.levels.calls for task in drawn())
    assert short < 30  # one tool that takes nothing, or little, cannot be called three times


def test_tools_come_from_one_category_until_it_has_no_more() -> None:
    repository = shipped()
    for task in drawn():
        counts = Counter(repository.tools[name].tool.group for name in task.tools)
        whole = [
            category for category, count in counts.items() if count == len(repository.of(category))
        ]
        assert len(counts) - len(whole) <= 1


def test_what_is_expected_is_said_or_known() -> None:
    for task in drawn():
        known = Text.of(" | ".join([task.first_query, *task.further, *task.knows.values()]))
        missing = [
            each
            for each in values(task)
            if not isinstance(each, bool) and not known.contains_any_form(each)
        ]
        assert not missing, (missing, task)
        flags = [
            name
            for call in task.calls
            for name, each in call.arguments.items()
            if isinstance(each, bool)
        ]
        assert all(task.knows[name.replace("_", " ")] in ("yes", "no") for name in flags)


def test_ambiguity_hides_what_it_says_it_hides() -> None:
    hiding: Counter[int] = Counter()
    for task in drawn():
        text = Text.of(task.first_query)
        first = [topic for topic in task.hidden if topic != WANTED]
        for topic in first:
            words = task.knows[topic]
            assert words in ("yes", "no") or not text.contains_any_form(words), (topic, task)
        hiding[task.levels.ambiguity] += bool(first)
        if task.levels.ambiguity == 0:
            assert not task.hidden
            first_call = [
                leaf
                for _, leaf in leaves(dict(task.calls[0].arguments))
                if not isinstance(leaf, bool)
            ]
            assert all(text.contains_any_form(leaf) for leaf in first_call)
        assert (WANTED in task.hidden) == (task.levels.ambiguity == 2)
        if task.levels.ambiguity == 2:
            assert task.knows[WANTED] not in task.first_query
    asked = Counter(task.levels.ambiguity for task in drawn())
    assert hiding[1] > 0.95 * asked[1] > 0 and hiding[2] > 0.95 * asked[2] > 0


def test_nothing_is_used_after_it_was_removed_or_ended() -> None:
    tools = shipped().tools
    for task in drawn():
        gone: set[tuple[str, Any]] = set()
        for call in task.calls:
            effect = tools[call.name].effect
            assert effect is not None
            named = {(name, str(value)) for name, value in call.arguments.items()}
            assert gone.isdisjoint(named), task
            if effect.does == "removes":
                gone.add((effect.key, str(call.arguments[effect.key])))


def test_days_of_one_call_go_forward() -> None:
    pairs = [("check_in", "check_out"), ("from_date", "to_date")]
    found = 0
    for call in (call for task in drawn() for call in task.calls):
        for first, last in pairs:
            if first in call.arguments and last in call.arguments:
                assert call.arguments[first] <= call.arguments[last]
                found += 1
    assert found > 10


def test_a_draw_depends_on_its_keys_alone() -> None:
    hard = levels(DifficultyRules(soft=0), 100, 0, 1, 0)
    one = draw_task(shipped(), hard, 7, 3, 5)
    again = draw_task(shipped(), hard, 7, 3, 5)
    assert one == again
    others = {
        draw_task(shipped(), hard, *keys).first_query
        for keys in ((8, 3, 5), (7, 4, 5), (7, 3, 6), (7, 3, 5))
    }
    assert len(others) == 4


def as_scripted(task: DrawnTask) -> Task:
    """For the index of near duplicates, which knows scripted tasks."""
    return Task(
        EnvironmentRef("drawn", "1"), "base", (task.first_query,), (task.calls,), task.tools
    )


def test_near_duplicates_are_few() -> None:
    """By the rule that variants are refused by: equal ground truth, or queries of much the same
    words."""
    index = SimilarityIndex()
    alike = Counter[str]()
    for task in map(as_scripted, drawn()):
        if match := index.find(task):
            alike[match.rule] += 1
        index.add(task)
    assert alike.total() <= 25, alike
    hard = levels(DifficultyRules(adaptive=False), 100, 0, 1, 0)
    index = SimilarityIndex()
    vague = 0
    for slot in range(300):
        task = as_scripted(draw_task(shipped(), hard, 1, 1, slot))
        vague += index.find(task) is not None
        index.add(task)
    assert vague <= 5


def test_any_environment_s_tools_will_do_or_it_is_told_why_not() -> None:
    task = draw_task(
        from_environment(load("desk")), levels(DifficultyRules(soft=0), 60, 0, 1, 0), 0, 1, 0
    )
    assert task.calls and task.first_query
    riddle = Parameter("code", {"type": "string", "pattern": "^(?:[a-f]+-)*z$", "maxLength": 80})
    tool = SimulatedTool(Tool("open", "doors", "Opens a door.", (riddle,), bounded=False))
    with pytest.raises(
        UserError, match=r"the tool repository: 20 drawings gave no tool .* → give parameters"
    ):
        draw_task(ToolRepository({"open": tool}, {"doors": "Doors."}), EASY, 0, 1, 0)


@pytest.mark.parametrize(
    ("about", "request_text"),
    [
        ("Books a seat on a flight.", "book a seat on a flight"),
        ("Searches the shop for products. Slow.", "search the shop for products"),
        ("Applies a patch.", "apply a patch"),
        ("Closes a ticket.", "close a ticket"),
        ("Accesses a file.", "access a file"),
        ("Fixes a date.", "fix a date"),
        ("Search issues", "search issues"),
    ],
)
def test_a_description_becomes_a_request(about: str, request_text: str) -> None:
    assert _request(Tool("x", "y", about)) == request_text
