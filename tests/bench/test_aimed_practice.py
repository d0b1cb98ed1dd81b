"""What a run has practised is read from the labels of its turns."""

from __future__ import annotations

from pathlib import Path

from bench.aimed_practice import practised
from rods.buffers.trainer_log import TrainerLog
from rods.observations import Group, Rollout
from rods.tasks import scripted
from tests.daemon.runs import make_run


def test_a_turn_went_well_where_a_label_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"training": {"batch_tasks": 2}, "sync": "lockstep"})
    trained = [scripted(task, "this test") for task in run.tasks if task.split == "train"]
    lengths = {task.id: [len(turn) for turn in task.calls] for task in trained}
    done, begun = (
        next(name for name, calls in lengths.items() if calls[:2] == begin)
        for begin in ([1, 2], [2, 1])
    )
    log = TrainerLog(run)
    log.start()
    log.merge(0, 1)

    def group(name: str, *labels: str) -> Group:
        expected = len(lengths[name])
        good = Rollout(0, expected, 0, 0.0, 0.0, "finished", labels=labels)  # type: ignore[arg-type]
        bad = Rollout(0, expected, 0, 0.0, 0.0, "finished", labels=("state_mismatch",))
        return Group(name, 1, "identity", "progress", (0.0, 1.0), (good, bad))

    log.write_step(
        1,
        0,
        [group(done, *["pass"] * len(lengths[done])), group(begun, "pass", "missing_tool_call")],
    )
    log.close()
    met, well = practised(tmp_path / "run")
    assert {name for names in met.values() for name in names} == {done, begun}
    assert done in met[min(3, max(lengths[done]))] and begun in met[min(3, max(lengths[begun]))]
    assert well[1] >= {done} and begun not in well[1] and well[2] >= {done, begun}
