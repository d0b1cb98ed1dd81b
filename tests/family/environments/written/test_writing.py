"""Models behind an endpoint write worlds and scenarios: what passes the controls is kept, the rest
is dropped with its reason, and an interrupted writing goes on. The models are the stub's, over
HTTP."""

from __future__ import annotations

import ast
import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.config import Endpoint, Operation, Sandbox
from rods.conversations import Checks, Persona, Script as Scripted
from rods.environments.base import checks
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.errors import BudgetSpent, RodsError, UserError
from rods.family.environments.checking.scenarios import WitnessCall, played
from rods.family.environments.settings import Writing
from rods.family.environments.verbs import write_worlds
from rods.family.environments.written.record import NAME, CachedQuestioner, WritingRecord
from rods.family.environments.written.writing import WorldRequest, WrittenWorld, write_world
from rods.llm import Client
from rods.tasks import OpenTask, read_tasks

pytestmark = pytest.mark.slow

FAULTY = "bench.fixtures.llm_stub.faulty_writers"
TOPIC = "The lending desk of a public library: books, members and loans, kept by its staff."


def configured(folder: Path, stub: Stub, writing: str = "", budgets: str = "") -> Path:
    file = folder / "config.toml"
    endpoint = f'[[operation.endpoints]]\nmodel = "stub"\nurls = ["{stub.url}"]\n'
    file.write_text(f"[operation.writing]\n{writing}\n[operation.budgets]\n{budgets}\n{endpoint}")
    return file


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


