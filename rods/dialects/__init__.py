"""The text forms of tools, calls and results: `tags` (Environment Tuning), `hermes` (Hermes/Qwen), `compact` (nano)."""

from __future__ import annotations

from typing import Literal

from rods.dialects.base import Dialect

TERSE = frozenset({"compact"})  # their policies read a few words where others read a sentence


def load(name: Literal["tags", "hermes", "compact"], prompt: Literal["plain", "resourceful"] = "plain") -> Dialect:
    """The dialect called `name`; `prompt` chooses between the two system prompts of `tags` and is unused elsewhere."""
    from rods.dialects.compact import Compact
    from rods.dialects.tags import Hermes, Tags

    return Tags(prompt) if name == "tags" else Hermes() if name == "hermes" else Compact()
