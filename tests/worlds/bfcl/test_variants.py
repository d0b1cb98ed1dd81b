"""What a variant of a BFCL task is: new calls, words and world in the seed's shape, good in the
benchmark's eyes."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.bfcl_parity.oracle import ORACLE
from bench.blanks import unfair
from rods.analysis.profile import edges_apart, isomorphic, profile
from rods.config import Gates
from rods.environments.workers.worker import Worker, WorkerSpec
from rods.gates.ground_truth import run
from rods.tasks import RETURN_SENTENCE, TASK_TYPES, Task
from rods.worlds.bfcl import task_format, wheel
from tests.environments import load
from tests.worlds.bfcl.writing import seeds, variant, variants, written

pytestmark = pytest.mark.slow


def functions(task: Task) -> Counter[str]:
    return Counter(call.name for turn in task.calls for call in turn)


def test_nearly_every_seed_of_every_type_gives_a_variant() -> None:
    lost = Counter(seed.type for seed, made in written() if isinstance(made, str))
    assert lost.total() <= 5, [
        (seed.provenance["id"], made) for seed, made in written() if isinstance(made, str)
    ]
    assert all(lost[kind] <= 3 for kind in TASK_TYPES)


def test_variants_have_other_functions_other_words_and_another_world() -> None:
    for seed, made in variants():
        assert functions(made) != functions(seed)
        assert made.calls != seed.calls and made.state != seed.state
        assert not set(seed.script) & set(made.script) - {RETURN_SENTENCE}


def test_variants_keep_type_classes_tools_turns_and_side_of_the_split() -> None:
    for seed, made in variants():
        assert (made.type, made.split, made.tools) == (seed.type, seed.split, seed.tools)
        assert made.state is not None and seed.state is not None
        assert made.state["classes"] == seed.state["classes"]
        assert made.state["long_context"] == (seed.type == "long_context")
        assert [bool(turn) for turn in made.calls] == [bool(turn) for turn in seed.calls]
        assert isomorphic(profile(load("bfcl"), seed), profile(load("bfcl"), made), Gates()) == []


def test_most_variants_keep_the_edges_from_turn_to_turn_and_the_others_miss_one() -> None:
    links = [
        (profile(load("bfcl"), seed).links, profile(load("bfcl"), made).links)
        for seed, made in variants()
    ]
    apart = [edges_apart(root, found) for root, found in links if root]
    assert len(apart) >= 15 and max(apart) <= 1
    assert apart.count(0) >= 0.8 * len(apart)


def test_one_job_always_gives_the_same_variant_and_another_random_seed_another_one() -> None:
    seed, made = variants()[3]
    again = variant(seed)
    other = variant(seed, random_seed=1)
    assert isinstance(again, Task) and again.id == made.id
    assert isinstance(other, Task) and other.id != made.id


def test_long_contexts_show_much_more_than_their_seed_would_without_padding() -> None:
    for _, made in variants():
        if made.type == "long_context":
            assert made.state is not None
            plain, padded = (
                load("bfcl").reset({**made.state, "long_context": long}) for long in (False, True)
            )
            calls = [call for turn in made.calls for call in turn]
            shown = sum(len(padded.call(call).text) for call in calls)
            short = sum(len(plain.call(call).text) for call in calls)
            assert shown > short or len(str(made.state)) > 1500


def test_a_missing_tool_or_value_is_there_in_the_next_turn() -> None:
    for _, made in variants():
        for gap in made.provenance.get("missing", []):
            turn = gap["turn"]
            assert not made.calls[turn] and made.calls[turn + 1]
            if made.type == "miss_func":
                assert gap["tool"] in made.later_tools[turn + 1]
                assert gap["tool"] not in made.tools_at(turn)
                assert any(call.name == gap["tool"] for call in made.calls[turn + 1])
            else:
                assert any(
                    call.arguments.get(gap["argument"]) == gap["value"]
                    for call in made.calls[turn + 1]
                )


def test_nothing_that_a_turn_without_calls_asks_for_can_be_done_in_it() -> None:
    blanks = [unfair(load("bfcl"), made, run(load("bfcl"), made)) for _, made in variants()]
    assert sum(map(len, blanks)) > 10 and not any(True in each for each in blanks)


def test_the_official_checker_accepts_every_ground_truth_and_refuses_it_with_a_turn_left_out() -> (
    None
):
    true = []
    false = []
    for place, (_, made) in enumerate(variants()):
        entry = task_format.entry(made, 1000 + place)
        truth = task_format.answer(made, 1000 + place)["ground_truth"]
        turns = [[calls] if calls else [] for calls in truth]
        last = max(turn for turn, calls in enumerate(truth) if calls)
        true.append([entry, truth, turns])
        false.append([entry, truth, [*turns[:last], [], *turns[last + 1 :]]])
    judge = Worker(WorkerSpec(ORACLE, seconds=120, memory=1 << 33, reply_bytes=1 << 24))
    request = {"do": "check", "wheel": str(wheel.path())}
    try:
        assert all(judge.call({**request, "rollouts": true}))
        assert not any(judge.call({**request, "rollouts": false}))
    finally:
        judge.close()


def test_the_seeds_cover_all_eight_classes() -> None:
    assert {name for seed in seeds() for name in (seed.state or {})["classes"]} == {
        tool.group for tool in load("bfcl").tools().values()
    }
