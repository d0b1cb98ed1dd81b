"""What is held against a written scenario, and what against the machine that plays it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rods.asking import Question
from rods.calls import Call
from rods.config import Operation, Sandbox
from rods.environments import addressed
from rods.environments.base import Result
from rods.environments.loading import Environments
from rods.errors import InfrastructureError
from rods.family.environments.checking.scenarios import WitnessCall
from rods.family.environments.programs import WorldPlan, WorldProgram, check
from rods.family.environments.written.building import Dropped
from rods.family.environments.written.scenarios import WrittenScenario, find_witness
from rods.worlds.sandbox.environment import ConfinedWorld, Sandboxed
from tests.family.environments.checking.small_world import spoilt

NINE = (
    'def nine_plums(db: World) -> bool:\n    """There are nine plums."""\n    return '
    'db.jars.get("plums") == 9\n'
)
SLOW = ("    if len(db.jars) >= 100:", "    sum(range(12_000_000))\n    if len(db.jars) >= 100:")
ENDS = ("    if len(db.jars) >= 100:", "    __import__('os')._exit(3)\n    if len(db.jars) >= 100:")
SCENARIO = WrittenScenario(
    0, {"jars": {"plums": 7}}, "Put 2 more plums.", "Plums.", "", {}, {"nine_plums": NINE}, {}
)
PROGRAM = WorldProgram(WorldPlan("Jars.", {}, (), ()))
FILL = Call("fill", {"jar": "plums", "more": 2})


class Fills:
    """Whoever is asked fills the jar, and is done."""

    settings = Operation()

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = [
            {"next": FILL.name, "arguments": FILL.arguments},
            {"next": "finish"},
        ]

    async def ask(self, question: Question[Any], about: str, number: int = 0) -> Any:
        return question.read(self.answers.pop(0))


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[tuple[str, str]], Sandboxed]]:
    """Loads the small world with a change, in one confined process."""
    with Environments(Sandbox(workers=1, seconds=60.0)) as environments:

        def loaded(change: tuple[str, str]) -> Sandboxed:
            source = spoilt(change) + check(NINE)
            environment = environments.load(f"{tmp_path}/{addressed.keep(source, tmp_path)}")
            assert isinstance(environment, Sandboxed)
            return environment

        yield loaded


@pytest.mark.slow
# the agent's own call, the search for what is needless, the controls
@pytest.mark.parametrize(
    "number", [1, *(pytest.param(number, marks=pytest.mark.sweep) for number in (2, 3))]
)
async def test_a_killed_process_is_not_the_fault_of_the_scenario(
    load: Callable[[tuple[str, str]], Sandboxed], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    environment = load(SLOW)
    made = [0]
    call = ConfinedWorld.call
    worker = environment._cells[0].worker

    def kill() -> None:
        assert worker.pid is not None
        os.killpg(worker.pid, signal.SIGKILL)

    def calling(world: ConfinedWorld, asked: Call) -> Result:
        made[0] += asked == FILL
        if asked == FILL and made[0] == number:
            threading.Timer(0.1, kill).start()  # in the middle of the call
        return call(world, asked)

    monkeypatch.setattr(ConfinedWorld, "call", calling)
    with pytest.raises(InfrastructureError, match="was killed"):
        await find_witness(cast(Any, Fills()), PROGRAM, environment, SCENARIO)
    assert made[0] == number
    done = await find_witness(cast(Any, Fills()), PROGRAM, environment, SCENARIO)
    assert done.scenario.witness == (WitnessCall(FILL),)


async def test_a_world_that_ends_its_process_is_the_fault_of_what_was_written(
    load: Callable[[tuple[str, str]], Sandboxed],
) -> None:
    with pytest.raises(Dropped, match="errors"):
        await find_witness(cast(Any, Fills()), PROGRAM, load(ENDS), SCENARIO)
