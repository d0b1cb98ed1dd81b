"""Why no variants come: a person is told, and the run goes on to its end."""

import json
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.log.tail import read
from rods.buffers.run.creation import create_run
from rods.buffers.trainer_log import TrainerLog
from rods.calls import Call
from rods.config import parse_config
from rods.console.progress import BARREN, Progress
from rods.environments.base import reference
from rods.observations import Group, Rollout
from rods.tasks import AnyTask, Task, task_lines
from rods.worlds import desk
from tests.buffers.world import PICKED, Players, SyncDaemonLog, make_run, variants
from tests.console.conftest import CONFIG, rods
from tests.console.test_up import started
from tests.environments import load

ENDPOINT = '[[operation.endpoints]]\nmodel = "m"\nurls = ["http://127.0.0.1:9/v1"]\n'


@pytest.mark.slow
def test_steps_without_a_boundary_task_are_considered_without_picks_and_status_says_why(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.toml").write_text(
        CONFIG.replace('kind = "simulated"', 'kind = "simulated"\nskill = 9.0')
    )
    done = rods("up", tmp_path / "run", "--config", tmp_path / "run.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    records = list(read(tmp_path / "run" / "seeds.jsonl"))
    assert {record["kind"] for record in records} == {"considered"}
    assert {record["picks"] for record in records} == {0}
    note = next(
        line for line in rods("status", tmp_path / "run").stdout.splitlines() if "note" in line
    )
    assert (
        "no active task is at the boundary (mean reward 0.2 to 0.85)" in note and "[zones]" in note
    )


@pytest.mark.parametrize("wanted", [4, 0])
def test_a_type_none_of_whose_tasks_is_at_the_boundary_is_named(
    tmp_path: Path, wanted: int
) -> None:
    """The groups of base tasks disagree, those of miss_param never solve a turn. Where no variant
    is wanted, there is nothing to say."""
    tasks = [task for task in desk.generate(3, 8, 0) if task.type in ("base", "miss_param")]
    settings = {
        "policy": {"kind": "simulated"},
        "training": {"batch_tasks": len(tasks)},
        "selection": {"seeds_per_step": wanted},
    }
    run = create_run(tmp_path / "run", parse_config(settings, where="test"), tasks)

    def group(task: AnyTask) -> Group:
        turns = task.expected
        solved = (0, 1, 0, 1) if task.type == "base" else (0,) * 4
        rollouts = (
            Rollout(done * turns, turns, done, 0.0, float(done), "finished") for done in solved
        )
        return Group(task.id, 1, "identity", "progress", (0.0, 1.0), tuple(rollouts))

    with TrainerLog(run) as trainer:
        trainer.start()
        slots = trainer.merge(0, 1).slots
        trainer.write_step(1, 0, [group(trainer.task(slot.task_id)) for slot in slots])
    progress = Progress(run.path)
    progress.poll()
    few = sum(task.type == "miss_param" for task in tasks)
    notes = [note for note in progress.notes() if "at the boundary" in note]
    assert notes == [
        f"no miss_param task is at the boundary ({few} too hard), so variants of this type cannot "
        "come: a variant keeps its seed's type"
    ] * bool(wanted)


def test_it_is_said_at_once_that_the_first_seeds_gave_no_variant(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    first, second = list(run.tasks)[:2]
    progress = Progress(run.path)

    def notes() -> list[str]:
        progress.poll()
        return [note for note in progress.notes() if note.startswith("NO VARIANTS")]

    with TrainerLog(run) as trainer, closing(SyncDaemonLog(run)) as daemon:
        trainer.start()
        picks = [f"1-{task.id}" for task in (first, second)]
        daemon.picked(
            1,
            0,
            [
                {"task": task.id, "type": task.type, "score": 1.0, "why": {"generation": 0}}
                for task in (first, second)
            ],
        )
        for error in ("no_pattern", "plan_unreadable", "plan_unreadable"):
            daemon.rejected(
                picks[0],
                0,
                stage="plan",
                error=error,
                evidence={"detail": "no JSON"},
                raw="",
                attempt=1,
            )
        assert not notes(), "nothing is finished yet"
        daemon.picked(2, 0, [])
        daemon.finished(picks[0], [], 1, why="plan_unreadable")
        (note,) = notes()
        assert note.startswith(
            "NO VARIANTS: the last 1 finished seed gave none; 2 of 3 attempts failed in plan: "
            "plan_unreadable"
        )
        daemon.finished(picks[1], ["a"], 0)
        assert not notes()


def test_the_end_says_what_was_written_and_what_was_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sync="lockstep")
    tasks = run.tasks[:4]
    with TrainerLog(run) as trainer, closing(SyncDaemonLog(run)) as daemon:
        trainer.start()
        players = Players(run, trainer, None)
        players.epoch(0, steps=2)
        daemon.picked(1, 0, [{"task": task.id} | PICKED for task in tasks])
        picks = [f"1-{task.id}" for task in tasks]
        daemon.expanded(picks[0], 0, variants()[0], {"generation": 1})
        daemon.finished(picks[0], [variants()[0].id], 0)
        daemon.finished(picks[1], [], 1, why="plan_unreadable")
    assert [*Progress(run.path).poll().written()] == [
        "written: 1 variants from 4 seeds; 0 injected, 0 refused, 1 staged for the next epoch",
        "not written: 1 discarded (1 plan unreadable)",
        "not written: 2 seeds were picked, and the trainer ended before their variants were there; "
        "the next start goes on with them",
        "not looked at: seeds of the last 1 steps, since the trainer ended before the daemon came "
        "to them",
    ]


@pytest.mark.slow
def test_an_environment_without_a_phrase_book_is_named_where_it_is_used(tmp_path: Path) -> None:
    name = toy_run(tmp_path)
    said = (
        f"environment '{name}' has no catalogue with a phrase book, so no variants of its tasks "
        f"will be written"
    )
    made = rods("trainer", "new", tmp_path / "run", "--config", tmp_path / "run.toml")
    assert made.returncode == 0 and said in made.stdout and "docs/composing.md" in made.stdout, (
        made.stderr
    )
    done = rods("up", tmp_path / "run")
    assert done.returncode == 0 and said in done.stdout, done.stdout + done.stderr
    status = json.loads(rods("status", tmp_path / "run", "--json").stdout)
    assert any(said in note for note in status["notes"])
    assert status["discards"].keys() == {"no_prompts"} and status["accepted"] == 0
    loud = next(note for note in status["notes"] if note.startswith("NO VARIANTS"))
    seeds = status["outcomes"]["discarded"]
    assert (
        f"the last {seeds} finished seeds gave none; {seeds} of {seeds} attempts failed in plan: "
        f"no_prompts" in loud
    )
    assert "has no catalogue to compose from" in loud
    assert done.stdout.count("NO VARIANTS: the last") == 1
    made = rods(
        "trainer",
        "new",
        tmp_path / "written",
        "--config",
        by_model(tmp_path / "run.toml", ENDPOINT),
    )
    assert made.returncode == 0 and "no variants" not in made.stdout, "a model needs no catalogue"


def toy_run(folder: Path) -> str:
    """Writes the configuration of a run on an environment without a catalogue, and its tasks;
    returns its name."""
    name = "tests.rods.toy_environment:environment"
    things = ("apples", "pears", "plums", "nuts", "figs", "dates", "limes", "kiwis")
    tasks = [
        Task(
            reference(load(name)),
            "base",
            (
                f"Write a note called {thing} that says {number} are left.",
                "And which notes are there?",
            ),
            ((Call("write", {"title": thing, "body": f"{number} are left"}),), (Call("titles"),)),
            ("write", "read", "titles", "label"),
            state={"notes": {str(number): {"title": f"fresh {thing}", "body": "in the cellar"}}},
        )
        for number, thing in enumerate(things, 3)
    ]
    (folder / "tasks.jsonl").write_bytes(task_lines(tasks))
    (folder / "run.toml").write_text(
        CONFIG.replace('"desk"\ntrain = 16\nheld_out = 12', '"tasks.jsonl"').replace(
            "batch_tasks = 8", "batch_tasks = 4"
        )
    )
    return name


def by_model(base: Path, endpoint: str = "") -> Path:
    config = base.with_name("by_model.toml")
    config.write_text(base.read_text() + '[pipeline]\nauthor = "llm"\n' + endpoint)
    return config


def test_a_model_that_is_to_write_and_is_not_named_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG)
    asked = by_model(tmp_path / "run.toml")
    made = rods("trainer", "new", tmp_path / "written", "--config", asked)
    assert made.returncode == 2 and not (tmp_path / "written").exists()
    for key in (
        'pipeline.author is "llm"',
        "operation.endpoints",
        "[[operation.endpoints]]",
        "model and urls",
    ):
        assert key in made.stderr
    asked.write_text(asked.read_text().replace("seeds_per_step = 6", "seeds_per_step = 0"))
    assert rods("trainer", "new", tmp_path / "static", "--config", asked).returncode == 0, (
        "nothing is picked, nobody writes"
    )


