"""BFCL's own prompts, by its own harness, in a worker: what ours are compared with."""

from __future__ import annotations

import contextlib
import copy
import importlib
import sys
from typing import Any

from rods.family.benchmarks.bfcl.scorer import Scorer

TARGET = "tests.family.benchmarks.bfcl.official_prompts:answer"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """By id: the first message of prompt mode, the native tools by turn, and what is said when
    tools return."""
    with contextlib.redirect_stdout(sys.stderr):
        scorer = Scorer(request["wheel"])
        utils: Any = importlib.import_module("bfcl_eval.model_handler.utils")
        prompts: Any = importlib.import_module("bfcl_eval.constants.default_prompts")
    handler = scorer.handlers["native"]
    found: dict[str, Any] = {}
    for category in request["categories"]:
        for entry in scorer.utils.load_dataset_entry(category):
            asked = copy.deepcopy(entry)
            first = utils.system_prompt_pre_processing_chat_model(
                asked["question"][0], asked["function"], asked["id"]
            )
            returned = {
                turn: prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING.format(
                    functions=documents
                )
                for turn, documents in entry.get("missed_function", {}).items()
            }
            tools = []
            for turn in range(len(entry["question"])):
                entry["function"].extend(entry.get("missed_function", {}).get(str(turn), []))
                tools.append(handler._compile_tools({}, entry)["tools"])
            found[entry["id"]] = {"first": first, "returned": returned, "tools": tools}
    return found
