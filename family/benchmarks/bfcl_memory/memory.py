"""BFCL V4's memories as environments: the wheel's own classes, taken by name, and their documents.
Results have the texts of BFCL's executor; a state is what the class itself would write into its
snapshot."""

import copy
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rods.calls import Call
from rods.canonical import Json, JsonMapping, JsonObject
from rods.environments.base import Features, Instance, Result
from rods.errors import InfrastructureError
from rods.family.benchmarks.bfcl.harness import taken
from rods.family.benchmarks.bfcl.questions import WheelTools, executed
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.classes import SOURCES
from rods.worlds.bfcl.execution import PREFIX

BEHAVIOUR = 1  # to be raised when equal calls may give other results
MAX_MEMORY = 1_000_000  # characters; BFCL's own limits let `memory_replace` go far beyond
_SIZES = ("MEMORY_ENTRY_LENGTH", "CORE_MEMORY_SIZE", "CORE_MEMORY_ENTRY_LENGTH")
LIMITS = [
    f"MAX_{name}" for name in (*_SIZES, "ARCHIVAL_MEMORY_SIZE", "ARCHIVAL_MEMORY_ENTRY_LENGTH")
]


class MemoryBackend(WheelTools):
    """The environment of one backend."""

    features = Features()

    def __init__(self, backend: str) -> None:
        owner = f"MemoryAPI_{backend}"
        super().__init__(f"memory_{backend}", owner, behaviour=BEHAVIOUR, backend=backend)
        self.name = f"bfcl_memory_{backend}"
        self.kind = self._taken(f"{SOURCES}/memory_{backend}.py")

    def reset(self, state: JsonMapping | None) -> "MemoryWorld":
        return MemoryWorld(self, state or {})

    def _taken(self, member: str) -> type:
        names = {
            "MemoryAPI": object,
            "BM25Plus": BM25Plus,
            "json": json,
            "re": re,
            "deepcopy": copy.deepcopy,
        }
        kind: type = taken(wheel.path(), member, (self.owner, *LIMITS), names)[self.owner]
        return kind


class MemoryWorld:
    """One memory. `shown` is what of it stands in the system prompt, `begun` what an episode has
    begun with, `trouble` what broke that is not the policy's."""

    trouble = ""
    begun: Mapping[str, Json] = {}

    def __init__(self, backend: MemoryBackend, state: JsonMapping) -> None:
        self._backend = backend
        self._memory = backend.kind()
        self._load(state)

    def _load(self, state: JsonMapping) -> None:
        vars(self._memory).update(copy.deepcopy(dict(state)))

    @property
    def shown(self) -> str:
        return str(self._memory._dump_core_memory_to_context())

    def call(self, call: Call) -> Result:
        try:
            if call.name == "memory_replace" and self._grown(**call.arguments) > MAX_MEMORY:
                return Result(
                    f"{PREFIX}the memory would be longer than {MAX_MEMORY} characters",
                    None,
                    "bounds",
                )
            return executed(self._memory, self._backend.tools(), call)
        except InfrastructureError as error:
            self.trouble = str(error)
            raise

    def _grown(self, old_text: Any = "", new_text: Any = "", **_: Any) -> int:
        """How long the memory is after a replacement."""
        memory: str = self._memory.memory
        return len(memory) + memory.count(str(old_text)) * (len(str(new_text)) - len(str(old_text)))

    def snapshot(self) -> JsonObject:
        kept = {
            key: value
            for key, value in vars(self._memory).items()
            if not key.startswith(("_", "snapshot"))
        }
        return copy.deepcopy(kept)

    def fork(self) -> "MemoryWorld":
        return self._backend.reset(self.snapshot())

    def same_state(self, other: Instance) -> bool:
        return isinstance(other, MemoryWorld) and self.snapshot() == other.snapshot()


class BM25Plus:
    """BM25+ (Lv and Zhai, 2011) with k1 = 1.5, b = 0.75, delta = 1: what the wheel uses of the
    package rank_bm25, and equal to it in every bit, since the same steps are taken in the same
    order. Raises ZeroDivisionError for no document at all, as there."""

    def __init__(self, corpus: Sequence[Sequence[str]]) -> None:
        self._counts = [Counter(document) for document in corpus]
        self._lengths = [len(one) for one in corpus]
        self._average = sum(self._lengths) / len(corpus)
        self._documents = Counter(word for counts in self._counts for word in counts)

    def get_scores(self, query: Sequence[str]) -> list[float]:
        """The score of each document."""
        scores = [0.0] * len(self._counts)
        for word in query:
            rarity = (
                math.log((len(scores) + 1) / self._documents[word])
                if word in self._documents
                else 0
            )
            for place, (counts, length) in enumerate(zip(self._counts, self._lengths, strict=True)):
                longer = 1.5 * (1 - 0.75 + 0.75 * length / self._average)
                scores[place] += rarity * (1 + (counts[word] * 2.5) / (longer + counts[word]))
        return scores
