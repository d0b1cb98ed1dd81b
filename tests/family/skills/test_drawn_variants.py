"""A run whose variants are drawn by skill: what is drawn follows the fold, and whoever reads the
logs derives it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import line
from rods.buffers.log.tail import Tail
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, SEEDS
from rods.dialects.tags import Tags
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply, Trace
from rods.episode.goals import GroundTruth
from rods.extension import preferred
from rods.family.skills.extension import EXTENSION
from rods.family.skills.skills import Skills
from rods.observations import Group, Role
from rods.tasks import Task
from rods.trainer.batches import earned
from rods.worlds import desk
from tests.daemon.runs import Daemon, Trainer, idle, make_run, seeds, until, variants

TAGS = Tags()
WORLDS = Environments()
TASKS = [task for task in desk.generate(7, 90, 8) if task.type == "base" or task.split != "train"]
VALUES: dict[str, Any] = {
    "sync": "lockstep",
    "selection": {"seeds_per_step": 8, "exclusion_steps": 0, "max_generation": 0},
    "pipeline": {"variants_per_seed": 3},
    "pool": {"staging_epochs": 0.0, "inject_fraction": 0.5},
    "training": {"steps": 9},
}


class Practising(Trainer):
    """Plays real episodes by a policy that masters the functions of the first half of the alphabet,
    and of any other leaves out its calls in two of four rollouts."""

    def group(self, step: int, task_id: str, role: Role) -> Group:
        task = self.log.task(task_id)
        assert isinstance(task, Task)
        traces = [episode(task, forgets=number >= 2) for number in range(4)]
        rollouts = [
            earned(
                trace,
                task,
                "progress",
                WORLDS,
                EXTENSION.rollout(trace, task, WORLDS, self.run.config, self.stage),
            )
            for trace in traces
        ]
        return Group(
            task_id, self.stage, self.interface, "progress", (0.0, 1.0), tuple(rollouts), role
        )


def mastered(name: str) -> bool:
    return name < "i"


def episode(task: Task, forgets: bool) -> Trace:
    """The ground truth played as a policy would, but for the functions that are not mastered where
    it `forgets`."""
    replies = iter(
        [
            text
            for calls in task.calls
            for text in (
                *(TAGS.write([call]) for call in calls if not forgets or mastered(call.name)),
                TAGS.answer("."),
            )
        ]
    )
    world = WORLDS.load(task.environment.name)
    job = Job(task, world, TAGS, GroundTruth(world, task))
    (trace,) = run_lockstep([job], lambda needs: [Reply(next(replies)) for _ in needs])
    return trace


def played(path: Path, **skills: Any) -> Run:
    run = make_run(path, VALUES | ({"skills": skills} if skills else {}), TASKS)
    with Daemon(run.path), Practising(run) as trainer:
        trainer.play(9)
        until(lambda: idle(run.path, 9))
    return run


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return played(tmp_path_factory.mktemp("skills") / "drawn", enabled=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return played(tmp_path_factory.mktemp("skills") / "plain")


def practised(path: Path) -> dict[int, Mapping[str, float]]:
    """How often what goes well after each step, as observations.jsonl gives it."""
    fold = Skills(0.95)
    told = dict[int, Mapping[str, float]]()
    for record, groups in Tail(path / OBSERVATIONS).groups():
        if record["kind"] == "step":
            fold.apply(record["step"], groups)
            told[record["step"]] = {
                name: well / turns for name, (turns, well) in fold.known.items()
            }
    return told


def calls(run: Run, by: Run) -> tuple[int, int]:
    """The calls of the variants of `run` to functions that the policy of `by` got right half of the
    time, up to the step of their pick, and always."""
    shares = practised(by.path)
    known = [
        shares[record["step"]].get(call.name)
        for record in variants(run.path)
        for turn in Task.from_json(record["task"]).calls
        for call in turn
    ]
    return sum(share is not None and 0.4 < share < 0.6 for share in known), sum(
        (share or 0) > 0.9 for share in known
    )


def weighed(run: Run, by: Run) -> Iterator[float]:
    """What the functions of each variant of `run` weigh in the mean, by what `by` has on record for
    the same pick."""
    weights = {
        record["pick"]: preferred(record["preferences"]) for record in seeds(by.path, "picked")
    }
    for record in variants(run.path):
        task = Task.from_json(record["task"])
        if record["pick"] in weights:
            yield mean(
                weights[record["pick"]].get(call.name, 1.0) for turn in task.calls for call in turn
            )


@pytest.mark.slow
def test_variants_call_the_functions_near_one_half_rather_than_those_that_are_mastered(
    drawn: Run, plain: Run
) -> None:
    (half, sure) = calls(drawn, drawn)
    (blind_half, blind_sure) = calls(plain, drawn)
    many = half + sure
    blind_many = blind_half + blind_sure
    assert many > 300 and blind_many > 300
    share = (half + blind_half) / (many + blind_many)
    # of two shares that chance alone has made different
    apart = half / many - blind_half / blind_many
    assert apart / math.sqrt(share * (1 - share) * (1 / many + 1 / blind_many)) > 4, (
        half / many,
        blind_half / blind_many,
    )


@pytest.mark.slow
def test_the_functions_of_variants_weigh_more_than_those_of_variants_that_are_drawn_blindly(
    drawn: Run, plain: Run
) -> None:
    aimed = list(weighed(drawn, drawn))
    blind = list(weighed(plain, drawn))
    assert len(aimed) > 50 and len(blind) > 50
    assert mean(aimed) > mean(blind) + 0.2, (mean(aimed), mean(blind))


@pytest.mark.slow
def test_verify_derives_them_again_and_reports_forged_ones(
    drawn: Run, plain: Run, tmp_path: Path
) -> None:
    report = verify(drawn.path)
    assert report.ok, list(report.lines())
    assert (
        report.counts["picks whose functions were weighed again"]
        == len(seeds(drawn.path, "picked"))
        > 10
    )
    assert verify(plain.path).ok and not any(
        "preferences" in record for record in seeds(plain.path, "picked")
    )
    name, _ = max(seeds(drawn.path, "picked")[-1]["preferences"]["skills"].items())
    for run, forged in ((drawn, {name: 0.5}), (plain, {name: 0.5}), (drawn, None)):
        copy = tmp_path / f"{run.path.name} {forged}"
        shutil.copytree(run.path, copy)
        last = seeds(copy, "picked")[-1]
        changed = {
            key: value for key, value in last.items() if key not in ("seq", "crc", "preferences")
        }
        if forged is not None:
            said = last.get("preferences", {}).get("skills", {})
            changed["preferences"] = {"skills": {**said, **forged}}
        lines = (copy / SEEDS).read_bytes().splitlines(keepends=True)
        lines[last["seq"] - 1] = line(last["seq"], changed)
        (copy / SEEDS).write_bytes(b"".join(lines))
        told = [problem["what"] for problem in verify(copy).problems]
        what = (
            f"pick {last['pick']} weighs functions otherwise than the observations up to its step "
            f"do"
        )
        assert told == [what]


@pytest.mark.slow
def test_what_was_picked_before_a_rewind_is_derived_from_the_steps_of_that_attempt(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path / "run", VALUES | {"skills": {"enabled": True}}, TASKS)
    with Daemon(run.path):
        with Practising(run) as trainer:
            trainer.play(4)
            until(lambda: idle(run.path, 4))
        with Trainer(run, from_step=2) as other:  # whose steps come to something else
            other.play(4)
            until(lambda: idle(run.path, 6))
    report = verify(run.path)
    assert report.ok, list(report.lines())
    steps = {record["step"] for record in seeds(run.path, "picked")}
    assert {3, 5, 6} <= steps
    assert report.counts["picks whose functions were weighed again"] == len(
        seeds(run.path, "picked")
    )
