"""Stage IV: five criteria, both classes of faults, and answers that are
none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from rods.asking import Question
from rods.composing.records import Draft
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.llm.judging import conversation
from rods.daemon.authors.llm.questions import Asker
from rods.environments.base import Result
from rods.faults import Reason
from rods.tasks import Task
from tests.daemon.authors.llm.later import later
from tests.daemon.authors.llm.later_roles import PASSED
from tests.daemon.authors.llm.world import assignment, playing
from tests.daemon.pipelines import listening, seed, steady
from tests.rods.composing.drafts import made, planned

CRITERIA = [name for name in PASSED if name != "issue"]
# turn at fault, where the stub's judge calls a fault query_fixable
FIXABLE = {"alignment": 1, "naturalness": 0}
FORMS = pytest.mark.parametrize("calls", ["batched", "per_turn"])


async def drafted() -> tuple[Assignment, Draft, Task]:
    """A draft of the procedural author, and its task."""
    stages = await steady(seed())
    given = stages.given
    draft = stages.draft
    texts = await stages.rewrite(given, draft)
    return given, draft, await stages.form(given, draft, texts, "base")


@FORMS
@pytest.mark.parametrize("criterion", CRITERIA)
async def test_each_criterion_can_fail_a_sample_and_the_reason_is_recorded(
    stub: Stub, criterion: str, calls: str
) -> None:
    async with later(stub, f"{criterion}_fails", calls=calls) as it:
        outcome = await it.bench.write(seed(), it.author)
    rejection = it.bench.rejections[0]
    assert (rejection.stage, rejection.error) == ("judge", "judge_rejected")
    (fault,) = rejection.evidence
    assert fault["reason"] == f"fails {criterion}: {criterion} is poor"
    classified = ["classify"] if calls == "per_turn" else []
    if criterion in FIXABLE:  # the turn at fault is reworded, then gates and judge are asked again
        assert (fault["verdict"], fault["turn"]) == ("query_fixable", FIXABLE[criterion])
        assert it.stages() == ["rewrite", "judge", *classified, "refine", "judge"]
        assert isinstance(outcome, Task)
        reworded = [turn for turn, text in enumerate(outcome.script) if text.startswith("Kindly")]
        assert reworded == [FIXABLE[criterion]]
    else:
        assert fault["verdict"] == "gt_unfixable" and outcome == "judge_rejected"
        assert it.stages() == ["rewrite", "judge", *classified]


@FORMS
async def test_what_is_rejected_after_its_one_refinement_is_dropped(stub: Stub, calls: str) -> None:
    async with later(stub, "never_pleased", calls=calls) as it:
        assert await it.bench.write(seed(), it.author) == "judge_rejected"
    classified = ["classify"] if calls == "per_turn" else []
    assert it.stages() == ["rewrite", "judge", *classified, "refine", "judge", *classified]
    assert it.bench.failures() == [("judge", "judge_rejected")] * 2


async def test_the_next_attempt_knows_what_the_judge_held_against_this_one(stub: Stub) -> None:
    async with later(stub, "consistency_fails", attempts=2) as it:
        author = listening(it.author)
        await it.bench.write(seed(), author)
    seen = [given for (given,) in author.arguments("plan")]
    learnt = [(error.type, error.turn, error.detail) for error in seen[-1].failures]
    assert seen[0].failures == ()
    assert ("conversation_construct_failed", 0, "fails consistency: consistency is poor") in learnt


@FORMS
async def test_a_judge_sees_what_the_calls_give_in_the_world_of_the_task(
    stub: Stub, calls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long context's is padded after the draft has run: what is ambiguous there shows in these
    results alone."""
    task, draft = made(planned(["see_team"], ["see_day"]), "long_context", seed=1)
    drafted_text = draft.turns[0][0].result.text
    shown_text = task.provenance["results"][0][0]
    assert drafted_text != shown_text
    asked: dict[str, str] = {}
    ask = Asker.ask_keyed

    async def listening(
        self: Asker, rng: Any, question: Question[Any], *told: Any, **options: Any
    ) -> Any:
        asked[question.template] = question.fields["conversation"]
        return await ask(self, rng, question, *told, **options)

    monkeypatch.setattr(Asker, "ask_keyed", listening)
    async with later(stub, "consistency_fails", calls=calls) as it:
        await it.author.judge(assignment(), draft, task)
    assert asked.keys() == {"judge_quality"} | (
        {"refine_classify"} if calls == "per_turn" else set()
    )
    for shown in asked.values():
        assert json.dumps(shown_text) in shown and json.dumps(drafted_text) not in shown


