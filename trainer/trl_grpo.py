"""GRPO through TRL: the module that TRL calls (its `rollout_func` is experimental, so that one
version of TRL is pinned).

TRL owns the loop, so a run is driven from inside it. TRL's dataset is a fixed list of slot numbers;
which task fills a slot is the run's business. For every batch: `rollout_func` asks the run for the
next batch, rolls it out, and hands the groups to the run, which makes them durable *before* the
update; the advantages are estimated there. When the update is done the callback lets the run take
its checkpoint.

Several processes (`accelerate launch`) roll out and train equal parts of each batch. The first
alone has the run; `ranks.together` works there and gives the result to all. Draws are keyed by a
rollout's place in the whole batch, so that a batch does not depend on the number of processes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer

from rods.buffers.run.run import Run
from rods.canonical import JsonObject, keyed_random
from rods.errors import InfrastructureError
from rods.observations import Group, Update
from rods.trainer import advantages, batches
from rods.trainer.engines.base import RolloutEngine, Sample
from rods.trainer.policy import Batch, Policy, Stopping, TrainingStopped
from rods.trainer.ranks import Ranks
from rods.trainer.training_run import TrainingRun

BROKEN = 3  # such steps in a row end the run; a server that was restarted breaks one


def require_rank0(training: TrainingRun | None) -> TrainingRun:
    """`training`, in the first process, which alone has it."""
    assert training is not None
    return training


class RunTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with its batches, rewards and advantages taken from a run. A subclass
    (rods.trainer.trl_start) sets `rollout_engine` and `weights`, and defines what is not here."""

    rollout_engine: RolloutEngine
    weights: Policy

    def __init__(
        self, run: Run, training: TrainingRun | None, ranks: Ranks, tokenizer: Any, **trl: Any
    ) -> None:
        """`trl`: the model and the arguments that TRL's trainer is given."""
        self.config = run.config
        self.training = training
        self.ranks = ranks
        self.end = tokenizer.eos_token_id
        self.players = run.players
        settings = run.config.training
        self.hook = advantages.load_hook(settings.advantage_hook)
        self.batch: Batch | None = None
        # how it was played, where that was ahead: `policy_step`, and seconds for the log
        self.ahead_of: JsonObject = {}
        # what TRL trains on in this process: samples, and of each its advantages
        self.samples: list[Sample] = []
        self.rollout_advantages: list[advantages.Array] = []
        # where steps may be refilled: all samples and groups of the step, replaced ones too
        self.refilled: tuple[list[Sample], list[Group]] | None = None
        self.broken = 0  # steps in a row of which every rollout met broken machinery
        hooks = _Hooks()
        hooks.trainer = self
        super().__init__(
            reward_funcs=_training_reward,
            # As many passes over the slot numbers as the run has steps: TRL freezes the length of
            # its dataset.
            train_dataset=Dataset.from_dict(
                {"prompt": list(map(str, range(settings.batch_tasks))) * settings.steps}
            ),
            processing_class=tokenizer,
            rollout_func=_roll_out,
            callbacks=[hooks],
            **trl,
        )
        self.remove_callback(PrinterCallback)

    def synchronise(self) -> None:
        """Gives the rollout engine the current weights."""
        raise NotImplementedError

    def recorded(self) -> None:
        """Called once the step is on record, before its update."""
        raise NotImplementedError

    def measured(self) -> Update:
        """What the update that was just done has shown."""
        raise NotImplementedError

    def begin(self) -> None:
        """Restores the resumed checkpoint, or saves the untrained policy. Raises TrainingStopped
        where the run stops here, or while it waits for the daemon."""
        stopping = self.ranks.together(lambda: require_rank0(self.training).begin(self.weights))
        if stopping is not None:
            raise TrainingStopped(stopping)

    def updated(self) -> Stopping | None:
        """Lets the run take its checkpoint after an update; why it stops here, if it does."""
        update = self.measured()
        return self.ranks.together(lambda: require_rank0(self.training).after_update(update))

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        return self._tensor(self.rewards.reshape(-1, 1))

    def _tensor(self, values: advantages.Array) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.accelerator.device)

    def record(self, samples: Sequence[Sample]) -> tuple[advantages.Array, list[advantages.Array]]:
        """Makes the groups of the whole step durable. Returns the rewards and the advantages of
        the rollouts that are trained on, those of replaced groups left out. `samples` are those of
        all processes; where steps may be refilled, those in `refilled` stand in their place."""
        batch = self.batch
        assert batch is not None
        samples, groups = self.refilled or (samples, self._groups(batch, samples))
        broken = all(rollout.reward is None for group in groups for rollout in group.rollouts)
        self.broken = self.broken + 1 if broken else 0
        if self.broken == BROKEN:
            raise InfrastructureError(
                f"the machinery broke in every rollout of {BROKEN} steps in a row: the environment "
                "or the engine → what is logged above says where; then start the same command again"
            )
        estimate = advantages.of_groups(groups, self.config)
        views = batches.rollout_views(batch, groups, samples) if self.hook else ()
        values = advantages.reweighted(replace(estimate, rollouts=views), self.hook)
        if self.config.selection.order == "advantage":
            groups = advantages.with_advantages(groups, values)
        own_tokens = sum(sum(sample.env_mask) for sample in samples)
        all_tokens = sum(len(sample.prompt_ids) + len(sample.env_mask) for sample in samples)
        traces = batches.traces(batch, samples) if batch.traced else ()
        require_rank0(self.training).record(
            batch,
            groups,
            traces,
            **self.ahead_of,
            rollouts=len(samples),
            processes=self.ranks.count,
            read_tokens=all_tokens - own_tokens,
            generated_tokens=own_tokens,
        )
        return estimate.rewards.ravel(), values

    def rollouts(self, batch: Batch, before: int = 0) -> list[Sample]:
        """Rolls out this process's part of a batch, behind so many rollouts of its step."""
        jobs = self.players.jobs(batch.tasks, self.config, batch.rules, batch.interface)
        mine = self.ranks.part(len(jobs))
        seed = keyed_random(self.config.random_seeds.rollouts, "rollouts", batch.step)
        return self.rollout_engine.rollouts(
            jobs[mine], random_seed=seed.getrandbits(63), first=before + mine.start
        )

    def _groups(self, batch: Batch, samples: Sequence[Sample]) -> list[Group]:
        traces = [sample.trace for sample in samples]
        return batches.groups(batch, batches.by_slot(batch, traces), self.config, self.players)

    def roll_out_refilling(self, batch: Batch) -> None:
        """Rolls out a batch and the rounds that refill it (one process does: prerequisites.py);
        sets `samples` to those of the groups that are not replaced, as many as the batch has."""
        every: list[Sample] = []

        def play(further: Batch) -> list[Group]:
            samples = self.rollouts(further, len(every))
            every.extend(samples)
            return self._groups(further, samples)

        self.batch, groups = require_rank0(self.training).roll_out(batch, play)
        played = zip(groups, batches.by_slot(self.batch, every), strict=True)
        self.samples = [
            sample for group, samples in played if not group.replaced for sample in samples
        ]
        self.refilled = every, groups

    def _generate_and_score_completions(self, inputs: Any) -> JsonObject:
        """TRL's batch with the run's advantages in place of TRL's own."""
        output: JsonObject = super()._generate_and_score_completions(inputs)
        if "old_per_token_logps" in output:
            # the loss scores the policy's own tokens alone, with 0 elsewhere (OwnTokenLoss)
            output["old_per_token_logps"] *= output["tool_mask"]
        values = advantages.padded(self.rollout_advantages, output["completion_ids"].shape[1])
        output["advantages"] = self._tensor(values)
        return output


