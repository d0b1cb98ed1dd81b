"""The Python API: the snippets of docs/api.md run as they stand, and what a trainer through it does
is a run's."""

import contextlib
import inspect
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

import rods
import rods.dialects
from rods.errors import UserError
from rods.tasks import AnyTask
from rods.worlds import desk
from tests.environments import ENVIRONMENTS
from tests.rods import toy_environment

BIN = Path(sys.executable).parent
PAGE = Path(__file__).parents[2] / "docs" / "api.md"
EVALUATION, TRAINER = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
)


@pytest.fixture
def library(tmp_path, monkeypatch):
    subprocess.run([BIN / "rods", "init", "library"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path / "library")
    return tmp_path / "library"


def test_the_snippets_are_as_short_as_they_should_be():
    assert len(EVALUATION.strip().splitlines()) <= 10
    assert len([line for line in TRAINER.splitlines() if line.strip()]) <= 20


def test_the_page_gives_every_parameter_with_its_default():
    shown = [
        each for each in re.findall(r"`(\w+)\(([^`]*)\)`", PAGE.read_text()) if each[0] in dir(rods)
    ]
    assert len(shown) >= 9
    for name, parameters in shown:
        given = dict([*part.split("="), ""][:2] for part in parameters.split(", "))
        found = inspect.signature(getattr(rods, name)).parameters
        assert list(given) == list(found), name
        for parameter, default in given.items():
            if default != "…":
                real = found[parameter].default
                assert default == (
                    "" if real is inspect.Parameter.empty else repr(real).replace("'", '"')
                ), name


@pytest.mark.needs("new_world")
def test_the_evaluation_runs(library):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(EVALUATION, {})  # noqa: S102 it is our own page
    # Of twenty tasks four have a turn of two in which no call is right.
    assert re.match(r"progress 0\.100 \[0\.0\d\d, 0\.\d{3}\]", said.getvalue())


@pytest.mark.needs("new_world")
@pytest.mark.slow
def test_the_trainer_is_a_whole_loop(library):
    subprocess.run([BIN / "rods", "trainer", "new", "runs/own", "--config", "run.toml"], check=True)
    (library / "own.py").write_text(TRAINER)
    daemon = subprocess.Popen([BIN / "rods-daemon", "runs/own"], stderr=subprocess.DEVNULL)
    try:
        subprocess.run([sys.executable, "own.py"], check=True, timeout=240)
        daemon.terminate()
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        daemon.wait()
    subprocess.run([BIN / "rods", "verify", "runs/own", "--replay"], check=True)
    status = orjson.loads(
        subprocess.run([BIN / "rods", "status", "runs/own", "--json"], capture_output=True).stdout
    )
    assert (status["step"], status["accepted"] > 0) == (60, True)


@pytest.mark.needs("new_world")
def test_a_run_goes_on_with_what_was_saved(library):
    (library / "run.toml").write_text(
        (library / "run.toml").read_text().replace('sync = "lockstep"', "")
    )
    state = {"skill": 0}
    seen = []

    def save(folder):
        (folder / "skill").write_text(str(state["skill"]))

    def train(until):
        with rods.open_training(
            "runs/own",
            lambda messages: "No.",
            config="run.toml",
            save=save,
            load=lambda folder: state.update(skill=int((folder / "skill").read_text())),
            asked_to_stop=lambda: state["skill"] >= until,
        ) as training:
            for batch in training:
                seen.append(batch.step)
                training.record(batch, training.play(batch))
                state["skill"] += 1

    train(7)
    state["skill"] = -1
    train(12)
    assert seen == list(range(1, 13)) and state["skill"] == 12
    assert rods.read_state("runs/own").last_step == 12


@pytest.mark.needs("new_world")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_trainer_of_one_s_own_behind_its_step(library, number):
    (library / "run.toml").write_text(
        (library / "run.toml").read_text().replace('sync = "lockstep"', "")
    )
    before = signal.getsignal(number)
    steps = []
    with rods.open_training("runs/own", lambda messages: "No.", config="run.toml") as training:
        for batch in training:
            os.kill(os.getpid(), number)
            training.record(batch, training.play(batch))
            steps.append(batch.step)
    assert steps == [1] and signal.getsignal(number) == before
    with rods.open_training("runs/own", lambda messages: "No.") as training:
        assert training.run.resumed is not None and training.run.resumed.position.step == 1


@pytest.mark.needs("new_world")
def test_a_trainer_that_plays_elsewhere_takes_part_by_records(library):
    assert rods.open_run("runs/own", "run.toml").config.training.steps == 60
    opened = rods.merge("runs/own", epoch=0)
    again = rods.merge("runs/own", epoch=0)
    assert (opened.made.recorded, again.made.recorded, again.tasks) == (False, True, opened.tasks)
    groups = [
        {
            "task": task.id,
            "rollouts": [{"resolved": count, "expected": task.expected} for count in (0, 1)],
        }
        for role, task in opened.tasks
        if role == "active"
    ]
    (answer,) = rods.observe("runs/own", [*groups, {"end_step": 1}])
    assert answer == {"step": 1, "attempt": 1, "epoch": 0, "recorded": True}
    assert rods.read_state("runs/own").last_step == 1
    with pytest.raises(UserError, match="records, line 2: end_step is 'two'"):
        list(rods.observe("runs/own", [groups[0], {"end_step": "two"}]))
    with pytest.raises(UserError, match="no checkpoint for 'start'"):
        rods.score("runs/own")


async def _slowly(messages):
    return "No."


def test_a_coroutine_is_awaited_and_says_the_same():
    tasks = desk.generate(7, 6, 0)
    slow = rods.evaluate(tasks, _slowly)
    quick = rods.evaluate(tasks, lambda messages: "No.")
    assert slow == quick and slow.broken == 0
    assert len(slow.traces) == 6 and slow.progress.tasks == 6


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("error", [rods.InfrastructureError("no reply"), KeyError("content")])
def test_one_exception_costs_its_rollout_and_not_the_evaluation(waits, error):
    tasks = desk.generate(7, 40, 0)
    first = tasks[3].script[0]

    def policy(messages):
        if messages[-1].content == first:
            raise error
        return "No."

    async def slow(messages):
        return policy(messages)

    found = rods.evaluate(tasks, slow if waits else policy)
    assert (found.broken, found.errors, found.progress.tasks) == (1, (error,), 39)
    assert [trace.end for (trace,) in found.traces].index("infrastructure") == 3
    whole = rods.evaluate(tasks[:3] + tasks[4:], lambda messages: "No.")
    assert found.progress == whole.progress and whole.errors == ()


@pytest.mark.parametrize("waits", [False, True])
def test_a_world_that_raises_costs_its_rollout_and_not_the_evaluation(waits):
    world = toy_environment.raising()
    tasks = [
        AnyTask.from_json(
            toy_environment.record(
                environment={"name": world.name, "hash": world.hash},
                state={"counters": {"eggs": eggs}},
                user={"script": [f"Hello {eggs}.", "Read it."]},
            )
        )
        for eggs in range(4)
    ]
    call = '<tool_call>\n{"name": "read", "arguments": {"note_id": 999}}\n</tool_call>'

    def policy(messages):
        return call if messages[-1].content == "Hello 2." else "No."

    async def slow(messages):
        return policy(messages)

    found = rods.evaluate(tasks, slow if waits else policy, environments=ENVIRONMENTS)
    ends = [trace.end for (trace,) in found.traces]
    assert ends == ["finished", "finished", "infrastructure", "finished"]
    assert (found.broken, found.progress.tasks) == (1, 3)


def test_a_policy_that_always_raises_is_told_why():
    def policy(messages):
        raise KeyError("a bug")

    with pytest.raises(ValueError, match="no rollout counts") as caught:
        rods.evaluate(desk.generate(7, 3, 0), policy)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.needs("new_world")
def test_a_rollout_may_break_in_training_and_a_bug_ends_it(library):
    raised: list[Exception] = [rods.InfrastructureError("no reply")]

    def policy(messages):
        for error in raised:
            raise error
        return "No."

    with rods.open_training("runs/own", policy, config="run.toml") as training:
        batch = next(iter(training))
        (broken, *_) = training.play(batch)
        assert {trace.end for trace in broken} == {"infrastructure"}
        raised[:] = [KeyError("a bug")]
        with pytest.raises(KeyError, match="a bug"):
            training.play(batch)
        raised.clear()
        (whole, *_) = training.play(batch)
        assert {trace.end for trace in whole} == {"finished"}


def test_a_policy_that_gives_no_text_is_told():
    (task,) = desk.generate(7, 1, 0)
    with pytest.raises(TypeError, match="returned a NoneType; a reply is text"):
        rods.play(task, lambda messages: None)  # type: ignore[arg-type, return-value]


def test_what_there_is_is_listed_and_arguments_the_wrong_way_round_are_told():
    assert {"evaluate", "open_training", "merge", "Task"} <= set(dir(rods))
    with pytest.raises(TypeError, match="the tasks come first"):
        rods.evaluate(lambda messages: "No.", "tasks.jsonl")  # type: ignore[arg-type]


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(UserError, match="is not a run folder"):
        rods.open_training(tmp_path / "none", lambda messages: "No.")
    with pytest.raises(AttributeError, match="no attribute 'player'"):
        rods.player  # type: ignore[attr-defined]  # noqa: B018


def test_a_file_called_like_a_room_of_ours_may_use_the_api(tmp_path):
    (tmp_path / "trainer.py").write_text("from rods import play; print(play.__module__)")
    told = subprocess.run(
        [sys.executable, "trainer.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert told.stdout == "rods.console.api\n", told.stderr


def test_no_torch_is_loaded():
    code = (
        "import sys, rods; rods.play; print([m for m in ('torch', 'transformers') if m in "
        "sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "[]\n"
    )


def test_a_policy_gets_messages_with_keys_as_chat_clients_send_them():
    seen: list[dict[str, str]] = []

    def policy(messages):
        seen.extend(dict(message) for message in messages)
        assert messages[-1]["content"] == messages[-1].content
        return "I cannot do that."

    rods.play(desk.generate(3, 1, 0)[0], policy)
    assert {frozenset(message) for message in seen} == {frozenset(("role", "content"))}
    assert {message["role"] for message in seen} == {"system", "user", "assistant"}
    with pytest.raises(KeyError):
        rods.dialects.Message("user", "hello")["name"]
