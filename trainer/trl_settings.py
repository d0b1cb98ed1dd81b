"""A run's configuration in the terms of TRL: its GRPOConfig and what it is told about vLLM."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import torch
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig

from buffers.run import runfolder
from buffers.run.run import Run
from rods.config import Config
from rods.errors import UserError
from trainer import torch_settings
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


def vllm_arguments(config: Config) -> dict[str, Any]:
    """What TRL's GRPOConfig is told about vLLM. Raises UserError for what cannot run here."""
    training, operation = config.training, config.operation
    arguments: dict[str, Any] = {"vllm_importance_sampling_correction": training.engine_correction != "none"}
    if training.engine_correction != "none":
        arguments["vllm_importance_sampling_mode"] = training.engine_correction
        arguments["vllm_importance_sampling_clip_max"] = training.engine_correction_max
    if operation.colocated:
        _needs_vllm("operation.colocated")
        return arguments | {
            "use_vllm": True,
            "vllm_mode": "colocate",
            "vllm_gpu_memory_utilization": operation.colocated_memory,
            "vllm_max_model_length": config.rollouts.max_context_tokens,
        }
    if operation.rollout_servers and operation.weight_transfer == "nccl":
        _needs_vllm("operation.weight_transfer")
        if not torch.cuda.is_available():
            raise UserError(
                "weights go over NCCL between GPUs, and this machine has none",
                where="operation.weight_transfer",
                remedy='use weight_transfer = "disk"',
            )
        base = operation.rollout_servers[0].urls[0].removesuffix("/").removesuffix("/v1")
        return arguments | {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": base}
    return arguments


def _needs_vllm(where: str) -> None:
    if find_spec("vllm") is None:
        raise UserError(
            "vLLM is not installed beside the trainer",
            where=where,
            remedy="install what trl[vllm] names here, or let a server in an environment of its own do the rollouts "
            '([[operation.rollout_servers]], weight_transfer = "disk")',
        )


def settle_torch(config: Config) -> None:
    """Sets threads and determinism as the configuration says, and silences the libraries' warnings."""
    transformers_logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # TRL's use of old names
    torch_settings.settle_threads(config.operation, otherwise=int(config.training.deterministic))
    if config.training.deterministic:
        torch_settings.settle_determinism()
