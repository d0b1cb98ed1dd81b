"""TRL's own GRPO on the tasks of a run: `StreamTrainer` is TRL's trainer without a `train_dataset`
(docs/trainers.md).

    trainer = StreamTrainer("runs/mine", row, config="run.toml", model=…, reward_funcs=…, args=…)

A data set would not do: Accelerate reads one batch ahead, so that the first batch of an epoch would
be drawn before the rewards that its merge learns from. So TRL gets empty rows, which are filled in
when a batch is generated. Each batch of generations is a step of the run: drawn, rolled out and
rewarded by TRL as it would be, and on record before TRL computes an advantage from it. Resumed from
a checkpoint of TRL's, it tells the run which step that is of.

Of several processes (`accelerate launch`) the first has the stream; each rolls out and trains its
part of a batch.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl import GRPOTrainer

from rods.canonical import JsonMapping, JsonObject, without
from rods.errors import UserError
from rods.tasks import AnyTask
from rods.trainer.adapters.stream import DrawnTask, TaskStream, open_stream
from rods.trainer.ranks import Ranks


def last_checkpoint(folder: Path | str) -> str | None:
    """The newest checkpoint in a trainer's `output_dir` that was written to its end; None where
    there is none. What was being written at a kill is left out: Transformers writes
    `trainer_state.json` last, and takes any folder by its name."""
    saved = [
        path
        for path in Path(folder).glob("checkpoint-*")
        if path.name.removeprefix("checkpoint-").isdigit()
    ]
    newest_first = sorted(
        saved, key=lambda path: int(path.name.removeprefix("checkpoint-")), reverse=True
    )
    return next((str(path) for path in newest_first if _whole(path / "trainer_state.json")), None)


def _whole(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), dict)
    except (FileNotFoundError, ValueError):
        return False


class StreamTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPOTrainer, whose other arguments it takes, with the tasks of the run in `folder`
    (made from the file `config` where there is none).

    `row(task)` is what a row of a data set would be: `prompt`, and columns for reward functions and
    environments, which get `task` (its id), `step` and `place` beside. What the reward functions
    give, weighted and summed, must lie in `reward_range`. Where all of them say None the rollout
    broke, and a group of which all did got lost.
    """

    def __init__(
        self,
        folder: Path | str,
        row: Callable[[AnyTask], JsonMapping],
        *,
        config: Path | str | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        **arguments: Any,
    ) -> None:
        self.run_folder = folder
        self.run_config = config
        self.row = row
        self.reward_range = reward_range
        self.stream: TaskStream | None = None  # in the first process
        self.first: int | None = None  # the step of the first batch of `train`
        self.drawn: tuple[DrawnTask, ...] = ()
        super().__init__(train_dataset=Dataset.from_dict({"prompt": [""]}), **arguments)
        self.ranks = Ranks()
        if self.args.max_steps <= 0:
            raise UserError(
                "a run has no length of its own",
                where="GRPOConfig",
                remedy="set max_steps, in updates",
            )
        tasks = self.args.generation_batch_size // self.num_generations
        # TRL closes an update where its data end, so they are whole updates.
        self.train_dataset = Dataset.from_dict(
            {"prompt": [""] * tasks * self.args.gradient_accumulation_steps}
        )

    def train(self, *arguments: Any, **more: Any) -> Any:
        try:
            return super().train(*arguments, **more)
        finally:
            self.first = None
            if self.stream is not None:
                self.stream.close()
                self.stream = None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the run's gauges to what TRL reports, and what TRL reports to the run's own
        trackers."""
        own = (
            {}
            if self.stream is None
            else {f"rods/{name}": value for name, value in self.stream.gauges().items()}
        )
        logs = {**logs, **own}
        super().log(logs, start_time)  # which puts its averages into them
        if self.stream is not None:
            self.stream.report(without(logs, *own))

    def _save_rng_state(self, output_dir: str) -> None:
        """Ends once all processes have written theirs, so that what comes next says that the
        checkpoint is whole."""
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()

    def _generate_and_score_completions(self, inputs: list[JsonObject]) -> JsonObject:
        if self.model.training:
            # over a batch; TRL counts them in `_step`
            passes = self.num_iterations * self.args.steps_per_generation
            if self.first is None:
                restored = self.state.global_step * self.args.gradient_accumulation_steps // passes
                self.ranks.together(lambda: self._open(restored))
                self.first = restored + 1 - self._step // passes
            self.step = step = self.first + self._step // passes
            size = self.num_generations
            tasks = len(inputs) * self.ranks.count // size
            self.drawn = self.ranks.together(lambda: self._stream.draw(step, tasks))
            rows = [
                {**self.row(one.task), "task": one.task.id, "step": step, "place": one.place}
                for one in self.drawn
            ]
            mine = self.ranks.part(size * tasks)
            inputs = [{**rows[at // size]} for at in range(mine.start, mine.stop)]
        output: JsonObject = super()._generate_and_score_completions(inputs)
        return output

    def _open(self, restored: int) -> None:
        self.stream = open_stream(self.run_folder, config=self.run_config, from_step=restored)

    @property
    def _stream(self) -> TaskStream:
        assert self.stream is not None
        return self.stream

    def _calculate_rewards(self, inputs: list[dict[str, Any]], *rolled_out: Any) -> torch.Tensor:
        rewards: torch.Tensor = super()._calculate_rewards(inputs, *rolled_out)  # of all processes
        if self.first is not None and self.model.training:
            self.ranks.together(lambda: self._stream.observe(self.step, self._groups(rewards)))
        return rewards

    def _groups(self, rewards: torch.Tensor) -> list[dict[str, Any]]:
        """What is on record of the batch, whose `rewards` are [rollouts, functions]."""
        broke = rewards.isnan().all(1).tolist()
        total = (rewards * self.reward_weights.to(rewards.device)).nansum(1).tolist()
        totals = [None if broken else reward for broken, reward in zip(broke, total, strict=True)]
        size = self.num_generations
        return [
            one.group(totals[at : at + size], self.reward_range)
            for at, one in zip(range(0, len(totals), size), self.drawn, strict=True)
            if not all(broke[at : at + size]) or all(broke)
        ]
