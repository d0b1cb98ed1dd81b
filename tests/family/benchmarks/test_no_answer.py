"""A completion that is none is nobody's answer: it is left out under its name, a little of it is
borne, and two evaluations that lack different shares are told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rods.dialects import Message
from rods.errors import InfrastructureError
from rods.family.benchmarks.episodes import USER_TRIES, user_reply
from rods.family.benchmarks.folder import complete, episodes, lost
from rods.family.benchmarks.main import run
from rods.llm import Completion
from rods.tasks import Task, task_lines
from rods.worlds import desk
from tests.family.benchmarks.test_tasks import HERMES, idle, reported
from tests.json_server import json_server

Policy = Callable[[Sequence[Message]], str]
ABORTED = {"message": {"role": "assistant", "content": None}, "finish_reason": "abort"}
# a choice, none, or what it says less the half, or why it is refused;
# and the name under which it is left out
NO_ANSWERS: list[tuple[Any, str]] = [
    (ABORTED, "aborted"),
    ({"message": {"content": "I can"}, "finish_reason": "abort"}, "aborted"),
    ({"message": {"content": "I can"}, "finish_reason": "error"}, "aborted"),
    ({"message": {"content": "I can"}, "finish_reason": "content_filter"}, "filtered"),
    (None, "empty"),
    ({"message": {"content": None}, "finish_reason": "stop"}, "empty"),
    ({"message": {"content": None, "reasoning_content": "Hm."}, "finish_reason": "stop"}, "empty"),
    ({"message": {"content": "", "reasoning": "Hm."}, "finish_reason": "tool_calls"}, "empty"),
    ({"message": {"content": "I can"}, "finish_reason": None}, "other"),
    ("The prompt triggers our content management policy.", "filtered"),
]


@contextmanager
def answering(policy: Policy, none: Any = None, broken: Sequence[Task] = ()) -> Iterator[str]:
    """A server that answers as `policy`, but the first request of each episode of the tasks
    `broken` with the choice `none` (None: with no choice; a text: refused with it)."""
    begins = {task.script[0] for task in broken}

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith("/chat/completions"):
            return 404, {"error": "no such address"}
        asked = [Message(one["role"], one["content"]) for one in body["messages"]]
        if asked[-1].content in begins and isinstance(none, str):
            return 400, {"error": {"message": none}}
        if asked[-1].content in begins:
            return 200, {"choices": [] if none is None else [none]}
        message = {"role": "assistant", "content": policy(asked)}
        return 200, {"choices": [{"message": message, "finish_reason": "stop"}]}

    with json_server(answer) as url:
        yield url


@pytest.fixture(scope="module")
def made() -> list[Task]:
    """Tasks with different first requests."""
    found = {task.script[0]: task for task in desk.generate(11, 80, 0, "small")}
    return [*found.values()][:50]


@pytest.fixture
def known(made: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    monkeypatch.chdir(tmp_path)
    assert len(made) == 50
    return made


def knowing(tasks: Sequence[Task]) -> Policy:
    """Makes the ground-truth calls of each turn, and answers results with a sentence."""

    def policy(messages: Sequence[Message]) -> str:
        said = [one.content for one in messages if one.role == "user"]
        task = next(task for task in tasks if task.script[0] == said[0])
        turn = 0
        for text in said[1:]:
            turn += task.script[min(turn + 1, len(task.script) - 1)] in text
        calls = task.calls[turn] if task.script[turn] in messages[-1].content else ()
        return HERMES.write(calls) if calls else "Done."

    return policy


def written(tasks: Sequence[Task]) -> Sequence[Task]:
    Path("tasks.jsonl").write_bytes(task_lines(tasks))
    return tasks


def play(folder: str, url: str) -> int:
    told = ("--protocol", "hermes", "--model", "m", "--patience", "1")
    return run(["run", folder, "--tasks", "tasks.jsonl", "--url", url, *told])


def report(folder: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return reported(capsys, "report", folder)


@pytest.mark.parametrize(("none", "name"), NO_ANSWERS)
def test_what_no_model_answered_is_left_out_under_its_name(
    known: list[Task], capsys: pytest.CaptureFixture[str], none: Any, name: str
) -> None:
    first, second = written(known[:2])
    with answering(idle, none, [first]) as url:
        assert play("e", url) == 5
    told = capsys.readouterr()
    assert f"1 episodes left out: {name}" in told.err and "INCOMPLETE" in told.out
    assert f"left out of the rollouts: 50.0% {name}" in told.out
    found = report("e", capsys)
    assert [episode.task for episode in episodes(Path("e"))] == [second.id]
    assert found["lost"] == {name: 1} and not found["complete"]


def test_the_silence_of_a_model_is_its_answer(
    known: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = written(known[:2])
    silence = {"message": {"content": ""}, "finish_reason": "stop"}
    with answering(idle, silence, tasks) as url:
        assert play("e", url) == 0
    found = report("e", capsys)
    assert found["complete"] and found["episodes"] == 2 and found["lost"] == {}
    assert "lost" not in found["card"]


@pytest.mark.slow
def test_every_fifth_reply_aborted_costs_the_policy_nothing_and_is_told(
    known: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = written(known[:10])
    with answering(knowing(tasks)) as url:
        assert play("whole", url) == 0
    with answering(knowing(tasks), ABORTED, tasks[::5]) as url:
        assert play("part", url) == 5
    whole = report("whole", capsys)
    part = report("part", capsys)
    for found in (whole, part):
        assert found["scores"]["all"]["all"]["solved"]["mean"] == 1.0
    assert (part["episodes"], part["lost"], part["complete"]) == (8, {"aborted": 2}, False)
    pairs = reported(capsys, "compare", "whole", "part")
    assert pairs["cards_differ"] == ["lost"] and pairs["lost"] == ["none", "20.0% aborted"]
    assert run(["compare", "part", "whole"]) == 0
    told = capsys.readouterr().out
    assert "NOT ALIKE" in told and "left out: 20.0% aborted before, none after" in told
    # the same command goes on
    with answering(knowing(tasks)) as url:
        assert play("part", url) == 0
    mended = report("part", capsys)
    assert (mended["card"], mended["lost"], mended["complete"]) == (whole["card"], {}, True)
    assert reported(capsys, "compare", "whole", "part")["cards_differ"] == []


@pytest.mark.slow
def test_a_fiftieth_may_be_lost(known: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    tasks = written(known)
    with answering(idle, ABORTED, tasks[:1]) as url:
        assert play("e", url) == 0
    told = capsys.readouterr()
    assert "1 episodes left out" in told.err and "INCOMPLETE" not in told.out
    assert "left out of the rollouts: 2.0% aborted" in told.out
    assert report("e", capsys)["complete"]


@pytest.mark.parametrize(
    ("done", "gone", "expected", "whole"),
    [(100, 0, 100, True), (98, 2, 100, True), (97, 3, 100, False), (97, 2, 100, False)],
)
def test_more_than_that_or_what_was_never_played_is_incomplete(
    done: int, gone: int, expected: int, whole: bool
) -> None:
    assert complete(done, gone, expected) == whole


def test_an_episode_counts_as_lost_once_and_under_its_last_name(
    known: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = written(known[:2])
    for none in (ABORTED, None):
        with answering(idle, none, tasks[:1]) as url:
            assert play("e", url) == 5
    assert lost(Path("e")) == {"empty": 1}


def test_half_a_text_is_no_word_of_a_user() -> None:
    answers = [
        Completion("Please can", "aborted", "m", "m"),
        Completion("", "stop", "m", "m"),
        Completion("Please cancel it.", "stop", "m", "m"),
    ]

    class Line:
        def ask(self, question: Any) -> Completion:
            return answers.pop(0)

    class Talk:
        trouble = ""

    line: Any = Line()
    assert user_reply(line, Talk(), "task", 0, [], ()) == ("Please cancel it.", ())
    answers += [Completion("Please can", "filtered", "m", "m")] * USER_TRIES
    with pytest.raises(InfrastructureError, match="said nothing"):
        user_reply(line, Talk(), "task", 0, [], ())
