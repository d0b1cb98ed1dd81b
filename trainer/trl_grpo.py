"""GRPO through TRL: the module that TRL calls (its `rollout_func` is experimental; the pin is tested).

TRL owns the loop, so a run is driven from inside it. TRL's dataset is a fixed list of slot numbers; which task fills a
slot is the run's business. For every batch: `rollout_func` asks the run for the next batch and rolls it out;
`_calculate_rewards` hands the groups to the run, which makes them durable *before* the update, and estimates the
advantages; when the update is done the callback lets the run take its checkpoint.

Several processes (`accelerate launch`) roll out and train equal parts of each batch; draws are keyed by a rollout's
place in the whole batch, so that a batch does not depend on their number.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is loaded from folders; TRL would also send telemetry
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer
from trl.trainer import utils as trl_utils

from buffers.run.run import Run
from rods.canonical import keyed_random
from rods.config import Config
from rods.errors import InfrastructureError
from rods.observations import Update
from trainer import batches, sharding, token_scores, torch_settings
from trainer.advantages import (
    AdvantageEstimate,
    Array,
    advantages,
    load_hook,
    most_varied,
    reweighted,
    with_advantages,
)
from trainer.engines.base import Sample
from trainer.engines.choose import compare, rollout_engine
from trainer.engines.local import LocalEngine
from trainer.policy import Batch, Stopping, TrainingStopped
from trainer.policy_weights import Weights
from trainer.ranks import Ranks
from trainer.trl_settings import arguments, settle_torch
from trainer.weight_files import adapted

if TYPE_CHECKING:
    from trainer.training_run import TrainingRun

BROKEN = 3  # such batches end the run; a server that was restarted breaks one

# Without Triton, TRL's output head scores every token, prompts and padding too, because some devices compile anew for
# each number of tokens. A CPU does not, so only tokens with a label are scored there, too.
trl_utils._use_triton = lambda device: True


def train(training: TrainingRun) -> None:
    """Drives `training` to its end. Raises what the run raises (TrainingStopped, DeadlineError), and UserError for a
    policy folder without weights or chat template. Of several processes, this is the first."""
    _train(training.run, training, Ranks())


def follow(run: Run) -> None:
    """What the other processes do: the same, as the first one says. Raises what `train` raises there."""
    _train(run, None, Ranks())


def _train(run: Run, training: TrainingRun | None, ranks: Ranks) -> None:
    if ranks.together(lambda: driven(training).finished):
        return
    batches.scoring_jobs(run.tasks, run.config, run.players)  # refuses now what nothing here judges
    settle_torch(run.config)
    folder = ranks.together(lambda: starting_weights(driven(training)))
    engine = LocalEngine.load(
        folder, run.config.rollouts, bf16=torch_settings.bf16(run.config.operation, run.config.policy.kind)
    )
    engine.model = adapted(engine.model, run.config.policy.lora_rank, run.config.random_seeds.policy)
    _Trainer(run, training, ranks, engine, sharding.checked(run.config)).train()


def driven(training: TrainingRun | None) -> TrainingRun:
    """`training`, in the first process, which alone has it."""
    assert training is not None
    return training


def starting_weights(run: TrainingRun) -> Path:
    """The folder of the untrained policy; nano is built and warm-started first if its cache lacks it."""
    if run.config.policy.kind == "transformers":
        return Path(run.config.policy.model)
    from trainer.nano.warm_start import warm_started

    return warm_started(run.config, lambda step, steps, loss: run.preparing("warm start", step / steps))


class _Trainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with its batches, rewards and advantages taken from a run."""

    def __init__(
        self, run: Run, training: TrainingRun | None, ranks: Ranks, engine: LocalEngine, how: sharding.Kind
    ) -> None:
        self.config, self.training, self.ranks, self.engine = run.config, training, ranks, engine
        self.loaded, self.players = run.environments, run.players  # TRL has an attribute `environments` of its own
        self.hook = load_hook(run.config.training.advantage_hook)
        self.batch: Batch | None = None
        self.samples: list[Sample] = []  # of this process, as are their advantages
        self.earned: list[Array] = []
        self.kept: list[bool] = []  # which of them are trained on
        self.broken = 0  # batches in a row of which no rollout came to its end
        self.gradient_norm: float | None = None  # of the last update, before clipping
        self._entropy: list[torch.Tensor] = []  # a micro-batch of a first pass: sum over own tokens, their number
        self._own: torch.Tensor | None = None  # which tokens of a completion the loss is about, while it is computed
        self.shards = sharding.Shards(
            how, engine.model, lambda: self.optimizer, lambda: self.model_wrapped, ranks.first
        )
        super().__init__(
            model=self.shards.trained,
            reward_funcs=_training_reward,
            args=arguments(run, ranks.count, bf16=engine.bf16),
            train_dataset=_slots(run.config),
            processing_class=engine.chat.tokenizer,
            rollout_func=_roll_out,
            callbacks=[hooks := _Hooks()],
        )
        hooks.trainer = self
        self.remove_callback(PrinterCallback)
        self.rollout_engine = rollout_engine(self, run, engine, ranks)
        if how != "whole" and self.rollout_engine is engine:
            engine.model.to(self.accelerator.device)  # what TRL does with a policy that is not spread
        self.weights = Weights(
            run.config, run.players, engine, self.rollout_engine, self.synchronise, self.shards, ranks
        )

    def synchronise(self) -> None:
        """Gives the rollout engine the current weights."""
        if self.use_vllm:
            self.vllm_generation.sync_weights()
        else:
            self.shards.gather()

    def create_optimizer(self, model: Any = None) -> Any:
        """The run's optimizer over all trained parameters; its learning rate is constant (trainer/trl_settings.py)."""
        settings = self.config.training
        self.optimizer = torch_settings.make_optimizer(settings.optimizer, self.shards.trained, settings.learning_rate)
        return self.optimizer

    def begin(self) -> None:
        """Restores the resumed checkpoint, or saves the untrained policy. Raises TrainingStopped where the run stops
        here."""

        def begun() -> None:
            run = driven(self.training)
            run.begin(self.weights)
            if run.stopping is not None:
                raise TrainingStopped(run.stopping)

        self.ranks.together(begun)

    def updated(self) -> Stopping | None:
        """Lets the run take its checkpoint after an update; why it stops here, if it does."""
        total, count = self.accelerator.reduce(torch.stack(self._entropy).sum(0), reduction="sum").tolist()
        self._entropy.clear()
        update = Update(total / count if count else None, self.gradient_norm)

        def settled() -> Stopping | None:
            driven(self.training).after_update(update)
            return driven(self.training).stopping

        return self.ranks.together(settled)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the loop's gauges to the numbers that TRL reports to dashboards."""
        if self.training is not None:
            logs = logs | {f"rods/{name}": float(value) for name, value in self.training.gauges().items()}
        super().log(logs, start_time)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        found = super()._get_grad_norm(model, grad_norm=grad_norm)
        self.gradient_norm = float(found)
        return found

    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        inputs = self._of_use(inputs)
        self._own = inputs["tool_mask"]
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        self._own = None
        return loss

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, batch_size: int = 0, **options: Any
    ) -> token_scores.Scores:
        compute = super()._get_per_token_logps_and_entropies
        rows, own = batch_size or len(input_ids), self._own
        found = token_scores.score(
            compute, model, input_ids, attention_mask, logits_to_keep, rows=rows, own=own, **options
        )
        if own is not None and found[1] is not None and self.state.global_step % self.config.training.passes == 0:
            scored = own * attention_mask[:, -logits_to_keep:]
            self._entropy.append(torch.stack([(found[1].detach() * scored).sum(), scored.sum()]).double())
        return found

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        samples = self.ranks.gathered(self.samples)
        rewards, earned, kept = self.ranks.together(lambda: self._recorded(samples))
        mine = self.ranks.part(len(samples))
        self.earned, self.kept = earned[mine], kept[mine]
        return torch.tensor(rewards.reshape(-1, 1), dtype=torch.float32, device=self.accelerator.device)

    def _recorded(self, samples: Sequence[Sample]) -> tuple[Array, list[Array], list[bool]]:
        """Makes the groups of the whole batch durable; its rewards [groups, rollouts], every rollout's advantages
        (trainer.advantages.reweighted), and whether it is trained on (`training.update_rollouts`)."""
        batch, settings = self.batch, self.config.training
        assert batch is not None
        groups = batches.groups(batch, batches.by_slot(batch, samples), self.config, self.loaded)
        broken = all(rollout.reward is None for group in groups for rollout in group.rollouts)
        self.broken = self.broken + 1 if broken else 0
        if self.broken == BROKEN:
            raise InfrastructureError(
                f"no rollout of {BROKEN} steps in a row came to its end: the environment or the engine is broken → "
                "what is logged above says where; then start the same command again"
            )
        rewards = np.array([[rollout.reward for rollout in group.rollouts] for group in groups], dtype=np.float64)
        kept = most_varied(rewards, settings.update_rollouts or rewards.shape[1])
        compared = rewards[kept].reshape(len(rewards), -1)
        found = np.zeros_like(rewards)
        found[kept] = advantages(compared, settings.advantage_baseline, settings.advantage_scale).ravel()
        views = batches.rollout_views(batch, groups, samples) if self.hook else ()
        earned = reweighted(AdvantageEstimate(rewards, found, views), self.hook)
        if self.config.selection.order == "advantage":
            groups = with_advantages(groups, earned)
        driven(self.training).record(batch, groups, batches.traces(batch, samples) if batch.traced else ())
        return rewards, earned, [bool(one) for one in kept.ravel()]

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """TRL's batch with the run's advantages in place of TRL's own."""
        settings = self.config.training
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if "old_per_token_logps" in output:
            output["old_per_token_logps"] *= output["tool_mask"]  # as they are scored again for the loss (token_scores)
        if self.use_vllm:
            compare(output, self.ranks)
        width = output["completion_ids"].shape[1]
        rows = [np.pad(row, (0, width - len(row))) if len(row) > 1 else np.full(width, row[0]) for row in self.earned]
        per_token = any(len(row) > 1 for row in self.earned)
        found = np.stack(rows) if per_token else np.concatenate(self.earned)
        output["advantages"] = torch.tensor(found, dtype=torch.float32, device=self.accelerator.device)
        if settings.update_rollouts:
            output["trained"] = torch.tensor(self.kept, device=self.accelerator.device)
            counted = (output["tool_mask"] * output["trained"][:, None]).sum()
            output["num_items_in_batch"] = self.accelerator.gather(counted).sum()
        return output

    def _of_use(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """`inputs` without the rollouts that are not trained on. Where nothing but advantages makes a gradient, those
        whose advantage is 0 go, too: they count in the number of tokens that the loss is divided by, but need no
        forward and backward pass."""
        settings, found = self.config.training, inputs["advantages"]
        kept = inputs.get("trained", torch.ones(len(found), dtype=torch.bool, device=found.device))
        if settings.kl == 0 and settings.loss == "token" and not self.aux_loss_enabled:
            useful = kept & (found.reshape(len(found), -1) != 0).any(1)
            kept = useful if useful.any() else kept
        rows = kept.nonzero()[:, 0]
        if not len(rows):  # none of a micro-batch: one row stands for it, of which nothing counts
            rows, inputs = rows.new_zeros(1), inputs | {"tool_mask": torch.zeros_like(inputs["tool_mask"])}
        return {name: value[rows] if torch.is_tensor(value) and value.ndim else value for name, value in inputs.items()}


class _Hooks(TrainerCallback):  # type: ignore[misc]
    """Tells the run when policy and optimizer exist and whenever the weights have been updated, and TRL when the run is
    over."""

    trainer: _Trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.trainer.config.training.passes == 0:  # all passes over the batch are done
            control.should_training_stop = self.trainer.updated() is not None


def _roll_out(prompts: list[str], trainer: _Trainer) -> dict[str, Any]:
    """TRL's `rollout_func`. `prompts` are slot numbers, each repeated for its group: this process's part of them."""
    config, ranks = trainer.config, trainer.ranks
    trainer.weights.restore_generators()
    if not trainer.use_vllm:  # TRL has done it otherwise
        trainer.synchronise()
    trainer.batch = batch = ranks.together(lambda: driven(trainer.training).next_batch())
    ranks.agree(batch.hash())
    every = batches.jobs(batch, config, trainer.players)
    mine = ranks.part(len(every))
    count = len(every) // len(batch.slots)
    if prompts != [str(slot.index) for slot in batch.slots for _ in range(count)][mine]:
        raise RuntimeError("TRL asked for other slots than the batch's: its sampler has changed")
    seed = keyed_random(config.random_seeds.rollouts, "rollouts", batch.step).getrandbits(63)
    samples = trainer.rollout_engine.rollouts(every[mine], random_seed=seed, first=mine.start)
    trainer.samples = samples
    end = trainer.engine.chat.tokenizer.eos_token_id
    return {
        # TRL needs a token to look at: where a prompt overflowed the context that is one which does not count
        "prompt_ids": [sample.prompt_ids if sample.completion_ids else [end] for sample in samples],
        "completion_ids": [sample.completion_ids or [end] for sample in samples],
        "env_mask": [sample.env_mask or [0] for sample in samples],
        "logprobs": [sample.logprobs or [0.0] for sample in samples],
    }


def _training_reward(**kwargs: Any) -> list[float]:
    raise RuntimeError("rewards are computed in _calculate_rewards; TRL has changed")


def _slots(config: Config) -> Dataset:
    """As many passes over the slot numbers as the run has steps: TRL freezes the length of its dataset."""
    numbers = [str(slot) for slot in range(config.training.batch_tasks)]
    return Dataset.from_dict({"prompt": numbers * config.training.steps})
