"""The verdict on a recorded set of outputs is that of BFCL's own scorer, task by task."""

from pathlib import Path

import pytest

from evaluation.bfcl.judging import Judge
from rods.environments.bfcl.world import Bfcl
from rods.tasks import Task
from tests.evaluation.bfcl.parity import compare


@pytest.mark.filterwarnings("ignore:invalid escape")  # what Python says to some of these texts
def test_two_thousand_recorded_outputs_are_judged_as_officially(
    bfcl: Bfcl, every_task: list[Task], tmp_path: Path
) -> None:
    found = compare(every_task, 2_000, random_seed=1)
    assert found.different == []
    assert found.outputs >= 2_000 and 0.3 < found.valid / found.outputs < 0.7
    assert len(found.kinds) > 80


def test_junk_where_no_call_is_right_passes_officially_and_fails_strictly(bfcl: Bfcl, every_task: list[Task]) -> None:
    task = next(task for task in every_task if task.type == "miss_param" and not all(task.calls))
    turns = [[f"[{', '.join(map(str, calls))}]", "done"] for calls in task.calls]
    junk = [turn if calls else [f"[{task.tools[0]}()]"] for turn, calls in zip(turns, task.calls, strict=True)]
    judge = Judge(bfcl)
    clean, spoilt = judge.judge(task, turns, "prompt"), judge.judge(task, junk, "prompt")
    assert (clean.official, clean.strict, clean.progress) == (True, True, 1.0)
    assert (spoilt.official, spoilt.strict, spoilt.resolved) == (True, False, task.expected_turns - 1)


def test_turns_that_were_never_reached_are_not_resolved(bfcl: Bfcl, every_task: list[Task]) -> None:
    task = every_task[0]
    turns = [[f"[{', '.join(map(str, calls))}]", "done"] for calls in task.calls]
    judge = Judge(bfcl)
    assert judge.judge(task, turns[:1], "prompt").resolved == 1
    assert not judge.judge(task, turns[:-1], "prompt").official
    assert not judge.judge(task, [*turns, turns[-1]], "prompt").official
    assert judge.judge(task, "Error during inference: …", "prompt").resolved == 0
