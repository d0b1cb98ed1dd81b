"""Rules say what failure looks like where a tool tells it as an ordinary result."""

from typing import Any

import pytest

from rods.environments.base import Result
from rods.environments.failing import failed, rules
from rods.environments.typed import TypedEnvironment
from tests.worlds.failing.desks import Bays, silent_bays, told_bays

ERROR = {"field": "status", "values": ["error", "failed"]}
MEAN_IT = [
    (ERROR, Result('{"status":"error","message":"no"}', {"status": "error", "message": "no"})),
    (ERROR, Result('{"status": "failed"}')),
    (ERROR, Result('[{"status": "failed"}]')),
    ({"field": "result.status", "values": ["error"]}, Result('{"result": {"status": "error"}}')),
    ({"field": "error"}, Result('{"error": "no such bay"}')),
    ({"field": "error"}, Result('{"error": {"code": 7}}')),
    ({"field": "success", "values": [False]}, Result('{"success": false}')),
    ({"begins": "Database error"}, Result("Database error: no such table: notes")),
    ({"begins": "Error"}, Result('{"result":"Error: gone"}', {"result": "Error: gone"})),
    ({"begins": "Error"}, Result('"Error: gone"', "Error: gone")),
    ({"begins": r"\*\*Error"}, Result("  **Error:** there is no page 9")),
    ({"begins": r"Task \d+ not found$"}, Result("Task 9 not found")),
    ({"begins": ".* does not exist"}, Result("The file does not exist")),
    ({**ERROR, "tools": ["show"]}, Result('{"status": "error"}')),
]
MEAN_NOTHING = [
    (ERROR, Result('{"status": "done"}')),
    (ERROR, Result('{"mail": {"status": "error"}}')),
    (ERROR, Result("error")),
    ({**ERROR, "tools": ["get_job"]}, Result('{"status": "error"}')),
    ({"field": "error"}, Result('{"error": null, "bay": "B1"}')),
    ({"field": "error"}, Result('{"error": "", "errors": []}')),
    ({"field": "error"}, Result('[{"error": "a"}, {"error": "b"}]')),
    ({"field": "success", "values": [False]}, Result('{"success": 0}')),
    ({"begins": "Error"}, Result('{"subject": "Error", "from": "ada"}')),
    ({"begins": "Error"}, Result("No Error")),
]


@pytest.mark.parametrize(("rule", "result"), MEAN_IT)
def test_a_result_under_a_rule_is_an_error_with_the_text_that_it_had(
    rule: dict[str, Any], result: Result
) -> None:
    assert failed(rules([rule]), "show", result) == Result(result.text, None, "tool")


@pytest.mark.parametrize(("rule", "result"), MEAN_NOTHING)
def test_a_result_under_no_rule_stays_as_it_is(rule: dict[str, Any], result: Result) -> None:
    assert failed(rules([rule]), "show", result) is result
    assert failed(None, "show", result) is result


def test_what_is_an_error_already_keeps_its_kind() -> None:
    result = Result("Error: no such argument", None, "bad_arguments")
    assert failed(rules([{"begins": "Error"}]), "show", result) is result


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"field": "error", "begins": "Error"},
        {"field": "status", "values": "error"},
        {"begins": "**Error"},
        {"begins": "Error", "tool": "show"},
        {"begins": "Error", "tools": "show"},
    ],
)
def test_what_is_no_rule_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"rule|regular expression"):
        rules([record])
    with pytest.raises(ValueError, match=r"rule|regular expression"):
        TypedEnvironment("desks.py:bays", Bays, behaviour=1, fails=[record])


def test_rules_are_part_of_what_a_world_is() -> None:
    assert silent_bays().hash != told_bays().hash
