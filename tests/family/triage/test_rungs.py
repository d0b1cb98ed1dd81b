"""The ladder of hints: no rung tells more than it says, over three worlds."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rods.analysis.containment import Text, values_in
from rods.analysis.profile import profile
from rods.config import Gates
from rods.console.main import run as rods
from rods.environments.base import Environment, Results
from rods.environments.loading import Environments
from rods.family.triage.rungs import LAST, NAMES, VALUES, hinted, hints, requested
from rods.gates import check
from rods.gates.ground_truth import run
from rods.gates.similarity import held_out_index
from rods.tasks import RETURN_SENTENCE, Task, read_tasks, scripted
from tests.environments import desk_tasks

Executed = tuple[Environment, Task, Results]


def executed(tasks: list[Task]) -> list[Executed]:
    environment = Environments().load(tasks[0].environment.name)
    return [(environment, task, run(environment, task)) for task in tasks]


def without_names(text: str, environment: Environment) -> str:
    """The text without the names of tools and arguments, which everybody reads in the documents."""
    names = {
        name for tool in environment.tools().values() for name in (tool.name, *tool.parameter_names)
    }
    longest = sorted(names, key=len, reverse=True)
    return re.sub(rf"\b(?:{'|'.join(map(re.escape, longest))})\b", "_", text)


def holds(every: list[Executed]) -> None:
    for environment, task, results in every:
        tools = environment.tools()
        told = {rung: hints(tools, task, results, rung) for rung in range(1, LAST + 1)}
        assert {len(texts) for texts in told.values()} == {len(task.calls)}
        for turn, calls in enumerate(task.calls):
            said = [Text.of(text) for text in task.script]
            for rung in range(1, VALUES):
                rest = without_names(told[rung][turn], environment)
                assert not re.search(r"\d", rest)
                for leaf in (leaf for call in calls for leaf in values_in(call.arguments)):
                    if Text.of(rest).contains_exact(leaf):
                        assert any(text.contains_exact(leaf) for text in said), (leaf, rest)
            arguments = {name for call in calls for name in call.arguments} - tools.keys()
            named = {call.name for call in calls}
            for rung in (1, 2):
                words = set(re.findall(r"\w+", told[rung][turn]))
                assert not words & (arguments - {"tool", "order", "in", "use", "this", "no"})
            first = {calls[0].name} if calls else set()
            assert set(re.findall(r"\w+", told[1][turn])) & tools.keys() <= first
            for rung in (2, 3, 4):
                assert named <= set(re.findall(r"\w+", told[rung][turn]))
            for rung in range(1, VALUES):
                added = requested(tools, task, results, rung)[turn]
                assert bool(added) == (bool(calls) and task.script[turn] != RETURN_SENTENCE)
                if added and rung > 1:
                    assert added.count("; ") >= len(calls) - 1
                hidden = {name for name in tools if "_" in name}
                assert not hidden & set(re.findall(r"\w+", added)), "a user names no tool"
                assert not re.search(r"\d", added)
            assert all('"arguments":' not in told[rung][turn] for rung in range(1, LAST))
            assert told[LAST][turn].count('"arguments":') >= len(calls)


def test_no_rung_tells_more_than_it_says_on_desk() -> None:
    holds(executed([*desk_tasks(3, 40, 0)]))


@pytest.mark.slow
@pytest.mark.needs("bfcl")
def test_no_rung_tells_more_than_it_says_on_bfcl(tasks: list[Task]) -> None:
    holds(executed(tasks[::4]))


@pytest.mark.needs("new_world")
def test_no_rung_tells_more_than_it_says_in_a_world_of_one_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rods(["init", str(tmp_path / "library")]) == 0
    monkeypatch.chdir(tmp_path / "library")
    holds(executed([scripted(task, "this test") for task in read_tasks(Path("tasks.jsonl"))]))


def test_each_rung_tells_what_its_name_says() -> None:
    every = executed([*desk_tasks(5, 60, 0)])
    environment, task, results = every[2]
    told = [hints(environment.tools(), task, results, rung)[1] for rung in range(1, LAST + 1)]
    assert told == [
        "Second request: begin with the tool find_contact.",
        "Second request: use, in this order: find_contact, share_file.",
        "Second request: use, in this order: find_contact with name from an earlier request; "
        "share_file with file from an earlier request, address from a result of find_contact.",
        'Second request: use, in this order: find_contact with name "sam"; '
        'share_file with file "diary", address "box24".',
        "Second request: make these calls, in the form that you were told: "
        '{"name":"find_contact","arguments":{"name":"sam"}}\n'
        '{"name":"share_file","arguments":{"file":"diary","address":"box24"}}',
    ]
    assert len(NAMES) == LAST + 1


def test_a_hinted_task_is_the_same_but_for_its_system_prompt() -> None:
    environment, task, results = executed([*desk_tasks(3, 1, 0)])[0]
    tools = environment.tools()
    assert hinted(tools, task, results, 0) is task
    other = hinted(tools, task, results, 2)
    assert other.id != task.id and hinted(tools, task, results, 2).id == other.id
    assert (other.script, other.calls, other.state) == (task.script, task.calls, task.state)
    assert other.system == "\n".join(hints(tools, task, results, 2))
    assert run(environment, other) == results


def test_a_user_who_tells_a_rung_passes_the_gates_as_before() -> None:
    """Of 60 tasks of desk: what the words of a rung make a gate refuse, which it did not before."""
    refused = 0
    for environment, task, results in executed([*desk_tasks(7, 60, 0)]):
        shape = profile(environment, task)
        nobody = held_out_index(())
        before = {one.gate for one in check(environment, task, shape, Gates(), nobody).rejections}
        for rung in range(1, VALUES):
            added = requested(environment.tools(), task, results, rung)
            script = tuple(map("{} {}".format, task.script, added))
            told = replace(task, script=tuple(text.strip() for text in script), id="")
            after = check(environment, told, shape, Gates(), nobody).rejections
            refused += any(one.gate not in before for one in after)
    assert refused <= 9, refused  # of 180