@pytest.mark.slow
def test_a_model_that_writes_needs_no_catalogue(tmp_path: Path) -> None:
    """Seeds enough that the note could come, by the last merge but the end, which waits for them
    (nobody waits for what is picked after it), and few enough that what the stub writes of the
    toy's eight things does not begin to repeat itself."""
    toy_run(tmp_path)
    (tmp_path / "run.toml").write_text(
        (tmp_path / "run.toml").read_text().replace("steps = 14", "steps = 10")
    )
    done, shown, status = written(tmp_path, "bench.fixtures.llm_stub.roles:answer")
    pool = read(tmp_path / "run" / "pool.jsonl")
    merged = max(record["step"] for record in pool if record["kind"] == "epoch")
    seeds = read(tmp_path / "run" / "seeds.jsonl")
    waited = [seed for seed in seeds if seed["kind"] == "picked" and seed["step"] <= merged]
    assert len(waited) >= BARREN
    assert "no variants" not in done + shown and "NO VARIANTS" not in done + shown
    assert status["accepted"] > 0 and sum(status["outcomes"].values()) >= BARREN


@pytest.mark.slow
def test_a_model_that_fails_in_one_way_alone_is_said_loudly_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG.replace("steps = 14", "steps = 20"))
    done, shown, status = written(tmp_path, "tests.daemon.authors.llm.early_habits:speechless")
    assert status["accepted"] == 0 and status["outcomes"]["discarded"] > 2
    for said in (done, shown):
        assert (
            "NO VARIANTS" in said
            and "param_gen_failed" in said
            and "no JSON object could be read" in said
        ), said
    log = [
        json.loads(line)
        for line in (tmp_path / "run" / "logs" / "daemon.jsonl").read_text().splitlines()
    ]
    loud = next(line for line in log if line["event"] == "no variants")
    assert (
        (loud["level"], loud["seeds_in_a_row"]) == ("warning", 20)
        and loud["why"]
        and "status" in loud["see"]
    )


