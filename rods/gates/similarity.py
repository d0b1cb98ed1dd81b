"""When two tasks are near duplicates (docs/gates.md), an index that finds them, and the gates that
ask: `contamination` against held-out tasks, `repeats` among the turns of one task; pool and staging
are asked at admission (`DuplicateIndex`).

A query under 8 words has no 8-gram: it matches only an equal query (after normalisation) with equal
calls in its turn, or an equal goal. What a played user says later is not known, so only its first
query is compared. The index answers exactly: a query of n grams shares at least ⌈n/2⌉ of them with
whatever it matches, so any ⌊n/2⌋ + 1 of its grams lead to every match; the rarest are asked, which
keeps common phrases cheap. Hashes are the same in every process of one version of Python, so that
an index can be sent to another one."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, combinations, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rods.canonical import canonical, frozen
from rods.conversations import Rubric
from rods.environments import registry
from rods.environments.base import Results
from rods.faults import Reason
from rods.tasks import HELD_OUT_SPLITS, RETURN_SENTENCE, AnyTask, OpenTask, Task

GRAM = 8  # words
THRESHOLD = 0.5
COMPARED = 200  # words of a turn that are looked for in another one, in a row
PACKED = 1 << 17  # tasks that are sorted together: meanwhile they take three times the memory
Rule = Literal["ground_truth", "state", "query"]
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """Why a task is a near duplicate, and of which. `turn` (from 0, of the task asked about) for
    the rule `query`."""

    rule: Rule
    other: str
    turn: int | None = None

    def __str__(self) -> str:
        if self.rule == "ground_truth":
            return f"its ground truth equals that of task {self.other}"
        if self.rule == "state":
            return f"its initial state equals that of task {self.other}"
        return f"its query of turn {self.turn} nearly repeats one of task {self.other}"


@frozen
class _Pack:
    """Some tasks in sorted arrays, which take an eighth of what tables of Python do. Tasks are
    numbered by id, long queries in the order in which they came."""

    ids: NDArray[np.bytes_]
    keys: NDArray[np.int64]  # hashes of ground truths, states, and short queries with calls
    key_owners: NDArray[np.uint32]
    grams: NDArray[np.int64]
    gram_queries: NDArray[np.uint32]
    lengths: NDArray[np.uint32]  # of long queries, in grams
    query_owners: NDArray[np.uint32]

    @staticmethod
    def of(tasks: Iterable[AnyTask]) -> _Pack:
        numbers: dict[str, int] = {}
        keys = array("q")
        key_owners = array("I")
        grams = array("q")
        gram_queries = array("I")
        lengths = array("I")
        query_owners = array("I")
        for task in tasks:
            if numbers.setdefault(task.id, number := len(numbers)) != number:
                continue
            exact, long = _keys(task)
            keys.extend(exact)
            key_owners.extend([number] * len(exact))
            for query in long:
                grams.extend(query)
                gram_queries.extend([len(lengths)] * len(query))
                lengths.append(len(query))
                query_owners.append(number)
        return _Pack(
            np.array([id.encode() for id in numbers], np.bytes_),
            *map(np.asarray, (keys, key_owners, grams, gram_queries, lengths, query_owners)),
        ).in_order()

    def in_order(self) -> _Pack:
        """The same, with ids, keys and grams in ascending order."""
        by_id = np.argsort(self.ids)
        numbers = np.empty(len(by_id), np.uint32)
        numbers[by_id] = np.arange(len(by_id), dtype=np.uint32)
        return _Pack(
            self.ids[by_id],
            *_in_order(self.keys, numbers[self.key_owners]),
            *_in_order(self.grams, self.gram_queries),
            self.lengths,
            numbers[self.query_owners],
        )

    def joined(self, other: _Pack) -> _Pack:
        """The tasks of both."""
        moved = replace(
            other,
            key_owners=other.key_owners + np.uint32(len(self.ids)),
            gram_queries=other.gram_queries + np.uint32(len(self.lengths)),
            query_owners=other.query_owners + np.uint32(len(self.ids)),
        )
        columns = (
            np.concatenate([getattr(side, column.name) for side in (self, moved)])
            for column in fields(self)
        )
        return _Pack(*columns).in_order()

    def __contains__(self, id: str) -> bool:
        at = int(self.ids.searchsorted(id.encode()))
        return at < len(self.ids) and self._named([at]) == [id]

    def _named(self, numbers: Iterable[int]) -> list[str]:
        return [str(self.ids[number].decode()) for number in numbers]

    def exact(self, key: int) -> list[str]:
        """The tasks that have this key."""
        first = self.keys.searchsorted(key)
        last = self.keys.searchsorted(key, "right")
        return self._named(self.key_owners[first:last])

    def alike(self, own: array[int]) -> list[str]:
        """The tasks with a long query that is near to this one."""
        hashes = np.asarray(own)
        leading = hashes[: len(own) // 2 + 1]  # to every match, like any as many
        places = self.grams.searchsorted(leading)
        if not self.grams.size or not (self.grams.take(places, mode="clip") == leading).any():
            return []
        first = self.grams.searchsorted(hashes)
        last = self.grams.searchsorted(hashes, "right")
        asked = sorted(
            (self.gram_queries[begin:end] for begin, end in zip(first, last, strict=True)), key=len
        )
        candidates = np.unique(np.concatenate(asked[: len(own) // 2 + 1]))
        shared = np.zeros(len(candidates), np.int64)
        for queries in asked:
            if len(queries):
                at = np.minimum(queries.searchsorted(candidates), len(queries) - 1)
                shared += queries[at] == candidates
        near = shared >= THRESHOLD * (len(own) + self.lengths[candidates] - shared)
        return self._named(self.query_owners[candidates[near]])


def _in_order(
    keys: NDArray[np.int64], owners: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Keys in ascending order, and whose they are."""
    places = np.argsort(keys, kind="stable")
    return keys[places], owners[places]


