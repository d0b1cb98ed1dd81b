"""Variants of BFCL's training tasks, written without a model.

Claim: nine in ten base seeds give an accepted variant in under 150 ms of CPU time, with other
functions, mostly the very edges of their seed, varied queries, and ground truths that BFCL's own
checker accepts. Anchor: BFCL's own tasks, random pairs of them, and its checker. Command: `python
-m bench.bfcl_variants`.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.figures import Figure, run
from bench.fixtures.official_checker import verdicts
from rods.analysis.containment import stems
from rods.analysis.profile import Profile, distance, edges_apart, profile, topology_apart
from rods.composing.lexicon import CLAUSE, lexicon
from rods.config import Config
from rods.daemon.authors.base import Assignment, Rejection
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.environments.base import Environment, Result
from rods.environments.loading import Environments
from rods.gates.similarity import SimilarityIndex, held_out_index
from rods.gates.texts import ENOUGH
from rods.tasks import RETURN_SENTENCE, Task, asked
from rods.worlds.bfcl import tasks

load = Environments().load

QUICK = 14  # seeds of each type
GRAM = 4
BLEU_QUERIES = 150
BLEU_OTHERS = 60


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one seed: its variant or why there is none, and the CPU time that went into
    it."""

    seed: Task
    variant: Task | None
    why: str
    milliseconds: float


def write(seeds: Sequence[Task], random_seed: int = 0) -> tuple[list[Written], Counter[str]]:
    """One variant of each seed, through the daemon's own pipeline with its default gates, near
    duplicates among them included; and what was rejected on the way."""
    threads = ThreadPoolExecutor(1)
    held_out = held_out_index([task for task in tasks() if task.split != "train"])
    config = Config.model_validate({"random_seeds": {"daemon": random_seed}})
    pipeline = Pipeline(config, held_out, threads)
    author = ProceduralAuthor.of(load("bfcl"), threads)
    pool = SimilarityIndex()
    for task in tasks():
        if task.split == "train":
            pool.add(task)
    rejected: Counter[str] = Counter()

    def admit(task: Task) -> list[str]:
        if (match := pool.find(task)) is not None:
            return [str(match)]
        pool.add(task)
        return []

    def reject(rejection: Rejection) -> None:
        rejected[f"{rejection.stage}: {rejection.error}"] += 1

    async def all_of_them() -> list[Written]:
        found = []
        for seed in seeds:
            began = time.process_time()
            job = Assignment(f"{random_seed}-{seed.id}", 0, seed, seed, 1)
            got = await pipeline.write(job, author, load("bfcl"), admit, reject)
            spent = 1000 * (time.process_time() - began)
            variant, why = (got, "") if isinstance(got, Task) else (None, got)
            found.append(Written(seed, variant, why, spent))
        return found

    try:
        return asyncio.run(all_of_them()), rejected
    finally:
        threads.shutdown()


