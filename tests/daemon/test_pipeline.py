"""The pipeline: what a variant carries, and that every failure is learnt from, recorded, and
contained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from rods.analysis.profile import distance, profile
from rods.calls import Call
from rods.daemon.authors.base import Judgement, Rejection, with_blanks, without_empty_turns
from rods.errors import InfrastructureError
from rods.faults import PATCHABLE, Defect, ErrorType
from rods.gates import check
from rods.gates.similarity import SimilarityIndex
from rods.tasks import RETURN_SENTENCE, TASK_TYPES, Task, TaskType
from tests.daemon.pipelines import Bench, author, failure, listening, seed, settings, spoil, steady
from tests.environments import load
from tests.word_tokenizer import write_word_tokenizer

WHERE = {  # the author's method in which each error type is made to happen, and the stage on record
    "no_pattern": ("plan", "plan"),
    "param_gen_failed": ("execute", "execute"),
    "decompose_failed": ("execute", "execute"),
    "func_sample_failed": ("initial_state", "execute"),
    "vm_exec_failed": ("execute", "execute"),
    "duplicate_func": ("execute", "execute"),
    "query_gen_failed": ("rewrite", "rewrite"),
    "query_verify_failed": ("rewrite", "rewrite"),
    "query_verify_no_tag": ("rewrite", "rewrite"),
    "conversation_construct_failed": ("form", "judge"),
    "no_prompts": ("plan", "plan"),
    "pipeline_exception": ("judge", "judge"),
    "plan_unreadable": ("plan", "plan"),
}


@pytest.mark.parametrize("type", TASK_TYPES)
async def test_a_variant_keeps_type_side_and_shape_and_says_where_it_came_from(
    type: TaskType,
) -> None:
    root = replace(seed(type), split="train")
    variant = await Bench().variant(root)
    assert variant.id != root.id and variant.type == type and variant.split == root.split
    origin = variant.provenance
    assert origin["seed"] == origin["root"] == root.id and origin["generation"] == 1
    assert origin["plan"]["turns"] and origin["narrative"] == origin["plan"]["narrative"] != {}
    assert origin["model"] == "procedural" and len(origin["prompts"]["phrase_book"]) == 20
    assert 1 <= origin["attempts"] <= 3 and origin["judge"]
    desk = load("desk")
    shape = profile(desk, root)
    assert origin["profile_distance"] == distance(shape, profile(desk, variant)) <= 0.5
    assert check(desk, variant, shape, settings().gates, SimilarityIndex()).rejections == ()
    assert [len(texts) for texts in origin["results"]] == [len(calls) for calls in variant.calls]


@pytest.mark.parametrize("type", TASK_TYPES)
async def test_an_accepted_ground_truth_runs_fresh_once_at_the_gates_for_each_form(
    type: TaskType, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = load("desk")
    histories: list[list[Call]] = []  # the calls of every world that was made

    class Watched:
        def __init__(self, world: Any) -> None:
            self.world = world
            self.calls: list[Call] = []
            histories.append(self.calls)

        def call(self, call: Call) -> Any:
            self.calls.append(call)
            return self.world.call(call)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.world, name)

    who = await steady(seed(type))
    root = seed(type)
    reset = desk.reset
    bench = Bench()
    await bench.pipeline.shape(desk, root)
    monkeypatch.setattr(desk, "reset", lambda state: Watched(reset(state)))
    # the drafts were made before
    variant = await bench.variant(root, listening(who, judge=author().judge))
    truth = [call for turn in variant.calls for call in turn]
    forms = 1 if type in ("base", "long_context") else 2
    padded = type == "long_context"  # the author runs what it has padded
    # and once more, call by call, to find what nobody needs
    assert sum(calls == truth for calls in histories) == 2 * forms + padded


async def test_the_same_job_gives_the_same_variant_and_any_other_key_another() -> None:
    root = seed("miss_func", 1)
    first = await Bench().variant(root)
    assert (await Bench().variant(root)).as_json() == first.as_json()
    others = [
        await Bench().variant(root, index=1),
        await Bench().variant(root, pick="2-seed"),
        await Bench(settings(random_seeds={"daemon": 1})).variant(root),
    ]
    assert len({first.id, *(other.id for other in others)}) == 4


def test_the_table_below_covers_all_error_types() -> None:
    assert set(WHERE) == set(get_args(ErrorType)) and len(WHERE) == 13


@pytest.mark.parametrize("type", WHERE)
async def test_every_error_type_is_recorded_with_stage_evidence_and_raw_text(type: str) -> None:
    method, stage = WHERE[type]
    error: Exception = (
        RuntimeError("a bug") if type == "pipeline_exception" else failure(type, "send_mail")
    )
    who = await steady(seed())
    bench = Bench()
    outcome = await bench.write(seed(), spoil(who, method, error))
    (rejection,) = bench.rejections
    assert (rejection.stage, rejection.error, rejection.attempt) == (stage, type, 1)
    if type == "pipeline_exception":
        assert "RuntimeError: a bug" in rejection.evidence
    else:
        assert rejection.evidence == {
            "type": type,
            "function": "send_mail",
            "turn": 0,
            "detail": "made to fail",
        }
        assert json.loads(rejection.raw)
    # The next round or attempt went well, but no attempt can mend an environment without prompts.
    assert outcome == "no_prompts" if type == "no_prompts" else isinstance(outcome, Task)


async def test_a_seed_is_discarded_when_all_attempts_fail() -> None:
    bench = Bench(settings(pipeline={"attempts": 2, "planner_retries": 4}))
    spoiled = spoil(author(), "plan", *[failure("no_pattern")] * 99)
    assert await bench.write(seed(), spoiled) == "no_pattern"
    assert [rejection.attempt for rejection in bench.rejections] == [1] * 4 + [2] * 4


async def test_a_failure_in_the_environment_is_mended_in_the_state_with_the_same_plan() -> None:
    who = await steady(seed())
    spoiled = spoil(who, "execute", failure("vm_exec_failed", "send_mail"))
    variant = await Bench().variant(seed(), spoiled)
    assert spoiled.methods()[:5] == ["plan", "initial_state", "execute", "patch", "execute"]
    assert spoiled.methods().count("plan") == 1
    before, after = spoiled.arguments("execute")
    assert (
        before[1] == after[1]
        and before[0].rng("realise").random() == after[0].rng("realise").random()
    )
    assert before[2] != after[2] and variant.state == after[2] == {
        **before[2],
        "today": after[2]["today"],
    }


@pytest.mark.parametrize("type", sorted(PATCHABLE))
@pytest.mark.parametrize("feedback", [True, False])
async def test_every_patchable_type_reaches_the_critic(type: ErrorType, feedback: bool) -> None:
    stage = "plan" if type in ("func_sample_failed", "decompose_failed") else "execute"
    spoiled = spoil(await steady(seed()), stage, failure(type, "send_mail"))
    await Bench(settings(pipeline={"feedback": feedback})).variant(seed(), spoiled)
    asked = spoiled.arguments("patch")
    assert len(asked) == feedback
    if feedback:
        ((_, plan, state, error),) = asked
        assert error.type == type and (plan is None) == (stage == "plan")
        if stage == "plan":  # no state yet: the seed's is looked at, and mends those to come
            assert state == seed().state and spoiled.methods()[:4] == [
                "plan",
                "patch",
                "plan",
                "initial_state",
            ]
            assert spoiled.arguments("execute")[0][2] != {**state, "today": "monday"}


async def test_a_function_that_fails_again_after_mending_leads_to_another_plan_without_it() -> None:
    who = await steady(seed())
    spoiled = spoil(who, "execute", *(failure("vm_exec_failed", "send_mail") for _ in range(2)))
    await Bench().variant(seed(), spoiled)
    (first,), (second,) = spoiled.arguments("plan")
    assert spoiled.methods().count("patch") == 1
    assert first.blocked == frozenset() and second.blocked == {"send_mail"}
    assert [error.type for error in second.failures] == ["vm_exec_failed"] * 2
    assert first.rng("plan").random() != second.rng("plan").random()


async def test_the_blocklist_grows_over_attempts_and_blind_retry_knows_nothing() -> None:
    for feedback in (True, False):
        unworded = (
            failure("query_gen_failed", "move_event"),
            failure("query_gen_failed", "pay_bill"),
        )
        spoiled = listening(
            await steady(seed()),
            {"execute": [failure("vm_exec_failed", "send_mail")], "rewrite": unworded},
        )
        await Bench(settings(pipeline={"feedback": feedback})).variant(seed(), spoiled)
        (last,) = spoiled.arguments("plan")[-1]
        assert last.blocked == (
            {"send_mail", "move_event", "pay_bill"} if feedback else frozenset()
        )
        assert len(last.failures) == (3 if feedback else 0) and spoiled.methods().count(
            "patch"
        ) == (1 if feedback else 0)


async def test_blocked_functions_are_not_used() -> None:
    patient = settings(pipeline={"attempts": 9})
    usual = sorted(
        {call.name for turn in (await Bench(patient).variant(seed())).calls for call in turn}
    )
    errors = [failure("query_gen_failed", name) for name in usual]
    variant = await Bench(patient).variant(seed(), spoil(author(), "rewrite", *errors))
    assert not {call.name for turn in variant.calls for call in turn} & set(usual)


async def test_an_exception_inside_a_seed_is_contained_attempt_by_attempt() -> None:
    bench = Bench()
    spoiled = spoil(await steady(seed()), "form", *[ZeroDivisionError("x")] * 9)
    assert await bench.write(seed(), spoiled) == "pipeline_exception"
    assert bench.failures() == [("judge", "pipeline_exception")] * 3


async def test_broken_machinery_is_not_mistaken_for_a_bad_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise InfrastructureError("the worker is gone")

    who = await steady(seed())
    monkeypatch.setattr("rods.daemon.pipeline.check", broken)
    bench = Bench()
    assert await bench.write(seed(), who) == "infrastructure"
    assert bench.failures() == [("judge", "infrastructure")] * 3


@pytest.mark.parametrize("method", ["execute", "form"])
async def test_an_environment_that_breaks_under_an_author_is_nobody_s_failure(method: str) -> None:
    bench = Bench()
    spoiled = spoil(await steady(seed()), method, InfrastructureError("the worker is gone"))
    variant = await bench.variant(seed(), spoiled)
    assert [rejection.error for rejection in bench.rejections] == ["infrastructure"]
    assert variant.provenance["attempts"] == 2


class Critical:
    """A judge that finds the given defects in its first verdicts, then none."""

    def __init__(self, *verdicts: tuple[Defect, ...]) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[TaskType] = []

    async def judge(self, given: Any, draft: Any, task: Task, results: Any) -> Judgement:
        self.asked.append(task.type)
        defects = self.verdicts.pop(0) if self.verdicts else ()
        return Judgement("; ".join(defect.reason for defect in defects) or "fine", defects)


async def judged_by(judge: Critical, root: Task | None = None) -> Any:
    """An author who never fails, under this judge."""
    return listening(await steady(root or seed()), judge=judge.judge)


WORDS = Defect("query_fixable", "clumsy", 0)
CALLS = Defect("gt_unfixable", "wrong account", 0)


async def test_a_fault_in_the_words_is_reworded_once_in_its_turn_and_judged_again() -> None:
    judge = Critical((WORDS,))
    bench = Bench()
    variant = await bench.variant(seed(), await judged_by(judge))
    assert judge.asked == ["base", "base"] and variant.provenance["judge"] == "fine"
    assert variant.provenance["attempts"] == 1
    assert bench.failures() == [("judge", "judge_rejected")]
    assert bench.rejections[0].evidence == [
        {"verdict": "query_fixable", "turn": 0, "reason": "clumsy"}
    ]
    before = json.loads(bench.rejections[0].raw)["user"]["script"]
    assert variant.script[0] != before[0]
    assert variant.script[1:] == tuple(before[1:])  # only the faulty turn was touched


async def test_a_second_fault_or_one_in_the_calls_drops_the_candidate() -> None:
    for verdicts, reworded in (((WORDS,), (WORDS,)), 1), (((CALLS,),), 0):
        who = await judged_by(Critical(*verdicts))
        variant = await Bench().variant(seed(), who)
        assert variant.provenance["attempts"] == 2
        assert who.methods().count("reword") == reworded
    none = Bench(settings(pipeline={"refine_cycles": 0}))
    variant = await none.variant(seed(), await judged_by(Critical((WORDS,))))
    assert variant.provenance["attempts"] == 2


async def test_stage_five_is_judged_again_and_gets_no_second_refinement() -> None:
    root = seed("miss_func")
    judge = Critical((), (WORDS,))
    bench = Bench()
    variant = await bench.variant(root, await judged_by(judge, root))
    assert judge.asked == ["base", "miss_func", "base", "miss_func"]
    assert (
        bench.failures() == [("adversarial", "judge_rejected")]
        and variant.provenance["attempts"] == 2
    )


async def test_without_the_judge_nobody_objects() -> None:
    judge = Critical((CALLS,), (CALLS,))
    variant = await Bench(settings(pipeline={"judge": False})).variant(
        seed(), await judged_by(judge)
    )
    assert judge.asked == [] and variant.provenance["judge"] == "not judged"


async def test_without_stage_five_only_plain_types_are_written() -> None:
    config = settings(pipeline={"adversarial": False})
    for type in ("miss_func", "miss_param"):
        outcome = await Bench(config).write(seed(type))
        assert isinstance(outcome, str) and "stage V" in outcome
    assert (await Bench(config).variant(seed("long_context"))).type == "long_context"
    assert RETURN_SENTENCE in (await Bench().variant(seed("miss_func"))).script


async def test_planning_switches_change_what_is_planned() -> None:
    root = seed()
    mine = sorted(call.name for turn in root.calls for call in turn)
    same = await Bench(settings(pipeline={"functions": "same"})).variant(root)
    other = await Bench().variant(root)
    assert sorted(call.name for turn in same.calls for call in turn) == mine
    assert sorted(call.name for turn in other.calls for call in turn) != mine
    plotless = await Bench(settings(pipeline={"narrative": False})).variant(root)
    assert plotless.provenance["narrative"] == {}
    assert [len(turn) for turn in plotless.calls] == [len(turn) for turn in other.calls]


async def test_without_the_rewrite_each_turn_is_worded_for_itself() -> None:
    who = listening(author())
    apart = await Bench(settings(pipeline={"rewrite": False})).variant(seed(), who)
    assert "queries" in who.methods() and "rewrite" not in who.methods()
    assert apart.script != (await Bench().variant(seed())).script


def tampered(gate: str, task: Task) -> Task:
    """`task` as a gate must not let it pass."""
    if gate == "replay":
        results = [["something else" for _ in turn] for turn in task.calls]
        return replace(task, provenance={**task.provenance, "results": results}, id="")
    if gate == "tools":
        used = {call.name for turn in task.calls for call in turn}
        return replace(task, tools=tuple(name for name in task.tools if name not in used), id="")
    return task


@pytest.mark.parametrize(
    "gate", ["replay", "tools", "arguments", "profile", "duplicates", "contamination"]
)
async def test_each_gate_rejects_and_each_can_be_switched_off(gate: str) -> None:
    root = seed()
    who = await steady(root)
    tight: dict[str, dict[str, Any]] = {
        "arguments": {"max_string": 1},
        "profile": {"profile_distance": 0.0},
    }
    limits = tight.get(gate, {})
    leaked = SimilarityIndex()
    if gate == "contamination":
        leaked.add(await Bench().variant(root, who))

    async def form(*given: Any) -> Task:
        return tampered(gate, await who.form(*given))

    def admit(task: Task) -> list[str]:
        return ["it repeats another"] if gate == "duplicates" else []

    spoiled = listening(who, form=form)
    closed = Bench(settings(gates=limits, pipeline={"attempts": 1}), leaked)
    open_ = Bench(settings(gates={**limits, gate: False}, pipeline={"attempts": 1}), leaked)
    assert await closed.write(root, spoiled, admit=admit) == gate
    stage = "admission" if gate == "duplicates" else "judge"
    assert closed.failures()[-1] == (stage, gate) and closed.rejections[-1].evidence
    assert isinstance(await open_.write(root, spoiled, admit=admit), Task)


async def test_a_variant_that_does_not_fit_the_policys_context_is_refused(tmp_path: Path) -> None:
    """By the policy's tokenizer; the next attempt knows in which turn the context was full."""
    folder = write_word_tokenizer(tmp_path / "model")
    policy = {"kind": "transformers", "model": str(folder), "dialect": "hermes"}
    tight: dict[str, dict[str, Any]] = {"policy": policy, "rollouts": {"max_context_tokens": 16}}
    root = seed()
    who = await steady(root)
    closed = Bench(settings(**tight))
    assert await closed.write(root, listening(who)) == "room"
    assert closed.failures() == [("judge", "room")] * 3
    assert "its ground truth has" in str(closed.rejections[0].evidence)
    assert isinstance(await Bench(settings(**tight, gates={"room": False})).write(root, who), Task)
    wide: dict[str, dict[str, Any]] = {"policy": policy, "rollouts": {"max_context_tokens": 12_288}}
    assert isinstance(await Bench(settings(**wide)).write(root, who), Task)


