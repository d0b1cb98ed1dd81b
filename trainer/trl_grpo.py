"""GRPO through TRL: the module that TRL calls (its `rollout_func` is experimental; the pin is
tested).

TRL owns the loop, so a run is driven from inside it. TRL's dataset is a fixed list of slot numbers;
which task fills a slot is the run's business. For every batch: `rollout_func` asks the run for the
next batch and rolls it out; `_calculate_rewards` hands the groups to the run, which makes them
durable *before* the update, and estimates the advantages; when the update is done the callback lets
the run take its checkpoint.

Several processes (`accelerate launch`) roll out and train equal parts of each batch; draws are
keyed by a rollout's place in the whole batch, so that a batch does not depend on their number.
"""

import os
import warnings

# everything is loaded from folders; TRL would also send telemetry
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.nn.functional import pad
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import utils as trl_utils

from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.canonical import keyed_random
from rods.errors import InfrastructureError
from rods.observations import Group, Update
from rods.trainer import advantages, batches, sharding, torch_settings
from rods.trainer.engines.base import Sample
from rods.trainer.engines.choose import compare, rollout_engine, vllm_arguments
from rods.trainer.engines.local import LocalEngine
from rods.trainer.plan import split
from rods.trainer.policy import Batch, Stopping, TrainingStopped
from rods.trainer.policy_weights import Weights
from rods.trainer.ranks import Ranks
from rods.trainer.training_run import TrainingRun
from rods.trainer.weight_files import adapted

BROKEN = 3  # such batches end the run; a server that was restarted breaks one
IGNORED = -100  # a label that is not scored
Scores = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]

# Without Triton, TRL's output head scores every token, prompts and padding too, because some
# devices compile anew for each number of tokens. A CPU does not, so only tokens with a label are
# scored there, too.
trl_utils._use_triton = lambda device: True


def train(training: TrainingRun) -> None:
    """Drives `training` to its end, as the first of all processes. Raises what the run raises
    (TrainingStopped, DeadlineError), and UserError for a policy folder without weights or chat
    template."""
    take_part(training.run, training)


def take_part(run: Run, training: TrainingRun | None = None) -> None:
    """What every process does; only the first has `training`. Raises what `train` raises there."""
    ranks = Ranks()
    if ranks.together(lambda: require_rank0(training).finished):
        return
    for task in run.tasks:
        run.episode(task)  # refuses now what nothing here judges
    transformers_logging.set_verbosity_error()
    # TRL's use of old names
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    torch_settings.settle_threads(
        run.config.operation, otherwise=int(run.config.training.deterministic)
    )
    # torch refuses operations whose results vary between runs
    if run.config.training.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    folder = ranks.together(lambda: starting_weights(require_rank0(training)))
    engine = LocalEngine.load(
        folder,
        run.config.rollouts,
        bf16=torch_settings.bf16(run.config.operation, run.config.policy.kind),
    )
    engine.model = adapted(
        engine.model, run.config.policy.lora_rank, run.config.random_seeds.policy
    )
    _Trainer(run, training, ranks, engine, sharding.checked(run.config)).train()


def require_rank0(training: TrainingRun | None) -> TrainingRun:
    """`training`, in the first process, which alone has it."""
    assert training is not None
    return training


def starting_weights(run: TrainingRun) -> Path:
    """The folder of the untrained policy; nano is built and warm-started first if its cache lacks
    it."""
    if run.config.policy.kind == "transformers":
        return Path(run.config.policy.model)
    from rods.trainer.nano.warm_start import warm_started

    return warm_started(
        run.config, lambda step, steps, loss: run.preparing("warm start", step / steps)
    )


