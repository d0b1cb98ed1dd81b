"""A failure that a tool tells as an ordinary result: what it looks like is said by rules of the
world's description, and a result under one is an error of the tool from then on.

A rule is a JSON object of one of these, and where `tools` names some, holds for these alone:

    {"field": "status", "values": ["error", "failed"]}
    {"field": "error"}     any value of it but null, false, 0 and what is empty
    {"begins": "Error"}    what a text begins with, a regular expression

A field inside of another is written with a dot ("result.status"). The text of an object that holds
nothing else, as servers wrap it, is looked at too. Nothing here needs pydantic, which confined
processes do not load."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rods.canonical import JsonMapping
from rods.environments.base import Result, value_of

Rule: TypeAlias = JsonMapping
_LISTS = ("values", "tools")


def rules(declared: Sequence[Rule] | None) -> Sequence[Rule] | None:
    """What a description declares, as it is. Raises ValueError for what is no rule."""
    for rule in declared or ():
        lists = all(isinstance(rule.get(name, []), list) for name in _LISTS)
        either = bool(rule.get("field")) != bool(rule.get("begins"))
        if not (lists and either) or rule.keys() - {"field", "begins", *_LISTS}:
            raise ValueError(
                f"{rule} is no rule: it has either `field` or `begins`, and may list the `values` "
                f"of the field and the `tools` for which it holds"
            )
        try:
            re.compile(rule.get("begins", ""))
        except re.error as error:
            raise ValueError(f"{rule} has no regular expression: {error}") from None
    return declared


def failed(declared: Sequence[Rule] | None, tool: str, result: Result) -> Result:
    """`result` of `tool`, with its text as an error where one of the rules says that it is one."""
    if result.error is None and any(holds(rule, tool, result) for rule in declared or ()):
        return Result(result.text, None, "tool")
    return result


def holds(rule: Rule, tool: str, result: Result) -> bool:
    """Whether the ordinary `result` of `tool` tells of a failure by this rule."""
    if tool not in rule.get("tools", [tool]):
        return False
    if "begins" in rule:
        return re.match(rule["begins"], text_of(result)) is not None
    value = value_of(result)
    for key in rule["field"].split("."):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        value = value.get(key) if isinstance(value, Mapping) else None
    # 1 is not true
    same = [other for other in rule.get("values", ()) if repr(other) == repr(value)]
    return bool(same if rule.get("values") else value)


def text_of(result: Result) -> str:
    """What a result says: the one text that its value is, or holds alone; else its own text."""
    value = value_of(result)
    while isinstance(value, (list, Mapping)) and len(value) == 1:
        value = next(iter(value.values() if isinstance(value, Mapping) else value))
    return (value if isinstance(value, str) else result.text).strip()