def measure(quick: bool) -> list[Figure]:
    """Yield by type, time, novelty, closeness of profiles, variety of the queries, and the official
    checker's word."""
    # what is made once a process
    write([task for task in tasks() if task.split == "train"][:2], random_seed=1)
    seeds = [task for task in tasks() if task.split == "train"]
    if quick:
        seeds = [
            task
            for kind in ("base", "long_context", "miss_func", "miss_param")
            for task in _some(seeds, kind)
        ]
    written, _ = write(seeds)
    variants = [each.variant for each in written if each.variant is not None]
    pairs = [(each.seed, each.variant) for each in written if each.variant is not None]
    base = [each for each in written if each.seed.type == "base"]
    others = [each for each in written if each.seed.type != "base"]
    theirs = [profile(load("bfcl"), task) for task in seeds]
    near = [
        (profile(load("bfcl"), seed), profile(load("bfcl"), variant)) for seed, variant in pairs
    ]
    far = list(_random_pairs(theirs))
    apart = sorted(variant.provenance["profile_distance"] for variant in variants)
    chance = sorted(distance(one, two) for one, two in far)
    kept, broken = verdicts(variants)
    measured = held_out_index(tasks())
    ours_texts = _queries(v for v in variants if v.type == "base")
    their_texts = _queries(e.seed for e in base)
    size = min(len(ours_texts), len(their_texts))
    figures = [
        Figure("base seeds with an accepted variant", _share(base), "share", reach=0.9),
        Figure("other seeds with an accepted variant", _share(others), "share", reach=0.7),
    ]
    figures += [
        Figure(
            f"{kind} seeds with one",
            _share([each for each in others if each.seed.type == kind]),
            "share",
        )
        for kind in ("long_context", "miss_func", "miss_param")
    ]
    median = sorted(each.milliseconds for each in written)[len(written) // 2]
    figures += [
        Figure("CPU time of a seed, median", median, "ms", reach=150, higher=False),
        Figure("variants of seeds with edges", sum(bool(seed.links) for seed, _ in near), ""),
        *(
            Figure(
                f"of these, edges from turn to turn {what}",
                _wired(near, most),
                "share",
                "random pairs of a type",
                _wired(far, most),
                reach=reach,
            )
            for what, most, reach in (("kept exactly", 0, 0.8), ("kept, or one apart", 1, 1))
        ),
        Figure(
            "topology distance to the seed, 99th percentile",
            _topologies(near)[-(-len(near) * 99 // 100) - 1],
            "",
            "random pairs of a type, median",
            _topologies(far)[len(far) // 2],
        ),
        Figure(
            "variants with another multiset of functions",
            sum(_functions(seed) != _functions(variant) for seed, variant in pairs) / len(pairs),
            "share",
            reach=0.5,
        ),
        Figure(
            "variants that repeat their seed's calls",
            sum(_calls(seed) == _calls(variant) for seed, variant in pairs),
            "",
            reach=0,
            higher=False,
        ),
        Figure(
            "variants that match a held-out task",
            sum(measured.find(variant) is not None for variant in variants),
            "",
            reach=0,
            higher=False,
        ),
        Figure(
            "profile distance to the seed, median",
            apart[len(apart) // 2],
            "",
            "random pairs of a type",
            chance[len(chance) // 2],
        ),
        Figure("profile distance to the seed, 90th percentile", apart[len(apart) * 9 // 10], ""),
        Figure(
            f"distinct {GRAM}-grams of {size} queries",
            _distinct(ours_texts, size),
            "share",
            "BFCL's queries",
            _distinct(their_texts, size),
        ),
        Figure(
            "self-BLEU of the queries",
            _self_bleu(ours_texts),
            "",
            "BFCL's queries",
            _self_bleu(their_texts),
        ),
        Figure(
            "look-ups that only feed a later call and are asked for all the same",
            narrated(load("bfcl"), variants),
            "share",
            "BFCL's own",
            (own := narrated(load("bfcl"), seeds)),
            reach=own,
            higher=False,
        ),
        Figure("variants whose ground truth passes the official checker", kept, "share", reach=1),
        Figure("corrupted ground truths that fail it", broken, "share", reach=0.95),
    ]
    return figures


def look_ups(environment: Environment, task: Task) -> dict[tuple[int, int], bool]:
    """The calls (turn, index) that change nothing and only feed a later call of their turn, and
    whether the user asks for each: whether a clause of the turn asks for it and for no other
    call."""
    world = environment.reset(task.state)
    results: list[list[Result]] = []
    idle = set()
    before = world.snapshot() if environment.features.snapshot else None
    for turn, calls in enumerate(task.calls):
        results.append([])
        for index, call in enumerate(calls):
            results[turn].append(world.call(call))
            after = world.snapshot() if environment.features.snapshot else None
            if before == after:
                idle.add((turn, index))
            before = after
    edges = profile(environment, task, results).edges
    feeding = {producer for producer, consumer, _ in edges if producer[0] == consumer[0]}
    book = lexicon(environment)
    asked_for = {}
    for turn, index in sorted(feeding & idle):
        names = [call.name for call in task.calls[turn]]
        scores = [book.asks(stems(clause), names) for clause in CLAUSE.split(asked(task, turn))]
        meant = [[name for name, amount in score.items() if amount >= ENOUGH] for score in scores]
        asked_for[turn, index] = [names[index]] in meant
    return asked_for


def narrated(environment: Environment, tasks: Sequence[Task]) -> float:
    """The share of their look-ups that users ask for."""
    found = [asked for task in tasks for asked in look_ups(environment, task).values()]
    return sum(found) / max(1, len(found))


def _some(seeds: Sequence[Task], kind: str) -> list[Task]:
    """Some seeds of that type, over all classes."""
    found = [task for task in seeds if task.type == kind]
    return found[:: math.ceil(len(found) / QUICK)]


def _share(written: Sequence[Written]) -> float:
    return sum(each.variant is not None for each in written) / len(written)


def _wired(pairs: Sequence[tuple[Profile, Profile]], most: int) -> float:
    """The share of pairs, of those whose first has edges, that are at most so many edges apart."""
    apart = [edges_apart(one.links, two.links) for one, two in pairs if one.links]
    return sum(each <= most for each in apart) / len(apart)


def _topologies(pairs: Sequence[tuple[Profile, Profile]]) -> list[float]:
    return sorted(topology_apart(one, two) for one, two in pairs)


def _functions(task: Task) -> Counter[str]:
    return Counter(call.name for turn in task.calls for call in turn)


def _calls(task: Task) -> list[list[dict[str, Any]]]:
    return [[call.as_json() for call in turn] for turn in task.calls]


def _random_pairs(profiles: Sequence[Profile]) -> Iterator[tuple[Profile, Profile]]:
    rng = random.Random(3)
    for _ in range(1500):
        one = rng.choice(profiles)
        two = rng.choice(profiles)
        if one is not two and one.type == two.type:
            yield one, two


def _queries(found: Any) -> list[list[str]]:
    """The words of every query that is a task's own."""
    texts = [text for task in found for text in task.script if text != RETURN_SENTENCE]
    random.Random(4).shuffle(texts)
    return [re.findall(r"\w+|[^\w\s]", text.lower()) for text in texts]


def _grams(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + size]) for start in range(len(words) - size + 1)]


def _distinct(queries: Sequence[Sequence[str]], count: int) -> float:
    """The share of different n-grams among all n-grams of the first `count` queries."""
    grams = [gram for words in queries[:count] for gram in _grams(words, GRAM)]
    return len(set(grams)) / len(grams)


def _self_bleu(queries: Sequence[Sequence[str]]) -> float:
    """The mean BLEU-4 (uniform weights, add-one smoothing above unigrams, no brevity penalty) of a
    query against `BLEU_OTHERS` other queries of its kind. The lower, the more varied."""
    rng = random.Random(5)
    scores = []
    for words in queries[:BLEU_QUERIES]:
        others = [
            other
            for other in rng.sample(queries, min(len(queries), BLEU_OTHERS + 1))
            if other is not words
        ]
        logs = []
        for size in range(1, GRAM + 1):
            mine = Counter(_grams(words, size))
            most: Counter[tuple[str, ...]] = Counter()
            for other in others:
                most |= Counter(_grams(other, size))
            smooth = int(size > 1)
            logs.append(
                math.log(((mine & most).total() + smooth or 0.1) / (mine.total() + smooth or 1))
            )
        scores.append(math.exp(sum(logs) / GRAM))
    return sum(scores) / len(scores)


if __name__ == "__main__":
    run(measure)
