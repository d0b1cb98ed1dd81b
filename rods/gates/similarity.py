"""When two tasks are near duplicates, and an index that finds them (DESIGN §5.6).

Two tasks match when one of these holds:

- `ground_truth`: their ground-truth calls are equal as canonical JSON, turn by turn;
- `state`: their initial states are equal and hold something;
- `query`: a query of one and a query of the other have a word 8-gram Jaccard index of at least 0.5. A query under
  8 words has no 8-gram: it matches only an equal query (after normalisation) with equal calls in its turn. The fixed
  sentence with which held-out tools return is nobody's own and never compared.

The index answers exactly, not by sampling. A query of n grams shares at least ⌈n/2⌉ of them with whatever it matches,
so any ⌊n/2⌋ + 1 of its grams lead to every match; the rarest are asked, which keeps common phrases cheap.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from rods.canonical import canonical
from rods.tasks import RETURN_SENTENCE, Task

GRAM = 8  # words
THRESHOLD = 0.5
Rule = Literal["ground_truth", "state", "query"]
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """Why a task is a near duplicate, and of which. `turn` (from 0, of the task asked about) for the rule `query`."""

    rule: Rule
    other: str
    turn: int | None = None

    def __str__(self) -> str:
        if self.rule == "ground_truth":
            return f"its ground truth equals that of task {self.other}"
        if self.rule == "state":
            return f"its initial state equals that of task {self.other}"
        return f"its query of turn {self.turn} nearly repeats one of task {self.other}"


class SimilarityIndex:
    """Tasks, findable by similarity. `add` and `find` cost what the task's own texts cost, not what the index holds,
    unless very many tasks share long phrases."""

    def __init__(self) -> None:
        self._owners: list[str] = []  # task ids in the order of adding; "" once removed
        self._numbers: dict[str, int] = {}
        self._truths: dict[int, list[int]] = {}
        self._states: dict[int, list[int]] = {}
        self._short: dict[int, list[int]] = {}  # (query, calls) → tasks
        self._long: list[tuple[int, array[int]]] = []  # a long query: its task, its gram hashes
        self._grams: dict[int, int | list[int]] = {}  # gram hash → the long queries that have it

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, id: str) -> bool:
        return id in self._numbers

    def add(self, task: Task) -> None:
        """Adds `task`; adding it again changes nothing."""
        if task.id in self._numbers:
            return
        number = len(self._owners)
        self._owners.append(task.id)
        self._numbers[task.id] = number
        if (truth := _truth(task)) is not None:
            self._truths.setdefault(truth, []).append(number)
        if (state := _state(task)) is not None:
            self._states.setdefault(state, []).append(number)
        for _, query in _queries(task):
            if isinstance(query, int):
                self._short.setdefault(query, []).append(number)
            else:
                self._add_long(number, query)

    def remove(self, id: str) -> None:
        """Forgets the task called `id`; does nothing when it is not there."""
        number = self._numbers.pop(id, None)
        if number is not None:
            self._owners[number] = ""  # its entries stay and are skipped

    def find(self, task: Task) -> Match | None:
        """The first match by rule (in the order above), then by order of adding. A task never matches itself."""
        return next(self.matches(task), None)

    def matches(self, task: Task) -> Iterator[Match]:
        """All matches, each (rule, other, turn) once: by rule, turn and order of adding."""
        if (truth := _truth(task)) is not None:
            yield from self._named("ground_truth", task, self._truths.get(truth, ()))
        if (state := _state(task)) is not None:
            yield from self._named("state", task, self._states.get(state, ()))
        for turn, query in _queries(task):
            numbers = self._short.get(query, ()) if isinstance(query, int) else self._alike(query)
            yield from self._named("query", task, numbers, turn)

    def _named(self, rule: Rule, task: Task, numbers: Any, turn: int | None = None) -> Iterator[Match]:
        for number in sorted(set(numbers)):
            if (other := self._owners[number]) and other != task.id:
                yield Match(rule, other, turn)

    def _add_long(self, number: int, grams: array[int]) -> None:
        query = len(self._long)
        self._long.append((number, grams))
        for gram in grams:
            known = self._grams.get(gram)
            if known is None:
                self._grams[gram] = query  # most grams have one owner: no list for them
            elif isinstance(known, int):
                self._grams[gram] = [known, query]
            else:
                known.append(query)

    def _alike(self, grams: array[int]) -> Iterator[int]:
        owners = [self._grams.get(gram, ()) for gram in grams]
        rarest = sorted(([each] if isinstance(each, int) else each for each in owners), key=len)
        candidates = {query for each in rarest[: len(grams) // 2 + 1] for query in each}
        own = set(grams)
        for candidate in candidates:
            number, others = self._long[candidate]
            shared = len(own.intersection(others))
            if shared >= THRESHOLD * (len(own) + len(others) - shared):
                yield number


def _truth(task: Task) -> int | None:
    if not any(task.calls):
        return None
    return _hash([[call.as_json() for call in turn] for turn in task.calls])


def _state(task: Task) -> int | None:
    """A BFCL record also names classes without a world (mathematics) and a flag for padding: only its scenario counts,
    as long as it starts from one."""
    state: Any = task.state
    if task.environment.name == "bfcl" and state and "objects" not in state:
        state = state.get("config")
    return _hash(state) if _holds(state) else None


def _holds(value: Any) -> bool:
    """Whether a state says anything at all: {"Math": {}} does not."""
    if isinstance(value, dict):
        return any(_holds(item) for item in value.values())
    return value is not None and value != []


def _queries(task: Task) -> Iterator[tuple[int, int | array[int]]]:
    """(turn, gram hashes) of each query of the task's own; for a short one the hash of itself and its calls."""
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        words = _words(text)
        if words == RETURN_WORDS:
            continue
        if len(words) < GRAM:
            yield turn, _hash([words, [call.as_json() for call in calls]])
        else:
            yield turn, array("q", set(_grams(words)))


def _words(text: str) -> list[str]:
    """Normalisation: case folded, runs of letters and digits."""
    return WORD.findall(text.casefold())


def _grams(words: list[str]) -> Iterator[int]:
    return map(hash, zip(*(words[start:] for start in range(GRAM)), strict=False))


def _hash(value: Any) -> int:
    """64 bits of the canonical bytes. They never leave the process, so Python's own keyed hash will do."""
    return hash(canonical(value))


RETURN_WORDS = _words(RETURN_SENTENCE)
