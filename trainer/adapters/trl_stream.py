"""TRL's own GRPO on the tasks of a run: `StreamTrainer` is TRL's trainer without a `train_dataset` (docs/trainers.md).

    trainer = StreamTrainer("runs/mine", row, config="run.toml", model=…, reward_funcs=…, args=…)

A data set would not do: Accelerate reads one batch ahead, so that the first batch of an epoch would be drawn before
the rewards that its merge learns from. So TRL gets empty rows, which are filled in when a batch is generated. Each
batch of generations is a step of the run: drawn, rolled out and rewarded by TRL as it would be, and on record before
TRL computes an advantage from it. Resumed from a checkpoint of TRL's, it tells the run which step that is of.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl import GRPOTrainer

from rods.errors import RefusedError, UserError
from rods.tasks import AnyTask
from rods.trainer.stream import TaskStream, open_stream


class StreamTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPOTrainer, whose other arguments it takes, with the tasks of the run in `folder` (made from the file
    `config` where there is none).

    `row(task)` is what a row of a data set would be: `prompt`, and columns for reward functions and environments, which
    get `task` (its id), `step` and `place` beside. What the reward functions give, weighted and summed, must lie in
    `reward_range`. Where all of them say None the rollout broke, and a group of which all did got lost.
    """

    def __init__(
        self,
        folder: Path | str,
        row: Callable[[AnyTask], Mapping[str, Any]],
        *,
        config: Path | str | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        **arguments: Any,
    ) -> None:
        self.run_folder, self.run_config, self.row, self.reward_range = folder, config, row, reward_range
        self.stream: TaskStream | None = None
        super().__init__(train_dataset=Dataset.from_dict({"prompt": [""]}), **arguments)
        if self.accelerator.num_processes > 1:
            what, remedy = "TRL runs in several processes", "use one, or rods-train, which has any number"
            raise RefusedError(what, where=str(folder), remedy=remedy)
        if self.args.max_steps <= 0:
            raise UserError("a run has no length of its own", where="GRPOConfig", remedy="set max_steps, in updates")
        tasks = self.args.generation_batch_size // self.num_generations
        # TRL closes an update where its data end, so they are whole updates.
        self.train_dataset = Dataset.from_dict({"prompt": [""] * tasks * self.args.gradient_accumulation_steps})

    def train(self, *arguments: Any, **more: Any) -> Any:
        try:
            return super().train(*arguments, **more)
        finally:
            if self.stream is not None:
                self.stream.close()
                self.stream = None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if self.model.training:
            passes = self.num_iterations * self.args.steps_per_generation  # over a batch; TRL counts them in `_step`
            if self.stream is None:
                restored = self.state.global_step * self.args.gradient_accumulation_steps // passes
                self.stream = open_stream(self.run_folder, config=self.run_config, from_step=restored)
                self.first = restored + 1 - self._step // passes
            self.step = self.first + self._step // passes
            size = self.num_generations
            drawn = self.stream.draw(self.step, len(inputs) // size)
            rows = [{**self.row(one.task), "task": one.task.id, "step": self.step, "place": one.place} for one in drawn]
            inputs = [{**row} for row in rows for _ in range(size)]
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        return output

    def _calculate_rewards(self, inputs: list[dict[str, Any]], *rolled_out: Any) -> torch.Tensor:
        rewards: torch.Tensor = super()._calculate_rewards(inputs, *rolled_out)
        if self.model.training and self.stream is not None:
            broke = rewards.isnan().all(1).tolist()
            earned = (rewards * self.reward_weights.to(rewards.device)).nansum(1).tolist()
            rollouts = [{"end": "infrastructure"} if broken else {"reward": reward}
                        for broken, reward in zip(broke, earned, strict=True)]  # fmt: skip
            size, kind = self.num_generations, {"kind": "value", "range": list(self.reward_range)}
            groups = [
                {
                    "task": inputs[at]["task"],
                    "place": inputs[at]["place"],
                    "reward": kind,
                    "rollouts": rollouts[at : at + size],
                }
                for at in range(0, len(inputs), size)
                if not all(broke[at : at + size]) or all(broke)
            ]
            self.stream.observe(self.step, groups)
        return rewards
