"""slime's calls of a data source, in slime's order, take part in a run. slime itself is no package
of an index, and its rollouts need GPUs; its interface is a class of five methods, and a `Sample`
whose fields are as here."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.errors import RefusedError
from rods.trainer.adapters.conformance import CONFIG, Job
from tests.trainer.forked_trainers import Forked

pytestmark = pytest.mark.needs("adapters")
IMPORTS = ("rods.trainer.adapters.conformance", "tests.trainer.adapters.test_slime_source")


class Status(enum.Enum):
    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"


@dataclass
class Sample:
    prompt: str = ""
    reward: float | dict[str, float] | None = None
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    group_index: int | None = None
    index: int | None = None


def train(job: Job) -> None:
    """`generate_rollout` and `train.py` of slime, in what they ask of a data source: a batch of
    four groups in two parts, all groups that ended given back, a checkpoint a rollout."""
    from rods.trainer.adapters.slime_source import RunSource, observe

    class Source(RunSource):
        folder = job.run
        behind = job.lag

        def sample(self, task: Any) -> Sample:
            return Sample(prompt=task.script[0])

    args = SimpleNamespace(n_samples_per_prompt=4, reward_key="score")
    saved = Path(job.own) / "rollout"
    done = int(saved.read_text()) if saved.exists() else 0
    done = done if job.from_step is None else job.from_step
    source = Source(args)
    source.load(done - 1)
    for rollout in range(done, job.steps):
        groups = [*source.get_samples(3), *source.get_samples(1)]
        ended = []
        for group in groups:
            (at,) = {(sample.metadata["place"], sample.metadata["task"]) for sample in group}
            rewards = job.rewards(rollout + 1, *at)
            for sample, reward in zip(group, rewards or (), strict=bool(rewards)):
                sample.reward = {"score": reward}
                sample.status = Status.COMPLETED
            ended += [group] if rewards else []
        observe(args, ended[::-1], source.get_samples)
        source.save(rollout)
        saved.write_text(str(rollout + 1))
    source.close()


@pytest.mark.slow
class TestSlime(Forked):
    imports = IMPORTS
    trainer = "tests.trainer.adapters.test_slime_source:train"


def source(tmp_path: Path) -> Any:
    from rods.trainer.adapters.slime_source import RunSource

    class Source(RunSource):
        folder = tmp_path / "run"
        config = tmp_path / "run.toml"

        def sample(self, task: Any) -> Sample:
            return Sample(prompt=task.script[0])

    (tmp_path / "run.toml").write_text(CONFIG.replace('sync = "lockstep"', ""))
    return Source(SimpleNamespace(n_samples_per_prompt=2, reward_key=None))


def test_what_was_aborted_is_no_failure_and_goes_into_no_later_rollout(tmp_path: Path) -> None:
    from rods.trainer.adapters.slime_source import observe

    made = source(tmp_path)
    assert len(made) == 8
    groups = made.get_samples(2)
    assert [(sample.group_index, sample.index) for group in groups for sample in group] == [
        (0, 0),
        (0, 1),
        (1, 2),
        (1, 3),
    ]
    for sample, reward in zip(groups[0], (0.5, None), strict=True):
        sample.reward = reward
        sample.status = Status.COMPLETED if reward else Status.ABORTED
    with pytest.raises(RefusedError, match="--partial-rollout"):
        made.add_samples(groups)
    made.add_samples([])
    # a rollout of several samples, as agents have
    split = [[groups[0][0], groups[0][0]], groups[0][1]]
    observe(made.args, [split], made)
    made.close()
    (step,) = RunState(Run.open(tmp_path / "run")).steps()
    assert [[(each.reward, each.end) for each in group.rollouts] for group in step.groups] == [
        [(0.5, "finished"), (None, "infrastructure")]
    ]
