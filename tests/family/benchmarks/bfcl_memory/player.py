"""A policy for questions about earlier conversations, a function of what it is shown: in a
conversation it writes the user's words into its memory, turn by turn; a question it answers with
what it is shown of its memory, or finds there.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.fixtures.llm_stub.replies import embedding
from bench.fixtures.search_player import is_result, spoken

ASKED = "'answer':"  # stands in the system prompt of questions alone
ARCHIVE = "archival_memory_retrieve"
KEPT = ("Michael", "Seattle", "35", "espresso", "deadline", "meeting", "dentist")


def said(messages: Sequence[Mapping[str, Any]], kind: str) -> tuple[str, dict[str, Any]] | str:
    """A call, or an answer."""
    system = str(messages[0]["content"])
    last = messages[-1]
    result = is_result(last)
    if ASKED in system and kind == "vector":
        found = sum(map(is_result, messages))
        asked = str(next(message["content"] for message in messages if message["role"] == "user"))
        if found < 2:
            return (
                ("core_memory_retrieve", {"query": asked, "top_k": 3})
                if found
                else (ARCHIVE, {"query": asked})
            )
        return json.dumps(
            {"answer": str(messages[-1]["content"])[-2000:], "context": "My memory says so."}
        )
    if ASKED in system:
        shown = system.partition("previous interactions:\n")[2].partition(
            "\n\nFor your final answer"
        )[0]
        return json.dumps({"answer": shown[-2000:], "context": "My memory says so."})
    if result:
        return "Noted."
    words = " ".join(dict.fromkeys(word for word in KEPT if word in str(last["content"])))
    text = f"{words} {str(last['content'])[:60]} (so it was said)"
    number = sum(message["role"] == "user" for message in messages)
    if kind == "vector":
        added: tuple[str, dict[str, Any]] = (
            "core_memory_add" if number % 2 else "archival_memory_add",
            {"text": text},
        )
        others: dict[int, tuple[str, dict[str, Any]]] = {
            3: ("core_memory_update", {"vec_id": 0, "new_text": text}),
            4: ("core_memory_remove", {"vec_id": 1}),
            5: ("core_memory_retrieve", {"query": text}),
        }
        return others.get(number % 6, added)
    made = {"text": f"{text}\n"} if kind == "rec_sum" else {"key": f"note_{number}", "value": text}
    return "memory_append" if kind == "rec_sum" else "core_memory_add", made


def answer(request: dict[str, Any]) -> Any:
    """For the stub server."""
    shown = json.dumps(request.get("tools") or request["messages"][0]["content"])
    marks = {"memory_append": "rec_sum", "core_memory_key_search": "kv"}
    kind = next((kind for mark, kind in marks.items() if mark in shown), "vector")
    return spoken(request, said(request["messages"], kind))


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
    """In the place of faiss: the nearest so far are kept, and the worst of them, of equal ones the
    earliest, gives way to what is nearer; the nearest come first, of equal ones the latest."""

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


def modules(_: Any) -> dict[str, types.ModuleType]:
    """In the place of what the memory of vectors imports."""
    encoder = types.ModuleType("sentence_transformers")
    faiss = types.ModuleType("faiss")
    vars(encoder)["SentenceTransformer"] = _Encoder
    vars(faiss).update(IndexFlatIP=int, IndexIDMap=_Index)
    return {"sentence_transformers": encoder, "faiss": faiss}
