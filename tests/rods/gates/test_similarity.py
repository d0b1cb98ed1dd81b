"""The index answers exactly as the rule says, and tasks match for no other reason."""

import dataclasses
import itertools
import os
import pickle
import random
import subprocess
import sys
from typing import Any, ClassVar

import numpy as np
import pytest

from rods.calls import Call
from rods.environments.base import Result
from rods.faults import Reason
from rods.gates import similarity
from rods.gates.similarity import (
    Match,
    SimilarityIndex,
    contamination,
    held_out_index,
    overlaps,
    repeats,
)
from rods.tasks import RETURN_SENTENCE, EnvironmentRef, Task

LONG = "please move the quarterly report from the drafts folder into the archive before noon"


def task(script, calls=None, **changes):
    calls = calls or tuple((Call("count", {"name": text}),) for text in script)
    tools = tuple({call.name for turn in calls for call in turn} | {"count"})
    return Task(EnvironmentRef("toy", "h"), "base", tuple(script), tuple(calls), tools, **changes)


def found(known, asked):
    index = SimilarityIndex()
    index.add(known)
    return index.find(asked)


def test_equal_ground_truth_matches_whatever_is_said():
    known = task(["one text"], [(Call("count", {"name": "a", "amount": 2}),)])
    asked = task(["quite another"], [(Call("count", {"amount": 2, "name": "a"}),)])
    assert found(known, asked) == Match("ground_truth", known.id)
    assert found(known, task(["x"], [(Call("count", {"name": "a", "amount": 2.0}),)])) is None
    # nothing is called in either
    assert found(task(["x", "y"], [(), ()]), task(["v", "w"], [(), ()])) is None


def test_a_turn_repeats_another_by_its_words_and_its_calls():
    again = Call("count", {"name": "x"})
    other = Call("count", {"name": "y"})
    why = Reason("asks again, in the words of turn 0, for the calls that it had", 2)
    for text, same in ((LONG, f"{LONG} and tell me"), ("Count x, please.", "count x please")):
        assert repeats(task([text, "y", same], [(again,), (other,), (again,)])) == [why]
        assert repeats(task([text, "y", same], [(again,), (other,), (other,)])) == [], (
            "in the same words, for another"
        )
        assert repeats(task([text, "y", same], [(), (other,), ()])) == [], "twice in vain"
    assert repeats(task([LONG, "y", "Is it still there?"], [(again,), (other,), (again,)])) == [], (
        "in other words"
    )
    both = "Please count what the folder called x has and then y."
    short = "Please count what the folder called x has, I mean x."
    asked = task([both, short], [(again, other), (again,)])
    (told,) = repeats(asked, [(Result("1", 1), Result("2", 2)), (Result("1", 1),)])
    assert told.turn == 1 and "in the words of turn 0" in told.text, "a part of what was asked"
    assert repeats(asked, [(Result("1", 1), Result("2", 2)), (Result("3", 3),)]) == [], (
        "it has another answer now"
    )
    returns = (LONG, LONG, RETURN_SENTENCE)
    assert repeats(task(returns, [(other,), (), (again,)])) == [], (
        "what is asked in vain is asked anew"
    )


def test_equal_states_match_unless_empty():
    known = task(["a"], state={"files": {"x": 1}})
    assert found(known, task(["b"], state={"files": {"x": 1}})) == Match("state", known.id)
    empties: list[dict[str, Any] | None] = [None, {}, {"Math": {}}, {"files": [], "user": None}]
    for empty in empties:
        assert found(task(["a"], state=empty), task(["b"], state=empty)) is None


def test_half_of_the_eight_grams_make_a_match():
    words = LONG.split()  # 14 words, 7 grams
    assert found(task([LONG]), task([f"{LONG} and tell me"])).rule == "query"
    half = " ".join(words[:12])  # 5 of 7
    assert found(task([LONG]), task(["first", half])) == Match("query", task([LONG]).id, 1)
    assert found(task([LONG]), task([" ".join(words[:10])])) is None  # 3 of 7
    assert found(task([LONG]), task([LONG.upper().replace(" ", ", ") + "!"])).rule == "query"


