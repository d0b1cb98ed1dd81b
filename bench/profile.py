"""Profiles, gates and near duplicates: CPU time of a task, quality of inferred flows, scaling of
the index.

Claim: inferred flows reach an F1 of 0.9. Anchor: the flows that the generator of desk wrote;
look-ups in a small index. Command: `python -m bench.profile`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

from bench.figures import Figure, run
from rods.analysis.profile import Profile, distance, profile
from rods.calls import Call
from rods.canonical import keyed_random
from rods.config import Gates
from rods.environments.loading import Environments
from rods.gates import check
from rods.gates.similarity import SimilarityIndex, held_out_index
from rods.tasks import EnvironmentRef, Task
from rods.worlds.desk import fresh_tasks

load = Environments().load

TURNS = 4
WORDS_A_TURN = 20
VOCABULARY = 600
PHRASES = 50


def measure(quick: bool) -> list[Figure]:
    """CPU microseconds a task on desk; F1 of inferred flows against the generator's; look-ups in
    large indexes."""
    desk = load("desk")
    tasks = [
        task for task, _ in itertools.islice(fresh_tasks(11, "bench"), 400 if quick else 2_000)
    ]
    profiles: list[Profile] = []
    profiling = _microseconds(tasks, lambda task: profiles.append(profile(desk, task)))
    index = SimilarityIndex()
    held_out = held_out_index(tasks)
    adding = _microseconds(tasks, index.add)
    roots = dict(zip((task.id for task in tasks), profiles, strict=True))
    gating = _microseconds(
        tasks, lambda task: (check(desk, task, roots[task.id], Gates(), held_out), index.find(task))
    )
    comparing = _microseconds(
        zip(profiles, reversed(profiles), strict=True), lambda pair: distance(*pair)
    )
    small = _finding(10_000)
    large = _finding(20_000 if quick else 100_000)
    name = "20k" if quick else "100k"
    return [
        Figure("flows inferred on desk, F1", _f1(tasks, profiles), "", reach=0.9),
        Figure(
            "flows between calls alone, F1", _f1(tasks, profiles, between_calls=True), "", reach=0.9
        ),
        Figure("profile of a task, replay included", profiling, "µs"),
        Figure("distance of two profiles", comparing, "µs"),
        Figure("all gates on a task", gating, "µs"),
        Figure("adding a task to the similarity index", adding, "µs"),
        Figure(
            f"finding a near duplicate among {name} tasks", large, "µs", "among 10k tasks", small
        ),
    ]


def _microseconds(items: Iterable[Any], action: Callable[[Any], Any]) -> float:
    items = list(items)
    began = time.process_time()
    for item in items:
        action(item)
    return 1e6 * (time.process_time() - began) / len(items)


def _f1(tasks: list[Task], profiles: list[Profile], *, between_calls: bool = False) -> float:
    true = set()
    inferred = set()
    for number, (task, found) in enumerate(zip(tasks, profiles, strict=True)):
        for turn, calls in enumerate(task.provenance["flows"]):
            for index, flows in enumerate(calls):
                for argument, flow in flows.items():
                    true.add(
                        (
                            number,
                            turn,
                            index,
                            argument,
                            flow["source"],
                            tuple(flow.get("origin", ())),
                        )
                    )
        for node in found.nodes:
            for argument, flow in node.flows.items():
                inferred.add((number, *node.position, argument, flow.source, flow.origin or ()))
    if between_calls:
        true, inferred = ({flow for flow in flows if flow[5]} for flows in (true, inferred))
    return 2 * len(true & inferred) / (len(true) + len(inferred))


def _finding(size: int) -> float:
    """Microseconds a look-up among `size` synthetic tasks of 4 turns of 20 words, half of them
    around one of 50 phrases of ten words: common phrases are what makes look-ups dear."""
    rng = keyed_random(1, "bench profile")
    words = [f"word{number}" for number in range(VOCABULARY)]
    phrases = [rng.choices(words, k=10) for _ in range(PHRASES)]

    def made(number: int) -> Task:
        script = []
        for _ in range(TURNS):
            text = rng.choices(words, k=WORDS_A_TURN)
            if rng.random() < 0.5:
                text[3:13] = rng.choice(phrases)
            script.append(" ".join(text))
        calls = tuple((Call("call", {"number": number}),) for _ in script)
        return Task(
            EnvironmentRef("none", "0"),
            "base",
            tuple(script),
            calls,
            ("call",),
            state={"number": number},
        )

    index = SimilarityIndex()
    for number in range(size):
        index.add(made(number))
    return _microseconds([made(-number) for number in range(1, 301)], index.find)


if __name__ == "__main__":
    run(measure)