class SimilarityIndex:
    """Tasks, findable by similarity. `find` costs what the task's own texts cost, not what the
    index holds, unless very many tasks share long phrases; so does `add`, over many. Answers depend
    on what it holds, not on the order of adding. A task takes 0.6 kB, also after `remove`. `names`:
    what reasons call some of them besides their id."""

    def __init__(
        self, tasks: Iterable[AnyTask] = (), names: Mapping[str, str] | None = None
    ) -> None:
        self.names = names or {}
        # each twice the next at least, but for those of PACKED tasks
        self._packs: list[_Pack] = []
        self._gone = set[str]()  # tasks of the packs that were removed
        rest = iter(tasks)
        while (pack := _Pack.of(islice(rest, PACKED))).ids.size:
            self._packs.append(pack)

    def __len__(self) -> int:
        return sum(len(pack.ids) for pack in self._packs) - len(self._gone)

    def __contains__(self, id: str) -> bool:
        return id not in self._gone and any(id in pack for pack in self._packs)

    def add(self, task: AnyTask) -> None:
        """Adds `task`; adding it again changes nothing."""
        if task.id in self._gone:
            self._gone.remove(task.id)
        elif task.id not in self:
            pack = _Pack.of([task])
            while self._packs and len(self._packs[-1].ids) < min(2 * len(pack.ids), PACKED):
                pack = self._packs.pop().joined(pack)
            self._packs.append(pack)

    def remove(self, id: str) -> None:
        """Forgets the task called `id`; does nothing when it is not there."""
        if id in self:
            self._gone.add(id)

    def find(self, task: AnyTask) -> Match | None:
        """The first match by rule (in the order above), turn, and id. A task never matches
        itself."""
        return next(self.matches(task), None)

    def matches(self, task: AnyTask) -> Iterator[Match]:
        """All matches, each (rule, other, turn) once: by rule, turn and id."""
        exact: tuple[tuple[Rule, list[int]], ...] = (
            ("ground_truth", _truths(task)),
            ("state", _state(task)),
        )
        for rule, keys in exact:
            yield from self._named(rule, task, chain.from_iterable(map(self._equal, keys)))
        for turn, query in _queries(task):
            if isinstance(query, int):
                owners = self._equal(query)
            else:
                owners = chain.from_iterable(pack.alike(query) for pack in self._packs)
            yield from self._named("query", task, owners, turn)

    def _named(
        self, rule: Rule, task: AnyTask, owners: Iterable[str], turn: int | None = None
    ) -> Iterator[Match]:
        for other in sorted(set(owners)):
            if other != task.id and other in self:
                yield Match(rule, other, turn)

    def _equal(self, key: int) -> Iterable[str]:
        return chain.from_iterable(pack.exact(key) for pack in self._packs)