async def test_a_draft_loses_its_blank_turns_for_stage_four_and_gets_them_back() -> None:
    who = listening(await steady(seed("miss_param")))
    await Bench().variant(seed("miss_param"), who)
    (_, simple, texts, _), (_, draft, full, _) = who.arguments("form")
    assert simple == without_empty_turns(draft) and full == with_blanks(draft, texts)
    assert (
        all(simple.turns) and not all(draft.turns) and len(simple.plan.turns) == len(simple.turns)
    )
    for turn in simple.turns:
        for bound in turn:
            for argument, flow in bound.flows.items():
                if flow.origin is not None:
                    source = simple.turns[flow.origin[0]][flow.origin[1]]
                    assert str(bound.call.arguments[argument]) in source.result.text


@pytest.mark.parametrize(("rounds", "patches"), [(1, 2), (3, 8)])
async def test_the_last_failure_of_an_attempt_reaches_the_critic_where_another_attempt_follows(
    rounds: int, patches: int
) -> None:
    names = [f"tool_{number}" for number in range(3 * rounds)]
    spoiled = spoil(author(), "plan", *(failure("func_sample_failed", name) for name in names))
    bench = Bench(settings(pipeline={"attempts": 3, "planner_retries": rounds}))
    assert await bench.write(seed(), spoiled) == "func_sample_failed"
    assert [error.function for *_, error in spoiled.arguments("patch")] == names[:patches]


