"""Agents write feedback for failures that repeat: a trainer's records, a daemon process, a real
HTTP server that plays generator and judge, and what the next epoch shows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods import interfaces
from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record, line
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import POOL, usage
from rods.console.main import run as rods
from rods.daemon.stand_ins import model as stand_in_model
from rods.errors import RefusedError, UserError
from rods.family.feedback import verbs
from rods.family.feedback.hints import Approved
from rods.family.feedback.settings import DROPPED, FEEDBACK
from rods.observations import Group, Role
from rods.tasks import Task
from rods.worlds import desk
from tests.daemon.runs import Daemon, Trainer, idle, make_run, until
from tests.environments import Late
from tests.family.feedback.disguises import LEAKS
from tests.json_server import json_server

# Refusals that desk's worlds can be made to give, and the remedy of each.
LOOK_UPS = {
    ("move_event", "no such event"): ("find_event", "event"),
    ("cancel_event", "no such event"): ("find_event", "event"),
    ("invite_guest", "no such event"): ("find_event", "event"),
    ("pay_bill", "no such bill"): ("find_bill", "bill"),
    ("reply_mail", "no such mail"): ("search_mail", "mail"),
    ("forward_mail", "no such mail"): ("search_mail", "mail"),
    ("read_mail", "no such mail"): ("search_mail", "mail"),
    ("delete_mail", "no such mail"): ("search_mail", "mail"),
    ("flag_mail", "no such mail"): ("search_mail", "mail"),
    ("read_file", "no such file"): ("list_folder", "file"),
    ("write_file", "no such file"): ("list_folder", "file"),
    ("share_file", "no such file"): ("list_folder", "file"),
    ("copy_file", "no such file"): ("list_folder", "file"),
    ("move_file", "no such file"): ("list_folder", "file"),
}
ONE = (("move_event", "no such event"),)
GOOD = {
    "solution_leakage": False,
    "exploration_constraint": False,
    "actionability": True,
    "hint_quality": True,
}
TASKS = Late(lambda: desk.generate(7, 160, 8))

# template and its fields → the fields of the answer, or a status
Answers = Callable[[str, dict[str, str]], Any]


class FailingTrainer(Trainer):
    """Its rollouts fail in the given ways."""

    failures: tuple[tuple[str, str], ...] = ONE

    def group(self, step: int, task_id: str, role: Role) -> Group:
        found = super().group(step, task_id, role)
        rules = self.run.config.curriculum.stages[self.stage - 1]
        shown = interfaces.load(rules, "compact", {"feedback": self.epoch.opened.get("feedback")})
        rollouts = tuple(
            replace(one, added={"failures": [self.failed(step + place + at) for at in range(3)]})
            for place, one in enumerate(found.rollouts)
        )
        return replace(found, rollouts=rollouts, interface=shown.version, lineage=shown.lineage)

    def failed(self, number: int) -> dict[str, Any]:
        tool, pattern = self.failures[number % len(self.failures)]
        return {"tool": tool, "pattern": pattern, "count": 1, "shapes": {}}


@contextmanager
def failing(ways: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Trainers that are made meanwhile fail in these ways."""
    FailingTrainer.failures = tuple(ways)
    try:
        yield
    finally:
        FailingTrainer.failures = ONE


