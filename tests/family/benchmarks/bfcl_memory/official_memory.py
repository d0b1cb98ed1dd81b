"""BFCL's own harness at a scenario of its memory, with a scripted policy: what ours is compared with."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np

from bench.fixtures.llm_stub.replies import embedding
from rods.family.benchmarks.bfcl.scorer import Scorer
from tests.family.benchmarks.bfcl_memory.player import answer

TARGET = "tests.family.benchmarks.bfcl_memory.official_memory:play"


class _Encoder:
    """In the place of the sentence transformer: the stub's embeddings, at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def get_sentence_embedding_dimension(self) -> int:
        return len(embedding(""))

    def encode(self, texts: list[str], *, normalize_embeddings: bool) -> Any:
        vectors = np.array([embedding(text) for text in texts])
        assert normalize_embeddings
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


class _Index:
    """In the place of faiss: the nearest so far are kept, and the worst of them, of equal ones the earliest, gives way
    to what is nearer; the nearest come first, of equal ones the latest."""

    def __init__(self, _: Any) -> None:
        self.reset()

    def reset(self) -> None:
        self.vectors: dict[int, Any] = {}

    def add_with_ids(self, vectors: Any, ids: Any) -> None:
        assert vectors.dtype == np.float32 and len(vectors) == len(ids)
        self.vectors |= dict(zip(ids.tolist(), vectors, strict=True))

    def remove_ids(self, ids: Any) -> None:
        self.vectors = {known: vector for known, vector in self.vectors.items() if known not in ids}

    def search(self, queries: Any, count: int) -> Any:
        best: list[tuple[Any, int, int]] = []
        for place, (known, vector) in enumerate(self.vectors.items()):
            best.append((np.dot(vector, queries[0]), place, known))
            if len(best) > count:
                others = best[:-1]
                best.remove(min(others) if best[-1][0] > min(others)[0] else best[-1])
        best.sort(reverse=True)
        return [[score for score, _, _ in best]], [[known for _, _, known in best]]


def _stand_in() -> None:
    """For what the memory of vectors imports."""
    encoder, faiss = types.ModuleType("sentence_transformers"), types.ModuleType("faiss")
    vars(encoder)["SentenceTransformer"] = _Encoder
    vars(faiss).update(IndexFlatIP=int, IndexIDMap=_Index)
    sys.modules.update(sentence_transformers=encoder, faiss=faiss)


def play(request: dict[str, Any]) -> dict[str, Any]:
    """{"wheel", "category", "scenario", "form", "questions"} → by id: the messages of every request, and the result."""
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        _stand_in()
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