class _Trainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with its batches, rewards and advantages taken from a run."""

    def __init__(
        self,
        run: Run,
        training: TrainingRun | None,
        ranks: Ranks,
        engine: LocalEngine,
        how: sharding.Kind,
    ) -> None:
        self.config = run.config
        self.training = training
        self.ranks = ranks
        self.engine = engine
        # TRL has an attribute `environments` of its own
        self.loaded = run.environments
        self.players = run.players
        settings = run.config.training
        self.hook = advantages.load_hook(settings.advantage_hook)
        self.batch: Batch | None = None
        # of this process, those that TRL trains on, as are their advantages
        self.samples: list[Sample] = []
        # of the whole step, where it may be refilled
        self.refilled: tuple[list[Sample], list[Group]] | None = None
        self.earned: list[advantages.Array] = []
        self.broken = 0  # batches in a row of which no rollout came to its end
        self.gradient_norm: float | None = None  # of the last update, before clipping
        # a micro-batch of a first pass: sum over own tokens, their number
        self._entropy: list[torch.Tensor] = []
        # which tokens of a completion the loss is about, while it is computed
        self._own: torch.Tensor | None = None
        self.shards = sharding.Shards(
            how, engine.model, lambda: self.optimizer, lambda: self.model_wrapped, ranks.first
        )
        super().__init__(
            model=self.shards.trained,
            reward_funcs=_training_reward,
            args=arguments(run, ranks.count, bf16=engine.bf16),
            # As many passes over the slot numbers as the run has steps: TRL freezes the length of
            # its dataset.
            train_dataset=Dataset.from_dict(
                {"prompt": list(map(str, range(settings.batch_tasks))) * settings.steps}
            ),
            processing_class=engine.chat.tokenizer,
            rollout_func=_roll_out,
            callbacks=[hooks := _Hooks()],
        )
        hooks.trainer = self
        self.remove_callback(PrinterCallback)
        self.rollout_engine = rollout = rollout_engine(self, run, engine, ranks)
        if how != "whole" and rollout is engine:
            # what TRL does with a policy that is not spread
            engine.model.to(self.accelerator.device)
        self.weights = Weights(
            run.config, run.players, engine, rollout, self.synchronise, self.shards, ranks
        )

    def synchronise(self) -> None:
        """Gives the rollout engine the current weights."""
        if self.use_vllm:
            self.vllm_generation.sync_weights()
        else:
            self.shards.gather()

    def create_optimizer(self, model: Any = None) -> Any:
        """The run's optimizer over all trained parameters; its learning rate is constant."""
        settings = self.config.training
        self.optimizer = torch_settings.make_optimizer(
            settings.optimizer, self.shards.trained, settings.learning_rate
        )
        return self.optimizer

    def begin(self) -> None:
        """Restores the resumed checkpoint, or saves the untrained policy. Raises TrainingStopped
        where the run stops here."""
        stopping = self.ranks.together(lambda: require_rank0(self.training).begin(self.weights))
        if stopping is not None:
            raise TrainingStopped(stopping)

    def updated(self) -> Stopping | None:
        """Lets the run take its checkpoint after an update; why it stops here, if it does."""
        total, count = self.accelerator.reduce(
            torch.stack(self._entropy).sum(0), reduction="sum"
        ).tolist()
        self._entropy.clear()
        update = Update(total / count if count else None, self.gradient_norm)
        return self.ranks.together(lambda: require_rank0(self.training).after_update(update))

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        self.gradient_norm = float(norm)
        return norm

    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        inputs = self._of_use(inputs)
        self._own = inputs["tool_mask"]
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        self._own = None
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any,
        logits_to_keep: int,
        batch_size: int = 0,
        **options: Any,
    ) -> Scores:
        compute = super()._get_per_token_logps_and_entropies
        rows = batch_size or len(input_ids)
        own = self._own
        scores = score_tokens(
            compute, model, input_ids, attention_mask, logits_to_keep, rows=rows, own=own, **options
        )
        if (
            own is not None
            and scores[1] is not None
            and self.state.global_step % self.config.training.passes == 0
        ):
            scored = own * attention_mask[:, -logits_to_keep:]
            self._entropy.append(
                torch.stack([(scores[1].detach() * scored).sum(), scored.sum()]).double()
            )
        return scores

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        samples = self.ranks.gathered(self.samples)
        rewards, earned = self.ranks.together(lambda: self._recorded(samples))
        self.earned = earned[self.ranks.part(len(samples))]
        return torch.tensor(
            rewards.reshape(-1, 1), dtype=torch.float32, device=self.accelerator.device
        )

    def _recorded(
        self, samples: Sequence[Sample]
    ) -> tuple[advantages.Array, list[advantages.Array]]:
        """Makes the groups of the whole batch durable. Of those that were not replaced: the
        rewards, and every rollout's advantages (rods.trainer.advantages.reweighted). `samples` are
        those of the batch; where it may be refilled, `refilled` has all of them."""
        batch = self.batch
        settings = self.config.training
        assert batch is not None
        samples, groups = self.refilled or (samples, self._groups(batch, samples))
        broken = all(rollout.reward is None for group in groups for rollout in group.rollouts)
        self.broken = self.broken + 1 if broken else 0
        if self.broken == BROKEN:
            raise InfrastructureError(
                f"no rollout of {BROKEN} steps in a row came to its end: the environment or the "
                f"engine is broken → "
                "what is logged above says where; then start the same command again"
            )
        earnings = [
            [rollout.reward for rollout in group.rollouts] for group in groups if not group.replaced
        ]
        estimate = advantages.estimated(
            earnings, settings.advantage_baseline, settings.advantage_scale
        )
        views = batches.rollout_views(batch, groups, samples) if self.hook else ()
        earned = advantages.reweighted(replace(estimate, rollouts=views), self.hook)
        if self.config.selection.order == "advantage":
            groups = advantages.with_advantages(groups, earned)
        own = sum(sum(sample.env_mask) for sample in samples)
        read = sum(len(sample.prompt_ids) + len(sample.env_mask) for sample in samples) - own
        spent = {
            "rollouts": len(samples),
            "processes": self.ranks.count,
            "read_tokens": read,
            "generated_tokens": own,
        }
        kept = batches.traces(batch, samples) if batch.traced else ()
        require_rank0(self.training).record(batch, groups, kept, **spent)
        return estimate.rewards.ravel(), earned

    def _groups(self, batch: Batch, samples: Sequence[Sample]) -> list[Group]:
        traces = [sample.trace for sample in samples]
        return batches.groups(batch, batches.by_slot(batch, traces), self.config, self.loaded)

    def roll_out_refilling(self, batch: Batch, random_seed: int) -> None:
        """Rolls out a batch, in the only process, and what refills it; `samples` are as many as it
        has."""
        every: list[Sample] = []

        def play(further: Batch) -> list[Group]:
            jobs = batches.jobs(further, self.config, self.players)
            samples = self.rollout_engine.rollouts(jobs, random_seed=random_seed, first=len(every))
            every.extend(samples)
            return self._groups(further, samples)

        self.batch, groups = require_rank0(self.training).roll_out(batch, play)
        played = zip(groups, batches.by_slot(self.batch, every), strict=True)
        self.samples = [
            sample for group, samples in played if not group.replaced for sample in samples
        ]
        self.refilled = every, groups

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """TRL's batch with the run's advantages in place of TRL's own."""
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if "old_per_token_logps" in output:
            # as they are scored again for the loss (score_tokens)
            output["old_per_token_logps"] *= output["tool_mask"]
        if self.use_vllm:
            compare(output, self.ranks)
        width = output["completion_ids"].shape[1]
        rows = [
            np.pad(row, (0, width - len(row))) if len(row) > 1 else np.full(width, row[0])
            for row in self.earned
        ]
        per_token = any(len(row) > 1 for row in self.earned)
        earned = np.stack(rows) if per_token else np.concatenate(self.earned)
        output["advantages"] = torch.tensor(
            earned, dtype=torch.float32, device=self.accelerator.device
        )
        return output

    def _of_use(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """`inputs` without the rollouts whose advantage is 0, where nothing but advantages makes a
        gradient: they count in the number of tokens that the loss is divided by, but need no
        passes."""
        settings = self.config.training
        values = inputs["advantages"]
        if settings.kl or settings.loss != "token" or self.aux_loss_enabled:
            return inputs
        rows = (values.reshape(len(values), -1) != 0).any(1).nonzero()[:, 0]
        if not len(rows):
            return inputs
        return {
            name: value[rows] if torch.is_tensor(value) and value.ndim else value
            for name, value in inputs.items()
        }


class _Hooks(TrainerCallback):  # type: ignore[misc]
    """Tells the run when policy and optimizer exist and when the weights were updated, and TRL when
    the run is over."""

    trainer: _Trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # all passes over the batch are done
        if state.global_step % self.trainer.config.training.passes == 0:
            control.should_training_stop = self.trainer.updated() is not None

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any], **kwargs: Any
    ) -> None:
        if self.trainer.training is not None:
            self.trainer.training.trackers.log(logs, self.trainer.training.step)


