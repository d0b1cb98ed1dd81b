"""A real, small model goes through all stages that write worlds and scenarios. `make llm-smoke
WHOLE=1` runs this; `make llm-smoke` and `make test` do not: minutes of two cores.

What 135M parameters write is no world: what is tested is that every stage ends with an answer or a
reason, and what it yields is printed beside what the stub's rules yield. As no world of its own
comes so far, the later stages are asked about one that is sound.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.config import Endpoint, Operation, Role, Sandbox
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.programs import WorldProgram, placed
from rods.family.environments.settings import WriterRoles, Writing
from rods.family.environments.written.assessing import assess
from rods.family.environments.written.building import BuiltWorld, Dropped, build
from rods.family.environments.written.record import NAME, CachedQuestioner, WritingRecord
from rods.family.environments.written.scenarios import WrittenScenario, find_witness, write_scenario
from rods.family.environments.written.writing import find_topics
from rods.llm import Client
from rods.prompts import FOLDER

TEXTS = [
    "Lend me the book about clouds until friday.",
    "Move my appointment with the vet to monday.",
    "Rhyme on blue.",
]
STAGES = sorted(
    path.stem
    for path in FOLDER.glob("*.txt")
    if path.stem.startswith(("topic_", "world_", "scenario_"))
)
BRIEF = Writing(rounds=2, tries=2, corrections=1, witness_tries=1, witness_calls=12)
# for who goes on to the limit
BRIEFER = BRIEF.model_copy(update={"rounds": 1, "tries": 1, "witness_calls": 4})
# tokens
SHORT = {"topic_filter": 60, "topic_inference": 80, "world_tester": 120, "scenario_solver": 100}
SANDBOX = Sandbox(workers=1, seconds=20.0)


async def each_stage(
    authors: CachedQuestioner, folder: Path, sound: BuiltWorld | None, told: WrittenScenario | None
) -> tuple[BuiltWorld, WrittenScenario, Counter[str]]:
    """Every stage once, from texts on; where one ends without what the next one needs, this goes on
    with what is `sound`. What came of them: how often each gave something, or its reason."""
    ended: Counter[str] = Counter()

    async def tried(stage: str, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            found = await work
        except Dropped as dropped:
            ended[f"{stage}: {', '.join(dropped.reasons)}"] += 1
            return None
        ended[f"{stage}: {len(found) if isinstance(found, list) else 1}"] += 1
        return found

    topics = await tried(
        "topics", find_topics(authors, TEXTS, are_tasks=True, embedder=authors.client)
    )
    own = await tried("world", build(authors, (topics or ["A public library."])[0], SANDBOX))
    world = sound or own
    assert isinstance(world, BuiltWorld)
    with Environments(SANDBOX) as environments:
        place = placed(world.program.source(), folder)
        await tried("assessment", assess(authors, world, environments.load(place)))

        def load(program: WorldProgram) -> Environment:
            return environments.load(placed(program.source(), folder))

        written = await tried(
            "scenario", write_scenario(authors, world.program, load, 0, world.states[0])
        )
        scenario = told or written
        assert isinstance(scenario, WrittenScenario)
        await tried("witness", find_witness(authors, world.program, load, scenario))
    return world, scenario, ended


def asked(folder: Path) -> dict[str, tuple[int, int]]:
    """By stage, how many questions were answered, of how many."""
    found: dict[str, tuple[int, int]] = {}
    for line in (folder / NAME).read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "asked":
            stage = record["template"].partition("@")[0]
            good, every = found.get(stage, (0, 0))
            found[stage] = good + ("answer" in record), every + 1
    return found


@pytest.mark.slow
@pytest.mark.timeout(1_500)
async def test_a_small_model_goes_through_every_stage_beside_the_stub(
    served: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = WriterRoles(
        **{stage: Role(reason=40, tokens=SHORT.get(stage, 160)) for stage in STAGES}
    )
    with (
        Stub(Script(answer="bench.fixtures.llm_stub.writers:answer")) as stub,
        WritingRecord(tmp_path / "stub") as record,
    ):
        async with Client([Endpoint(model="stub", urls=(stub.url,))]) as client:
            authors = CachedQuestioner(
                client, record, Operation().model_copy(update={"writing": BRIEF})
            )
            world, scenario, rules = await each_stage(authors, tmp_path / "stub", None, None)
    served = served.model_copy(update={"thinking_tokens": 0})
    with WritingRecord(tmp_path / "model") as record:
        async with Client([served], sink=record.use) as client:
            authors = CachedQuestioner(
                client,
                record,
                Operation().model_copy(update={"writing": BRIEFER, "writers": small}),
            )
            _, _, model = await each_stage(authors, tmp_path / "model", world, scenario)
        tokens = record.tokens
    by_rule = asked(tmp_path / "stub")
    by_model = asked(tmp_path / "model")
    with capsys.disabled():
        print(f"\n{'stage':20} {'stub':>10} {'SmolLM2':>10}  answered of asked")
        for stage in STAGES:
            pair = (by_rule.get(stage, (0, 0)), by_model.get(stage, (0, 0)))
            print(f"{stage:20} " + " ".join(f"{good:>4} of {every:<3}" for good, every in pair))
        print(f"stub: {dict(rules)}\nSmolLM2: {dict(model)}, {tokens} tokens")
    assert all(good == every > 0 for good, every in by_rule.values()) and set(by_rule) == set(
        STAGES
    )
    assert (
        sum(rules.values()) == sum(model.values()) == 5
        and rules["world: 1"] == rules["witness: 1"] == 1
    )
    # What follows on an answer is asked only where there is one.
    assert set(by_model) >= {
        "topic_filter",
        "world_plan",
        "world_tester",
        "scenario_state",
        "scenario_solver",
    }
    calls = [json.loads(line) for line in (tmp_path / "model" / NAME).read_text().splitlines()]
    calls = [record for record in calls if record["kind"] == "usage"]
    assert {call["outcome"] for call in calls if call["template"]} <= {
        "stop",
        "length",
        "empty",
        "context",
    }
    # This server offers no embeddings: topics are compared by our index then.
    assert {call["outcome"] for call in calls if not call["template"]} <= {"refused"}
