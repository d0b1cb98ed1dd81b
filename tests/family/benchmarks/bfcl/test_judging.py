"""The verdict on a recorded set of outputs is that of BFCL's own scorer, task by task."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.fixtures.scorer_parity import compare
from rods.episode.drivers import run_lockstep
from rods.episode.engine import Reply
from rods.family.benchmarks.bfcl.benchmark import BfclBenchmark, EpisodeJudge
from rods.family.benchmarks.folder import Settings
from rods.tasks import Task
from rods.worlds.bfcl.world import Bfcl


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid escape")  # what Python says to some of these texts
def test_two_thousand_recorded_outputs_are_judged_as_officially(
    bfcl: Bfcl, tasks: list[Task], tmp_path: Path
) -> None:
    found = compare(tasks, 2_000, random_seed=1)
    assert found.different == []
    assert found.outputs >= 2_000 and 0.3 < found.valid / found.outputs < 0.7
    assert len(found.kinds) > 80


def test_junk_where_no_call_is_right_passes_officially_and_fails_strictly(
    bfcl: Bfcl, tasks: list[Task]
) -> None:
    task = next(task for task in tasks if task.type == "miss_param" and not all(task.calls))
    turns = [[f"[{', '.join(map(str, calls))}]", "done"] for calls in task.calls]
    junk = [
        turn if calls else [f"[{task.tools[0]}()]"]
        for turn, calls in zip(turns, task.calls, strict=True)
    ]
    judge = EpisodeJudge(bfcl)
    clean = judge.judge(task, turns, "prompt")
    spoilt = judge.judge(task, junk, "prompt")
    assert (clean.official, clean.strict, clean.progress) == (True, True, 1.0)
    assert (spoilt.official, spoilt.strict, spoilt.resolved) == (True, False, task.expected - 1)


def test_turns_that_were_never_reached_are_not_resolved(bfcl: Bfcl, tasks: list[Task]) -> None:
    task = tasks[0]
    turns = [[f"[{', '.join(map(str, calls))}]", "done"] for calls in task.calls]
    judge = EpisodeJudge(bfcl)
    assert judge.judge(task, turns[:1], "prompt").resolved == 1
    assert not judge.judge(task, turns[:-1], "prompt").official
    assert not judge.judge(task, [*turns, turns[-1]], "prompt").official
    assert judge.judge(task, "Error during inference: …", "prompt").resolved == 0


@pytest.mark.parametrize("endless", ["first", "last"])
def test_steps_without_end_give_the_episode_up_as_the_harness_does(
    bfcl: Bfcl, tasks: list[Task], endless: str
) -> None:
    """The harness gives up after 21 outputs with calls; its scorer only notices where turns are
    missing then."""
    task = next(task for task in tasks if task.type == "base" and "pwd" in task.tools)
    maker = BfclBenchmark().maker(Settings({"name": "m"}))
    turn = 0 if endless == "first" else task.expected - 1

    def replies() -> Iterator[str]:
        for number, calls in enumerate(task.calls):
            yield f"[{', '.join(map(str, calls))}]"
            while number == turn:
                yield "[pwd()]"
            yield "done"

    texts = replies()
    job = maker.job(task)
    trace = run_lockstep([job], lambda waiting: [Reply(next(texts))])[0]
    episode = maker.episode(job, 0, trace)
    assert (
        trace.end == "step_limit"
        and len(episode.result) == turn + 1
        and len(episode.result[-1]) == 21
    )
    assert EpisodeJudge(bfcl).judge(task, episode.result, "prompt").official == (endless == "last")


def test_a_hidden_tool_is_carried_out_and_changes_the_verdict(
    bfcl: Bfcl, tasks: list[Task]
) -> None:
    task = next(
        t for t in tasks if t.type == "miss_func" and all(t.calls[-1:]) and not all(t.calls[:-1])
    )
    blank = next(turn for turn, calls in enumerate(task.calls) if not calls)
    turns = [[f"[{', '.join(map(str, calls))}]"] if calls else ["no"] for calls in task.calls]
    early = [*turns[:blank], turns[blank + 1], *turns[blank + 1 :]]
    judge = EpisodeJudge(bfcl)
    assert judge.judge(task, turns, "prompt").official
    assert judge.judge(task, early, "prompt").strict is False
