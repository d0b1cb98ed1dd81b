"""What is held against a written scenario, and what against the machine that plays it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from rods.family.environments.checking.worlds import program_faults
from rods.family.environments.programs import WorldPlan, WorldProgram, check
from rods.family.environments.written.building import Dropped, unplaced
from rods.family.environments.written.scenarios import NearMiss, WrittenScenario, find_witness
from rods.worlds.sandbox.environment import ConfinedWorld, Sandboxed
from tests.family.environments.checking.small_world import SOURCE, spoilt

NINE = (
    'def nine_plums(db: World) -> bool:\n    """There are nine plums."""\n    return '
    'db.jars.get("plums") == 9\n'
)
SLOW = ("    if len(db.jars) >= 100:", "    sum(range(12_000_000))\n    if len(db.jars) >= 100:")
ENDS = ("    if len(db.jars) >= 100:", "    __import__('os')._exit(3)\n    if len(db.jars) >= 100:")
SCENARIO = WrittenScenario(
    0, {"jars": {"plums": 7}}, "Put 2 more plums.", "Plums.", "", {}, {"nine_plums": NINE}
)
PROGRAM = WorldProgram(WorldPlan("Jars.", {}, (), ()))
FILL = Call("fill", {"jar": "plums", "more": 2})


Loaded = Callable[..., Sandboxed]


class Fills:
    """Whoever is asked fills the jar, and is done; or answers something else. `said` is what was
    asked."""

    settings = Operation()

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = [*answers] or [{"calls": [FILL.as_json()], "then": "finish"}]
        self.said: list[Question[Any]] = []
        self.record = self
        self.records: list[dict[str, Any]] = []

    def tell(self, about: str, what: str) -> None:
        pass

    def append(self, kind: str, **fields: Any) -> None:
        self.records.append({"kind": kind, **fields})

    async def ask(self, question: Question[Any], about: str, number: int = 0) -> Any:
        self.said.append(question)
        return question.read(self.answers.pop(0))


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Loaded]:
    """Loads the small world with a change, in one confined process."""
    with Environments(Sandbox(workers=1, seconds=60.0)) as environments:

        def loaded(change: tuple[str, str] = ("", ""), *more: str) -> Sandboxed:
            source = (spoilt(change) if any(change) else SOURCE) + "".join(
                map(check, (NINE, *more))
            )
            environment = environments.load(f"{tmp_path}/{addressed.keep(source, tmp_path)}")
            assert isinstance(environment, Sandboxed)
            return environment

        yield loaded


def of(load: Loaded, change: tuple[str, str] = ("", "")) -> Callable[[WorldProgram], Sandboxed]:
    """Loads the small world with a change and whatever checks a program has."""

    def loading(program: WorldProgram) -> Sandboxed:
        more = [code for name, code in program.checks.items() if name != "nine_plums"]
        return load(change, *more)

    return loading


@pytest.mark.slow
# the agent's own call, the search for what is needless, the controls
@pytest.mark.parametrize(
    "number", [1, *(pytest.param(number, marks=pytest.mark.sweep) for number in (2, 3))]
)
async def test_a_killed_process_is_not_the_fault_of_the_scenario(
    load: Loaded, monkeypatch: pytest.MonkeyPatch, number: int
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
        await find_witness(cast(Any, Fills()), PROGRAM, of(load, SLOW), SCENARIO)
    assert made[0] == number
    done = await find_witness(cast(Any, Fills()), PROGRAM, of(load, SLOW), SCENARIO)
    assert done.scenario.witness == (WitnessCall(FILL),)


async def test_a_world_that_ends_its_process_is_the_fault_of_what_was_written(load: Loaded) -> None:
    with pytest.raises(Dropped, match="errors"):
        await find_witness(cast(Any, Fills()), PROGRAM, of(load, ENDS), SCENARIO)


def moves(*calls: tuple[str, dict[str, Any]], then: str = "finish") -> dict[str, Any]:
    return {
        "calls": [{"name": name, "arguments": arguments} for name, arguments in calls],
        "then": then,
    }


async def test_a_key_that_nobody_has_said_or_shown_is_looked_up_first(load: Loaded) -> None:
    vague = replace(SCENARIO, task="Put 2 more into the one jar that there is.")
    full = ("fill", {"jar": "plums", "more": 2})
    agent = Fills(moves(full), moves(("jars", {}), full, then="go on"))
    done = await find_witness(cast(Any, agent), PROGRAM, of(load), vague)
    assert [step.call.name for step in done.scenario.witness] == ["jars", "fill"]
    assert done.scenario.witness[1].takes == {"jar": 0}
    told = agent.said[1].fields["calls"]
    assert "refused: nobody has said plums, and no result has shown it: look it up" in told
    assert not agent.answers  # all checks hold then, and nobody is asked whether it is done


async def test_calls_after_a_refused_one_are_not_made(load: Loaded) -> None:
    agent = Fills(
        moves(("empty", {"jar": "figs"}), ("empty", {"jar": "plums"})),
        moves(("fill", {"jar": "plums", "more": 2})),
    )
    done = await find_witness(cast(Any, agent), PROGRAM, of(load), SCENARIO)
    assert [step.call for step in done.scenario.witness] == [FILL]
    assert agent.said[1].fields["calls"].count("→") == 1


async def test_what_does_not_hold_is_told_to_the_checks_writer_before_another_try(
    load: Loaded,
) -> None:
    short = moves(("fill", {"jar": "plums", "more": 1}))
    with pytest.raises(NearMiss) as missed:
        await find_witness(cast(Any, Fills(short)), PROGRAM, of(load), SCENARIO, last=False)
    (detail,) = missed.value.details
    assert "it was not true that There are nine plums." in detail and '"more":1' in detail
    agent = Fills(short, moves(("fill", {"jar": "plums", "more": 2})))
    await find_witness(cast(Any, agent), PROGRAM, of(load), SCENARIO)
    assert agent.said[0].sections == () and agent.said[1].sections == ("mend",)
    assert '"more":1' in agent.said[1].fields["earlier"]


async def test_all_else_is_guarded_by_the_state_of_the_start(load: Loaded) -> None:
    full = replace(SCENARIO, state={"jars": {"plums": 7, "pears": 3, "figs": 1}, "log": ["a"]})
    done = await find_witness(cast(Any, Fills()), PROGRAM, of(load), full)
    ((name, code),) = done.written.guards.items()
    assert done.scenario.guards == (Call(name, {}),) and len(done.validated.mutants) == 1
    assert not program_faults(SOURCE + check(code), "w.py")
    environment = load(("", ""), code)
    for more, holds in [
        ([], True),
        ([Call("count", {"jar": "figs"}), Call("jars", {})], True),
        ([Call("fill", {"jar": "pears", "more": 1})], False),
        ([Call("fill", {"jar": "kiwis", "more": 1})], False),
        ([Call("empty", {"jar": "figs"})], False),
        ([Call("fill", {"jar": "plums", "more": 1})], True),  # which is for the checks to say
    ]:
        world = environment.reset(dict(full.state))
        for call in (FILL, *more):
            assert world.call(call).error is None
        assert world.call(Call(name, {})).value is holds, more
    assert environment.reset(dict(full.state)).call(Call(name, {})).value is True


def test_what_a_model_is_told_names_no_folder_of_this_machine() -> None:
    error = ValueError("environment '/tmp/x1/environments/ab/world.py:environment' raised: no")
    assert unplaced(error) == "environment 'world.py:environment' raised: no"
