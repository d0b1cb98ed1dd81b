"""The twelve error types of 004 Appendix E: each is reached, recorded as data, and leads to its
recovery. Nine come through the endpoint, `no_prompts` and `no_pattern` through environments,
`pipeline_exception` through one that raises.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from rods.composing.records import ComposeError, Plan
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.llm import LLMAuthor
from rods.tasks import Task
from tests.daemon.authors.catalogue_free import bare_environment
from tests.daemon.authors.llm import unfit_environments
from tests.daemon.authors.llm.early import Early, early, planned, with_plan
from tests.daemon.authors.llm.world import assignment
from tests.daemon.pipelines import listening, seed
from tests.environments import load

UNFIT = "tests.daemon.authors.llm.unfit_environments"
RAISING = "tests.daemon.raising_environment:environment"


def shallow() -> Task:
    """A seed of one turn with one call."""
    root = seed()
    turn, call = next((turn, call) for turn, calls in enumerate(root.calls) for call in calls[:1])
    return replace(root, script=(root.script[turn],), calls=((call,),), id="", provenance={})


def recorded(who: Early, error: str) -> dict[str, Any]:
    """The first rejection of this type, whose evidence is structured."""
    found = next(one for one in who.bench.rejections if one.error == error)
    assert (
        set(found.evidence) >= {"type", "function", "turn", "detail"}
        and found.evidence["type"] == error
    )
    evidence: dict[str, Any] = found.evidence
    return evidence


async def test_param_gen_failed_asks_the_critic_and_blocks_the_function(stub: Stub) -> None:
    async with early(stub, "speechless", attempts=1) as who:
        assert await who.write(seed()) == "param_gen_failed"
        assert recorded(who, "param_gen_failed")["function"] and "patch" in who.stages()
        assert "I cannot think of anything." in who.bench.rejections[0].raw


async def test_decompose_failed_leads_to_single_tools(stub: Stub) -> None:
    given = assignment()
    async with early(stub, "long_winded", structured=False) as who:
        plan = who.author.plan
        with pytest.raises(ComposeError, match="comes down to the 3 calls") as caught:
            await plan(given)
        assert caught.value.type == "decompose_failed" and "mail_lone_member" in caught.value.detail
        made = await planned_by_chance(who, replace(given, failures=(caught.value,)))
        assert all(turn.recipes == turn.tools for turn in made.turns)


async def test_of_single_tools_alone_nothing_is_decomposed(stub: Stub) -> None:
    async with early(
        stub, "long_winded", structured=False, recipes=False, attempts=1, planner_retries=1
    ) as who:
        await who.write(seed())
        assert recorded(who, "func_sample_failed")["detail"].endswith(
            "'mail_lone_member' is no function"
        )
        assert "decompose_failed" not in [one.error for one in who.bench.rejections]


def longest() -> Task:
    """A seed with a turn of several calls, as early as one has it."""
    return next(
        task
        for task in (seed("base"), seed("long_context"))
        if any(len(calls) > 1 for calls in task.calls)
    )


@pytest.mark.parametrize("structured", [True, False])
async def test_a_model_writes_high_level_functions_which_are_decomposed(
    stub: Stub, structured: bool
) -> None:
    async with early(stub, "grand", structured=structured, recipes=False, high_level=True) as who:
        given = assignment(longest())
        plan = await planned_by_chance(who, given)
        assert plan.composed and all(name.startswith("do_turn_") for name in plan.composed)
        for name, tools in plan.composed.items():
            assert plan.turns[int(name.removeprefix("do_turn_")) - 1].tools == tuple(tools), (
                "in BOTTOM-LEVEL calls"
            )
        assert plan.as_json()["composed"] == plan.composed
        assert [len(turn.tools) for turn in plan.turns] == [
            len(calls) for calls in given.seed.calls
        ]


async def test_a_function_that_cannot_be_decomposed_leads_to_bottom_level_ones(stub: Stub) -> None:
    async with early(
        stub, "overreaching", structured=False, recipes=False, high_level=True, attempts=1
    ) as who:
        await who.write(longest())
        failed = recorded(who, "decompose_failed")
        assert "there is room for" in failed["detail"] and failed["function"].startswith("do_turn_")
        errors = [one.error for one in who.bench.rejections]
        assert errors.count("decompose_failed") == 1 and "parameters" in who.stages(), (
            "asked for no such function again"
        )


async def test_after_a_failed_verification_every_turn_is_one_function(stub: Stub) -> None:
    failure = ComposeError("query_verify_failed", "it asks for more")
    async with early(stub, "good", structured=False, recipes=False, high_level=True) as who:
        given = replace(assignment(longest()), failures=(failure,))
        with pytest.raises(ComposeError, match="must be one function, of its"):
            await who.author.plan(given)
    async with early(stub, "grand", structured=False, recipes=False, high_level=True) as who:
        assert (await planned_by_chance(who, given)).composed


async def planned_by_chance(who: Early, given: Assignment[Task]) -> Plan:
    """Some plan of the author: chance may plan what cannot feed each other."""
    for number in range(1, 9):
        with contextlib.suppress(ComposeError):
            return await who.author.plan(replace(given, plan_number=number))
    raise AssertionError("no plan of eight is possible")


async def test_func_sample_failed_is_told_to_the_next_plan(stub: Stub) -> None:
    async with early(stub, "inventive", structured=False, attempts=1) as who:
        await who.write(seed())
        assert "'solve_everything' is no function" in recorded(who, "func_sample_failed")["detail"]
        errors = [one.error for one in who.bench.rejections]
        assert errors.count("func_sample_failed") == 1 and "parameters" in who.stages(), (
            "once told, it planned better"
        )
        assert "patch" in who.stages()[: who.stages().index("parameters")], "the critic came first"


async def test_a_plan_that_cannot_be_read_is_called_so_and_the_world_is_not_mended_for_it(
    stub: Stub,
) -> None:
    async with early(stub, "mumbling", structured=False, attempts=1) as who:
        await who.write(seed())
        assert recorded(who, "plan_unreadable")["detail"].startswith("planner: ")
        errors = [one.error for one in who.bench.rejections]
        assert errors.count("plan_unreadable") == 1 and "func_sample_failed" not in errors
        assert "parameters" in who.stages(), "once told, it planned"
        assert "patch" not in who.stages()[: who.stages().index("parameters")], (
            "no state is at fault"
        )


async def test_the_critic_mends_the_worlds_to_come_where_the_planner_found_no_functions(
    stub: Stub,
) -> None:
    name = bare_environment.NAME
    async with early(stub, "good", name) as who:
        assert isinstance(who.author, LLMAuthor)
        given = assignment(bare_environment.moved(seed("base")), load(name))
        seed_state = dict(seed("base").state or {})
        error = ComposeError("decompose_failed", "too many calls", function="move_file")
        mended = await who.author.patch(given, None, seed_state, error)
        assert mended is not None and mended["today"] == "monday" and who.stages() == ["patch"]
        assert who.author.patches == {"today": "monday"}


async def test_vm_exec_failed_is_mended_by_a_patch_and_refused_patches_are_told(stub: Stub) -> None:
    note = {"folder": "old", "text": "needs work", "locked": True, "shared": []}
    async with early(stub, "mending", tries=5, attempts=1) as who:
        with_plan(
            who, planned("desk", ("move_file",)), {"today": "monday", "files": {"memo": note}}
        )
        variant = await who.write(shallow())
        assert isinstance(variant, Task), who.bench.rejections
        evidence = recorded(who, "vm_exec_failed")
        assert evidence["function"] == "move_file" and "file locked" in evidence["detail"]
        assert who.stages().count("patch") == 5, (
            "four proposals were refused, each for a reason of its own"
        )
        assert variant.state is not None and variant.state["files"]["memo"]["locked"] is False


async def test_vm_exec_failed_without_a_patch_is_replanned_without_the_function(stub: Stub) -> None:
    note = {"folder": "old", "text": "needs work", "locked": True, "shared": []}
    async with early(stub, "good", attempts=1) as who:
        planned_by = with_plan(
            who, planned("desk", ("move_file",)), {"today": "monday", "files": {"memo": note}}
        )
        assert await who.write(shallow()) == "vm_exec_failed"
        assert (
            len(planned_by.arguments("plan")) > 1
            and "move_file" in planned_by.arguments("plan")[-1][0].blocked
        )


async def test_duplicate_func_is_rejected_and_replanned(stub: Stub) -> None:
    async with early(stub, "repetitive", attempts=1) as who:
        planned_by = with_plan(who, planned("desk", ("mail_address", "mail_address")))
        assert await who.write(seed()) == "duplicate_func"
        assert (
            recorded(who, "duplicate_func")["function"] == "send_mail"
            and "patch" not in who.stages()
        )
        assert (
            len(planned_by.arguments("plan")) == 3
            and "send_mail" in planned_by.arguments("plan")[-1][0].blocked
        )


async def test_six_plans_that_take_a_function_twice_in_a_turn_put_it_on_the_blocklist(
    stub: Stub,
) -> None:
    async with early(stub, "insistent", structured=False, attempts=2) as who:
        planned_by = listening(who.author)
        who.author = planned_by
        assert await who.write(seed("base", 1)) == "duplicate_func"
        assert [(one.stage, one.error) for one in who.bench.rejections] == [
            ("plan", "duplicate_func")
        ] * 6
        doubled = [
            one.evidence.get("functions", [one.evidence["function"]])
            for one in who.bench.rejections
        ]
        known = set[str]()
        for (given,), functions in zip(planned_by.arguments("plan"), doubled, strict=True):
            assert given.blocked == known and None not in functions and known.isdisjoint(functions)
            known.update(functions)
        assert who.stages().count("plan") == 18 and "patch" not in who.stages()


@pytest.mark.parametrize(
    ("habit", "error"),
    [
        ("tongue_tied", "query_gen_failed"),
        ("hard_to_please", "query_verify_failed"),
        ("vague", "query_verify_no_tag"),
    ],
)
@pytest.mark.parametrize("calls", ["batched", "per_turn"])
async def test_query_errors_replan_with_guidance_and_never_patch(
    stub: Stub, habit: str, error: str, calls: str
) -> None:
    async with early(stub, habit, attempts=2, rewrite=False, calls=calls) as who:
        assert await who.write(seed()) == error
        assert recorded(who, error)["turn"] == 0 and recorded(who, error)["function"]
        assert who.stages().count("plan") >= 2
        mended = {before for before, after in pairwise(who.stages()) if after == "patch"}
        assert not mended & {"query", "verification"}  # another plan's calls may fail, too


@pytest.mark.parametrize("calls", ["batched", "per_turn"])
async def test_rejected_wordings_are_mended_before_they_are_given_up(
    stub: Stub, calls: str
) -> None:
    """All turns in one question, and in one verification."""
    async with early(stub, "pleased_at_last", calls=calls) as who:
        plan = planned("desk", ("mail_person",), ("add_person",))
        given = assignment()
        author = who.author
        draft = await author.execute(given, plan, await author.initial_state(given, plan))
        texts = await author.queries(given, draft)
        assert (
            len(texts) == 2
            and who.stages().count("query") == who.stages().count("verification") == 2
        )


async def test_conversation_construct_failed_when_no_turn_stands_on_an_earlier_one(
    stub: Stub,
) -> None:
    name = bare_environment.NAME
    async with early(stub, "good", name, attempts=1) as who:
        root = bare_environment.moved(seed("base"))
        with_plan(who, planned(name, ("list_team",), ("add_contact", "list_folder")))
        assert await who.write(root) == "conversation_construct_failed"
        detail = recorded(who, "conversation_construct_failed")["detail"]
        assert "longest chain has 1 calls" in detail and "must have 2 calls" in detail
        assert "patch" not in who.stages()


async def test_no_prompts_ends_the_seed_before_any_call_unless_the_general_template_may_be_used(
    stub: Stub,
) -> None:
    name = f"{UNFIT}:nameless"
    root = unfit_environments.moved(seed(), load(name))
    async with early(stub, "good", name, fallback_prompt=False) as who:
        assert await who.write(root) == "no_prompts"
        assert [one.error for one in who.bench.rejections] == ["no_prompts"] and not who.calls
        assert "Strange" in recorded(who, "no_prompts")["detail"]
    async with early(stub, "good", name, rewrite=False) as who:
        variant = await who.write(root)
        assert isinstance(variant, Task) and "query_class_any" in variant.provenance["prompts"]


async def test_no_pattern_where_the_recipes_cannot_give_the_root_s_shape(stub: Stub) -> None:
    name = f"{UNFIT}:shallow"
    async with early(stub, "good", name, attempts=1) as who:
        assert await who.write(unfit_environments.moved(seed(), load(name))) == "no_pattern"
        assert "depth 2" in recorded(who, "no_pattern")["detail"] and not who.calls


async def test_pipeline_exception_is_recorded_in_full_and_the_next_attempt_is_made(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unfit_environments.moved(seed(), load(RAISING))
    async with early(stub, "good", RAISING, attempts=2) as who:
        await who.bench.pipeline.shape(load(RAISING), root)
        monkeypatch.setenv("RAISING", "1")
        assert await who.write(root) == "pipeline_exception"
        assert [one.error for one in who.bench.rejections] == ["pipeline_exception"] * 2
        assert (
            "a bug in" in str(who.bench.rejections[0].evidence)
            and "Traceback" in who.bench.rejections[0].evidence
        )