def written(folder: Path, answers: str) -> tuple[str, str, dict[str, Any]]:
    """What `up` and `status` say of a whole run whose variants a stub writes, and the status
    itself."""
    with Stub(Script(answer=answers)) as stub:
        endpoint = f'attempts = 1\n[[operation.endpoints]]\nmodel = "m"\nurls = ["{stub.url}"]\n'
        done = rods("up", folder / "run", "--config", by_model(folder / "run.toml", endpoint))
    assert done.returncode == 0, done.stdout + done.stderr
    status = json.loads(rods("status", folder / "run", "--json").stdout)
    return done.stdout, rods("status", folder / "run").stdout, status


@pytest.mark.slow
def test_up_says_that_no_endpoint_answers_where_it_is_and_what_to_do(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    written = CONFIG.replace("steps = 14", "steps = 8").replace(
        "[data]", '[pipeline]\nauthor = "llm"\n[data]'
    )
    config.write_text(f"{written}steps_per_second = 2\n{ENDPOINT}")
    with started(tmp_path / "run", config) as process:
        assert process.stdout is not None
        said = next(line for line in process.stdout if "NO ENDPOINT ANSWERS" in line)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 5
    assert "m at http://127.0.0.1:9/v1: " in said
    assert "cannot connect" in said and "→ start the server" in said
    assert not list(read(tmp_path / "run" / "rejected.jsonl")), "and no seed is lost to it"


def test_what_is_told_of_a_daemon_whose_models_write_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    silent = {"endpoint": "m", "servers": ["http://h:1/v1"], "in_flight": 3, "answered": False}
    with closing(SyncDaemonLog(run)) as log:
        progress = Progress(run.path)
        heartbeat = log.log.heartbeat

        def told(state: str, **endpoint: Any) -> str:
            heartbeat.beat(state=state, endpoints=[{**silent, "why": "", **endpoint}])
            heartbeat._write()
            return progress.unwritten()

        assert told("working", why="HTTP 401").startswith(
            "NO ENDPOINT ANSWERS: m at http://h:1/v1: HTTP 401 → "
        )
        assert told("working").startswith("NOTHING IS WRITTEN: 3 calls under way")
        assert "budget" in told("budget spent", answered=True)
        assert "no task can be a seed" in told("no seeds", in_flight=0)
        assert not told("working", answered=True)
    assert not progress.unwritten(), "and nothing of one that has left"
