"""`rods-eval --tasks`: any environment's tasks, by an endpoint, local weights or a run's policy;
two in pairs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import orjson
import pytest

from rods import dialects, evaluate
from rods.buffers.checkpoints import UNSTARTED, Checkpoints
from rods.buffers.run.creation import create_run
from rods.buffers.state import RunState
from rods.calls import Call
from rods.config import parse_config
from rods.console.main import run as rods
from rods.dialects import Message
from rods.environments.loading import Environments
from rods.family.benchmarks.folder import Settings, episodes
from rods.family.benchmarks.main import run
from rods.family.benchmarks.task_file import TaskFile
from rods.tasks import Task, read_tasks, scripted, task_lines
from rods.worlds import desk
from tests.family.benchmarks.policies import (
    by_turn,
    by_turn_with_fault,
    earned,
    nothing,
    resolved_by_nothing,
)
from tests.family.seal.test_evolved_training import CURRICULUM, play
from tests.json_server import json_server
from tests.trainer.nano_parts import saved, tasks

Policy = Callable[[Sequence[Message]], str]
HERMES = dialects.load("hermes")


@contextmanager
def answering(policy: Policy, fails_after: int = -1) -> Iterator[str]:
    """An OpenAI-compatible server that answers as `policy`; with 500 after so many requests."""
    asked: list[Any] = []

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith("/chat/completions"):
            return 404, {"error": "no such address"}
        asked.append(body)
        text = policy([Message(one["role"], one["content"]) for one in body["messages"]])
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return 500 if 0 <= fails_after < len(asked) else 200, {
            "choices": [choice],
            "model": body["model"],
        }

    with json_server(answer) as url:
        yield url


def idle(messages: Sequence[Message]) -> str:
    return "I cannot do that."


def knowing(known: Sequence[Task]) -> Policy:
    """Makes the ground-truth calls of the turn that the last message opens, and answers results
    with a sentence."""

    def policy(messages: Sequence[Message]) -> str:
        said = {one.content for one in messages}
        last = messages[-1].content
        task = max(known, key=lambda one: (last in one.script, len(said & set(one.script))))
        calls = task.calls[task.script.index(last)] if last in task.script else ()
        return HERMES.write(calls) if calls else "Done."

    return policy


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The world of `rods init`."""
    pytest.importorskip("rods.family.new_world")
    assert rods(["init", str(tmp_path / "library")]) == 0
    monkeypatch.chdir(tmp_path / "library")
    return tmp_path / "library"


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.slow
def test_two_endpoints_on_a_world_of_one_s_own_are_compared_in_pairs(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [scripted(task, "this test") for task in read_tasks(Path("tasks.jsonl"))]
    found = {}
    means = {}
    for name, policy in (("idle", idle), ("knowing", knowing(known))):
        with answering(policy) as url:
            told = ["--url", url, "--model", name, "--samples", "2", "--patience", "1"]
            found[name] = reported(capsys, "run", name, "--tasks", "tasks.jsonl", "--trust", *told)
        scores = found[name]["scores"]["all"]["all"]
        api = evaluate("tasks.jsonl", policy, rollouts=2)
        assert (scores["progress"]["mean"], *scores["progress"]["interval"]) == (
            api.progress.mean,
            api.progress.low,
            api.progress.high,
        )
        assert scores["solved"]["mean"] == api.solved.mean
        means[name] = api.progress.mean
    assert means["knowing"] > 0.9 and means["idle"] <= 0.1
    assert found["idle"]["complete"] and found["idle"]["episodes"] == 60
    assert found["idle"]["card"] == found["knowing"]["card"]
    assert found["idle"]["card"]["split"]["tasks"] == 30
    pairs = reported(capsys, "compare", "idle", "knowing")
    progress = pairs["differences"]["progress"]
    assert progress["mean"] == pytest.approx(means["knowing"] - means["idle"])
    assert progress["interval"][0] > 0.5 and progress["tasks"] == 30
    assert pairs["cards_differ"] == [] and pairs["left_out"] == 0
    assert run(["compare", "knowing", "idle"]) == 0
    assert "progress  -0." in capsys.readouterr().out
    assert run(["report", "knowing"]) == 0
    said = capsys.readouterr().out
    assert "30 tasks" in said and "card: data world.py:environment" in said
    assert run(["check", "knowing"]) == 2
    assert "no evaluation on a benchmark" in capsys.readouterr().err


@pytest.mark.slow
def test_an_evaluation_goes_on_where_its_endpoint_failed(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [scripted(task, "this test") for task in read_tasks(Path("tasks.jsonl"))]
    arguments = [
        "run",
        "e",
        "--tasks",
        "tasks.jsonl",
        "--trust",
        "--model",
        "m",
        "--patience",
        "0.2",
        "--in-flight",
        "1",
    ]
    with answering(knowing(known), fails_after=12) as url:
        assert run([*arguments, "--url", url]) == 5
    done = {episode.key for episode in episodes(Path("e"))}
    assert 0 < len(done) < 12
    with answering(knowing(known)) as url:
        whole = reported(capsys, *arguments, "--url", url)
    assert whole["complete"] and done < {episode.key for episode in episodes(Path("e"))}
    with answering(knowing(known)) as url:
        part = reported(
            capsys, *arguments[:1], "part", *arguments[2:], "--url", url, "--split", "train"
        )
    assert part["expected"] == 10 and reported(capsys, "compare", "part", "e")["left_out"] == 20
    assert run([*arguments, "--url", "http://127.0.0.1:9/v1", "--types", "base"]) == 3
    assert "was made with other settings" in capsys.readouterr().err


def test_weights_and_a_run_s_checkpoint_play_the_tasks_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(tmp_path / "model")
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(task_lines(tasks()))
    limits = ["--tasks", str(file), "--max-tokens", "8", "--max-context", "600"]
    weights = ["--weights", str(model), "--protocol", "compact"]
    found = reported(capsys, "run", str(tmp_path / "e"), *weights, *limits)
    assert found["complete"] and found["episodes"] == len(tasks())
    values = {
        "policy": {"kind": "transformers", "model": str(model), "dialect": "compact"},
        "training": {"batch_tasks": 2},
    }
    create_run(tmp_path / "run", parse_config(values, where="test"), tasks())
    Checkpoints(tmp_path / "run").write(
        UNSTARTED, lambda folder: copytree(model, folder, dirs_exist_ok=True)
    )
    trained = reported(capsys, "run", str(tmp_path / "r"), "--run", str(tmp_path / "run"), *limits)
    assert trained["settings"]["protocol"] == "compact" and trained["complete"]
    pairs = reported(capsys, "compare", str(tmp_path / "e"), str(tmp_path / "r"))
    assert pairs["differences"]["progress"]["mean"] == 0 and pairs["cards_differ"] == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--protocol", "official"], "these tasks are played in hermes or tags or compact"),
        (["--calls", "native"], "belongs to the official protocol"),
        (["--split", "validation", "--types", "miss_func"], "no task fits"),
    ],
)
def test_what_belongs_to_bfcl_is_refused(
    library: Path, capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    told = [
        "--tasks",
        "tasks.jsonl",
        "--trust",
        "--url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
        *options,
    ]
    assert run(["run", "e", *told]) == 2
    assert why in capsys.readouterr().err


def test_the_code_of_a_world_that_tasks_name_runs_only_if_trusted(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (library / "world.py").open("a") as world:
        world.write("\nfrom pathlib import Path\nPath('ran').touch()\n")
    told = ["--tasks", "tasks.jsonl", "--url", "http://127.0.0.1:9/v1", "--model", "m"]
    assert run(["run", "e", *told]) == 2
    assert "these tasks have its code run" in capsys.readouterr().err
    assert not (library / "e").exists() and not (library / "ran").exists()


def test_tasks_for_another_version_of_their_world_are_refused(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.loads((library / "tasks.jsonl").read_text().splitlines()[0])
    line["environment"]["hash"] = "0" * 20
    line.pop("id", None)
    (library / "old.jsonl").write_text(json.dumps(line) + "\n")
    told = ["--tasks", "old.jsonl", "--trust", "--url", "http://127.0.0.1:9/v1", "--model", "m"]
    assert run(["run", "e", *told]) == 2
    assert "rods data rehash" in capsys.readouterr().err
    assert not (library / "e").exists()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["tags", "hermes"])
def test_the_policy_of_an_evolved_run_is_asked_the_bytes_that_a_plain_run_s_is(
    tmp_path: Path, protocol: str
) -> None:
    """Every request of `rods-eval`, of a policy that fails in all the ways that an evolved
    interface would answer."""
    replies = [
        "<tool_call>{</tool_call>",
        *(
            dialects.load(protocol).write([Call(name, arguments)])  # type: ignore[arg-type]
            for name, arguments in (
                ("find_contacts", {}),
                ("find_contact", {"nam": 1}),
                ("find_event", {"title": 7}),
            )
        ),
        dialects.load(protocol).answer("Done."),  # type: ignore[arg-type]
    ]
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(task_lines(desk.generate(11, 3, 0, "small")))
    asked: dict[str, list[bytes]] = {"plain": [], "evolved": []}
    for name, bodies in asked.items():

        def answer(path: str, body: Any, bodies: list[bytes] = bodies) -> tuple[int, Any]:
            if not path.endswith("/chat/completions"):
                return 404, {"error": "no such address"}
            bodies.append(orjson.dumps(body))
            said = [one["content"] for one in body["messages"] if one["role"] == "assistant"]
            choice = {
                "message": {"role": "assistant", "content": replies[len(said) % len(replies)]}
            }
            return 200, {"choices": [{**choice, "finish_reason": "stop"}], "model": body["model"]}

        with json_server(answer) as url:
            curriculum = CURRICULUM if name == "evolved" else {}
            operation = {"endpoints": [{"model": "policy", "urls": [url]}]}
            training = {"batch_tasks": 6, "steps": 6, "checkpoint_steps": 3}
            trained = play(
                tmp_path / name, curriculum=curriculum, operation=operation, training=training
            )
            shown = {step.records[0]["interface"] for step in RunState(trained).steps()}
            assert (len(shown) > 2) == (name == "evolved")
            config = tmp_path / f"{name}.toml"
            config.write_bytes((trained.path / "config.toml").read_bytes())
            options = (
                "--config",
                str(config),
                "--tasks",
                str(file),
                "--protocol",
                protocol,
                "--in-flight",
                "1",
            )
            assert run(["run", str(tmp_path / f"{name}-scores"), *options]) == 0
    assert asked["plain"] == asked["evolved"] and len(asked["plain"]) > 3 * len(replies)
    assert b"Guidelines" not in b"".join(asked["plain"]) and b"Format error" in b"".join(
        asked["plain"]
    )


def test_the_tasks_of_a_file_give_known_policies_what_is_due(tmp_path: Path) -> None:
    file = tmp_path / "desk.jsonl"
    file.write_bytes(task_lines(desk.generate(11, 6, 0, "small")))
    benchmark = TaskFile({}, file, Environments())
    settings = Settings({}, part="all", types=tuple(benchmark.kinds), protocol="hermes")
    assert [*earned(benchmark, settings, by_turn)["solved"].values()] == [1.0] * 6
    for policy in (by_turn_with_fault, nothing):
        got = earned(benchmark, settings, policy)["progress"]
        assert got == {task.id: resolved_by_nothing(task) for task in benchmark.tasks()}