def held_out_index(tasks: Iterable[AnyTask]) -> SimilarityIndex:
    """An index of those of `tasks` that belong to a held-out split. An item of a benchmark is
    called as its provenance does."""
    held_out = [task for task in tasks if task.split in HELD_OUT_SPLITS]
    return SimilarityIndex(
        held_out,
        {
            task.id: task.provenance["benchmark"]
            for task in held_out
            if "benchmark" in task.provenance
        },
    )


def contamination(task: AnyTask, held_out: SimilarityIndex) -> list[Reason]:
    """The held-out task that `task` matches, as a reason; empty when there is none. A held-out task
    matches itself."""
    match = None if task.id in held_out else held_out.find(task)
    if match is None and task.id not in held_out:
        return []
    what = f"it is the held-out task {task.id}" if match is None else f"held out: {match}"
    name = held_out.names.get(task.id if match is None else match.other)
    return [Reason(f"{what}, {name}" if name else what)]


def overlaps(tasks: Sequence[AnyTask]) -> list[tuple[str, Match]]:
    """Every training task among `tasks` that matches a held-out one of them, by id, with the match:
    as the data were given, listed for the user and never an error. In the order of the training
    tasks."""
    index = held_out_index(tasks)
    training = [task for task in tasks if task.split not in HELD_OUT_SPLITS]
    return [(task.id, match) for task in training for match in index.matches(task)]


def _keys(task: AnyTask) -> tuple[set[int], list[array[int]]]:
    """The hashes of its ground truth, state, and short queries with calls; the gram hashes of its
    long queries."""
    queries = [query for _, query in _queries(task)]
    short = (query for query in queries if isinstance(query, int))
    return {*_truths(task)[:1], *_state(task), *short}, [
        query for query in queries if not isinstance(query, int)
    ]


def _truths(task: AnyTask) -> list[int]:
    """What its ground truth is known by, and what else equals it: calls by turn are also those of a
    conversation, or of one turn, that makes them in this order."""
    if isinstance(task, OpenTask):
        goal = task.goal
        # by which criteria it is judged makes no other task
        expected = goal.calls if isinstance(goal, Rubric) else ()
        return [_hash("calls", [call.as_json() for call in expected] or task.as_json()["goal"])]
    assert isinstance(task, Task)
    if not any(task.calls):
        return []
    in_a_row = _hash("calls", [call.as_json() for call in task.goal_calls])
    if task.expected == 1:
        return [in_a_row]
    return [_hash("turns", [[call.as_json() for call in turn] for turn in task.calls]), in_a_row]


def _state(task: AnyTask) -> list[int]:
    """Where the environment declares a key of its states as their `scenario`, only what stands
    there counts, if any."""
    state = task.state
    world = registry.worlds().get(task.environment.name)
    if world is not None and world.scenario and state and "objects" not in state:
        state = state.get(world.scenario)
    return [_hash("state", state)] if _holds(state) else []


def _holds(value: Any) -> bool:
    """Whether a state says anything at all: {"Math": {}} does not."""
    if isinstance(value, dict):
        return any(_holds(item) for item in value.values())
    return value is not None and value != []


def repeats(task: Task, results: Results | None = None) -> list[Reason]:
    """Turns that ask again for what an earlier one had: by the words of a near duplicate, with
    equal calls; or half of a turn's words stand there in a row, with these calls among others and,
    where `results` are known, with these."""
    reasons = []
    had = [[canonical(call.as_json()) for call in calls] for calls in task.calls]
    answers = None if results is None else [[result.text for result in turn] for turn in results]
    for (before, other), (turn, query) in combinations(
        (item for item in _queries(task) if had[item[0]]), 2
    ):
        first, then = (
            list(zip(had[at], had[at] if answers is None else answers[at], strict=True))
            for at in (before, turn)
        )
        same = had[turn] == had[before] and _near(query, other)
        if same or (
            all(pair in first for pair in then)
            and _in_a_row(*(_words(task.texts[at]) for at in (turn, before)))
        ):
            reasons.append(
                Reason(
                    f"asks again, in the words of turn {before}, for the calls that it had", turn
                )
            )
    return reasons


