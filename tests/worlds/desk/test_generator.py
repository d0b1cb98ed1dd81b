"""Desk's generator: same seed, same bytes; every task solvable, distinct, and within the small
vocabulary."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest

from rods import dialects
from rods.analysis.profile import profile
from rods.calls import Call
from rods.environments.base import reference
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.episode.goals import GroundTruth
from rods.gates.ground_truth import needless, run
from rods.gates.similarity import SimilarityIndex
from rods.tasks import TASK_TYPES, Task, task_lines
from rods.worlds import desk
from rods.worlds.desk.catalogue import catalogue
from rods.worlds.desk.states import make_state
from tests.environments import load


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return desk.generate(7, 240, 200)


@pytest.mark.sweep
def test_same_seed_gives_the_same_bytes_in_every_process(tasks: list[Task]) -> None:
    code = (
        "import hashlib; from rods.worlds import desk; from rods.tasks import task_lines;"
        "print(hashlib.sha256(task_lines(desk.generate(7, 240, 200))).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout.decode().strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert seen == {hashlib.sha256(task_lines(tasks)).hexdigest()}
    assert desk.generate(8, 4, 0) != tasks[:4]


@pytest.mark.slow
def test_types_stand_in_equal_shares_on_both_sides(tasks: list[Task]) -> None:
    for split, count in (("train", 60), ("test", 40), ("validation", 10)):
        assert Counter(task.type for task in tasks if task.split == split) == dict.fromkeys(
            TASK_TYPES, count
        )


def test_a_third_of_the_tasks_with_regions_is_easy_a_third_small_and_a_third_long() -> None:
    every = desk.generate(7, 24, 12, "regions")
    depths = {"mastered": 1, "boundary": 2, "hopeless": 3}
    for tasks, each in ((every[:24], 8), (every[24:], 4)):
        assert Counter(task.provenance["region"] for task in tasks) == dict.fromkeys(depths, each)
        assert (
            Counter((task.provenance["region"], task.type) for task in tasks).most_common()[-1][1]
            == each // 2
        )
    for task in every:
        assert profile(load("desk"), task).depth == depths[task.provenance["region"]]
        assert (max(map(len, task.calls)) == 1) == (task.provenance["region"] == "mastered")


@pytest.mark.slow
def test_held_out_tasks_do_not_depend_on_the_number_of_originals(tasks: list[Task]) -> None:
    assert desk.generate(7, 0, 200) == tasks[240:]


def test_no_two_tasks_are_near_duplicates(tasks: list[Task]) -> None:
    index = SimilarityIndex()
    for task in tasks:
        assert index.find(task) is None
        index.add(task)
    assert len({task.id for task in tasks}) == len(tasks)


def test_own_ground_truth_replays_with_its_recorded_results_and_scores_full_marks(
    tasks: list[Task],
) -> None:
    environment = load("desk")
    dialect = dialects.load("compact")
    plans = [
        [
            reply
            for calls in task.calls
            for reply in (*(dialect.write([call]) for call in calls), dialect.answer("Done."))
        ]
        for task in tasks
    ]

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(plans[job].pop(0)) for job, _ in waiting]

    traces = run_lockstep(
        [Job(task, environment, dialect, GroundTruth(environment, task)) for task in tasks],
        complete,
    )
    for task, trace in zip(tasks, traces, strict=True):
        assert trace.binary == 1 and trace.end == "finished", task.id
        results = [
            [result.text for step in turn.steps for result in step.results] for turn in trace.turns
        ]
        assert results == task.provenance["results"]


def test_doing_nothing_resolves_only_turns_without_calls(tasks: list[Task]) -> None:
    environment = load("desk")
    dialect = dialects.load("compact")
    jobs = [Job(task, environment, dialect, GroundTruth(environment, task)) for task in tasks[:80]]
    traces = run_lockstep(jobs, lambda waiting: [Reply(dialect.answer("Done."))] * len(waiting))
    assert [trace.resolved for trace in traces] == [
        sum(not calls for calls in task.calls) for task in tasks[:80]
    ]


def test_every_tool_is_needed_by_some_task_and_all_used_tools_are_shown(tasks: list[Task]) -> None:
    used = {call.name for task in tasks for calls in task.calls for call in calls}
    assert used == set(load("desk").tools())
    for task in tasks:
        assert {call.name for calls in task.calls for call in calls} <= set(task.tools)
        assert 6 <= len(task.tools) <= 18


def test_turns_depend_on_each_other(tasks: list[Task]) -> None:
    assert {len(task.script) for task in tasks} == {2, 3, 4}
    for task in tasks:
        assert all(len(calls) <= 3 for calls in task.calls)
        flows = [
            flow for turn in task.provenance["flows"] for call in turn for flow in call.values()
        ]
        assert any(flow["source"] == "result" for flow in flows)
    across = sum(
        any(
            flow["source"] == "earlier" or flow.get("origin", [turn])[0] < turn
            for turn, calls in enumerate(task.provenance["flows"])
            for call in calls
            for flow in call.values()
        )
        for task in tasks
    )
    assert across > 0.6 * len(tasks)


def test_everything_said_comes_from_a_small_vocabulary(tasks: list[Task]) -> None:
    """Ids such as `m14` are one word each."""
    counts: list[Counter[str]] = []
    for half in (tasks[::2], tasks[1::2]):
        texts = [
            text
            for task in half
            for text in (*task.script, *itertools.chain(*task.provenance["results"]))
        ]
        texts += [text for task in half for text in task.tools]
        texts += [
            str(pair)
            for task in half
            for calls in task.calls
            for call in calls
            for pair in call.arguments.items()
        ]
        counts.append(Counter(re.findall(r"[a-z_]+[0-9]*|[0-9]+", " ".join(texts).lower())))
    first, second = counts
    assert 400 < len(first | second) < 750
    assert sum(second[word] for word in second.keys() - first.keys()) < 0.002 * second.total()


def test_texts_and_results_are_short(tasks: list[Task]) -> None:
    for task in tasks:
        assert max(len(text.split()) for text in task.script) <= 27
        longest = max(
            len(re.findall(r"\w+", text)) for text in itertools.chain(*task.provenance["results"])
        )
        assert longest <= (20 if task.type == "long_context" else 9)


def test_long_contexts_have_longer_worlds_and_listings(tasks: list[Task]) -> None:
    def means(type: str) -> tuple[float, float]:
        chosen = [task for task in tasks if task.type == type]
        listings = [
            len(re.findall(r"\w+", result))
            for task in chosen
            for calls, results in zip(task.calls, task.provenance["results"], strict=True)
            for call, result in zip(calls, results, strict=True)
            if call.name.startswith("list_")
        ]
        worlds = [len(orjson.dumps(task.state)) for task in chosen]
        return sum(worlds) / len(worlds), sum(listings) / len(listings)

    (long_world, long_listing) = means("long_context")
    (world, listing) = means("base")
    assert long_world > 2 * world and long_listing > 1.2 * listing


def test_fresh_tasks_are_endless_keyed_and_of_the_wanted_types() -> None:
    def some(purpose: str) -> list[str]:
        return [
            task.id
            for task, _ in itertools.islice(desk.fresh_tasks(1, purpose, ["miss_func", "base"]), 12)
        ]

    assert some("warm start") == some("warm start") != some("other")
    types = [
        task.type
        for task, _ in itertools.islice(desk.fresh_tasks(1, "x", ["miss_func", "base"]), 4)
    ]
    assert types == ["miss_func", "base", "miss_func", "base"]
    for task, draft in itertools.islice(desk.fresh_tasks(1, "x"), 8):
        assert task.calls == tuple(tuple(bound.call for bound in turn) for turn in draft.turns)


def test_small_tasks_are_short_and_show_few_tools() -> None:
    tasks = desk.generate(7, 40, 20, "small")
    assert {len(task.script) for task in tasks} == {2, 3}
    assert max(len(turn) for task in tasks for turn in task.calls) == 2
    assert (
        max(len(task.tools) for task in tasks)
        <= 8
        < max(len(task.tools) for task in desk.generate(7, 4, 0))
    )


def test_phrases_say_whether_a_thing_is_new_and_what_is_called_so() -> None:
    recipes = catalogue().recipes
    for phrase in recipes["plan_same_day"].phrases:
        assert not phrase.startswith("put the ")
    for phrase in recipes["copy_file"].phrases:
        assert "{file} called" not in phrase
    every = [phrase for recipe in recipes.values() for phrase in recipe.phrases]
    assert not [phrase for phrase in every if phrase.startswith("make sure")]


def test_nobody_asks_again_for_what_was_done() -> None:
    again = (Call("reply_mail", {"mail": "m1", "text": "yes"}),) * 2
    environment = load("desk")
    state = make_state([catalogue().recipes["answer_found"]], None, {}, random.Random(1))
    (mail, *_) = state["mail"]["inbox"]
    calls = tuple(replace(call, arguments={**call.arguments, "mail": mail}) for call in again)
    tools = tuple(environment.tools())
    task = Task(
        reference(environment), "base", ("x", "x"), tuple((call,) for call in calls), tools,
        state=state,
    )  # fmt: skip
    found = needless(environment, task, run(environment, task))
    assert [(reason.turn, reason.text) for reason in found] == [
        (1, "reply_mail comes a second time")
    ]
