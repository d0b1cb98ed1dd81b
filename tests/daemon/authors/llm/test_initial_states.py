"""Initial states: generated where the environment can, else the seed's in a model's words, within
its shape; and the patches of the error critic: what may be proposed, what is refused and told, and
that they add up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from rods.calls import Call
from rods.composing.bind import deep_merge
from rods.composing.records import ComposeError
from rods.config import Gates
from rods.daemon.authors.llm import LLMAuthor
from rods.daemon.authors.llm.initial_states import effective, fitting
from rods.daemon.authors.llm.questions import Asker
from rods.daemon.authors.llm.showing import state_schema
from rods.daemon.authors.state_shapes import refusals
from rods.faults import ErrorType
from tests.daemon.authors.catalogue_free import typed_environment as clinic
from tests.daemon.authors.catalogue_free.test_own_environment import STATE, TOY, root
from tests.daemon.authors.llm.early import early, planned
from tests.daemon.authors.llm.world import asker_at, assignment, playing
from tests.daemon.pipelines import THREADS, settings
from tests.environments import load

NAME = f"{TOY}:environment"


def worlds_of(environment: str, asker: Asker) -> LLMAuthor:
    return LLMAuthor(load(environment), asker, settings().pipeline, THREADS)


async def made(
    stub: Stub, habit: str, *, duplicates: bool = True, old: dict[str, Any] = STATE
) -> tuple[dict[str, Any], int]:
    """The world for a plan, and the calls that it took."""
    stub.use(playing(f"tests.daemon.authors.llm.early_habits:{habit}"))
    async with asker_at(stub) as asker:
        worlds = worlds_of(NAME, asker)
        given = assignment(replace(root("environment", "base"), state=old, id=""), load(NAME))
        given = replace(given, limits=Gates(duplicates=duplicates))
        return await worlds.initial_state(
            given, planned(NAME, ("titles",), ("count",))
        ), asker.account.calls


async def test_a_model_gives_the_seed_s_world_other_contents(stub: Stub) -> None:
    state, calls = await made(stub, "redecorating")
    assert calls == 1 and state["notes"].keys() > STATE["notes"].keys()
    assert state["notes"]["101"] == {"title": "attic", "body": "water the roses"}
    load(NAME).reset(state)


async def test_entries_of_the_seed_s_world_may_be_taken_away(stub: Stub) -> None:
    state, calls = await made(stub, "clearing")
    assert calls == 1 and state == {
        **STATE,
        "notes": {"101": STATE["notes"]["101"], "104": {"title": "cellar", "body": "empty it"}},
    }
    load(NAME).reset(state)


async def test_entries_that_are_no_objects_may_be_taken_away_too(stub: Stub) -> None:
    state, calls = await made(stub, "emptying")
    assert calls == 1 and state["counters"] == {"sales": 1}


NO_WORLD = pytest.mark.parametrize("habit", ["remodelling", "forbidden", "idle", "repeating"])


@NO_WORLD
async def test_no_variant_is_begun_in_the_seed_s_world_where_it_would_be_refused_as_a_duplicate(
    stub: Stub, habit: str
) -> None:
    with pytest.raises(ComposeError) as caught:
        await made(stub, habit)
    assert caught.value.type == "param_gen_failed"


@NO_WORLD
async def test_where_duplicates_are_allowed_the_seed_s_world_is_kept_after_all_tries(
    stub: Stub, habit: str
) -> None:
    assert await made(stub, habit, duplicates=False) == (STATE, 3)


async def test_a_world_that_holds_nothing_may_stay_as_it_is(stub: Stub) -> None:
    empty: dict[str, Any] = {"notes": {}, "counters": {}}
    assert await made(stub, "idle", old=empty) == (empty, 1)


async def test_nothing_is_paid_for_a_variant_after_its_world_has_failed(stub: Stub) -> None:
    async with early(stub, "idle", NAME, attempts=1, planner_retries=1) as who:
        assert await who.write(root("environment", "base")) == "param_gen_failed"
    assert who.stages() == ["plan", "state", "state", "state"]


async def test_what_the_world_has_against_a_state_is_told_to_the_model_and_recorded(
    tmp_path: Path,
) -> None:
    plan = planned(clinic.NAME, ("list_day",))
    weekend = playing("tests.daemon.authors.llm.early_habits:weekend")
    given = assignment(clinic.seed(), load(clinic.NAME))
    told = "visits.11.day: Input should be 'Monday', "
    with Stub(weekend, bodies=tmp_path / "bodies") as stub:
        async with asker_at(stub) as asker:
            with pytest.raises(ComposeError, match=f"not accept this state: {told}"):
                await worlds_of(clinic.NAME, asker).initial_state(given, plan)
    bodies = (tmp_path / "bodies").read_bytes().splitlines()
    first, second, *_ = [
        [message["content"] for message in json.loads(body)["messages"]] for body in bodies
    ]
    assert '"enum":["Monday",' in first[-1]
    assert len(second) == 4 and told in second[-1]


async def test_a_generated_world_costs_no_call_and_is_not_the_seed_s(stub: Stub) -> None:
    async with asker_at(stub) as asker:
        worlds = worlds_of("desk", asker)
        state = await worlds.initial_state(
            assignment(), planned("desk", ("mail_person",), ("plan_event",))
        )
        assert asker.account.calls == 0 and state != assignment().seed.state
        load("desk").reset(state)


def test_of_a_patch_that_fits_in_part_the_largest_parts_are_taken() -> None:
    entry = {"title": "cellar", "body": "empty it"}
    patch = {
        "notes": {"104": entry, "101": {"title": "attic"}, "cellar": entry},
        "shelves": {"one": 1},
    }
    assert list(fitting(STATE, patch)) == [
        {"notes": {"104": entry}},
        {"notes": {"101": {"title": "attic"}}},
    ]
    assert list(fitting(STATE, {"counters": {"visits": 9, "sales": 2}})) == [
        {"counters": {"visits": 9, "sales": 2}}
    ]
    assert list(fitting(STATE, {})) == []


FILE = {"folder": "old", "text": "needs work", "locked": True, "shared": []}
DESK_STATE: dict[str, Any] = {
    "today": "monday",
    "contacts": {
        "paul": {"address": "box1", "team": "sales"},
        "mina": {"address": "box2", "team": "sales"},
    },
    "files": {"memo": {**FILE}, "plan": {**FILE}},
}
DESK = load("desk")


def error(type: ErrorType = "vm_exec_failed", before: tuple[Call, ...] = ()) -> ComposeError:
    call = Call("move_file", {"file": "memo", "folder": "new"})
    return ComposeError(
        type, f"{call} gave file locked", function="move_file", turn=0, call=call, before=before
    )


def test_calls_that_change_the_world_are_told_from_those_that_look() -> None:
    calls = [
        Call("list_team", {"team": "sales"}),
        Call("change_team", {"name": "paul", "team": "legal"}),
    ]
    assert effective(DESK, DESK_STATE, calls) == calls[1:]
    assert (
        effective(
            DESK, {**DESK_STATE, "contacts": {"paul": {"address": "box1", "team": "legal"}}}, calls
        )
        == []
    )


async def test_a_patch_may_not_do_in_advance_what_the_task_tests(stub: Stub) -> None:
    stub.use(playing("tests.daemon.authors.llm.early_habits:zealous"))
    async with asker_at(stub) as asker:
        worlds = worlds_of("desk", asker)
        before = (Call("change_team", {"name": "paul", "team": "legal"}),)
        plan = planned("desk", ("switch_team",), ("move_file",))
        mended = await worlds.patch(assignment(), plan, DESK_STATE, error(before=before))
        assert mended is not None and mended["contacts"]["paul"]["team"] == "sales"
        assert mended["files"]["memo"]["locked"] is False and asker.account.calls == 2


async def test_patches_are_remembered_for_the_worlds_to_come_where_they_fit(stub: Stub) -> None:
    stub.use(playing("tests.daemon.authors.llm.early_habits:mending"))
    async with asker_at(stub) as asker:
        asker.tries = 5
        worlds = worlds_of("desk", asker)
        plan = planned("desk", ("move_file",))
        mended = await worlds.patch(assignment(), plan, DESK_STATE, error())
        assert mended == {**DESK_STATE, "files": {"memo": {**FILE, "locked": False}, "plan": FILE}}
        assert worlds.patches == {"files": {"memo": {"locked": False}}}
        worlds.patches = deep_merge(
            worlds.patches, {"files": {"memo": {"text": "looks great"}}, "today": "friday"}
        )
        worlds.patches = deep_merge(worlds.patches, {"files": {"memo": {"locked": True}}})
        assert worlds.patches == {
            "files": {"memo": {"locked": True, "text": "looks great"}},
            "today": "friday",
        }
        state = await worlds.initial_state(assignment(), plan)
        assert state["today"] == "friday" and "memo" not in state["files"], (
            "a world without that file stays legal"
        )
        DESK.reset(state)


async def test_later_worlds_take_over_what_is_not_of_a_plan_s_story(stub: Stub) -> None:
    """Entries and texts of a story that was dropped stand in no world of the next one."""
    stub.use(playing("tests.daemon.authors.llm.early_habits:storied"))
    async with asker_at(stub) as asker:
        worlds = worlds_of("desk", asker)
        plan = planned("desk", ("move_file",))
        mended = await worlds.patch(assignment(), plan, DESK_STATE, error())
        assert mended is not None and "songs" in mended["files"], "for this plan it holds whole"
        assert worlds.patches == {"today": "friday", "files": {"memo": {"locked": False}}}
        await worlds.patch(assignment(), None, DESK_STATE, error("func_sample_failed"))
        assert "songs" in worlds.patches["files"], "no story brought it"


async def test_a_patch_may_not_touch_what_the_schema_of_the_state_calls_read_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"today": {"type": "string", "readOnly": True}}}
    monkeypatch.setattr(type(DESK), "state_schema", schema, raising=False)
    with Stub(bodies=tmp_path / "bodies") as kept:
        kept.use(playing("tests.daemon.authors.llm.early_habits:storied"))
        async with asker_at(kept) as asker:
            plan = planned("desk", ("move_file",))
            worlds = worlds_of("desk", asker)
            assert await worlds.patch(assignment(), plan, DESK_STATE, error()) is None
    again = json.loads((tmp_path / "bodies").read_text().splitlines()[1])["messages"][-1]["content"]
    assert "read_only at today: this stays as it is, by the schema of the state" in again


@pytest.mark.needs("bfcl")
def test_the_form_of_a_world_of_bfcl_is_no_matter_for_a_patch() -> None:
    schema = state_schema(load("bfcl"))
    state = {"classes": ["MathAPI"], "config": {}, "long_context": True}
    for patch in ({"long_context": False}, {"classes": ["TravelAPI"]}):
        (refused,) = refusals(state, patch, schema)
        assert refused.kind == "read_only"
    assert not refusals(state, {"classes": ["MathAPI"], "config": {}}, schema)


def test_what_stands_in_a_field_says_less_of_it_than_the_schema_does() -> None:
    schema = state_schema(load(clinic.NAME))
    free: dict[str, Any] = {"visits": {"11": {"room": None}, "14": {"room": "South"}}}
    assert not refusals(clinic.STATE, free, schema)
    assert [refused.where for refused in refusals(clinic.STATE, free)] == [("visits", "11", "room")]
    for wrong in ({"room": 4}, {"day": None}, {"urgent": "no"}):
        (refused,) = refusals(clinic.STATE, {"visits": {"11": wrong}}, schema)
        assert refused.kind == "changed_type"


async def test_only_what_a_state_can_mend_is_asked_about(stub: Stub) -> None:
    stub.use(playing("tests.daemon.authors.llm.early_roles:good"))
    async with asker_at(stub) as asker:
        worlds = worlds_of("desk", asker)
        assert (
            await worlds.patch(
                assignment(), planned("desk", ("move_file",)), DESK_STATE, error("duplicate_func")
            )
            is None
        )
        assert asker.account.calls == 0


async def test_a_critic_may_say_that_nothing_mends_it(stub: Stub) -> None:
    stub.use(playing("tests.daemon.authors.llm.early_habits:at_a_loss"))
    async with asker_at(stub) as asker:
        worlds = worlds_of("desk", asker)
        plan = planned("desk", ("move_file",))
        assert await worlds.patch(assignment(), plan, DESK_STATE, error()) is None
        assert asker.account.calls == 1 and worlds.patches == {}


async def test_a_critic_whose_patches_are_all_refused_gives_none(stub: Stub) -> None:
    stub.use(playing("tests.daemon.authors.llm.early_habits:mending"))
    async with asker_at(stub) as asker:
        worlds = worlds_of("desk", asker)
        assert (
            await worlds.patch(assignment(), planned("desk", ("move_file",)), DESK_STATE, error())
            is None
        )
        assert asker.account.calls == asker.tries
