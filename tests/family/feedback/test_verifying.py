"""What `rods verify` holds against the records of feedback: questions, answers, verdicts and texts
that do not fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rods import interfaces
from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record, record
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.console.main import run as rods
from rods.errors import CorruptLogError
from rods.family.feedback import verbs
from rods.family.feedback.cases import FeedbackCase
from rods.family.feedback.hints import failure_id
from rods.family.feedback.settings import FEEDBACK
from rods.observations import Group, Role
from tests.buffers.audit.test_verify import rewrite
from tests.daemon.runs import Trainer, make_run

NAMES = {"environment": "desk", "tool": "move_event", "pattern": "no such event"}
MOVE = failure_id(*NAMES.values())
PAY = failure_id("desk", "pay_bill", "no such bill")
TEXT = "The event may have to be looked up before, as find_event does."
GOOD = {
    "solution_leakage": False,
    "exploration_constraint": False,
    "actionability": True,
    "hint_quality": True,
}
REMEDY = {"kind": "look_up", "tool": "find_event", "argument": "event", "shape": ""}
CLOSED = {
    "category": "dependency_missing",
    "type": "explain_dependency",
    "remedy": REMEDY,
    "probe": {},
}
LATER = "Which event is meant may have to be looked up before, as find_event does."


def asked(number: int, failure: str = MOVE, **names: str) -> Record:
    return record("asked", failure=failure, number=number, **(names or NAMES))


def approved(number: int, failure: str = MOVE, text: str = TEXT) -> Record:
    return record(
        "approved",
        failure=failure,
        number=number,
        text=text,
        **CLOSED,
        judge={**GOOD, "consistent": True},
    )


def approval(tool: str, pattern: str, text: str) -> list[Record]:
    """A question about a failure of desk, and its answer."""
    failure = failure_id("desk", tool, pattern)
    return [
        asked(1, failure, environment="desk", tool=tool, pattern=pattern),
        approved(1, failure, text),
    ]


HISTORY = [
    asked(1),
    record("unanswered", failure=MOVE, number=1, why="gone"),
    asked(2),
    record("objected", failure=MOVE, number=2, by="judge", why="fails hint_quality", text=TEXT),
    asked(3),  # and a kill took it
    asked(4),
    approved(4),
    record(
        "given_up",
        failure=PAY,
        environment="desk",
        tool="pay_bill",
        pattern="no such bill",
        why="no world",
    ),
]


class Shows(Trainer):
    """Says what the epoch shows."""

    def group(self, step: int, task_id: str, role: Role) -> Group:
        rules = self.run.config.curriculum.stages[0]
        shown = interfaces.load(rules, "compact", {"feedback": self.epoch.opened.get("feedback")})
        self.interface = shown.version
        self.lineage = shown.lineage
        return super().group(step, task_id, role)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Its second epoch shows the text."""
    made = make_run(
        tmp_path_factory.mktemp("feedback") / "run",
        {"curriculum": {"stages": [{"feedback": "agents", "expand": False}]}},
    )
    with Shows(made) as trainer:
        writer = LogWriter(made.path / FEEDBACK)
        writer.append(HISTORY)
        writer.close()
        trainer.play(5)
    return made


def test_a_sound_history_is_sound(run: Run) -> None:
    found = verify(run.path, replay=True)
    assert found.ok, list(found.lines())
    assert found.counts["texts of feedback"] == 1


def test_a_list_of_failures_begins_with_how_many_came_to_what(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    whys = ("2 attempts: too vague", "2 attempts: names no tool", "no world")
    cases = [
        FeedbackCase(why, "desk", "pay_bill", "no such bill", 2, state="given_up", why=why)
        for why in whys
    ]
    assert verbs.counts(cases)["reasons"] == {"2 attempts": 2, "no world": 1}
    assert rods(["env", "feedback", "list", str(run.path)]) == 0
    first = "2 failures, 4 questions: 1 approved, 0 dropped, 0 open, 1 given up (1 × no world)\n"
    assert capsys.readouterr().out.startswith(first)


def where(seq: int, **changes: Any) -> Callable[[Record], Record | None]:
    """Changes one record of the log; takes it out where nothing is changed."""

    def change(one: Record) -> Record | None:
        if one["seq"] != seq:
            return one
        return {**one, **changes} if changes else None

    return change


@pytest.mark.parametrize(
    ("change", "found"),
    [
        # an epoch has shown the other
        (where(7, text=LATER), "its texts are not those of version"),
        (where(7, judge={**GOOD, "solution_leakage": True}), "against the judge: solution_leakage"),
        (where(1), "is question 2 after 0"),
        (where(2), "is question 4 after 3, 3 of them attempts"),
        (where(6), "answers question 4, which was not open"),
        (where(7), "its texts are not those of version"),
        (where(4, number=3), "answers question 3, which was not open"),
        (where(4, kind="unanswered", number=1), "answers question 1, which was not open"),
        (where(6, pattern="no such mail"), "is not that of its tool and pattern"),
        (
            where(8, failure=MOVE, pattern="no such event", tool="move_event"),
            "was closed before (approved)",
        ),
    ],
)
def test_a_record_that_was_edited_or_taken_out_is_found(
    run: Run, tmp_path: Path, change: Any, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    rewrite(tmp_path / "run" / FEEDBACK, change)
    assert rods(["verify", str(tmp_path / "run")]) == 1
    assert found in capsys.readouterr().out


def test_a_trainer_does_not_go_on_with_texts_that_were_edited(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    rewrite(tmp_path / "run" / FEEDBACK, where(7, text=LATER))
    with pytest.raises(CorruptLogError, match="its texts are not those of version agents-1"):
        Shows(Run.open(tmp_path / "run"))


def test_a_text_that_no_epoch_has_shown_is_held_against_the_gates_by_a_replay(
    tmp_path: Path,
) -> None:
    for text, sound in ((LATER, True), ("The event is e13, as find_event would have told.", False)):
        made = make_run(
            tmp_path / f"run{sound}", {"curriculum": {"stages": [{"feedback": "agents"}]}}
        )
        writer = LogWriter(made.path / FEEDBACK)
        writer.append([asked(1), approved(1, text=text)])
        writer.close()
        assert verify(made.path).ok, "as far as the logs go"
        found = verify(made.path, replay=True)
        assert found.ok is sound and ("gates" in str(found.problems)) is not sound


def test_a_line_cut_out_of_the_file_is_a_gap(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    file = tmp_path / "run" / FEEDBACK
    lines = file.read_bytes().splitlines(keepends=True)
    for damaged in (
        [*lines[:3], *lines[4:]],
        [*lines[:3], lines[3].replace(b"hint_quality", b"hint_qualitz"), *lines[4:]],
    ):
        file.write_bytes(b"".join(damaged))
        assert rods(["verify", str(tmp_path / "run")]) == 1
