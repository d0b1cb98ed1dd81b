"""Failures that repeat become due at a step that depends on the records alone."""

from __future__ import annotations

from typing import Any

import orjson

from rods.family.feedback import failures
from rods.family.feedback.failures import Mining
from rods.family.feedback.settings import Feedback

RULES = Feedback(rollouts=4, tasks=2)


def group(task: str, *failed: str, rollouts: int = 1) -> dict[str, Any]:
    failures = [
        {"tool": "t", "pattern": words, "count": 2, "shapes": {"a": words[0]}} for words in failed
    ]
    return {"task": task, "rollouts": [{"failures": failures}] * rollouts + [{}]}


def test_a_failure_is_due_once_enough_rollouts_of_enough_tasks_have_met_it() -> None:
    found = Mining(RULES)
    found.apply(1, [group("one", "x", rollouts=9)])
    assert found.due() == []  # of one task
    found.apply(2, [group("two", "x", "y")])
    found.apply(3, [group("three", "y", rollouts=3), group("two", "y")])
    assert [(one.pattern, one.due, one.rollouts, one.calls, one.tasks) for one in found.due()] == [
        ("x", 2, 10, 20, ["one", "two"]),
        ("y", 3, 5, 10, ["two", "three"]),
    ]


def test_at_most_so_many_kinds_are_due() -> None:
    found = Mining(Feedback(rollouts=1, tasks=1, texts=2))
    found.apply(1, [group("one", "c", "b", "a")])
    assert [one.pattern for one in found.due()] == ["a", "b"]


def test_its_state_goes_through_json() -> None:
    found = Mining(RULES)
    again = Mining(RULES)
    found.apply(1, [group("one", "x", "y", rollouts=3), group("two", "x")])
    again.load(orjson.loads(orjson.dumps(found.state())))
    for one in (found, again):
        one.apply(2, [group("two", "y")])
    assert found.state() == again.state() and found.due() == again.due()


def test_memory_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(failures, "KEPT", 3)
    found = Mining(RULES)
    found.apply(1, [group(f"task{number}", *"abcdef") for number in range(20)])
    kinds = found.state()
    assert [kind["pattern"] for kind in kinds] == ["a", "b", "c"]
    assert all(len(kind["tasks"]) == RULES.tasks + failures.EXAMPLES for kind in kinds)
