"""GRPO through TRL: the one module that knows TRL (its `rollout_func` is experimental; the pin is tested).

TRL owns the loop, so a run is driven from inside it. TRL's dataset is a fixed list of slot numbers; which task fills a
slot is the run's business. For every batch: `rollout_func` asks the run for the next batch and rolls it out;
`_calculate_rewards` hands the groups to the run, which makes them durable *before* the update; when the update is done
the callback lets the run take its checkpoint. A reward of None (an infrastructure failure) becomes advantage 0.
"""

from __future__ import annotations

import os
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is loaded from folders; TRL would also send telemetry
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from safetensors.torch import load_file
from torch.optim.lr_scheduler import LambdaLR
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig, GRPOTrainer

from rods import dialects, environments
from rods.canonical import keyed_random
from rods.config import Config
from rods.driving import Job
from rods.errors import UserError
from rods.goals import GroundTruth
from rods.observations import Group
from rods.rewards import RANGES, score
from trainer import optimizers
from trainer.policy import Batch
from trainer.rollouts import Engine, Sample

if TYPE_CHECKING:
    from trainer.training_run import TrainingRun

OPTIMIZER, GENERATORS = "optimizer.pt", "generators.pt"


def train(run: TrainingRun) -> None:
    """Drives `run` to its end. Raises what the run raises (TrainingStopped, DeadlineError), and UserError for a policy
    folder without weights or chat template."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("one process trains a run", remedy="start rods-train without a distributed launcher")
    config = run.config
    _settle_torch(config)
    engine = Engine.load(starting_weights(run), config.rollouts)
    trainer = _Trainer(run, engine)
    run.begin(_Weights(trainer, engine))
    if run.stopping is None:
        trainer.train()


def starting_weights(run: TrainingRun) -> Path:
    """The folder of the untrained policy; nano is built and warm-started first if its cache lacks it."""
    if run.config.policy.kind == "transformers":
        return Path(run.config.policy.model)
    from trainer.nano.warm_start import warm_started

    return warm_started(run.config, lambda step, steps, loss: run.preparing("warm start", step / steps))


class _Trainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with its batches and rewards taken from a run."""

    def __init__(self, run: TrainingRun, engine: Engine) -> None:
        self.run, self.engine = run, engine
        self.batch: Batch | None = None
        self.samples: list[Sample] = []
        self.generators: list[torch.Tensor] | None = None  # of the checkpoint that is resumed
        config = run.config
        optimizer = optimizers.make(config.training.optimizer, engine.model, config.training.learning_rate)
        super().__init__(
            model=engine.model,
            reward_funcs=_training_reward,
            args=_arguments(run, engine),
            train_dataset=_slots(config),
            processing_class=engine.chat.tokenizer,
            rollout_func=_roll_out,
            callbacks=[_AfterUpdate(run)],
            optimizers=(optimizer, LambdaLR(optimizer, lambda step: 1.0)),
        )
        self.remove_callback(PrinterCallback)

    def restore_generators(self) -> None:
        """Puts torch's generators where the resumed checkpoint left them. Not before the first batch: TRL draws from
        them while it starts up, and later to shuffle every batch."""
        if self.generators is not None:
            torch.set_rng_state(self.generators[0])
            if torch.cuda.is_available() and len(self.generators) > 1:
                torch.cuda.set_rng_state_all(self.generators[1:])
            self.generators = None

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        batch, samples = self.batch, self.samples
        assert batch is not None
        groups = _groups(batch, samples, self.run.config)
        self.run.record(batch, groups, _traces(batch, samples) if batch.traced else ())
        rewards = [rollout.reward for group in groups for rollout in group.rollouts]
        return torch.tensor(
            [[torch.nan if reward is None else reward] for reward in rewards],
            dtype=torch.float32,
            device=self.accelerator.device,
        )


class _AfterUpdate(TrainerCallback):  # type: ignore[misc]
    """Tells the run that the weights have been updated, and TRL when the run is over."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.run.after_update()
        control.should_training_stop = self.run.stopping is not None


class _Weights:
    """What a checkpoint holds of the policy: a folder that transformers and vLLM load, the optimizer, torch's
    generators. The rollouts' own draws are keyed by the step and need no state."""

    def __init__(self, trainer: _Trainer, engine: Engine) -> None:
        self.trainer, self.engine = trainer, engine

    def save(self, folder: Path) -> None:
        self.engine.model.save_pretrained(folder)
        self.engine.chat.tokenizer.save_pretrained(folder)
        torch.save(self._optimizer().state_dict(), folder / OPTIMIZER)
        torch.save([torch.get_rng_state(), *torch.cuda.get_rng_state_all()], folder / GENERATORS)

    def load(self, folder: Path) -> None:
        try:
            weights = load_file(folder / "model.safetensors")
            optimizer = torch.load(folder / OPTIMIZER, weights_only=True)
            generators = torch.load(folder / GENERATORS, weights_only=True)
            self.engine.model.load_state_dict(weights, strict=not self.engine.model.config.tie_word_embeddings)
            self._optimizer().load_state_dict(optimizer)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise UserError(
                f"the checkpoint does not fit this policy ({str(error).splitlines()[0]})",
                where=str(folder),
                remedy="remove that checkpoint folder; the run continues from the one before",
            ) from error
        self.trainer.generators = generators

    def _optimizer(self) -> Any:
        return self.trainer.optimizer


