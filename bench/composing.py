"""Desk: how fast its tools run, and how fast and how well tasks are written for it without a model.

Claim: 100,000 checked calls and 500 fresh tasks a second; a variant for four in five seeds in one
attempt. Anchor: the bare Python function with JSON in and out; variants that call the seed's own
functions. Command: `python -m bench.composing`.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from typing import Any, Literal

import orjson

from bench.bfcl_variants import narrated
from bench.figures import Figure, run
from rods.analysis.profile import distance, isomorphic, profile
from rods.calls import Call
from rods.canonical import keyed_random
from rods.composing import bind, planning, task_types, wording
from rods.composing.catalogue import catalogue_for
from rods.composing.records import ComposeError
from rods.config import Gates
from rods.environments.loading import Environments
from rods.gates.texts import style
from rods.tasks import Task
from rods.worlds.desk import fresh_tasks, generate, tools
from rods.worlds.desk.tools import State

load = Environments().load

REPAIRS = 3  # of the state, as the daemon allows
LIMITS = Gates()  # the defaults


def measure(quick: bool) -> list[Figure]:
    """CPU time of calls and tasks; yield, novelty and closeness of variants over seeds of all four
    types."""
    calls, bare = _calls_per_second()
    count = 200 if quick else 500
    began = time.process_time()
    for _ in itertools.islice(fresh_tasks(3, "bench"), count):
        pass
    fresh = count / (time.process_time() - began)
    began = time.process_time()
    seeds = generate(11, count, 0)
    apart = count / (time.process_time() - began)
    other = _variants(seeds, "other")
    same = _variants(seeds, "same")
    return [
        Figure(
            "desk calls, arguments checked",
            calls,
            "calls/s",
            "bare function + JSON",
            bare,
            reach=100_000,
        ),
        Figure("fresh tasks, accepted by the judge", fresh, "tasks/s", reach=500),
        Figure("originals, none near another", apart, "tasks/s"),
        Figure("seeds with a variant in one attempt", other["yield"], "share", reach=0.8),
        Figure("variants with another multiset of functions", other["novel"], "share", reach=0.99),
        Figure(
            "calls of variants to a function of the seed", other["overlap"], "share", higher=False
        ),
        Figure(
            "edges from turn to turn kept exactly",
            other["wired"],
            "share",
            "same functions",
            same["wired"],
            reach=0.8,
        ),
        Figure(
            "profile distance to the seed, median",
            other["distance"],
            "",
            "same functions",
            same["distance"],
        ),
        Figure(
            "look-ups that only feed a later call and are asked for all the same",
            other["narrated"],
            "share",
            "originals",
            (own := narrated(load("desk"), seeds)),
            reach=own,
            higher=False,
        ),
        Figure(
            "composing a variant",
            other["milliseconds"],
            "ms",
            "same functions",
            same["milliseconds"],
        ),
        Figure("seeds with a variant of the same functions", same["yield"], "share"),
    ]


def _calls_per_second() -> tuple[float, float]:
    state: State = {"ledger": {"accounts": {"cash": 500, "savings": 500}, "bills": {}, "next": 10}}
    world = load("desk").reset(state)
    arguments: tuple[dict[str, Any], ...] = (
        {"amount": 5, "source": "cash", "target": "savings"},
        {"amount": 5, "source": "savings", "target": "cash"},
    )
    calls = [Call("transfer_money", each) for each in arguments]
    repeats = 20_000
    began = time.process_time()
    for _ in range(repeats):
        for call in calls:
            world.call(call)
    ours = 2 * repeats / (time.process_time() - began)
    began = time.process_time()
    for _ in range(repeats):
        for each in arguments:
            orjson.dumps(tools.transfer_money(state, **each)).decode()
    return ours, 2 * repeats / (time.process_time() - began)


def _variants(seeds: list[Task], functions: Literal["other", "same"]) -> dict[str, float]:
    desk = load("desk")
    distances: list[float] = []
    made: list[Task] = []
    accepted = novel = shared = calls = wired = kept = 0
    spent = 0.0
    for seed in seeds:
        root = profile(desk, seed)
        began = time.process_time()
        task = _variant(seed, functions)
        spent += time.process_time() - began
        if task is None:
            continue
        made.append(task)
        found = profile(desk, task)
        accepted += not isomorphic(root, found, LIMITS)
        wired += bool(root.links)
        kept += bool(root.links) and root.links == found.links
        distances.append(distance(root, found))
        own, new = (
            Counter(call.name for turn in each.calls for call in turn) for each in (seed, task)
        )
        novel += own != new
        shared += (own & new).total()
        calls += new.total()
    return {
        "yield": accepted / len(seeds),
        "novel": novel / len(distances),
        "overlap": shared / calls,
        "wired": kept / wired,
        "distance": sorted(distances)[len(distances) // 2],
        "narrated": narrated(desk, made),
        "milliseconds": 1000 * spent / len(seeds),
    }


def _variant(seed: Task, functions: Literal["other", "same"]) -> Task | None:
    """One attempt without replanning: what the daemon does up to its gates."""
    desk = load("desk")
    catalogue = catalogue_for(load("desk"))
    rng = keyed_random(5, "variant", seed.id)
    try:
        plan = planning.plan(
            catalogue,
            desk,
            profile(desk, seed),
            seed.type,
            seed=seed,
            limits=LIMITS,
            functions=functions,
            rng=rng,
        )
        state = bind.fresh_state(catalogue, plan, seed, rng)
        choices = rng.getrandbits(64)
        for repairs in range(REPAIRS + 1):
            try:
                draft = bind.realise(
                    desk, catalogue, plan, state, bind.random_chooser(random.Random(choices))
                )
                break
            except ComposeError as error:
                mended = bind.repair(catalogue, state, error, rng) if repairs < REPAIRS else None
                if mended is None:
                    raise
                state = mended
        texts = wording.rewrite(catalogue, draft, narrative=True, rng=rng)
        task = task_types.apply(catalogue, desk, draft, texts, seed.type, rng)
    except ComposeError:
        return None
    return None if style(task, catalogue.book.longest + wording.SLACK) else task


if __name__ == "__main__":
    run(measure)
