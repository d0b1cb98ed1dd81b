"""The repository that comes with the project: as large and as varied as it says, and quick to
read."""

from __future__ import annotations

from typing import Any

from rods.family.simulation.documents import OF_MANY
from rods.family.simulation.repository import shipped


def kinds(schema: Any) -> set[str]:
    """Types and keywords in a parameter's schema."""
    found = {key for key in ("enum", "pattern", "format") if key in schema} | {
        schema.get("type", "")
    }
    for inner in [schema.get("items"), *schema.get("properties", {}).values()]:
        if inner:
            found |= {f"inner {kind}" for kind in kinds(inner)}
    return found


def test_it_has_enough_tools_of_every_kind() -> None:
    repository = shipped()
    assert len(repository.tools) >= 100 and len(repository.categories) >= 12
    assert all(7 <= len(repository.of(category)) <= 12 for category in repository.categories)
    parameters = [
        parameter for one in repository.tools.values() for parameter in one.tool.parameters
    ]
    found = set().union(*(kinds(parameter.schema) for parameter in parameters))
    assert {
        "string",
        "integer",
        "number",
        "boolean",
        "array",
        "object",
        "enum",
        "pattern",
        "format",
    } <= found
    assert "inner object" in found and "inner integer" in found
    assert sum(not parameter.required for parameter in parameters) > 50
    assert all(parameter.description for parameter in parameters)
    assert {one.effect.does for one in repository.tools.values() if one.effect} == {
        *("creates", "reads", "lists", "finds", "changes", "removes", "looks_up")
    }


def test_every_tool_says_what_it_returns_and_does() -> None:
    for one in shipped().tools.values():
        assert (
            one.tool.result is not None and one.tool.result["properties"] and one.effect is not None
        ), one.where
        assert one.tool.description.endswith(".") and one.tool.description.split()[0].endswith(
            "s"
        ), one.where


def test_what_is_created_can_be_met_again() -> None:
    """Things of a kind are read, listed, changed or removed by some other tool, unless nothing else
    is known of it."""
    created = {
        one.effect.entity
        for one in shipped().tools.values()
        if one.effect and one.effect.does == "creates"
    }
    used = {
        one.effect.entity
        for one in shipped().tools.values()
        if one.effect and one.effect.does in {"reads", "changes", "removes"} | OF_MANY
    }
    assert created <= used | {"refund"}