def _in_a_row(words: Sequence[str], others: Sequence[str]) -> bool:
    # of texts without an end only the beginnings: the search takes as long as both lengths
    # multiplied
    longest = SequenceMatcher(
        None, words[:COMPARED], others[:COMPARED], autojunk=False
    ).find_longest_match()
    return longest.size >= THRESHOLD * len(words)


def _near(own: int | array[int], others: int | array[int]) -> bool:
    if isinstance(own, int) or isinstance(others, int):
        return own == others
    shared = len(set(own).intersection(others))
    return shared >= THRESHOLD * (len(own) + len(others) - shared)


def _queries(task: AnyTask) -> Iterator[tuple[int, int | array[int]]]:
    """(turn, gram hashes) of each query of the task's own; for a short one the hash of itself and
    its calls."""
    for turn, text in enumerate(task.texts):
        words = _words(text)
        if words == RETURN_WORDS:
            continue
        if len(words) < GRAM:
            wanted = (
                [call.as_json() for call in task.calls[turn]]
                if isinstance(task, Task)
                else task.as_json()["goal"]
            )
            yield turn, _hash("query", [words, wanted])
        else:
            hashes = [*map(_word, words)]  # numbers, whose tuples have the same hash everywhere
            yield (
                turn,
                array(
                    "q",
                    set(map(hash, zip(*(hashes[start:] for start in range(GRAM)), strict=False))),
                ),
            )


def _words(text: str) -> list[str]:
    """Normalisation: case folded, runs of letters and digits."""
    return WORD.findall(text.casefold())


def _hash(kind: str, value: Any) -> int:
    """64 bits of the canonical bytes."""
    return _digest(kind.encode() + b" " + canonical(value))


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


@lru_cache(maxsize=1 << 14)
def _word(word: str) -> int:
    return hash(tuple(word.encode(errors="surrogatepass")))  # a third of a digest


RETURN_WORDS = _words(RETURN_SENTENCE)


class DuplicateIndex:
    """The tasks that a new variant must not nearly repeat: originals, indexed once, and what has
    been generated, indexed anew at every epoch so that it stays small.

    In `sync=free` the latter are the generated part of the pool, and staging, to which `admit` adds
    a variant at once, without awaiting anything in between. In lockstep staging is left out: what
    two seeds write must not depend on which of them was quicker, so the merge refuses near
    duplicates among candidates."""

    def __init__(self, originals: Iterable[AnyTask], *, staging: bool) -> None:
        self._originals = SimilarityIndex(originals)
        self._staging = staging
        self._begin((), (), ())

    @property
    def on_record(self) -> int:
        """How many of those admitted here are written: whoever reads the logs from now on meets
        them there."""
        return len(self._written)

    def written(self, task_id: str) -> None:
        """The task that was admitted is on record."""
        if (task := self._admitted.pop(task_id, None)) is not None:
            self._written.append(task)

    def renewed(self, generated: Iterable[AnyTask], read: int) -> DuplicateIndex:
        """The neighbours after a merge. `generated` are the active variants and, in `sync=free`,
        the staged ones. Of those admitted here, the first `read` that were written were on record
        before the logs were read: which of them are not among `generated` have left. The others
        stay neighbours."""
        other = copy(self)
        other._begin(generated, self._admitted.values(), self._written[read:])
        return other

    def _begin(
        self, generated: Iterable[AnyTask], admitted: Iterable[AnyTask], written: Iterable[AnyTask]
    ) -> None:
        self._admitted = {task.id: task for task in admitted}
        self._written = list(written)
        self._generated = SimilarityIndex((*generated, *self._admitted.values(), *self._written))

    def add(self, task: AnyTask) -> None:
        """`task` is a neighbour until the next merge."""
        self._generated.add(task)

    def admit(self, task: AnyTask) -> list[str]:
        """Why `task` is nothing new. Without reasons, and where staging counts, it is a neighbour
        from now on."""
        if task.id in self._originals or task.id in self._generated:
            return [f"it is task {task.id} itself"]
        match = self._originals.find(task) or self._generated.find(task)
        if self._staging and match is None:
            self.add(task)
            self._admitted[task.id] = task
        return [] if match is None else [str(match)]
