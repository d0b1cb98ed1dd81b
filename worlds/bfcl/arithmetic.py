"""What the worker process runs: the two tools of MathAPI that compute with as many digits as they are asked for."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from worlds.bfcl.classes import load_type
from worlds.bfcl.execution import PREFIX
from worlds.bfcl.jsontext import write

TARGET = "worlds.bfcl.arithmetic:compute"
_load = cache(load_type)


def compute(request: dict[str, Any]) -> dict[str, Any]:
    """{"wheel", "name", "arguments"} → {"text", "failed"} as the executor would write it; `wheel` was checked by the
    parent."""
    kind = _load(Path(request["wheel"]), "MathAPI")
    try:
        value = getattr(kind, request["name"])(kind(), **request["arguments"])
        try:
            text = write(value)
        except (TypeError, ValueError):
            text = str(value)  # the numbers of mpmath and decimal are no JSON
        return {"text": text, "failed": "error" in value}
    except Exception as problem:  # noqa: BLE001 the exception is the tool's answer
        return {"text": f"{PREFIX}{problem}", "failed": True}