def _roll_out(prompts: list[str], trainer: _Trainer) -> dict[str, Any]:
    """TRL's `rollout_func`. `prompts` are slot numbers, each repeated for its group: this process's
    part of them."""
    config = trainer.config
    ranks = trainer.ranks
    if not trainer.use_vllm:  # TRL has done it otherwise
        trainer.synchronise()
    trainer.batch = batch = ranks.together(lambda: require_rank0(trainer.training).next_batch())
    ranks.agree(batch.hash())
    every = batches.jobs(batch, config, trainer.players)
    mine = ranks.part(len(every))
    count = config.rollouts.rollouts_per_task
    if prompts != [str(slot.index) for slot in batch.slots for _ in range(count)][mine]:
        raise RuntimeError("TRL asked for other slots than the batch's: its sampler has changed")
    seed = keyed_random(config.random_seeds.rollouts, "rollouts", batch.step).getrandbits(63)
    # What a step draws depends on nothing that was drawn before it: a start has no past to restore,
    # and TRL may draw while it begins.
    torch.manual_seed(
        keyed_random(config.random_seeds.policy, "step", batch.step, ranks.index).getrandbits(63)
    )
    if config.rollouts.refill:
        trainer.roll_out_refilling(batch, seed)
    else:
        trainer.samples = trainer.rollout_engine.rollouts(
            every[mine], random_seed=seed, first=mine.start
        )
    samples = trainer.samples
    end = trainer.engine.chat.tokenizer.eos_token_id
    return {
        # TRL needs a token to look at: where a prompt overflowed the context that is one which does
        # not count
        "prompt_ids": [sample.prompt_ids if sample.completion_ids else [end] for sample in samples],
        "completion_ids": [sample.completion_ids or [end] for sample in samples],
        "env_mask": [sample.env_mask or [0] for sample in samples],
        "logprobs": [sample.logprobs or [0.0] for sample in samples],
    }


