"""Each gate refuses its own kind of fault, and `check` asks them in the paper's order."""

from dataclasses import replace

import pytest

from bench.bfcl_variants import look_ups
from rods.analysis.profile import profile
from rods.calls import Call
from rods.config import Gates
from rods.environments.base import Result, reference
from rods.errors import InfrastructureError
from rods.faults import GateRejection, Reason
from rods.gates import check
from rods.gates.ground_truth import abridged, arguments, replay, run, tools
from rods.gates.similarity import SimilarityIndex
from rods.gates.texts import style, unnatural
from rods.gates.values import grounding
from rods.tasks import EnvironmentRef, Task
from tests.environments import load
from tests.rods.composing.drafts import desk, made, planned
from tests.rods.toy_environment import Toy, World, environment

TOY = environment()


def task(**changes):
    fields = {
        "environment": reference(TOY),
        "type": "base",
        "script": ("Write a note called milk that says two bottles.", "Read it to me, please."),
        "calls": (
            (Call("write", {"title": "milk", "body": "two bottles"}),),
            (Call("read", {"note_id": 101}),),
        ),
        "tools": ("write", "read", "count"),
    }
    return Task(**{**fields, **changes})


def test_replay_passes_what_runs_and_names_what_fails():
    assert replay(TOY, task()) == []
    failing = task(calls=((), (Call("read", {"note_id": 7}),)))
    assert replay(TOY, failing) == [Reason("read fails (tool): error: no note 7", 1, 0)]


def test_replay_starts_from_the_tasks_own_state_each_time():
    own = task(
        calls=((), (Call("read", {"note_id": 7}),)),
        state={"notes": {"7": {"title": "a", "body": "b"}}},
    )
    assert replay(TOY, own) == replay(TOY, own) == []
    assert "is rejected" in replay(TOY, task(state={"other": 1}))[0].text


def test_replay_must_reproduce_recorded_results():
    recorded = [['{"note_id":101}'], ['{"title":"milk","body":"two bottles"}']]
    assert replay(TOY, task(provenance={"results": recorded})) == []
    assert "recorded was" in replay(TOY, task(provenance={"results": [recorded[0], ["x"]]}))[0].text
    assert (
        "recorded was nothing" in replay(TOY, task(provenance={"results": [recorded[0]]}))[0].text
    )
    long = task(
        calls=(
            (Call("write", {"title": "milk", "body": "b" * 60}),),
            (Call("read", {"note_id": 101}),),
        )
    )
    texts = [[result.text for result in turn] for turn in run(TOY, long)]
    kept = abridged(replace(long, provenance={"results": texts, "seed": "s"}))
    assert kept.id == long.id and kept.provenance["seed"] == "s"
    assert kept.provenance["results"][0] == texts[0]  # short ones stay
    assert kept.provenance["results"][1][0].startswith("sha256:") and replay(TOY, kept) == []
    other = replace(
        long, calls=((Call("write", {"title": "milk", "body": "c" * 60}),), long.calls[1]), id=""
    )
    assert (
        "recorded was 'sha256:" in replay(TOY, replace(other, provenance=kept.provenance))[0].text
    )
    assert "one list of texts" in replay(TOY, task(provenance={"results": 5}))[0].text
    honest = load("tests.rods.toy_environment:honestly_nondeterministic")
    drifting = task(
        environment=reference(honest),
        calls=((), (Call("total"),)),
        provenance={"results": [[], ["1"]]},
    )
    assert replay(honest, drifting) == []


def test_replay_refuses_another_version_of_the_environment():
    assert "written for" in replay(TOY, task(environment=EnvironmentRef(TOY.name, "0")))[0].text


def test_broken_machinery_is_not_the_tasks_fault():
    class Dead(World):
        def call(self, call):
            return Result("worker died", error="infrastructure")

    dead = Toy("environment", Dead)
    with pytest.raises(InfrastructureError, match="worker died"):
        replay(dead, task())


def test_tools_must_be_visible_in_their_turn():
    assert tools(TOY, task()) == []
    assert tools(TOY, task(tools=("write", "count"))) == [
        Reason("read is not among the task's tools", 1, 0)
    ]
    missing = task(type="miss_func", later_tools={1: ("read",)})
    assert tools(TOY, missing) == []
    early = replace(missing, later_tools={1: ("write",)}, id="")
    assert tools(TOY, early) == [Reason("write is held out until turn 1", 0, 0)]
    assert tools(TOY, task(tools=("write", "read", "fly"))) == [
        Reason("the environment has no tool 'fly'")
    ]


def test_arguments_are_bounded_however_deep():
    gates = Gates(max_string=10, max_list=2)

    def asked(value):
        return arguments(task(calls=((Call("write", {"title": value}),), ())), gates)

    assert asked("x" * 10) == [] and asked([1, 2]) == []
    assert asked("x" * 11) == [
        Reason("write: title has 11 characters, at most 10 are allowed", 0, 0)
    ]
    assert len(asked([1, 2, "x" * 11])) == 2
    assert len(asked({"deep": [["a", "b", "c"]]})) == 1


def ask(variant, *, gates=None, held_out=(), root=None):
    root = root or profile(TOY, task())
    return list(check(TOY, variant, root, gates or Gates(), SimilarityIndex(held_out)).rejections)


