"""The tasks of a run as a data source of slime's, and of miles', which has the same interface
(docs/trainers.md).

A rollout of slime's is a step of the run: what it asks for is drawn, and all groups that came to an
end are on record before it trains on them, those that a filter dropped, too. Groups that it aborts
got lost.
"""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rods.errors import RefusedError
from rods.tasks import AnyTask
from rods.trainer.adapters.stream import DrawnTask, TaskStream, open_stream

BROKEN = ("aborted", "failed")  # values of a sample's status


class RunSource:
    """A `DataSource`: `folder` is the run's (made from the file `config` where there is none).
    `behind`: how many updates the weights lack that roll out, 1 under slime's train_async.py.
    Rewards must lie in `reward_range`."""

    folder: ClassVar[Path | str]
    config: ClassVar[Path | str | None] = None
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    behind: ClassVar[int] = 0

    def __init__(self, args: Any) -> None:
        self.args = args
        self._stream: TaskStream | None = None
        self._drawn: tuple[DrawnTask, ...] = ()  # of the open rollout
        self._samples = 0  # of this process

    def sample(self, task: AnyTask) -> Any:
        """The `Sample` that a rollout of `task` begins with."""
        raise NotImplementedError

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        """So many further groups of the open rollout."""
        stream = self._opened()
        taken = len(self._drawn)
        self._drawn = stream.draw(stream.step + 1, taken + num_samples)
        return [self._group(one) for one in self._drawn[taken:]]

    def _group(self, one: DrawnTask) -> list[Any]:
        group = [
            copy.deepcopy(self.sample(one.task)) for _ in range(self.args.n_samples_per_prompt)
        ]
        for sample in group:
            sample.group_index = self._samples // len(group)
            sample.index = self._samples
            sample.metadata = {**(sample.metadata or {}), "task": one.task.id, "place": one.place}
            self._samples += 1
        return group

    def add_samples(self, samples: list[list[Any]]) -> None:
        if samples:
            raise RefusedError(
                "slime gives groups back that are to go on in a later rollout, and each belongs to "
                "its step",
                where="--partial-rollout",
                remedy="leave it out",
            )

    def observe(self, groups: Iterable[Sequence[Any]]) -> None:
        """Closes the open rollout with the groups that came to an end."""
        reported = []
        for group in groups:
            # one may be several samples
            samples = [each[-1] if isinstance(each, list) else each for each in group]
            one = self._drawn[samples[0].metadata["place"]]
            reported.append(
                one.group([self._reward(sample) for sample in samples], self.reward_range)
            )
        stream = self._opened()
        stream.observe(stream.step + 1, reported, max(0, stream.step - self.behind))
        self._drawn = ()

    def _reward(self, sample: Any) -> float | None:
        reward = (
            sample.reward[self.args.reward_key]
            if isinstance(sample.reward, dict)
            else sample.reward
        )
        return None if sample.status.value in BROKEN else reward

    def save(self, rollout_id: int) -> None:
        """Nothing: what was drawn follows from the run's records."""

    def load(self, rollout_id: int | None = None) -> None:
        """Goes on behind the rollout `rollout_id` (from 0; −1: from the start), whose checkpoint
        slime has restored."""
        self.close()
        step = None if rollout_id is None else rollout_id + 1
        self._stream = open_stream(self.folder, config=self.config, from_step=step)

    def __len__(self) -> int:
        """How many tasks are in the pool now."""
        return len(self._opened().log.state.active)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._drawn = ()

    def _opened(self) -> TaskStream:
        if self._stream is None:
            self.load()
        assert self._stream is not None
        return self._stream


def observe(args: Any, samples: Iterable[Sequence[Any]], source: Any) -> None:
    """What `--rollout-all-samples-process-path` calls with all groups of a rollout; `source` may be
    a method of it."""
    getattr(source, "__self__", source).observe(samples)