def test_exactly_one_half_is_a_match():
    words = LONG.split()
    # 2 of 4
    assert found(task([" ".join(words[:11])]), task([" ".join(words[:9])])).rule == "query"
    assert found(task([" ".join(words[:11])]), task([" ".join(words[:8])])) is None  # 1 of 4


def test_a_short_query_needs_equal_calls():
    known = task(
        ["Do it now.", "x"], [(Call("count", {"name": "a"}),), (Call("count", {"name": "b"}),)]
    )
    same = task(["y", "do it NOW"], [(), (Call("count", {"name": "a"}),)])
    other = task(["y", "do it NOW"], [(), (Call("count", {"name": "c"}),)])
    assert found(known, same) == Match("query", known.id, 1)
    assert found(known, other) is None


def test_the_sentence_of_returning_tools_is_nobodys_own():
    known = task(["a", RETURN_SENTENCE], later_tools={1: ("count",)})
    assert len(RETURN_SENTENCE.split()) >= 8
    assert found(known, task(["b", RETURN_SENTENCE], [(Call("count", {"name": "z"}),), ()])) is None


def test_a_task_does_not_match_itself_and_can_be_removed():
    index = SimilarityIndex()
    known = task([LONG])
    index.add(known)
    index.add(known)
    assert index.find(known) is None and len(index) == 1
    other = task(["hello", LONG])
    index.remove(known.id)
    assert index.find(other) is None and known.id not in index
    index.add(known)
    assert index.find(other) == Match("query", known.id, 1)


def test_the_first_match_is_by_rule_then_by_id_whatever_was_added_first():
    tasks = [task([LONG], state={"n": number}) for number in range(3)]
    for order in itertools.permutations(tasks):
        index = SimilarityIndex()
        for each in order:
            index.add(each)
        assert index.find(task(["x", LONG], state={"n": 2})) == Match("state", tasks[2].id)
        assert index.find(task(["x", LONG], state={"n": 9})) == Match(
            "query", min(each.id for each in tasks), 1
        )


def test_what_was_removed_leaves_nothing_behind():
    index = SimilarityIndex()
    stays = task([LONG, "go"], state={"n": 0})
    index.add(stays)
    before = {name: len(table) for name, table in vars(index).items() if isinstance(table, dict)}
    others = [task([f"{LONG} {number}", "go"], state={"n": number % 3}) for number in range(20)]
    for each in others:
        index.add(each)
    for each in others:
        index.remove(each.id)
    assert {
        name: len(table) for name, table in vars(index).items() if isinstance(table, dict)
    } == before
    assert {match.other for match in index.matches(others[0])} == {stays.id}


def reference_match(a, b):
    """The rule of the query, spelled out."""

    def words(text):
        return "".join(c if c.isalnum() else " " for c in text.casefold()).split()

    def alike(x, y, same_calls):
        grams = [{tuple(side[i : i + 8]) for i in range(len(side) - 7)} for side in (x, y)]
        if all(grams):
            return len(grams[0] & grams[1]) / len(grams[0] | grams[1]) >= 0.5
        return x == y and same_calls

    return any(
        alike(words(x), words(y), calls == others)
        for x, calls in zip(a.script, a.calls, strict=True)
        for y, others in zip(b.script, b.calls, strict=True)
    )


def test_an_index_answers_in_another_process_whose_hashes_have_another_seed():
    index = SimilarityIndex([task([LONG, "Do it now."], state={"n": 1})])
    asked = [task(["x", LONG]), task(["x"], state={"n": 1}), task(["free to use"])]
    code = (
        "import pickle, sys; index, asked = pickle.load(sys.stdin.buffer); "
        "sys.stdout.buffer.write(pickle.dumps([index.find(task) for task in asked]))"
    )
    given = pickle.dumps((index, asked))
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    told = subprocess.run(
        [sys.executable, "-c", code], input=given, env=env, stdout=subprocess.PIPE, check=True
    ).stdout
    assert (
        pickle.loads(told) == [index.find(each) for each in asked]
        and index.find(asked[0])
        and index.find(asked[1])
    )


