"""A run whose tasks are played by models behind a real server: recorded, paid, and derived again
from its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.creation import create_run
from rods.buffers.run.heartbeat import read_heartbeat
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.buffers.usage import costs
from rods.config import parse_config
from rods.console.main import run as rods
from rods.conversations import Persona, Rubric
from rods.episode.drivers import run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.errors import UserError
from rods.family.simulation.players import simulation_of
from rods.tasks import task_lines
from rods.trainer import batches
from rods.trainer.simulated import SimulatedPolicy
from rods.trainer.training_run import TrainingRun
from tests.family.simulation.conversations import DONE, drawn, witness

PLAIN = [task for task in drawn() if isinstance(task.user, Persona) and not task.user.further]
TASKS = [task for task in PLAIN if task.provenance["hidden"]][:2]


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(Script(answer="bench.fixtures.llm_stub.players:answer")) as running:
        yield running


def made(folder: Path, **changes: Any) -> Run:
    values = {
        "policy": {"kind": "simulated", "dialect": "tags"},
        "rollouts": {"rollouts_per_task": 2},
        "training": {"batch_tasks": 2, "steps": 3, "checkpoint_steps": 1},
        "operation": {"trace_every": 1},
        "curriculum": {"stages": [{"reward": "rubric"}]},
    }
    return create_run(folder / "run", parse_config({**values, **changes}, where="test"), TASKS)


def trained(run: Run, steps: int = 2) -> None:
    """Of each group one rollout does what is expected, the other says that all is done."""
    with TrainingRun(run) as training:
        training.begin(SimulatedPolicy(run.config))
        for _ in range(steps):
            batch = training.next_batch()
            given = run.players.jobs(batch.tasks, run.config, batch.rules, batch.interface)
            told = {task.id: witness(task) for task in TASKS}
            left = [
                iter([DONE] if place % 2 else told.get(job.task.id, [DONE]))
                for place, job in enumerate(given)
            ]

            def complete(waiting: Sequence[tuple[int, NeedText]], left: list = left) -> list[Reply]:
                return [Reply(next(left[place], DONE)) for place, _ in waiting]

            traces = run_lockstep(given, complete)
            played = [traces[start : start + 2] for start in range(0, len(traces), 2)]
            kept = [
                {"slot": place // 2, "rollout": place % 2, **one.as_json()}
                for place, one in enumerate(traces)
            ]
            training.record(batch, batches.groups(batch, played, run.config, run.players), kept)
            training.after_update()


def test_players_that_are_gone_are_waited_for_no_longer_than_for_failed_attempts(
    tmp_path: Path, stub: Stub
) -> None:
    """An endpoint waits for ever by default, which is right for an author, not for an episode."""
    endpoints = {"players": [{"model": "stub", "urls": [stub.url], "retry_seconds": 7.0}]}
    run = made(tmp_path, simulation={"verifier": "model"}, operation=endpoints)
    player = simulation_of(run.players)
    with run.playing("trainer"):
        assert player.line is not None
        assert [endpoint.patience_seconds for endpoint in player.line.client.settings] == [7.0]
    assert player.line is None


@pytest.mark.needs("page")
@pytest.mark.parametrize("who", ["procedural", "model"])
def test_a_run_of_drawn_tasks_is_steered_paid_and_derived_again(
    tmp_path: Path, stub: Stub, who: str, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints = {"players": [{"model": "stub", "urls": [stub.url]}], "trace_every": 1}
    run = made(
        tmp_path, simulation=dict.fromkeys(("tools", "user", "verifier"), who), operation=endpoints
    )
    trained(run)
    windows = [read_state(run).tracker.window(task.id) for task in TASKS]
    assert all(
        window is not None and window.count == 2 and window.zone == "boundary" for window in windows
    )
    found = verify(run.path, replay=True)
    assert not found.problems and found.counts["judged episodes"] == 8
    played = costs(run.path).played
    assert rods(["inspect", "--cost", str(run.path)]) == 0
    shown = capsys.readouterr().out
    if who == "procedural":
        assert not played and "models that play" not in shown
        return
    assert {"simulated_tool", "simulated_user", "simulated_verifier"} == set(played)
    assert played["simulated_verifier"].calls == 4 and played["simulated_tool"].tokens_in > 0
    assert "models that play" in shown and "simulated_verifier" in shown
    beat = read_heartbeat(run.path, "trainer")
    assert beat["budget"]["used_requests"] == sum(spent.calls for spent in played.values())
    assert beat["endpoints"][0]["model"] == "stub" and beat["endpoints"][0]["in_flight"] == 0
    assert {call["account"] for call in read(run.path / "usage.trainer.jsonl")} == {
        task.id for task in TASKS
    }


def test_tasks_that_a_model_thinks_up_are_drawn_played_and_judged(
    tmp_path: Path, stub: Stub
) -> None:
    every = dict.fromkeys(("tools", "user", "verifier", "generator"), "model")
    operation = {"players": [{"model": "stub", "urls": [stub.url]}], "trace_every": 1}
    run = made(tmp_path, simulation=every, operation=operation, source={"drawn": 0.5})
    trained(run)
    drawn_here = [record["task"]["id"] for record in read(run.path / "drawn.jsonl")]
    assert len(set(drawn_here)) == 2
    found = verify(run.path, replay=True)
    assert not found.problems and found.counts["drawn tasks"] == 2
    assert costs(run.path).played["simulated_task"].calls >= 2


def test_budgets_hold_over_all_starts_of_a_run(tmp_path: Path, stub: Stub) -> None:
    stub.forget()
    operation = {
        "players": [{"model": "stub", "urls": [stub.url]}],
        "player_budgets": {"requests": 3},
    }
    run = made(tmp_path, simulation={"tools": "model", "verifier": "model"}, operation=operation)
    for _ in range(2):
        with pytest.raises(
            UserError, match=r"operation.player_budgets: the budget of 3 requests is spent"
        ):
            trained(run)
    assert stub.counts()["requests"] == 3


def test_what_cannot_be_played_is_refused_before_a_run_is_made(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r'simulation.user is "model", and no model is named that could play'
    ):
        made(tmp_path, simulation={"user": "model"})
    with pytest.raises(UserError, match=r"user_told.*'intent' or 'persona', not 'expected'"):
        made(tmp_path, simulation={"user_told": ["expected"]})


def test_a_plan_says_who_plays_and_refuses_what_nobody_judges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    polite = replace(TASKS[0], goal=Rubric(("It is polite.",), TASKS[0].goal_calls), id="")
    (tmp_path / "tasks.jsonl").write_bytes(task_lines([polite]))
    rules = "[training]\nbatch_tasks = 1\n[data]\ntasks = 'tasks.jsonl'\n"
    config = tmp_path / "c.toml"
    config.write_text(rules)
    assert rods(["plan", str(config)]) == 2
    assert "its criterion 'It is polite.' is none of intent" in capsys.readouterr().err
    player = (
        "[simulation]\nverifier = 'model'\n[[operation.players]]\nmodel = 'm'\nurls = "
        "['http://localhost:1/v1']\n"
    )
    config.write_text(rules + player)
    assert rods(["plan", str(config)]) == 0
    assert "played by: verifier by m at http://localhost:1/v1" in capsys.readouterr().out