@pytest.mark.parametrize("turn", [0, None])
async def test_what_a_judge_holds_against_calls_blocks_the_functions_of_their_turn_or_all(
    turn: int | None,
) -> None:
    defect = Judgement("odd", (Defect("gt_unfixable", "odd", turn),))
    judged = iter([defect])

    async def judge(*_: Any) -> Judgement:
        return next(judged, Judgement("fine"))

    who = listening(await steady(seed()), judge=judge)
    await Bench(settings(pipeline={"attempts": 2})).write(seed(), who)
    first, *_ = who.arguments("judge")
    (last,) = who.arguments("plan")[-1]
    assert last.blocked == set(first[1].functions(None if turn is None else [turn]))


async def test_a_fault_of_a_turn_asked_in_vain_blocks_what_the_next_one_calls() -> None:
    judgement = Judgement("odd", (Defect("gt_unfixable", "odd", 0),))
    who = listening(await steady(seed()), judge=lambda *_: judgement)
    await Bench(settings(pipeline={"attempts": 1})).write(seed(), who)
    made = who.arguments("judge")[0][1]
    draft = replace(made, turns=((), *made.turns))
    cause = Rejection.by_judge("judge", judgement, draft, None).cause
    assert cause is not None and cause.functions == tuple(draft.functions([1]))


@pytest.mark.parametrize(("writes", "blocked"), [("llm", set()), ("procedural", {"move_event"})])
async def test_a_fault_of_a_models_words_blocks_no_function(writes: str, blocked: set[str]) -> None:
    spoiled = listening(
        await steady(seed()), {"rewrite": [failure("query_gen_failed", "move_event")]}
    )
    await Bench(settings(pipeline={"author": writes})).variant(seed(), spoiled)
    (last,) = spoiled.arguments("plan")[-1]
    assert last.blocked == blocked and len(last.failures) == 1
