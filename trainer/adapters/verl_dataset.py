"""The tasks of a run as a data set of verl's, and its reward function (docs/trainers.md).

A training step of verl's is a step of the run. Its rewards come about in processes that are none of
the trainer's, so each is put down (rewards_log) before verl has it, and the data set takes them on
record behind the update (verl's older trainer says when that is) or when the next batch is asked
for: none leads to an update that could not be found again.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from verl.utils.dataset.rl_dataset import RLHFDataset

from rods.buffers.run.creation import open_or_create
from rods.buffers.state import read_state
from rods.canonical import JsonMapping
from rods.errors import UserError
from rods.tasks import AnyTask
from rods.trainer.adapters.rewards_log import forget, put_down, rewards_by_place
from rods.trainer.adapters.stream import DrawnTask, TaskStream, open_stream

KEY = "rods"  # in `extra_info`: which place of which step a rollout is of


class RunDataset(RLHFDataset):  # type: ignore[misc]
    """verl's data set whose `train_files` are the folder of a run, made from the file `run_config`
    where there is none, with a row for each place of its steps. Rewards lie in `reward_range`."""

    run_config: ClassVar[Path | str | None] = None
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    stream: TaskStream | None = None
    step = 0
    drawn: tuple[DrawnTask, ...] = ()

    def row(self, task: AnyTask) -> JsonMapping:
        """What a row of verl's files has: `prompt`, messages; `reward_model`; `data_source`."""
        raise NotImplementedError

    def _download(self, *_: Any, **more: Any) -> None:
        """Nothing: a run lies where all processes see it."""

    def _read_files_and_tokenize(self) -> None:
        self.run = open_or_create(self.data_files[0], self.run_config)
        self.size = self.config.train_batch_size

    def __len__(self) -> int:
        return int(self.run.config.training.steps * self.size)

    def __getitem__(self, item: int) -> Any:
        step, place = divmod(item, self.size)
        if step + 1 != self.step:
            self._turn(step + 1)
        row = {"data_source": "rods", **self.row(self.drawn[place].task)}
        at = {"run": str(self.run.path.resolve()), "step": self.step, "place": place}
        at["range"] = list(self.reward_range)
        row["extra_info"] = {"index": item, **row.get("extra_info", {}), KEY: at}
        self.dataframe = {item: row}  # where verl looks for it
        return super().__getitem__(item)

    def _turn(self, step: int) -> None:
        """Closes the step before with what it earned, and draws this one. Raises UserError where
        verl takes the tasks of a step otherwise than as one batch, before the next; and, with the
        last step closed, where it reads the loader a second time."""
        # verl's trainer sets it to 1 where it draws ahead, or anew for what it leaves out
        if self.config.get("gen_batch_size") not in (None, self.size):
            raise UserError(
                "verl draws one by one, with rewards of what was drawn before still to come",
                where=f"run {self.run.path}",
                remedy="set trainer.v1.trainer_mode=sync, without algorithm.filter_groups, "
                "sync_refill_failed_groups and data.gen_batch_size",
            )
        if self.stream is not None and step < self.step:
            if self.stream.step == self.step - 1:
                self._observe(self.step)
            raise UserError(
                f"its {self.step} steps are over, and verl begins an epoch more with the first",
                where=f"run {self.run.path}",
                remedy="set trainer.total_epochs=1: a run's steps hold all of its epochs",
            )
        if self.stream is None:  # verl goes on behind the checkpoint that it has restored
            self.stream = open_stream(
                self.run.path, from_step=min(step - 1, read_state(self.run).last_step)
            )
        if self.stream.step == step - 2:
            self._observe(step - 1)
        self.drawn = self.stream.draw(step, self.size)
        self.step = step
        forget(self.run.path, step)

    def on_batch_end(self, batch: Any) -> None:
        """What verl's older trainer calls behind each update but its last one."""
        self._observe(self.step)

    def _observe(self, step: int) -> None:
        assert self.stream is not None
        self.stream.draw(step, self.size)
        self.stream.observe_rewards(step, rewards_by_place(self.run.path, step), self.reward_range)


def observed(score: Callable[..., Any]) -> Callable[..., Any]:
    """verl's reward function `score`, whose rewards are on the disk before verl has them: a
    function, or one to be awaited, as verl calls it."""

    def kept(scores: Any, extra_info: Any) -> Any:
        if at := (extra_info or {}).get(KEY):  # none where verl validates
            reward = scores["score"] if isinstance(scores, Mapping) else scores
            put_down(Path(at["run"]), at["step"], at["place"], reward, at["range"])
        return scores

    @functools.wraps(score)
    def scored(
        data_source: Any, solution_str: Any, ground_truth: Any, extra_info: Any = None, **more: Any
    ) -> Any:
        return kept(score(data_source, solution_str, ground_truth, extra_info, **more), extra_info)

    @functools.wraps(score)
    async def awaited(
        data_source: Any, solution_str: Any, ground_truth: Any, extra_info: Any = None, **more: Any
    ) -> Any:
        scores = await score(data_source, solution_str, ground_truth, extra_info, **more)
        return await asyncio.to_thread(kept, scores, extra_info)

    return awaited if inspect.iscoroutinefunction(score) else scored