async def test_of_a_padded_result_a_judge_sees_what_the_call_gives_and_how_long_it_is() -> None:
    _, draft, task = await drafted()
    given = draft.turns[0][0]
    own = Result("", {"level": 9.5, "mode": "off"})
    padding = "; ".join(f"Part {number}: Normal" for number in range(400))
    text = json.dumps({"metadata": padding, "level": 9.5, "mode": "off"})
    draft = replace(draft, turns=((replace(given, result=own),),))
    provenance = {**task.provenance, "results": [[text]]}
    task = replace(task, script=task.script[:1], calls=task.calls[:1], provenance=provenance, id="")
    shown = conversation(draft, task, 4000)
    assert '\\"level\\": 9.5' in shown and '\\"mode\\": \\"off' in shown
    assert f"of {len(text)} characters" in shown and len(shown) < 1200


async def test_a_judge_sees_no_story_and_has_room_for_what_it_thinks(
    stub: Stub, tmp_path: Path
) -> None:
    given, draft, task = await drafted()
    with Stub(
        playing("tests.daemon.authors.llm.later_roles:good"), bodies=tmp_path / "bodies"
    ) as own:
        async with later(own) as it:
            await it.author.judge(given, draft, task)
    (body,) = map(json.loads, (tmp_path / "bodies").read_text().splitlines())
    (story,) = (
        draft.plan.narrative.values()
        if len(draft.plan.narrative) == 1
        else [str(draft.plan.narrative["story"])]
    )
    assert story not in body["messages"][1]["content"], "it is no evidence"
    schema = body["response_format"]["json_schema"]["schema"]["properties"]
    assert schema["reason"]["maxLength"] >= 2000 and schema["issue"]["maxLength"] >= 2000


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("habit", ["tagless", "contradictory", "out_of_range"])
async def test_a_verdict_that_cannot_be_read_is_a_typed_error(
    stub: Stub, habit: str, structured: bool
) -> None:
    async with later(stub, habit, structured=structured) as it:
        assert await it.bench.write(seed(), it.author) == "query_verify_no_tag"
    assert it.stages() == ["rewrite", "judge", "judge", "judge"]
    rejection = it.bench.rejections[-1]
    assert (rejection.stage, rejection.error) == ("judge", "query_verify_no_tag")
    assert json.loads(rejection.raw)["said"]


async def test_prose_around_an_answer_is_passed_over_and_a_wrong_type_is_asked_again(
    stub: Stub,
) -> None:
    async with later(stub, "chatty") as it:
        await it.bench.variant(seed(), it.author)
    assert it.stages() == ["rewrite", "judge", "judge"]


@pytest.mark.parametrize(
    ("habit", "cycles", "refined"), [("inventive", 1, 1), ("twice_inventive", 2, 2)]
)
async def test_what_a_gate_holds_against_the_words_of_a_turn_is_refined_like_what_the_judge_does(
    stub: Stub, habit: str, cycles: int, refined: int
) -> None:
    async with later(stub, habit, refine_cycles=cycles) as it:
        variant = await it.bench.variant(seed(), it.author)
    assert it.stages() == ["rewrite", *["refine"] * refined, "judge"]
    assert it.bench.failures() == [("judge", "requests")] * refined
    assert "7712" not in " ".join(variant.script) and variant.provenance["attempts"] == 1


async def test_faults_in_more_turns_than_may_be_refined_end_the_attempt(stub: Stub) -> None:
    for habit, cycles in (("twice_inventive", 1), ("inventive", 0)):
        async with later(stub, habit, refine_cycles=cycles) as it:
            assert await it.bench.write(seed(), it.author) == "requests"
        assert it.stages() == ["rewrite"]


@pytest.mark.parametrize("llm", [True, False])
async def test_a_judge_settles_what_rules_doubt_of_a_models_words(
    stub: Stub, llm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, draft = made(planned(["see_team"], ["see_day"]), "base", seed=1)
    doubt = Reason("nobody asks for see_day", 1, 0, doubt=True)
    shown = list[str]()
    ask = Asker.ask_keyed

    async def listening(
        self: Asker, rng: Any, question: Question[Any], *told: Any, **options: Any
    ) -> Any:
        shown.append(question.fields.get("doubts", ""))
        return await ask(self, rng, question, *told, **options)

    monkeypatch.setattr(Asker, "ask_keyed", listening)
    doubts = [doubt] if llm else []
    async with later(stub, "consistency_fails") as it:
        await it.author.judge(assignment(), draft, task, doubts=doubts)
    assert shown == ["- turn 2, call 1: nobody asks for see_day" if llm else ""]


@pytest.mark.parametrize(("doubt", "error"), [(True, None), (False, "requests")])
async def test_what_is_certain_is_refused_before_any_judge(
    stub: Stub, doubt: bool, error: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*told: Any) -> list[Reason]:
        return [Reason("nobody asks for it", 0, 0, doubt=doubt)]

    async with later(stub) as it:
        monkeypatch.setattr("rods.gates.requests", refusing)
        outcome = await it.bench.write(seed(), it.author)
    assert ("judge" in it.stages()) is doubt
    assert isinstance(outcome, Task) if error is None else outcome == error
