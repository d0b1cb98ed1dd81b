"""Two agents assess a world (003 §3.3), over HTTP: 85 of 100 right rounds are enough, 84 are not;
what the machinery did not carry out, or a model did not say, is no round."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.config import Endpoint, Operation, Sandbox
from rods.daemon.stand_ins.model import read, written
from rods.environments import addressed
from rods.environments.loading import Environments
from rods.family.environments.programs import PlannedTool, WorldPlan, WorldProgram
from rods.family.environments.settings import Writing
from rods.family.environments.written.assessing import assess, changes, hold
from rods.family.environments.written.building import BuiltWorld, Dropped
from rods.family.environments.written.record import CachedQuestioner, WritingRecord
from rods.llm import Client
from tests.family.environments.checking.small_world import PLAN, SOURCE, STATE, spoilt

BODIES = "bodies.jsonl"  # what the agents were sent
TOOLS = ("count", "jars", "fill", "empty")
judged = {"right": 0, "asked": 0}  # by the checker: calls, and questions


def agents(request: Mapping[str, Any], right: int, unread: int = 0) -> str:
    """A tester that fills jars, and a checker that finds the first `right` rounds right. The first
    `unread` answers of the checker cannot be read."""
    asked = read(request)
    assert asked is not None
    constrained = asked.schema is not None
    if asked.template == "world_tester":
        assert "def " not in asked.question.partition("Its tools:")[2]  # it sees no source
        sampled = [
            {"jar": "plums", "more": 1} if "succeed" in wanted else {"jar": "none", "more": 900}
            for wanted in asked.fields["wanted"].splitlines()
        ]
        calls = [{"name": "fill", "arguments": arguments} for arguments in sampled]
        return written({"calls": calls}, constrained=constrained)
    judged["asked"] += 1
    if judged["asked"] <= unread:
        return "I would rather not say."
    assert asked.fields["source"].count("def fill(") == asked.fields["source"].count("class World")
    verdicts = dict[str, str]()
    for number, shown in enumerate(asked.fields["calls"].split("\nThe call: ")[1:], 1):
        judged["right"] += 1
        changed = "plums" in shown.partition("\n")[0]
        failed = "came back: refused" in shown or "came back: raised" in shown
        assert ("jars.plums: " in shown) is changed is not failed
        verdict = "right" if judged["right"] <= right else "wrong"
        verdicts |= {f"why_{number}": f"verdict {judged['right']}", f"verdict_{number}": verdict}
    return written(verdicts, constrained=constrained)


def enough(request: Mapping[str, Any]) -> str:
    return agents(request, 85)


def too_few(request: Mapping[str, Any]) -> str:
    return agents(request, 84)


def silent_at_first(request: Mapping[str, Any]) -> str:
    return agents(request, 10, unread=8)


def never_read(request: Mapping[str, Any]) -> str:
    return agents(request, 10, unread=10_000)


def assessed(
    folder: Path,
    answer: str,
    rounds: int,
    source: str = SOURCE,
    seconds: float = 10.0,
    random_seed: int = 0,
    at_once: int = 1,
) -> list[str]:
    """What agents find of the small world."""
    tools = tuple(
        PlannedTool(name, "Jars", name in ("count", "jars"), name, dict.fromkeys(PLAN[name], ""))
        for name in TOOLS
    )
    state, _, functions = source.partition("WORLD = ")
    program = WorldProgram(
        WorldPlan("Jars.", {}, ("A jar holds at most 500.",), tools),
        state,
        {
            name: f"def {name}({functions.partition(f'def {name}(')[2].partition('@WORLD')[0]}"
            for name in TOOLS
        },
    )
    world = BuiltWorld(program, (STATE, STATE))
    writing = Writing(rounds=rounds, rounds_at_once=at_once, tries=1)
    name = addressed.keep(source, folder)

    async def ask(record: WritingRecord, environments: Environments, stub: Stub) -> list[str]:
        async with Client([Endpoint(model="stub", urls=(stub.url,))]) as client:
            authors = CachedQuestioner(
                client, record, Operation().model_copy(update={"writing": writing}), random_seed
            )
            played = await assess(authors, world, environments.load(f"{folder}/{name}"))
            hold(played, authors.settings.writing.threshold)
            return [each.wrong for each in played]

    sandbox = Sandbox(workers=1, seconds=seconds)
    with (
        WritingRecord(folder) as record,
        Stub(
            Script(answer=f"tests.family.environments.written.test_assessing:{answer}"),
            bodies=folder / BODIES,
        ) as stub,
        Environments(sandbox) as environments,
    ):
        return asyncio.run(ask(record, environments, stub))


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_85_of_100_right_rounds_are_enough(tmp_path: Path) -> None:
    found = assessed(tmp_path, "enough", 100)
    assert (len(found), found.count("")) == (100, 85)
    templates = [
        json.loads(line).get("template", "")
        for line in (tmp_path / "written.jsonl").read_text().splitlines()
    ]
    assert sum(each.startswith("world_tester@") for each in templates) == 100


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_calls_asked_for_together_are_played_and_judged_each_in_its_own_state(
    tmp_path: Path,
) -> None:
    found = assessed(tmp_path, "enough", 100, at_once=8)
    assert (len(found), found.count("")) == (100, 85)
    assert len(set(found)) == 16  # each wrong one has its own reason
    asked = [read(json.loads(line)) for line in (tmp_path / BODIES).read_text().splitlines()]
    templates = Counter(one.template for one in asked if one)
    assert templates == {"world_tester": 14, "world_checker": 14}  # 50 calls in either state
    shown = [one.fields["calls"] for one in asked if one and one.template == "world_checker"]
    for calls in shown:
        first, *others = calls.split("State before: ".lower())[1:]
        assert first.startswith('{"jars":{') and len(others) in (7, 1)
        assert all(each.startswith("as the call before has left it") for each in others)
    full = [each for calls in shown for each in re.findall(r"jars.plums: (\d+) → (\d+)", calls)]
    assert len(full) == len(set(full)) * 2  # what either state's jar went through, step by step


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_the_tester_is_asked_for_calls_of_either_kind_by_chance_and_not_by_turns(
    tmp_path: Path,
) -> None:
    assessed(tmp_path, "enough", 40)
    asked = [read(json.loads(line)) for line in (tmp_path / BODIES).read_text().splitlines()]
    tried = [
        (one.fields["recent"], one.fields["wanted"])
        for one in asked
        if one and one.template == "world_tester"
    ]
    positive = sum("succeed" in wanted for _, wanted in tried)
    repeated = sum(
        ("plums" in recent.splitlines()[-1]) == ("succeed" in wanted) for recent, wanted in tried
    )
    assert len(tried) == 40 and 10 <= positive <= 30 and 10 <= repeated <= 30


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_84_are_not_and_the_world_is_dropped_with_what_was_wrong(tmp_path: Path) -> None:
    with pytest.raises(Dropped) as dropped:
        assessed(tmp_path, "too_few", 100)
    assert dropped.value.reasons == ("assessment",) and dropped.value.what == "world"
    assert (
        dropped.value.details[0] == "84 of 100 rounds were right, 0.85 are wanted"
        and len(dropped.value.details) == 6
    )


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_where_agents_see_a_part_they_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.family.environments.written.assessing.SHOWN", len('{"jars":{"'))
    assessed(tmp_path, "enough", 2)
    asked = [read(json.loads(line)) for line in (tmp_path / BODIES).read_text().splitlines()]
    states = [each.fields["state"] for each in asked if each and "state" in each.fields]
    assert states == ['{"jars":{"…'] * 2


@pytest.mark.slow
def test_what_cannot_be_read_is_no_round_and_another_is_played(tmp_path: Path) -> None:
    assert assessed(tmp_path, "silent_at_first", 10) == [""] * 10
    with pytest.raises(Dropped) as dropped:
        assessed(tmp_path / "never", "never_read", 10)
    assert dropped.value.reasons == ("unjudged",)


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_a_tool_that_breaks_is_wrong_whatever_the_checker_would_say(tmp_path: Path) -> None:
    broken = spoilt(
        (
            "    if len(db.jars) >= 100:\n",
            '    if jar == "none":\n        raise KeyError(jar)\n    if len(db.jars) >= 100:\n',
        )
    )
    broken = broken.replace("more: Count", "more: Annotated[int, Field(ge=1, le=1000)]", 1)
    with pytest.raises(Dropped) as dropped:
        assessed(tmp_path, "enough", 10, broken)
    assert dropped.value.reasons == ("assessment",) and "KeyError" in dropped.value.details[1]


@pytest.mark.slow
def test_a_call_that_was_not_carried_out_is_no_round(tmp_path: Path) -> None:
    endless = spoilt(
        (
            "    if len(db.jars) >= 100:\n",
            "    while more == 900:\n        pass\n    if len(db.jars) >= 100:\n",
        )
    )
    endless = endless.replace("more: Count", "more: Annotated[int, Field(ge=1, le=1000)]", 1)
    # Calls that ought to be refused never end: here the first of each state, before two that are
    # played.
    assert assessed(tmp_path, "enough", 4, endless, seconds=0.5, random_seed=25) == [""] * 4
    bodies = (tmp_path / "written.jsonl").read_text()
    assert (
        bodies.count('"template":"world_tester@') >= 6 > bodies.count('"template":"world_checker@')
    )


def test_a_change_is_told_by_its_place() -> None:
    before = {"a": {"b": 1, "c": [1]}, "d": 2}
    after = {"a": {"b": 2, "c": [1]}, "e": 3}
    assert list(changes(before, after)) == ["a.b: 1 → 2", "d: 2 is gone", "e: 3 is new"]