def _training_reward(**kwargs: Any) -> list[float]:
    raise RuntimeError("rewards are computed in _calculate_rewards; TRL has changed")


def arguments(run: Run, processes: int, *, bf16: bool) -> GRPOConfig:
    """What TRL is told. Raises UserError for batches that do not split over `processes`."""
    config = run.config
    training = config.training
    rollouts = config.rollouts
    operation = config.operation
    sequences, micro_batch = split(config, processes)
    accumulated = sequences // processes // micro_batch
    gpu = torch.cuda.is_available()
    told = GRPOConfig(
        output_dir=str(run.path / runfolder.LOGS),  # TRL writes nothing there, tensorboard below it
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=accumulated,
        steps_per_generation=accumulated,
        # set below: TRL refuses groups of one, whose advantages it would compute
        num_generations=sequences,
        num_iterations=training.passes,
        max_steps=training.steps * training.passes,
        shuffle_dataset=False,
        ignore_data_skip=True,
        max_completion_length=rollouts.max_context_tokens,
        temperature=rollouts.temperature,
        top_p=rollouts.top_p,
        beta=training.kl,
        epsilon=training.clip_low,
        epsilon_high=training.clip_high,
        scale_rewards="none",  # TRL's own advantages are replaced
        loss_type="dapo" if training.loss == "token" else "grpo",
        learning_rate=training.learning_rate,
        lr_scheduler_type="constant",
        bf16=bf16,
        gradient_checkpointing=gpu and config.policy.kind == "transformers",
        use_cpu=not gpu,
        ddp_find_unused_parameters=False,
        seed=config.random_seeds.policy,
        disable_tqdm=True,
        logging_strategy="steps" if operation.report_to else "no",
        logging_steps=1,
        save_strategy="no",
        report_to=[],  # what it logs goes to the run's own trackers
        **vllm_arguments(config),
    )
    told.num_generations = rollouts.rollouts_per_task
    return told


def score_tokens(
    compute: Callable[..., Scores],
    model: Callable[..., Any],
    ids: torch.Tensor,
    seen: torch.Tensor,
    completion: int,
    *,
    rows: int,
    own: torch.Tensor | None,
    **options: Any,
) -> Scores:
    """Log-probabilities and entropies of the last `completion` columns of `ids`, [batch,
    completion], and a mixture's balancing loss, by TRL's `compute`, `rows` at a time; without the
    columns that are padding in all of these rows (TRL pads to the longest of a whole batch), and
    without the tokens that are not the policy's: both get 0.

    `seen` is 0 for padding: prompts are padded on the left, completions on the right, and none of
    them is empty. `own` [batch, completion] is 0 for tokens that are not to be scored.
    """
    logps: list[torch.Tensor] = []
    entropies: list[torch.Tensor] = []
    balance: list[torch.Tensor] = []
    for start in range(0, len(ids), rows):
        part = slice(start, start + rows)
        used = seen[part].any(0).nonzero()[:, 0]
        first = int(used[0])
        last = int(used[-1]) + 1
        behind = ids.shape[1] - last  # columns of padding
        scored = model if own is None else _only(model, own[part, : completion - behind])
        inside = part, slice(first, last)
        logp, entropy, loss = compute(
            scored, ids[inside], seen[inside], completion - behind, **options
        )
        logps.append(pad(logp, (0, behind)))
        if entropy is not None:
            entropies.append(pad(entropy, (0, behind)))
        if loss is not None:
            balance.append(loss)
    mean_balance = torch.stack(balance).mean() if balance else None
    return torch.cat(logps), torch.cat(entropies) if entropies else None, mean_balance


def _only(model: Callable[..., Any], own: torch.Tensor) -> Callable[..., Any]:
    """`model`, called with labels for the tokens that are `own` and no others."""

    def called(*, labels: torch.Tensor, **inputs: Any) -> Any:
        behind = labels.shape[1] - own.shape[1]
        return model(**inputs, labels=labels.masked_fill(pad(own, (behind, 0)) == 0, IGNORED))

    return called
