"""What the daemon has considered, picked, written and finished."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from rods.buffers.folds.seeds import Seeds
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, SEEDS


def picked(step: int, task: str, rank: int = 0) -> dict[str, Any]:
    return {
        "kind": "picked",
        "pick": f"{step}-{task}",
        "step": step,
        "epoch": 0,
        "task": task,
        "rank": rank,
    }


def considered(step: int) -> dict[str, Any]:
    return {"kind": "considered", "step": step}


def finished(step: int, task: str, stale: str | None = None) -> dict[str, Any]:
    return {"kind": "finished", "pick": f"{step}-{task}", "dropped_stale": stale}


def expanded(step: int, task: str, index: int) -> dict[str, Any]:
    return {
        "kind": "expanded",
        "pick": f"{step}-{task}",
        "index": index,
        "task": {"id": f"v{index}"},
    }


def test_the_watermark_stands_before_the_first_step_with_an_unfinished_pick(tmp_path: Any) -> None:
    seeds = Seeds(tmp_path)
    for record in (
        picked(1, "a"),
        considered(1),
        picked(2, "a"),
        picked(2, "b", 1),
        considered(2),
        considered(3),
    ):
        seeds.apply(record)
    assert (seeds.watermark, seeds.last_considered) == (0, 3)
    seeds.apply(finished(2, "a"))
    seeds.apply(finished(1, "a"))
    assert seeds.watermark == 1 and list(seeds.unfinished) == ["2-b"]
    seeds.apply(finished(2, "b"))
    assert seeds.watermark == 3 and not seeds.unfinished


def test_an_unfinished_pick_knows_its_variants(tmp_path: Any) -> None:
    seeds = Seeds(tmp_path)
    for record in (
        picked(1, "a"),
        considered(1),
        expanded(1, "a", 1),
        expanded(1, "a", 0),
        expanded(9, "x", 0),
    ):
        seeds.apply(record)
    assert seeds.unfinished["1-a"].variants == {0: "v0", 1: "v1"}


def test_a_pick_that_went_stale_excludes_nobody_and_an_older_one_leaves_the_newer(
    tmp_path: Any,
) -> None:
    seeds = Seeds(tmp_path)
    for record in (picked(1, "a"), considered(1), picked(4, "a"), picked(4, "b", 1), considered(4)):
        seeds.apply(record)
    seeds.apply(finished(1, "a", "too late"))
    seeds.apply(finished(4, "b", "too late"))
    seeds.apply(finished(4, "b", "twice"))  # the second of them changes nothing
    assert seeds.last_picked == {"a": 4}


@settings(
    max_examples=25, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_it_comes_to_the_same_however_often_it_looked(
    past: Run, tmp_path_factory: Any, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("seeds")
    follower = Seeds(folder)
    content = (past.path / SEEDS).read_bytes()
    for part in past.path.glob(EXPANDED):
        (folder / part.name).write_bytes(part.read_bytes())
    size = data.draw(st.integers(0, len(content)))
    for cut in sorted(data.draw(st.lists(st.integers(0, size), max_size=5))):
        (folder / SEEDS).write_bytes(content[:cut])
        follower.poll()
    (folder / SEEDS).write_bytes(content[:size])
    follower.poll()
    once = Seeds(folder)
    once.poll()
    assert (follower.last_considered, follower.watermark, follower.last_picked) == (
        once.last_considered,
        once.watermark,
        once.last_picked,
    )
    assert follower.unfinished.keys() == once.unfinished.keys()
