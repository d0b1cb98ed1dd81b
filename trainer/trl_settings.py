"""A run's configuration in the terms of TRL and torch."""

from __future__ import annotations

import os
import warnings

import torch
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig

from buffers.run.run import Run
from rods import runfolder
from rods.config import Config
from trainer import precision
from trainer.engines.choose import vllm_arguments
from trainer.plan import split


def arguments(run: Run, processes: int, *, bf16: bool) -> GRPOConfig:
    """What TRL is told. Raises UserError for batches that do not split over `processes`."""
    config = run.config
    training, rollouts = config.training, config.rollouts
    sequences, micro_batch = split(config, processes)
    gpu = torch.cuda.is_available()
    large = config.policy.kind == "transformers"
    made = GRPOConfig(
        output_dir=str(run.path / runfolder.LOGS),  # TRL writes nothing there, tensorboard below it
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=sequences // processes // micro_batch,
        steps_per_generation=sequences // processes // micro_batch,
        num_generations=sequences,  # set below: TRL refuses groups of one, whose advantages it would compute
        num_iterations=training.passes,
        max_steps=training.steps * training.passes,
        shuffle_dataset=False,
        ignore_data_skip=True,
        dataloader_num_workers=0,
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
        gradient_checkpointing=gpu and large,
        use_cpu=not gpu,
        ddp_find_unused_parameters=False,
        seed=config.random_seeds.policy,
        full_determinism=False,
        disable_tqdm=True,
        logging_strategy="steps" if config.operation.report_to else "no",
        logging_steps=1,
        save_strategy="no",
        eval_strategy="no",
        report_to=list(config.operation.report_to),
        run_name=run.name,
        **vllm_arguments(config),
    )
    made.num_generations = rollouts.rollouts_per_task
    return made


def settle_torch(config: Config) -> None:
    """Threads, determinism, and no chatter of libraries, as the configuration says."""
    transformers_logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # TRL's use of old names
    precision.settle_threads(config.operation, otherwise=int(config.training.deterministic))
    if config.training.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