def questions(bodies: Path) -> Counter[str]:
    """How often each question was asked."""
    return Counter(
        json.dumps(json.loads(line)["messages"]) for line in bodies.read_text().splitlines()
    )


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a careless model has written, after one start that ran out of its budget
    and a second one."""
    folder: Path = tmp_path_factory.mktemp("written")
    (folder / "topics.txt").write_text(f"{TOPIC}\n\n{TOPIC}\n")
    asked: dict[str, Any] = {"topics": folder / "topics.txt", "scenarios": 4, "mode": "both"}
    with Stub(Script(answer=f"{FAULTY}:careless"), bodies=folder / "bodies.jsonl") as stub:
        with pytest.raises(BudgetSpent):
            write_worlds(
                folder, config=configured(folder, stub, "rounds = 6", "requests = 20"), **asked
            )
        assert not (folder / "tasks.jsonl").exists()
        with (folder / NAME).open("ab") as file:
            file.write(b'{"kind":"asked","key":"cut o')  # as a crash leaves it
        assert write_worlds(folder, config=configured(folder, stub, "rounds = 6"), **asked) == 0
        before = stub.counts()["requests"]
        assert write_worlds(folder, config=configured(folder, stub, "rounds = 6"), **asked) == 0
        assert stub.counts()["requests"] == before  # nothing is left to be asked
    return folder


@pytest.mark.needs("sandbox")
def test_a_world_goes_back_to_its_model_with_the_controls_that_refused_it(careless: Path) -> None:
    (refused, *_) = [each for each in recorded(careless) if each["kind"] == "refused"]
    controls = {fault["control"] for fault in refused["faults"]}
    assert {"getters", "effects"} <= controls and refused["about"] == TOPIC
    faulty = {fault["where"] for fault in refused["faults"]}
    asked = [
        each for each in recorded(careless) if each.get("template", "").startswith("world_tool@")
    ]
    codes = [code for each in asked if "answer" in each for code in each["answer"]["code"]]
    again = [code for code in codes if "db.next += 1" not in code]
    assert len(again) > len(faulty) and all("why" not in each for each in asked)
    bodies = (careless / "bodies.jsonl").read_text()
    assert "signature: it was to be " in bodies  # seen before anything ran
    assert "was refused" in bodies and "getters: " in bodies and "effects: " in bodies


@pytest.mark.needs("sandbox")
def test_no_question_that_was_answered_is_asked_twice_after_an_interruption(careless: Path) -> None:
    every = questions(careless / "bodies.jsonl")
    repeated = [text for text, times in every.items() if times > 1]
    # Only what was in flight when the budget ended, the tools of a world at most.
    assert len(repeated) <= 24 and sum(every.values()) > 30 and max(every.values()) <= 2


@pytest.mark.needs("sandbox")
def test_repeated_topics_are_dropped_and_costs_are_on_record(careless: Path) -> None:
    (topic,) = [
        each for each in recorded(careless) if each["kind"] == "dropped" and each["what"] == "topic"
    ]
    assert topic["reasons"] == ["repeated"] and topic["of"] == TOPIC
    with WritingRecord(careless) as record:
        assert record.requests > 30 and record.tokens > 10_000 and len(record.finished) == 1
        with pytest.raises(UserError, match="another process"), WritingRecord(careless):
            pass


@pytest.mark.needs("sandbox")
def test_a_task_is_done_by_its_witness_and_without_no_call_of_it(
    careless: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(careless)
    tasks = [task for task in read_tasks(careless / "tasks.jsonl") if isinstance(task, OpenTask)]
    assert len(tasks) >= 2 and {type(task.user) for task in tasks} == {Scripted, Persona}
    assert len({task.environment.name for task in tasks}) == 1
    with Environments() as environments:
        environment = environments.load(tasks[0].environment.name)
        assert environment.hash == tasks[0].environment.hash
        offered = checks(environment)
        for task in tasks:
            assert isinstance(task.goal, Checks) and {call.name for call in task.goal.calls} <= set(
                offered
            )
            witness = [WitnessCall.from_json(each) for each in task.provenance["witness"]]
            assert any(each.takes for each in witness)  # what it looks up, it uses
            for without in (None, *range(len(witness))):
                instance = environment.reset(task.state)
                played(instance, witness, without)
                assert all(holds(instance, check) for check in task.goal.calls) is (without is None)
            guards = task.goal.calls[len(task.goal.calls) - task.provenance["guards"] :]
            assert (
                all("_keeps_" in call.name for call in guards)
                and task.provenance["prompts"]["scenario_checklist"]
            )
            if isinstance(task.user, Persona):  # its intent is what it never says by itself
                assert task.user.intent != task.user.query


@pytest.mark.needs("sandbox")
def test_the_kept_source_is_one_file_with_the_checks_of_all_scenarios(careless: Path) -> None:
    (world,) = (careless / "environments").iterdir()
    tree = ast.parse((world / "world.py").read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len([name for name in names if name.startswith("scenario_")]) >= 4
    assert len(set(names)) == len(names)


@pytest.mark.needs("sandbox")
def test_what_a_hostile_model_writes_is_dropped_and_runs_nowhere(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(TOPIC)
    with Stub(Script(answer=f"{FAULTY}:hostile")) as stub:
        config = configured(tmp_path, stub, "tries = 2\ncorrections = 1")
        assert (
            write_worlds(tmp_path, config=config, topics=tmp_path / "topics.txt", scenarios=2) == 1
        )
    assert not (tmp_path / "environments").exists()
    (dropped,) = [each for each in recorded(tmp_path) if each["kind"] == "dropped"]
    assert dropped["what"] == "world" and set(dropped["reasons"]) <= {
        "signature",
        "syntax",
        "imports",
    }


@pytest.mark.needs("sandbox")
def test_checks_that_change_the_state_never_end_or_always_hold_are_dropped_by_name(
    tmp_path: Path,
) -> None:
    async def write(stub: Stub) -> WrittenWorld:
        async with Client([Endpoint(model="stub", urls=(stub.url,))]) as client:
            operation = Operation().model_copy(
                update={"writing": Writing(rounds=0, tries=2, witness_tries=1)}
            )
            request = WorldRequest(5, sandbox=Sandbox(workers=1, seconds=2.0))
            return await write_world(
                CachedQuestioner(client, record, operation), TOPIC, "train", tmp_path, request
            )

    with (
        Stub(Script(answer=f"{FAULTY}:hostile_checker")) as stub,
        WritingRecord(tmp_path) as record,
    ):
        world = asyncio.run(write(stub))
    assert (
        world.name
        and not world.tasks
        and world.dropped
        == {
            "builtins": 2,  # opens a file, climbs to all classes
            "pure_checks": 1,
            "errors": 1,  # never ends
            "true_at_start": 1,
        }
    )


def test_an_endpoint_that_is_gone_stops_the_writing_and_drops_nothing(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(TOPIC)
    with Stub(Script(faults={"500": 1.0})) as stub:
        file = configured(tmp_path, stub)
        file.write_text(file.read_text() + "retry_seconds = 0.5\npatience_seconds = 0.5\n")
        with pytest.raises(RodsError):
            write_worlds(tmp_path, config=file, topics=tmp_path / "topics.txt")
    assert {each["kind"] for each in recorded(tmp_path)} <= {"usage"}


@pytest.mark.needs("sandbox")
def test_a_world_with_six_scenarios_costs_a_hundred_thousand_tokens_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "topics.txt").write_text(TOPIC)
    with Stub(Script(answer="bench.fixtures.llm_stub.writers:answer")) as stub:
        config = configured(tmp_path, stub, "rounds = 0")
        topics = tmp_path / "topics.txt"
        assert write_worlds(tmp_path, config=config, topics=topics, scenarios=6) == 0
    (finished,) = [each for each in recorded(tmp_path) if each["kind"] == "finished"]
    assert finished["facts"]["tools"] >= 16 and len(finished["tasks"]) == 6
    assert 20_000 < finished["facts"]["tokens"] <= 100_000
    told = capsys.readouterr().err
    assert "rules planned" in told and "controls passed" in told
    assert "6 tasks (" in told
