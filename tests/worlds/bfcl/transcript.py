"""BFCL's golden transcript: what the ground truths of one task in twenty gave, and every tool once
without arguments.

Written anew by `python -m tests.worlds.bfcl.transcript` when the behaviour changes on purpose,
together with a higher `world.BEHAVIOUR`. `--digest` prints one line, so that processes can be
compared.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from rods.calls import Call
from rods.worlds.bfcl import environment, tasks
from rods.worlds.bfcl.classes import MODULES
from rods.worlds.bfcl.world import BEHAVIOUR

GOLDEN = Path(__file__).with_name("transcript.json")


def transcript() -> dict[str, Any]:
    """Digests and errors by task, in order, and those of the bare calls."""
    bfcl = environment()
    found: dict[str, Any] = {"behaviour": BEHAVIOUR, "hash": bfcl.hash, "tasks": {}, "bare": {}}
    for task in tasks()[::20]:
        world = bfcl.reset(task.state)
        results = [world.call(call) for turn in task.calls for call in turn]
        state = json.dumps(world.snapshot(), sort_keys=True)
        found["tasks"][task.provenance["id"]] = _digest(
            [*(result.text for result in results), state]
        )
    for long_context in (False, True):
        world = bfcl.reset({"classes": list(MODULES), "config": {}, "long_context": long_context})
        for name in bfcl.tools():
            result = world.call(Call(name, {}))
            found["bare"].setdefault(name, []).append([result.error, _digest([result.text])])
    return found


def _digest(texts: list[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


if __name__ == "__main__":
    if "--digest" in sys.argv:
        print(_digest([json.dumps(transcript(), sort_keys=True)]))
    else:
        GOLDEN.write_text(json.dumps(transcript(), indent=1) + "\n", encoding="utf-8")
