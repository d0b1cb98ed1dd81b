"""BFCL's own scorer in a worker, asked for more than `rods-eval check` asks: its decoders, and an
export's tasks."""

from __future__ import annotations

import contextlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rods.family.benchmarks.bfcl.scorer import Scorer

TARGET = "tests.family.benchmarks.bfcl.official_scorer:answer"
# names of folders in bfcl_eval.utils, and where an export has them
PLACES = {
    "PROMPT_PATH": "",
    "POSSIBLE_ANSWER_PATH": "possible_answer",
    "MULTI_TURN_FUNC_DOC_PATH": "multi_turn_func_doc",
}
made = cache(Scorer)


def answer(request: dict[str, Any]) -> Any:
    """{"wheel", "form", "steps"} → call strings, None where the decoder raises; {"wheel", "form",
    "category", "file", "data"} → verdicts by id on the tasks of the export (`rods data export`) in
    the folder `data`."""
    with contextlib.redirect_stdout(sys.stderr):
        scorer = made(request["wheel"])
        if "steps" in request:
            return [decoded(scorer.handlers[request["form"]], step) for step in request["steps"]]
        for name, place in PLACES.items():
            setattr(scorer.utils, name, Path(request["data"]) / place)
        return scorer.verdicts(request["form"], request["category"], Path(request["file"]))


def decoded(handler: Any, step: Any) -> Any:
    try:
        return handler.decode_execute(step, has_tool_call_tag=False)
    except Exception:  # noqa: BLE001 as the harness has it
        return None
