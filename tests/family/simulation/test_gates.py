"""The gates of drawn tasks: what can be reached passes, and each trap is refused by the gate that
is meant for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from rods import dialects
from rods.calls import Call
from rods.config import Gates
from rods.conversations import Persona, Rubric
from rods.daemon.authors.base import Assignment
from rods.environments.base import Instance, Result, reference
from rods.episode.drivers import Job
from rods.episode.engine import NeedOutcome, Outcome
from rods.episode.users import procedural_user
from rods.errors import InfrastructureError
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.generating import DrawnTask, draw_task, open_task
from rods.family.simulation.repository import shipped
from rods.family.simulation.variants import (
    DrawnKind,
    Playing,
    replayed_drawn,
    results_of,
    witnesses,
)
from rods.gates import varied
from rods.gates.grounding import ungrounded
from rods.gates.similarity import SimilarityIndex, duplicates
from rods.players import Players
from rods.tasks import OpenTask
from tests.environments import ENVIRONMENTS

WORLD = ENVIRONMENTS.load("repository")
PLAYERS = Players(ENVIRONMENTS)
TAGS = dialects.load("tags", "plain")
HARD = Levels(tools=6, calls=3, turns=1, system=1, persona=1, ambiguity=1, criteria=0)
EASY = replace(HARD, tools=2, calls=1, turns=0, ambiguity=0)


def playing(task: OpenTask) -> Job:
    return PLAYERS.job(task, TAGS, max_steps=20)


@cache
def drawn(levels: Levels = HARD, slot: int = 0) -> DrawnTask:
    return draw_task(shipped(), levels, 5, 1, slot)


def task(levels: Levels = HARD, slot: int = 0) -> OpenTask:
    return open_task(drawn(levels, slot), reference(WORLD))


def persona(of: OpenTask, **changes: Any) -> OpenTask:
    assert isinstance(of.user, Persona)
    return replace(of, user=replace(of.user, **changes), id="")


def index_of(known: OpenTask | None) -> SimilarityIndex:
    index = SimilarityIndex()
    if known is not None:
        index.add(known)
    return index


def refusals(
    candidate: OpenTask,
    *,
    root: OpenTask | None = None,
    play: Playing = playing,
    held_out: OpenTask | None = None,
    **switches: bool,
) -> dict[str, str]:
    """The gates that refuse the candidate, and why."""
    given = Assignment("pick", 0, root or candidate, root or candidate, 1)
    found = DrawnKind(play).check(WORLD, given, candidate, Gates(**switches), index_of(held_out))
    return {one.gate: "; ".join(map(str, one.reasons)) for one in found.rejections}


def test_tasks_of_the_generator_pass_every_gate() -> None:
    """But for a few that take up a thing which a whole list before does not show."""
    found = [
        refusals(task(levels, slot))
        for levels in (EASY, HARD, replace(HARD, calls=2, turns=2, ambiguity=2, criteria=4))
        for slot in range(12)
    ]
    assert sum(each == {} for each in found) >= 34 and {
        gate for each in found for gate in each
    } <= {"replay"}


def test_a_witness_asks_calls_and_reports() -> None:
    vague = task(replace(HARD, ambiguity=2))
    (trace,) = witnesses([(playing(vague), vague.goal_calls)])
    assert [step.calls[0] for turn in trace.turns for step in turn.steps if step.calls] == list(
        vague.goal_calls
    )
    assert len(results_of(trace)) == 3 and trace.end == "finished" and trace.resolved == 2
    said = [step.text for turn in trace.turns for step in turn.steps if not step.calls]
    assert (
        "Could you tell me about what is wanted;" in said[0]
        and "That is done. [{" in said[-1]
        and "<tool_response>" not in said[-1]
    )
    users = [message.content for message in trace.messages if message.role == "user"]
    assert isinstance(vague.user, Persona) and vague.user.knows["what is wanted"] not in users[0]
    assert any(vague.user.knows["what is wanted"] in text for text in users)


def test_a_user_that_makes_no_request_of_its_own_is_asked() -> None:
    """As a model may be, which knows of further requests from its intent alone."""
    several = task(replace(HARD, turns=2, ambiguity=0))
    assert isinstance(several.user, Persona) and several.user.further

    def quiet(candidate: OpenTask) -> Job:
        return replace(
            playing(candidate),
            user=lambda who, said: procedural_user(replace(who, further=()), said),
        )

    assert refusals(several, play=quiet) == refusals(several) == {}


def test_a_tool_that_is_not_offered_or_not_there_is_refused() -> None:
    made = task()
    with pytest.raises(ValueError, match="not among the task's tools"):
        replace(
            made, tools=tuple(name for name in made.tools if name != made.goal_calls[0].name), id=""
        )
    assert (
        "has no tool 'time_travel'"
        in refusals(replace(made, tools=(*made.tools, "time_travel"), id=""))["tools"]
    )


def called(need: NeedOutcome) -> int:
    return sum(len(step.calls) for turn in need.turns for step in turn.steps)


class Judged:
    """A verifier that gives what `earns` says of the conversation."""

    def __init__(self, earns: Callable[[NeedOutcome], int]) -> None:
        self.earns = earns
        self.asked = 0

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        self.asked += 1
        return Outcome(self.earns(need), 2, ("so it seems",))


def by(verifier: Judged) -> Playing:
    return lambda candidate: replace(playing(candidate), goal=verifier)


@pytest.mark.parametrize("levels", [EASY, HARD])
def test_a_verifier_that_approves_of_everything_is_refused(levels: Levels) -> None:
    why = refusals(task(levels), play=by(Judged(lambda need: 2)))
    missing = "without" if levels is HARD else "with another"
    assert list(why) == ["witness"] and f"a conversation {missing} " in why["witness"]
    assert "earns 2 of 2 (so it seems)" in why["witness"]


@pytest.mark.parametrize("earned", [0, 1])
def test_a_verifier_that_refuses_everything_is_refused(earned: int) -> None:
    verifier = Judged(lambda need: earned)
    assert "makes all expected calls earns" in refusals(task(), play=by(verifier))["witness"]
    assert verifier.asked == 1
    assert refusals(task(), play=by(verifier), witness=False) == {}


def test_an_intent_that_needs_another_tool_is_refused_by_a_verifier_that_reads_it() -> None:
    """Rules see calls alone; whoever reads the intent finds that the expected ones do not fulfil
    it."""
    asking = persona(task(), intent="The user wants the assistant to send flowers.")
    reads = Judged(lambda need: 2 if any("flowers" in str(turn) for turn in need.turns) else 0)
    assert list(refusals(asking, play=by(reads))) == ["witness"]


def test_each_left_out_call_is_tried_in_a_world_of_its_own() -> None:
    verifier = Judged(lambda need: 2 if called(need) == 3 else 0)
    made: list[Job] = []

    def play(candidate: OpenTask) -> Job:
        made.append(replace(playing(candidate), goal=verifier))
        return made[-1]

    assert refusals(task(), play=play) == {} and len(made) == verifier.asked == 4


def test_a_fact_that_nobody_knows_is_refused() -> None:
    made = task(EASY)
    call = made.goal_calls[0]
    name, value = next(
        (name, value) for name, value in call.arguments.items() if isinstance(value, str)
    )
    assert isinstance(made.user, Persona) and isinstance(made.goal, Rubric)
    secret = Rubric(made.goal.criteria, (Call(call.name, {**call.arguments, name: value[::-1]}),))
    forgetful = persona(made, query="Please see to it.", knows={"nothing": "at all"})
    for candidate in (forgetful, replace(made, goal=secret, id="")):
        why = refusals(candidate, witness=False, replay=False, arguments=False)
        assert list(why) == ["grounding"] and f"nobody says or knows {name}=" in why["grounding"]
        assert (
            refusals(candidate, witness=False, replay=False, arguments=False, grounding=False) == {}
        )


def test_what_an_earlier_call_returns_is_known() -> None:
    tools = WORLD.tools()
    made = task(replace(HARD, calls=2, turns=0, ambiguity=0))
    assert isinstance(made.goal, Rubric)
    first, second = made.goal_calls
    name = next(iter(second.arguments))
    taken = replace(
        made,
        goal=Rubric(made.goal.criteria, (first, Call(second.name, {name: "ZX-4711-Q"}))),
        id="",
    )
    assert ungrounded(tools, taken.user, taken.goal_calls, ()) and ungrounded(
        tools, taken.user, taken.goal_calls, (Result("{}", {}),)
    )
    assert (
        ungrounded(
            tools, taken.user, taken.goal_calls, (Result("", {"found": {"id": "ZX-4711-Q"}}),)
        )
        == []
    )


def test_calls_that_break_a_document_or_are_too_large_are_refused() -> None:
    made = task(EASY)
    assert isinstance(made.goal, Rubric)
    call = made.goal_calls[0]
    for arguments, complaint in (
        ({**call.arguments, "colour": "red"}, "colour"),
        ({name: ["x"] * 7 for name in call.arguments}, "7 elements, at most 6"),
    ):
        broken = replace(
            made, goal=Rubric(made.goal.criteria, (Call(call.name, arguments),)), id=""
        )
        assert complaint in refusals(broken)["arguments"]


def test_names_of_tools_are_leaks_wherever_the_user_may_say_them() -> None:
    made = task()
    name = next(name for name in made.tools if "_" in name)
    assert isinstance(made.user, Persona)
    for changed in (
        {"query": f"Do {name}."},
        {"further": (f"Now {name}.",)},
        {"knows": {"how": f"by {name}"}},
    ):
        assert f"names {name!r}" in refusals(persona(made, **changed))["leaks"]


def test_copies_and_near_duplicates_are_refused_whatever_the_criteria() -> None:
    made = task()
    other = task(slot=1)
    assert isinstance(made.goal, Rubric) and isinstance(other.user, Persona)
    judged = replace(
        made, goal=Rubric(("intent", "efficiency"), made.goal.calls), user=other.user, id=""
    )
    assert "it is the held-out task" in refusals(made, held_out=made)["contamination"]
    assert "its ground truth equals" in refusals(made, held_out=judged)["contamination"]
    assert "its ground truth equals" in str(duplicates(made, index_of(judged))[0])
    worded = persona(other, query=f"{made.texts[0]} Thank you.")
    assert "nearly repeats" in str(duplicates(worded, index_of(made))[0])
    assert refusals(other, held_out=made) == {} and duplicates(other, index_of(made)) == []
    assert refusals(made, held_out=judged, contamination=False) == {}


def test_a_variant_keeps_tools_by_category_calls_and_user_of_its_root() -> None:
    made = task()
    for other in (
        replace(HARD, tools=5),
        replace(HARD, calls=2),
        replace(HARD, persona=2),
        replace(HARD, criteria=1),
    ):
        assert list(refusals(task(other), root=made)) == ["profile"]
        assert refusals(task(other), root=made, profile=False) == {}
    (why,) = refusals(task(slot=3), root=made).values()
    assert "tools: {" in why and "instead of" in why  # of other categories


def test_nobody_is_asked_to_play_what_rules_refuse() -> None:
    def broken(candidate: OpenTask) -> Job:
        raise AssertionError("it was played")

    assert "leaks" in refusals(persona(task(), query="Call {x}."), play=broken)


def test_players_that_break_are_no_fault_of_the_task() -> None:
    def silent(need: NeedOutcome) -> int:
        raise InfrastructureError("no answer")

    with pytest.raises(InfrastructureError, match="a witness conversation of task"):
        refusals(task(), play=by(Judged(silent)))


def test_a_witness_is_played_again_and_compared() -> None:
    made = task()
    seen = [result.text for result in results_of(*witnesses([(playing(made), made.goal_calls)]))]
    kept = replace(made, provenance={**made.provenance, "results": [seen]})
    assert replayed_drawn(WORLD, kept, playing(kept)) == []
    edited = replace(made, provenance={**made.provenance, "results": [[*seen[:-1], "{}"]]})
    assert "on record is something else" in str(replayed_drawn(WORLD, edited, playing(edited))[0])
    assert "its witness earns 0 of 2" in str(
        replayed_drawn(WORLD, kept, by(Judged(lambda need: 0))(kept))[0]
    )


def test_what_was_not_drawn_is_not_varied() -> None:
    made = task()
    assert varied(made) and not varied(replace(made, provenance={}))
    assert not varied(replace(made, provenance={"levels": {"tools": 3}}))
    assert isinstance(made.goal, Rubric) and not varied(
        replace(made, goal=Rubric(made.goal.criteria), id="")
    )