class _Hooks(TrainerCallback):  # type: ignore[misc]
    """Tells the run when policy and optimizer exist and when the weights were updated, and TRL when
    the run is over."""

    trainer: RunTrainer
    share = 1.0  # of the learning rate, in the latest update

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.begin()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.trainer.batch is not None
        self.share = self.trainer.config.training.rate_share(self.trainer.batch.step)
        for group in self.trainer.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self.share

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # all passes over the batch are done
        if state.global_step % self.trainer.config.training.passes == 0:
            control.should_training_stop = self.trainer.updated() is not None

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any
    ) -> None:
        if "learning_rate" in logs:  # TRL's scheduler is constant
            logs["learning_rate"] *= self.share
        if self.trainer.training is not None:
            self.trainer.training.report(logs)


def _roll_out(prompts: list[str], trainer: RunTrainer) -> JsonObject:
    """TRL's `rollout_func`. `prompts` are this process's part of the slot numbers, each repeated
    for the rollouts of its group."""
    config = trainer.config
    ranks = trainer.ranks
    if not trainer.use_vllm:  # where vLLM rolls out, TRL has just done it
        trainer.synchronise()
    trainer.batch = batch = ranks.together(lambda: require_rank0(trainer.training).next_batch())
    ranks.agree(batch.hash())
    count = config.rollouts.rollouts_per_task
    asked = [str(slot.index) for slot in batch.slots for _ in range(count)]
    if prompts != asked[ranks.part(len(asked))]:
        raise RuntimeError("TRL asked for other slots than the batch's: its sampler has changed")
    # What a step draws depends on nothing that was drawn before it: a start has no past to restore,
    # and TRL may draw while it begins.
    torch.manual_seed(
        keyed_random(config.random_seeds.policy, "step", batch.step, ranks.index).getrandbits(63)
    )
    if config.rollouts.refill:
        trainer.roll_out_refilling(batch)
    else:
        trainer.samples = trainer.rollouts(batch)
    played = ranks.gathered(trainer.samples)
    trainer.rewards, values = ranks.together(lambda: trainer.record(played))
    trainer.rollout_advantages = values[ranks.part(len(played))]
    trainer.recorded()
    samples = trainer.samples
    end = trainer.end
    return {
        # TRL needs a token at least: where a prompt overflowed the context, one that counts for
        # nothing stands in
        "prompt_ids": [sample.prompt_ids if sample.completion_ids else [end] for sample in samples],
        "completion_ids": [sample.completion_ids or [end] for sample in samples],
        "env_mask": [sample.env_mask or [0] for sample in samples],
        "logprobs": [sample.logprobs or [0.0] for sample in samples],
    }


def _training_reward(**kwargs: Any) -> list[float]:
    raise RuntimeError("rewards are computed in _calculate_rewards; TRL has changed")
