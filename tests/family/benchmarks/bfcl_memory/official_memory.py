"""BFCL's own harness at a scenario of its memory, with a scripted policy: what ours is compared with."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rods.family.benchmarks.bfcl.scorer import Scorer
from tests.family.benchmarks.bfcl_memory.player import answer

TARGET = "tests.family.benchmarks.bfcl_memory.official_memory:play"


def play(request: dict[str, Any]) -> dict[str, Any]:
    """{"wheel", "category", "scenario", "form", "questions"} → by id: the messages of every request, and the result."""
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        scorer = Scorer(request["wheel"])
        handler, native = scorer.handlers[request["form"]], request["form"] == "native"
        asked: list[Any] = []

        def query(data: dict[str, Any]) -> tuple[Any, float]:
            body = {"messages": copy.deepcopy(data["message"])} | ({"tools": data["tools"]} if native else {})
            asked.append(copy.deepcopy(body["messages"]))
            return answer(body), 0.0

        def parsed(reply: Any) -> dict[str, Any]:
            text, ids = reply, []
            message: dict[str, Any] = {"role": "assistant", "content": reply}
            if isinstance(reply, dict):
                functions = [one["function"] for one in reply["tool_calls"]]
                text = [{one["name"]: one["arguments"]} for one in functions]
                ids, message = ["x"] * len(functions), {"role": "assistant", **reply}
            return {
                "model_responses": text,
                "model_responses_message_for_chat_history": message,
                "tool_call_ids": ids,
                "input_token": 0,
                "output_token": 0,
            }

        handler._query_FC = handler._query_prompting = query
        handler._parse_query_response_FC = handler._parse_query_response_prompting = parsed
        entries = scorer.utils.load_dataset_entry(request["category"])
        entries = [entry for entry in entries if entry["scenario"] == request["scenario"]]
        questions = [entry for entry in entries if "prereq" not in entry["id"]][: request["questions"]]
        entries = [entry for entry in entries if "prereq" in entry["id"]] + questions
        scorer.utils.populate_initial_settings_for_memory_test_cases(entries, Path(folder))
        found = {}
        for entry in entries:
            asked.clear()
            result, _ = handler.inference(entry, True, True)
            found[entry["id"]] = json.loads(json.dumps({"asked": asked, "result": result}))
        return found
