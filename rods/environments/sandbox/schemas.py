"""A tool as JSON, and back with everything looked at: the other side may be anything."""

from __future__ import annotations

from typing import Any

from rods.environments.base import Parameter, Tool


def tool_as_json(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "group": tool.group,
        "description": tool.description,
        "bounded": tool.bounded,
        "result": None if tool.result is None else dict(tool.result),
        "parameters": [
            {
                "name": parameter.name,
                "schema": dict(parameter.schema),
                "description": parameter.description,
                "required": parameter.required,
                "default": parameter.default,
                "bounds": dict(parameter.bounds),
            }
            for parameter in tool.parameters
        ],
    }


def tool_from_json(record: Any) -> Tool:
    """Raises ValueError, TypeError or KeyError for what is no tool."""
    return Tool(
        _of(record["name"], str),
        _of(record["group"], str),
        _of(record["description"], str),
        tuple(
            Parameter(
                _of(part["name"], str),
                _of(part["schema"], dict),
                _of(part["description"], str),
                _of(part["required"], bool),
                part["default"],
                _of(part["bounds"], dict),
            )
            for part in _of(record["parameters"], list)
        ),
        _of(record["bounded"], bool),
        None if record["result"] is None else _of(record["result"], dict),
    )


def _of(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r:.80} should be a {kind.__name__}")
    return value