def _roll_out(prompts: list[str], trainer: _Trainer) -> dict[str, Any]:
    """TRL's `rollout_func`. `prompts` are slot numbers, each repeated for its group."""
    run = trainer.run
    trainer.restore_generators()
    batch = run.next_batch()
    count = run.config.rollouts.rollouts_per_task
    if prompts != [str(slot.index) for slot in batch.slots for _ in range(count)]:
        raise RuntimeError("TRL asked for other slots than the batch's: its sampler has changed")
    seed = keyed_random(run.config.random_seeds.rollouts, "rollouts", batch.step).getrandbits(63)
    samples = trainer.engine.rollouts(jobs(batch, run.config), random_seed=seed)
    trainer.batch, trainer.samples = batch, samples
    end = trainer.engine.chat.tokenizer.eos_token_id
    return {
        "prompt_ids": [sample.prompt_ids for sample in samples],
        # TRL needs a token to look at: a prompt that overflowed the context gets one that does not count
        "completion_ids": [sample.completion_ids or [end] for sample in samples],
        "env_mask": [sample.env_mask or [0] for sample in samples],
        "logprobs": None,
    }


def jobs(batch: Batch, config: Config) -> list[Job]:
    """The episodes of a batch, slot by slot."""
    dialect = dialects.load(config.policy.dialect, batch.rules.prompt)
    found: list[Job] = []
    for slot in batch.slots:
        environment = environments.load(slot.task.environment.name)
        goal = GroundTruth(environment, slot.task)
        job = Job(slot.task, environment, dialect, goal, max_steps=config.rollouts.max_steps)
        found += [job] * config.rollouts.rollouts_per_task
    return found


def _groups(batch: Batch, samples: Sequence[Sample], config: Config) -> list[Group]:
    count = config.rollouts.rollouts_per_task
    return [
        Group(
            slot.task.id,
            batch.stage,
            "identity",
            batch.reward,
            RANGES[batch.reward],
            tuple(
                score(sample.trace, batch.reward) for sample in samples[slot.index * count : (slot.index + 1) * count]
            ),
            slot.role,
        )
        for slot in batch.slots
    ]


def _traces(batch: Batch, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    count = len(samples) // len(batch.slots)
    return [
        {"slot": index // count, "rollout": index % count, "spans": sample.spans, **sample.trace.as_json()}
        for index, sample in enumerate(samples)
    ]


def _training_reward(**kwargs: Any) -> list[float]:
    raise RuntimeError("rewards are computed in _calculate_rewards; TRL has changed")


def _slots(config: Config) -> Dataset:
    """As many passes over the slot numbers as the run has steps: TRL freezes the length of its dataset."""
    numbers = [str(slot) for slot in range(config.training.batch_tasks)]
    return Dataset.from_dict({"prompt": numbers * config.training.steps})


def _arguments(run: TrainingRun, engine: Engine) -> GRPOConfig:
    config = run.config
    training, rollouts = config.training, config.rollouts
    sequences = training.batch_tasks * rollouts.rollouts_per_task
    micro_batch = config.operation.micro_batch or sequences
    if sequences % micro_batch:
        raise UserError(
            f"{sequences} sequences a step do not split into micro-batches of {micro_batch}",
            where="operation.micro_batch",
            remedy="choose a divisor of batch_tasks × rollouts_per_task, or 0 for one pass",
        )
    gpu = torch.cuda.is_available()
    large = config.policy.kind == "transformers"
    return GRPOConfig(
        output_dir=str(run.path / "checkpoints"),  # TRL itself writes nothing there
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=sequences // micro_batch,
        steps_per_generation=sequences // micro_batch,
        num_generations=rollouts.rollouts_per_task,
        max_steps=training.steps,
        shuffle_dataset=False,
        ignore_data_skip=True,
        dataloader_num_workers=0,
        max_completion_length=rollouts.max_context_tokens,
        temperature=rollouts.temperature,
        top_p=rollouts.top_p,
        beta=training.kl,
        epsilon=training.clip_low,
        epsilon_high=training.clip_high,
        scale_rewards=training.advantage_scale,
        loss_type="dapo",
        learning_rate=training.learning_rate,
        bf16=gpu and large and torch.cuda.is_bf16_supported(),
        gradient_checkpointing=gpu and large,
        use_cpu=not gpu,
        seed=config.random_seeds.policy,
        full_determinism=False,
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to=[],
    )


def _settle_torch(config: Config) -> None:
    transformers_logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # TRL's use of old names
    if config.operation.threads or config.training.deterministic:
        torch.set_num_threads(config.operation.threads or 1)
    if config.training.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
