"""What the stub is told to do, and its choice for each request."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

# Failures of the machinery, then answers of a model that was wrong, then odd but good answers.
MACHINERY = (
    "429",  # too many requests, Retry-After: 0
    "429_date",  # the same with a date a second away
    "500",
    "503",
    "reset",  # the connection dies before a byte
    "reset_midway",  # and in the middle of the body
    "stall",  # nothing ever comes
    "stall_midway",  # half the body, then nothing
    "truncated",  # half the body, then an orderly end
    "cut_json",  # half the JSON, with a Content-Length that says it is all
    "html",  # a proxy's page with status 200
    "garbage",  # JSON, but no completion
)
REFUSALS = ("429_hour", "400", "no_room", "401", "404", "redirect")
MODEL = (
    "empty_choices",
    "null_content",
    "length",  # cut at max_tokens
    "wrong_tags",  # another tag than asked for
    "prose",  # prose around JSON
    "not_json",
)
ODD = ("surrogates", "big_numbers", "not_utf8", "huge", "no_usage", "bad_usage", "chunked", "close", "parts")
FAULTS = MACHINERY + REFUSALS + MODEL + ODD


@dataclass(slots=True)
class Script:
    """`latency` in seconds, or the two ends of an even spread. `slots`: so many answers are written at a time, the rest
    queue inside (0: no limit). `faults`: probability by name. `rules`: (text, fault) pairs, a request that contains the
    text always gets the fault; they go first. `refuse_schema`: 400 for every response_format. `key`: what clients must
    send as a bearer token."""

    random_seed: int = 0
    latency: float | tuple[float, float] = 0.0
    slots: int = 0
    faults: dict[str, float] = field(default_factory=dict)
    rules: list[tuple[str, str]] = field(default_factory=list)
    answer_bytes: int = 1000
    answer: str = ""
    model: str = "stub"
    max_model_len: int = 32_768
    refuse_schema: bool = False
    key: str = ""

    def __post_init__(self) -> None:
        unknown = (set(self.faults) | {fault for _, fault in self.rules}) - set(FAULTS)
        if unknown:
            raise ValueError(f"no such fault: {', '.join(sorted(unknown))}")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Chance:
    """The script's decisions, in the order of requests: the n-th request meets the same fate under the same seed."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._random = random.Random(script.random_seed)
        self.answer = _function(script.answer) if script.answer else None

    def fault(self, body: bytes) -> str:
        """The fault that this request meets; empty for none."""
        script = self.script
        for text, fault in script.rules:
            if text.encode() in body:
                return fault
        if not script.faults:
            return ""
        draw = self._random.random()
        for name, probability in script.faults.items():
            if draw < probability:
                return name
            draw -= probability
        return ""

    def latency(self) -> float:
        latency = self.script.latency
        return self._random.uniform(*latency) if isinstance(latency, (tuple, list)) else latency


def _function(name: str) -> Callable[[dict[str, Any]], str]:
    module, _, function = name.partition(":")
    found: Callable[[dict[str, Any]], str] = getattr(importlib.import_module(module), function)
    return found