def test_what_is_sorted_at_once_is_bounded(monkeypatch):
    monkeypatch.setattr(similarity, "PACKED", 8)
    sorted_at_once = []
    in_order = similarity._in_order

    def counted(keys, owners):
        sorted_at_once.append(len({*owners}))
        return in_order(keys, owners)

    monkeypatch.setattr(similarity, "_in_order", counted)
    tasks = [task([f"{LONG} {number}"]) for number in range(40)]
    index = SimilarityIndex(tasks[:30])
    for each in tasks[30:]:
        index.add(each)
    assert len(index) == 40 and max(sorted_at_once) < 2 * 8
    assert {match.other for match in index.matches(tasks[35])} == {
        each.id for each in tasks if each is not tasks[35]
    }


class CountedGrams(np.ndarray):
    """Notes how many grams each search has asked for."""

    searches: ClassVar[list[int]] = []

    def searchsorted(self, *asked: Any, **how: Any) -> Any:
        self.searches.append(len(asked[0]))
        return np.asarray(self).searchsorted(*asked, **how)


def test_where_nothing_is_near_half_of_the_grams_say_so(monkeypatch):
    monkeypatch.setattr(CountedGrams, "searches", [])
    [held] = SimilarityIndex([task([LONG])])._packs
    pack = dataclasses.replace(held, grams=held.grams.view(CountedGrams))
    _, [query] = similarity._keys(task([LONG.replace(" ", "x ")]))
    assert pack.alike(query) == []
    assert CountedGrams.searches == [len(query) // 2 + 1]
    [short] = SimilarityIndex([task(["free to use"])])._packs
    assert short.alike(query) == []


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("random_seed", range(3))
def test_the_index_agrees_with_comparing_every_pair(random_seed, monkeypatch):
    rng = random.Random(random_seed)
    monkeypatch.setattr(similarity, "PACKED", 24)  # a few that are sorted apart

    def text(base):
        words = list(base)
        for _ in range(rng.choice([0, 0, 1, 1, 2, 4])):
            words[rng.randrange(len(words))] = rng.choice("uvwxyz")
        start = rng.randrange(3)
        return " ".join(words[start : len(words) - rng.randrange(4)])

    bases = [
        [rng.choice("abcdefghijklmnopqrst") for _ in range(rng.randrange(11, 30))]
        for _ in range(12)
    ]
    tasks = [
        task([text(rng.choice(bases)) for _ in range(2)], [(Call("count", {"amount": n}),), ()])
        for n in range(160)
    ]
    index = SimilarityIndex()
    given = SimilarityIndex(tasks[:80])
    hits = 0
    for number, each in enumerate(tasks):
        expected = {known.id for known in tasks[:number] if reference_match(each, known)}
        assert {match.other for match in index.matches(each)} == expected
        hits += bool(expected)
        index.add(each)
        given.add(each)
    assert hits > 20
    for each in tasks:
        assert [*given.matches(each)] == [*index.matches(each)] and each.id in given
    for each in tasks[::3]:
        index.remove(each.id)
        given.remove(each.id)
    for each in tasks:
        assert [*given.matches(each)] == [*index.matches(each)]
        assert len(given) == len(index) and (each.id in given) == (each.id in index)


def test_gates_tell_which_task_and_why():
    held = task([LONG], split="test")
    index = held_out_index([held, task(["free to use"])])
    assert len(index) == 1
    assert contamination(task(["x", LONG]), index) == [
        Reason(f"held out: its query of turn 1 nearly repeats one of task {held.id}")
    ]
    assert contamination(task([LONG]), index) == [Reason(f"it is the held-out task {held.id}")]
    assert index.find(task(["nothing like it"])) is None
    assert index.find(held) is None


def test_overlaps_of_given_splits_are_listed_from_the_training_side():
    held = task([LONG], split="validation")
    near = task(["hello", LONG])
    free = task(["unrelated"])
    assert overlaps([free, held, near]) == [(near.id, Match("query", held.id, 1))]