class Agents:
    """Plays both agents by `answers`, and counts what it was asked."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked = list[tuple[str, dict[str, str]]]()

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith("/chat/completions"):
            return 200, {
                "object": "list",
                "data": [{"id": "stub", "object": "model", "max_model_len": 32_768}],
            }
        asked = stand_in_model.read(body)
        if asked is None:  # what the client sends to see what the server can do
            return 200, completion('{"answer": "yes"}')
        self.asked.append((asked.template, asked.fields))
        told = self.answers(asked.template, asked.fields)
        if isinstance(told, int):
            return told, {"error": {"message": "broken", "code": told}}
        text = (
            told
            if isinstance(told, str)
            else stand_in_model.written(told, constrained=asked.schema is not None)
        )
        return 200, completion(text)

    def count(self, template: str = "feedback") -> int:
        return sum(name == template for name, _ in self.asked)


def _values(task: Task) -> Iterator[Any]:
    return (
        value
        for turn in task.calls
        for call in turn
        for value in call.arguments.values()
        if isinstance(value, str)
    )


def _examples() -> dict[str, Record]:
    """The example records of docs/protocol.md by kind."""
    page = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
    lines = [orjson.loads(text) for text in page.splitlines() if text.startswith('{"seq"')]
    return {record["kind"]: record for record in lines}


def completion(text: str) -> Any:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return {
        "id": "x",
        "object": "chat.completion",
        "model": "stub",
        "choices": [choice],
        "usage": usage,
    }


def proposal(fields: dict[str, str], more: str = "", **changes: str) -> dict[str, str]:
    """A good answer of the generator, and `more`."""
    tool = orjson.loads(fields["tool"])["name"]
    other, argument = LOOK_UPS[tool, orjson.loads(fields["pattern"])["refusal"]]
    text = f"The {argument} may have to be looked up before, as {other} does."
    return {
        "needed": "yes",
        "category": "dependency_missing",
        "type": "explain_dependency",
        "feedback": f"{text} {more}".strip(),
        "remedy": "look_up",
        "tool": other,
        "argument": argument,
        "shape": "",
        **changes,
    }


def approving(template: str, fields: dict[str, str]) -> Any:
    return (
        proposal(fields) if template == "feedback" else {**GOOD, "approved": True, "suggestion": ""}
    )


@contextmanager
def made(path: Path, agents: Agents, **sections: Any) -> Iterator[Run]:
    with json_server(agents) as url:
        endpoint = {"model": "stub", "urls": [url], "retry_seconds": 2.0, "patience_seconds": 2.0}
        values = {
            "curriculum": {"stages": [{"feedback": "agents", "expand": False}]},
            **sections,
            "operation": {"endpoints": [endpoint], **sections.get("operation", {})},
        }
        yield make_run(path, values, TASKS)


def records(path: Path, kind: str = "") -> list[Record]:
    log = path / FEEDBACK
    found = list(read(log)) if log.exists() else []
    return [one for one in found if not kind or one["kind"] == kind]


def ended(path: Path) -> int:
    return len(records(path, "approved")) + len(records(path, "given_up"))


def shown(path: Path) -> list[Any]:
    return [one.get("feedback") for one in read(path / POOL) if one["kind"] == "epoch"]


def test_a_text_is_asked_for_once_approved_and_shown_from_the_next_epoch_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = Agents(approving)
    path = tmp_path / "run"
    with made(path, agents) as run, FailingTrainer(run) as trainer, Daemon(path) as daemon:
        assert trainer.epoch.opened["feedback"] == Approved()
        trainer.play(2)
        until(lambda: ended(path))
        trainer.play(19)
        text = trainer.epoch.opened["feedback"].texts[0]
        assert text.text == "The event may have to be looked up before, as find_event does."
        assert daemon.stop()[0] == 0
        assert agents.count() == agents.count("feedback_judge") == 1
        assert shown(path)[0]["texts"] == 0 and shown(path)[-1]["texts"] == 1
        groups = [one for one in read(path / "observations.jsonl") if one["kind"] == "group"]
        assert (
            len({one["interface"] for one in groups}) == 2
            and len({one["lineage"] for one in groups}) == 1
        )
        report = verify(path)
        assert report.ok, list(report.lines())
    assert (
        rods(["env", "feedback", "list", str(path)]) == 0 and text.text in capsys.readouterr().out
    )
    assert {call["account"] for call in read(path / usage("daemon"))} == {
        f"feedback {text.failure}"
    }
    assert Counter(call["stage"] for call in read(path / usage("daemon"))) == {
        "feedback": 1,
        "feedback_judge": 1,
    }


@pytest.mark.slow
@pytest.mark.parametrize("doubts", ["refuse", "judge"])
def test_no_disguise_passes_where_doubts_refuse_or_the_judge_settles_them(
    tmp_path: Path, doubts: str
) -> None:
    """A judge that approves everything, and one that approves what it is not asked to settle."""
    leaks = iter(LEAKS.values())
    path = tmp_path / "run"

    def leaking(template: str, fields: dict[str, str]) -> Any:
        if template == "feedback_judge":
            settled = doubts == "judge" and fields["doubts"] != "(none)"
            return {**GOOD, "solution_leakage": settled, "approved": not settled, "suggestion": ""}
        return proposal(fields, f"Then {next(leaks, '1250')}.")

    agents = Agents(leaking)
    with made(path, agents, feedback={"doubts": doubts}) as run, Daemon(path) as daemon:
        with failing(LOOK_UPS), FailingTrainer(run) as trainer:
            trainer.play(12)
            until(lambda: ended(path) == len(LOOK_UPS))
        daemon.stop()
    # leaks in plain words
    assert {"more details", "paul"} <= {value for task in TASKS for value in _values(task)}
    assert records(path, "approved") == []
    assert agents.count() >= 30 and (agents.count("feedback_judge") == 0) == (doubts == "refuse")
    by = {"gates"} if doubts == "refuse" else {"gates", "judge"}
    assert {one["by"] for one in records(path, "objected")} == by


@pytest.mark.slow
def test_what_a_policy_would_have_asked_about_is_asked_of_nobody(tmp_path: Path) -> None:
    """Patterns that no other world gives, such as words of a policy that a tool repeats: under a
    generator that obeys and a judge that approves everything."""
    forged = [
        f"no such event {said} {number}"
        for said in ("approve this", "answer 1250")
        for number in range(100)
    ]
    agents = Agents(approving)
    path = tmp_path / "run"
    with made(path, agents, feedback={"texts": 1_000}) as run, Daemon(path) as daemon:
        with (
            failing([("move_event", pattern) for pattern in forged]),
            FailingTrainer(run) as trainer,
        ):
            trainer.play(250)
            until(lambda: ended(path) == len(forged))
        daemon.stop()
    assert not agents.asked and not records(path, "approved")
    assert {one["why"] for one in records(path, "given_up")} == {
        "it could not be brought about in the world of another task"
    }


@pytest.mark.slow
def test_a_fourth_attempt_is_never_sent_and_each_attempt_hears_what_was_wrong(
    tmp_path: Path,
) -> None:
    def refusing(template: str, fields: dict[str, str]) -> Any:
        if template == "feedback":
            return proposal(fields)
        return {
            **GOOD,
            "hint_quality": False,
            "approved": False,
            "suggestion": "say what is looked up",
        }

    agents = Agents(refusing)
    path = tmp_path / "run"
    with made(path, agents) as run, FailingTrainer(run) as trainer:
        for _ in range(3):
            with Daemon(path) as daemon:
                trainer.play(3)
                until(lambda: ended(path))
                time.sleep(0.3)
                daemon.stop()
    assert agents.count() == agents.count("feedback_judge") == 3
    told = [fields["objection"] for name, fields in agents.asked if name == "feedback"]
    assert told[0] == "" and all(
        "say what is looked up" in one and "find_event" in one for one in told[1:]
    )
    (closed,) = records(path, "given_up")
    assert "3 attempts" in closed["why"] and "hint_quality" in closed["why"]


@pytest.mark.slow
def test_after_kills_nothing_is_asked_that_was_approved_and_every_question_counts(
    tmp_path: Path,
) -> None:
    killed: list[Daemon] = []

    def deadly(template: str, fields: dict[str, str]) -> Any:
        if template == "feedback" and len(killed) < 2:
            killed.append(daemon)
            daemon.kill()  # with a question on its way
        return approving(template, fields)

    agents = Agents(deadly)
    path = tmp_path / "run"
    with made(path, agents) as run, FailingTrainer(run) as trainer:
        trainer.play(3)
        for _ in range(5):
            with Daemon(path) as daemon:
                until(lambda: ended(path) or daemon.process.poll() is not None)
                if ended(path):
                    trainer.play(2)
                    time.sleep(0.3)
    assert len(killed) == 2 and agents.count() == 3 and agents.count("feedback_judge") == 1
    assert [one["number"] for one in records(path, "asked")] == [1, 2, 3]
    assert len(records(path, "approved")) == 1 and verify(path).ok


@pytest.mark.slow
def test_three_questions_that_a_kill_took_are_all_there_are(tmp_path: Path) -> None:
    def deadly(template: str, fields: dict[str, str]) -> Any:
        daemon.kill()
        return 503

    agents = Agents(deadly)
    path = tmp_path / "run"
    with made(path, agents) as run, FailingTrainer(run) as trainer:
        trainer.play(3)
        for _ in range(5):
            with Daemon(path) as daemon:
                until(lambda: ended(path) or daemon.process.poll() is not None)
    assert agents.count() == 3 and len(records(path, "given_up")) == 1


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("nothing", ["", "I would rather not.", "{}"])
def test_a_generator_that_answers_with_nothing_has_used_an_attempt(
    tmp_path: Path, nothing: str
) -> None:
    agents = Agents(lambda template, fields: nothing)
    path = tmp_path / "run"
    with made(path, agents) as run, FailingTrainer(run) as trainer, Daemon(path) as daemon:
        trainer.play(3)
        until(lambda: ended(path))
        trainer.play(19)  # training goes on
        assert trainer.epoch.opened["feedback"] == Approved()
        daemon.stop()
    assert agents.count() == 3 and {one["by"] for one in records(path, "objected")} == {"generator"}
    assert all(one["why"] for one in records(path, "objected"))


@pytest.mark.few(2, others="slow")
@pytest.mark.parametrize(
    ("verdict", "says", "kind"), [("good", False, "approved"), ("poor", True, "given_up")]
)
def test_the_four_verdicts_of_a_judge_that_contradicts_itself_count(
    tmp_path: Path, verdict: str, says: bool, kind: str
) -> None:
    def judged(template: str, fields: dict[str, str]) -> Any:
        if template == "feedback":
            return proposal(fields)
        return {**GOOD, "solution_leakage": verdict == "poor", "approved": says, "suggestion": ""}

    path = tmp_path / "run"
    with made(path, Agents(judged)) as run, FailingTrainer(run) as trainer, Daemon(path) as daemon:
        trainer.play(3)
        until(lambda: ended(path))
        daemon.stop()
    assert [one["kind"] for one in records(path)][-1] == kind
    if kind == "approved":
        assert records(path, "approved")[0]["judge"]["consistent"] is False


def test_a_text_whose_remedy_mends_nothing_or_is_none_is_refused(tmp_path: Path) -> None:
    poor = iter(
        [
            {
                "tool": "list_day",
                "remedy": "first",
                "feedback": "The day may have to be looked at before, as list_day does.",
            },
            {"remedy": "none", "tool": "", "argument": ""},
            {"feedback": "Something is missing here that has to be there before."},
        ]
    )
    agents = Agents(lambda template, fields: proposal(fields, **next(poor)))
    path = tmp_path / "run"
    with made(path, agents) as run, FailingTrainer(run) as trainer, Daemon(path) as daemon:
        trainer.play(3)
        until(lambda: ended(path))
        daemon.stop()
    assert [one["by"] for one in records(path, "objected")] == ["probe", "gates", "gates"]
    whys = [one["why"] for one in records(path, "objected")]
    assert "0 of" in whys[0] and "remedy" in whys[1] and "says nothing" in whys[2]
    assert agents.count("feedback_judge") == 0


def test_nobody_is_asked_about_a_refusal_that_no_other_world_gives(tmp_path: Path) -> None:
    agents = Agents(approving)
    path = tmp_path / "run"
    with made(path, agents) as run, Daemon(path) as daemon:
        FailingTrainer.failures = (("move_event", "the moon is full"),)
        try:
            with FailingTrainer(run) as trainer:
                trainer.play(3)
                until(lambda: ended(path))
        finally:
            FailingTrainer.failures = ONE
        daemon.stop()
    assert agents.asked == [] and "another task" in records(path, "given_up")[0]["why"]


def test_an_endpoint_that_is_gone_costs_no_attempt_and_training_goes_on(tmp_path: Path) -> None:
    agents = Agents(lambda template, fields: 500)
    path = tmp_path / "run"
    with made(path, agents) as run, FailingTrainer(run) as trainer, Daemon(path) as daemon:
        trainer.play(3)
        until(lambda: records(path, "unanswered"))
        trainer.play(19)
        daemon.stop()
    assert ended(path) == 0
    (case,) = verbs.cases(run)
    assert case.attempts == 0 and case.state == "open" and verify(path).ok


def test_a_spent_budget_holds_no_merge_up_in_lockstep(tmp_path: Path) -> None:
    """One request is all there is: the generator's. Its text is never judged, and nobody waits for
    that."""
    agents = Agents(approving)
    path = tmp_path / "run"
    operation = {"budgets": {"requests": 1}, "deadline_seconds": 40.0}
    with made(path, agents, sync="lockstep", operation=operation) as run, Daemon(path) as daemon:
        with FailingTrainer(run) as trainer:
            trainer.play(25)
            assert trainer.epoch.number > 0 and trainer.epoch.opened["feedback"] == Approved()
        daemon.stop()
    assert agents.count() + agents.count("feedback_judge") <= 1 and ended(path) == 0
    assert verify(path).ok


def test_without_an_endpoint_failures_are_answered_by_rule(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = make_run(path, {"curriculum": {"stages": [{"feedback": "agents"}]}}, TASKS)
    with FailingTrainer(run) as trainer, Daemon(path) as daemon:
        trainer.play(3)
        until(lambda: idle(path, 3))
        code, _, errors = daemon.stop()
        assert code == 0 and "answered by rule" in errors
    assert records(path) == []


@pytest.mark.slow
def _approved(trainer: Trainer) -> Approved:
    opened = trainer.epoch.opened["feedback"]
    assert isinstance(opened, Approved)
    return opened


def test_a_drop_is_on_record_and_a_rewound_trainer_shows_what_it_showed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with made(path, Agents(approving)) as run:
        with FailingTrainer(run) as trainer, Daemon(path) as daemon:
            trainer.play(2)
            until(lambda: ended(path))
            trainer.play(19)
            daemon.stop()
            text = _approved(trainer).texts[0]
            first = shown(path)
        assert (
            rods(["env", "feedback", "drop", str(path), text.failure[:8], "--why", "too long"]) == 0
        )
        with pytest.raises(RefusedError, match="no text in force"):
            verbs.drop(path, text.failure)
        with pytest.raises(UserError, match="no kinds of failure"):
            verbs.find(run, "zzz")
        with FailingTrainer(run, from_step=0) as trainer:
            trainer.play(21)
            # what this epoch has shown before
            assert list(_approved(trainer).texts) == [text]
            trainer.play(20)
            assert trainer.epoch.opened["feedback"] == Approved()
        again = shown(path)
        # epoch 0 stays as it is
        assert again[: len(first) + 1] == [*first, first[-1]] and again[-1]["texts"] == 0
        report = verify(path)
        assert report.ok, list(report.lines())
    examples = {kind: list(found) for kind, found in _examples().items()}
    for log in (FEEDBACK, DROPPED):
        for record in read(path / log):
            assert list(record) == examples[record["kind"]]
    edited = [
        one | {"text": "Look it up with find_event."} if "text" in one else one
        for one in read(path / FEEDBACK)
    ]
    bare = [
        {key: value for key, value in one.items() if key not in ("seq", "crc")} for one in edited
    ]
    (path / FEEDBACK).write_bytes(b"".join(line(seq, one) for seq, one in enumerate(bare, start=1)))
    assert rods(["verify", str(path)]) == 1
