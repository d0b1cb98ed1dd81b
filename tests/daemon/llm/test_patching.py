"""The error critic: what it may propose, what is refused and told, and that patches add up."""

from __future__ import annotations

from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from daemon.authors.catalogue_free.plain import library
from daemon.authors.llm.answers import Unreadable
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.patching import Critic, effective, patch_of, refusals
from daemon.authors.llm.worlds import Worlds
from rods.calls import Call
from rods.composing.records import ComposeError, ErrorType
from rods.environments import load
from tests.daemon.llm.early import planned
from tests.daemon.llm.world import asker_at, assignment, playing
from tests.daemon.pipelines import THREADS

FILE = {"folder": "old", "text": "needs work", "locked": True, "shared": []}
STATE: dict[str, Any] = {
    "today": "monday",
    "contacts": {"paul": {"address": "box1", "team": "sales"}, "mina": {"address": "box2", "team": "sales"}},
    "files": {"memo": {**FILE}, "plan": {**FILE}},
}
DESK = load("desk")


def error(type: ErrorType = "vm_exec_failed", before: tuple[Call, ...] = ()) -> ComposeError:
    call = Call("move_file", {"file": "memo", "folder": "new"})
    return ComposeError(type, f"{call} gave file locked", function="move_file", turn=0, call=call, before=before)


def test_paths_follow_the_names_of_the_state_even_with_dots() -> None:
    state = {"root": {"notes.txt": {"size": 1}, "notes": {"size": 2}}}
    assert patch_of(state, [{"path": "root.notes.txt.size", "value": 5}]) == {"root": {"notes.txt": {"size": 5}}}
    several = [{"path": "root.notes.size", "value": 3}, {"path": "root.notes.txt.size", "value": 4}]
    assert patch_of(state, several) == {"root": {"notes": {"size": 3}, "notes.txt": {"size": 4}}}


@pytest.mark.parametrize("changes", [[], "x", [{"path": "", "value": 1}], [{"path": 1, "value": 1}], [{"path": "a"}]])
def test_what_is_no_change_is_unreadable(changes: Any) -> None:
    with pytest.raises(Unreadable):
        patch_of(STATE, changes)


def test_calls_that_change_the_world_are_told_from_those_that_look() -> None:
    calls = [Call("list_team", {"team": "sales"}), Call("change_team", {"name": "paul", "team": "legal"})]
    assert effective(DESK, STATE, calls) == calls[1:]
    assert effective(DESK, {**STATE, "contacts": {"paul": {"address": "box1", "team": "legal"}}}, calls) == []
    assert [fault.kind for fault in refusals(STATE, {"today": "monday"})] == ["no_change"]


async def test_a_patch_may_not_do_in_advance_what_the_task_tests(stub: Stub) -> None:
    stub.use(playing("tests.daemon.llm.early_habits:zealous"))
    async with asker_at(stub) as asker:
        catalogue, compute = library("desk"), Compute(THREADS)
        critic = Critic(catalogue, asker, compute, Worlds(catalogue, asker, compute, generated=True))
        before = (Call("change_team", {"name": "paul", "team": "legal"}),)
        plan = planned("desk", ("switch_team",), ("move_file",))
        mended = await critic.mend(assignment(), plan, STATE, error(before=before))
        assert mended is not None and mended["contacts"]["paul"]["team"] == "sales"
        assert mended["files"]["memo"]["locked"] is False and asker.account.calls == 2


async def test_patches_are_remembered_for_the_worlds_to_come_where_they_fit(stub: Stub) -> None:
    stub.use(playing("tests.daemon.llm.early_habits:mending"))
    async with asker_at(stub) as asker:
        asker.tries = 5
        catalogue, compute = library("desk"), Compute(THREADS)
        worlds = Worlds(catalogue, asker, compute, generated=True)
        critic = Critic(catalogue, asker, compute, worlds)
        plan = planned("desk", ("move_file",))
        mended = await critic.mend(assignment(), plan, STATE, error())
        assert mended == {**STATE, "files": {"memo": {**FILE, "locked": False}, "plan": FILE}}
        assert worlds.patches == {"files": {"memo": {"locked": False}}}
        worlds.add({"files": {"memo": {"text": "looks great"}}, "today": "friday"})
        worlds.add({"files": {"memo": {"locked": True}}})
        assert worlds.patches == {"files": {"memo": {"locked": True, "text": "looks great"}}, "today": "friday"}
        state = await worlds.state(assignment(), plan)
        assert state["today"] == "friday" and "memo" not in state["files"], "a world without that file stays legal"
        DESK.reset(state)


async def test_only_what_a_state_can_mend_is_asked_about(stub: Stub) -> None:
    stub.use(playing("tests.daemon.llm.early_roles:good"))
    async with asker_at(stub) as asker:
        catalogue, compute = library("desk"), Compute(THREADS)
        critic = Critic(catalogue, asker, compute, Worlds(catalogue, asker, compute, generated=True))
        assert await critic.mend(assignment(), planned("desk", ("move_file",)), STATE, error("duplicate_func")) is None
        assert asker.account.calls == 0


async def test_a_critic_whose_patches_are_all_refused_gives_none(stub: Stub) -> None:
    stub.use(playing("tests.daemon.llm.early_habits:mending"))
    async with asker_at(stub) as asker:
        catalogue, compute = library("desk"), Compute(THREADS)
        critic = Critic(catalogue, asker, compute, Worlds(catalogue, asker, compute, generated=True))
        assert await critic.mend(assignment(), planned("desk", ("move_file",)), STATE, error()) is None
        assert asker.account.calls == asker.tries
