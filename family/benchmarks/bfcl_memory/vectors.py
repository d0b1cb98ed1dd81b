"""BFCL V4's memory of vectors: the wheel's own class, with an encoder behind an endpoint in the
place of the one that the package loads, and a search of all entries in the place of faiss.

A text is embedded when a search first compares it, not when it is written: what is never searched
costs nothing, and a conversation begins without waiting. Memories share what is known of a text."""

import json
from collections.abc import Sequence
from heapq import heappush, heapreplace
from operator import index
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np

from rods.canonical import JsonMapping, JsonObject, only
from rods.episode.model_thread import ModelThread
from rods.errors import InfrastructureError
from rods.family.benchmarks.bfcl.harness import taken
from rods.family.benchmarks.bfcl_memory.memory import LIMITS, MemoryBackend, MemoryWorld
from rods.llm import Client, Request
from rods.worlds.bfcl import wheel

STORES = "core_memory", "archival_memory"
AT_ONCE = 32  # texts of a request; what some servers take at most
MOST_KEPT = 4_096  # texts whose vectors are kept
# vLLM's word for as many tokens as the encoder takes, which is what BFCL's does
CUT = {"truncate_prompt_tokens": -1}


class Encoder:
    """The unit vectors of texts, by a model behind `line`, from whichever thread."""

    def __init__(self) -> None:
        self.line: ModelThread | None = None
        self._by_text: dict[str, np.ndarray] = {}
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """float32, a row of length 1 (or 0) for each of `texts`. Raises InfrastructureError where
        the endpoint fails, or answers with vectors of different lengths."""
        with self._lock:
            vectors = only(self._by_text, texts)
        lacking = [text for text in dict.fromkeys(texts) if text not in vectors]
        for start in range(0, len(lacking), AT_ONCE):
            part = lacking[start : start + AT_ONCE]
            vectors |= zip(part, self._asked(part), strict=True)
        with self._lock:
            self._by_text |= vectors
            for text in list(self._by_text)[: max(0, len(self._by_text) - MOST_KEPT)]:
                del self._by_text[text]
        try:
            return np.stack([vectors[text] for text in texts])
        except ValueError as error:
            raise InfrastructureError(f"the encoder's vectors are not alike: {error}") from error

    def _asked(self, texts: Sequence[str]) -> list[np.ndarray]:
        assert self.line is not None
        try:
            answer = self.line.ask(lambda client: _embedded(client, texts))
        except InfrastructureError as error:
            raise InfrastructureError(f"the encoder: {error}") from error
        vectors = [np.asarray(vector) for vector in answer]
        return [(vector / (np.linalg.norm(vector) or 1.0)).astype(np.float32) for vector in vectors]


async def _embedded(client: Client, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """One request for all of `texts`; where one does not fit the encoder, another that has them
    cut."""
    for extra in ({}, CUT):
        completion = await client.complete(Request("encoder", texts=texts, extra=extra))
        if completion.embeddings:
            return completion.embeddings
    longest = max(map(len, texts))
    raise InfrastructureError(f"it takes no text of {longest} characters, and does not cut it")


class Index:
    """What the wheel's class uses of faiss: an exact search by inner product among texts with
    ids."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._texts: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._texts)

    def add_with_ids(self, texts: Sequence[str], ids: Any) -> None:
        if len(texts) != len(ids):
            raise AssertionError
        self._texts |= zip(map(int, ids), texts, strict=True)

    def remove_ids(self, ids: Any) -> None:
        for number in ids:
            del self._texts[int(number)]

    def reset(self) -> None:
        self._texts.clear()

    def search(
        self, queries: Sequence[str], count: int
    ) -> tuple[list[list[float]], list[list[int]]]:
        """Scores and ids of the `count` texts nearest to the first query, in the shape that faiss
        gives them, and of equally near ones those that it finds, in its order. Raises
        AssertionError for no count, as there."""
        if not count > 0:
            raise AssertionError
        *vectors, asked = self._encoder([*self._texts.values(), queries[0]])
        # the worst first
        ids = [*self._texts]
        best = list[tuple[float, int]]()
        for place, score in enumerate(float(vector @ asked) for vector in vectors):
            if len(best) < index(count):
                heappush(best, (score, place))
            elif score > best[0][0]:
                heapreplace(best, (score, place))
        best.sort(reverse=True)
        return [[score for score, _ in best]], [[ids[place] for _, place in best]]


class VectorBackend(MemoryBackend):
    """The environment of the memory of vectors."""

    def __init__(self, backend: str) -> None:
        self.encoder = Encoder()
        super().__init__(backend)

    def reset(self, state: JsonMapping | None) -> "VectorWorld":
        return VectorWorld(self, state or {})

    def _taken(self, member: str) -> type:
        faiss = SimpleNamespace(IndexFlatIP=lambda dimension: self.encoder, IndexIDMap=Index)
        names = {"MemoryAPI": object, "np": np, "json": json, "faiss": faiss, "ENCODER_DIM": 0}
        module = taken(wheel.path(), member, (self.owner, "VectorStore", *LIMITS), names)
        module["VectorStore"]._embed = staticmethod(_texts)
        kind: type = module[self.owner]
        return kind


def _texts(text: Any) -> list[str]:
    """In the place of their vectors."""
    texts = text if isinstance(text, list) else [text]
    if not all(isinstance(one, str) for one in texts):
        raise TypeError("only texts have vectors")
    return texts


class VectorWorld(MemoryWorld):
    """One memory of vectors."""

    def _load(self, state: JsonMapping) -> None:
        for name, kept in state.items():
            getattr(self._memory, name).load_from_snapshot(kept)

    def snapshot(self) -> JsonObject:
        kept: JsonObject = json.loads(
            json.dumps({name: getattr(self._memory, name).export() for name in STORES})
        )
        return kept
