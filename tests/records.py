"""Records that hold all that their kind asks for, for tests of what is done with records of
whichever content."""

from __future__ import annotations

from typing import Any

from rods.buffers.log.record_bytes import SHAPES, Record, record

LEAST: dict[str, Any] = {
    **{
        "text": "",
        "count": 0,
        "whole": 0,
        "positive": 1,
        "number": 0,
        "flag": False,
        "id": "0" * 20,
        "end": "finished",
    },
    **{"object": {}, "list": [], "any": ""},
}


def filled(kind: str, **fields: Any) -> Record:
    """A record with these fields, and the least that its kind asks for in the others."""
    return record(
        kind,
        **(
            {name: value for name, value in _least(SHAPES.get(kind, {})).items() if name != "first"}
            | fields
        ),
    )


def _least(shape: Any) -> Any:
    if isinstance(shape, str):
        return None if shape.endswith("?") else LEAST[shape]
    if isinstance(shape, list):
        return []
    asked = {name: inner for name, inner in shape.items() if name != "*" and name[-1] != "?"}
    return {name: _least(inner) for name, inner in asked.items()}