ORDER = [
    *("replay", "tools", "arguments", "leaks", "grounding", "requests", "missing"),
    *("repeats", "profile", "contamination"),
]
TOTAL = (Call("total"),)
WRONG = {
    "type": "miss_func",
    "script": ("one", "two {}", "Read it to me, please.", "Read it to me, please!"),
    "calls": (
        (Call("write", {"title": "a", "body": "x" * 79}),),
        (Call("read", {"note_id": 7}),),
        TOTAL,
        TOTAL,
    ),
}


def test_check_gives_every_rejection_in_the_papers_order():
    rejected = ask(task(**WRONG), gates=Gates(max_string=70), held_out=[task(**WRONG)])
    assert [each.gate for each in rejected] == ORDER
    assert all(each.reasons for each in rejected)


@pytest.mark.parametrize("gate", ORDER)
def test_every_gate_has_a_switch(gate):
    rejected = ask(
        task(**WRONG), gates=Gates(max_string=70, **{gate: False}), held_out=[task(**WRONG)]
    )
    assert [each.gate for each in rejected] == [each for each in ORDER if each != gate]


def test_a_good_variant_passes_all_gates():
    variant = task(
        script=("Put up a note named rent, it must say pay on monday.", "Show me that note again."),
        calls=(
            (Call("write", {"title": "rent", "body": "pay on monday"}),),
            (Call("read", {"note_id": 101}),),
        ),
    )
    assert ask(variant, held_out=[task(type="miss_param")]) == []


@pytest.mark.parametrize(("said", "doubts"), [("feet", [True]), ("miles", [False]), ("ft", [])])
def test_a_unit_said_in_words_only_is_a_doubt(said, doubts):
    variant = task(
        script=(f"Put up a note named heights, it must say {said}.", "What is the total?"),
        calls=((Call("write", {"title": "heights", "body": "ft"}),), TOTAL),
    )
    found = grounding(TOY, variant, run(TOY, variant))
    assert [reason.doubt for reason in found] == doubts


def test_check_answers_with_the_results_and_the_profile_of_its_one_run():
    worlds = []

    class Counted(Toy):
        def reset(self, state):
            worlds.append(state)
            return super().reset(state)

    nothing = SimilarityIndex()
    gates = Gates(leaks=False, grounding=False, requests=False, missing=False, repeats=False)
    counted = Counted("environment", World)
    checked = check(counted, task(), profile(TOY, task()), gates, nothing)
    assert len(worlds) == 1 and checked.rejections == ()
    assert checked.results == run(TOY, task()) and checked.profile == profile(TOY, task())
    foreign = task(environment=EnvironmentRef(TOY.name, "0"))
    checked = check(TOY, foreign, profile(TOY, task()), Gates(replay=False, profile=False), nothing)
    assert (checked.results, checked.profile) == (None, None)


def test_what_cannot_run_has_no_profile():
    rejected = ask(
        task(calls=((Call("fly"),), ()), tools=("fly",)),
        gates=Gates(replay=False, tools=False, leaks=False),
    )
    reason = Reason("its ground truth does not run here, so it has no profile")
    assert rejected == [GateRejection("profile", (reason,))]
    assert rejected[0].as_json() == {"gate": "profile", "reasons": [reason.text]}


def test_look_ups_are_calls_that_only_feed_a_later_one_and_are_asked_for_by_a_clause_of_their_own():
    desk = load("desk")
    event = {"title": "launch", "day": "thursday", "hour": 9, "room": "", "guests": []}
    moved = Task(
        environment=reference(desk),
        type="base",
        script=("Put the launch on monday at 17.",),
        calls=(
            (
                Call("find_event", {"title": "launch"}),
                Call("move_event", {"event": "e13", "day": "monday", "hour": 17}),
            ),
        ),
        tools=("find_event", "move_event"),
        state={"today": "monday", "calendar": {"events": {"e13": event}, "next": 26}},
    )
    assert look_ups(desk, moved) == {(0, 0): False}
    told = replace(
        moved, script=("Find the launch by its title, and move it to monday at 17.",), id=""
    )
    assert look_ups(desk, told) == {(0, 0): True}
    alone = replace(moved, script=("Find the launch.",), calls=(moved.calls[0][:1],), id="")
    assert look_ups(desk, alone) == {}, "what feeds nothing is what the user wants"


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("Look it up. Please please.", "says 'Please please'"),
        ("Take the one of the rooms.", "says 'the one of'"),
        ("take the room.", "not written in sentences"),
        ("Take the room", "not written in sentences"),
        ("", "not written in sentences"),
        ('Name it "tea"', "not written in sentences"),
        ("Well then. " * 20 + "Go.", "words long"),
    ],
)
def test_a_text_that_no_user_would_type_is_a_defect_of_the_turn_that_serves_it(
    text: str, issue: str
) -> None:
    first, draft = made(planned(["see_day"], [], ["pay_vendor"]), "miss_func")
    assert draft.turns and style(first, desk().book.longest) == []
    spoilt = replace(first, script=(first.script[0], text, first.script[2]), id="")
    (defect,) = style(spoilt, desk().book.longest)
    assert issue in defect.reason
    assert (defect.verdict, defect.turn) == ("query_fixable", 2)


@pytest.mark.parametrize("text", ['Name it "tea."', "What is ‘tea?’", "Call the note 'So it is.'"])
def test_a_sentence_may_end_with_what_it_quotes(text: str) -> None:
    assert unnatural(text, 20) == []
