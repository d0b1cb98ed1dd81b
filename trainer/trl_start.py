"""Starts GRPO through TRL: the policy's weights, how they are spread over processes, the rollout
engine, the optimizer, and what TRL is told."""

import os
import warnings

from rods.canonical import JsonObject

# everything is loaded from folders; TRL would also send telemetry
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import SafetensorError
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig
from trl.trainer import grpo_trainer, utils as trl_utils

from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.errors import UserError
from rods.gates.ground_truth import Room
from rods.logs import log
from rods.trainer import fit, sharding, torch_settings
from rods.trainer.ahead import Ahead
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Sample
from rods.trainer.engines.choose import compare, rollout_engine, vllm_arguments
from rods.trainer.engines.local import LocalEngine
from rods.trainer.policy import Batch
from rods.trainer.policy_weights import Weights
from rods.trainer.prerequisites import split
from rods.trainer.ranks import Ranks
from rods.trainer.token_scores import OwnTokenLoss
from rods.trainer.training_run import TrainingRun
from rods.trainer.trl_grpo import RunTrainer, require_rank0
from rods.trainer.weight_files import adapted, save_plain

# Without Triton, TRL's output head scores every token, prompts and padding too, because some
# devices compile anew for each number of tokens. A CPU does not, so only tokens with a label are
# scored there, too.
trl_utils._use_triton = lambda device: True
# A batch is one update, in which the order of rollouts moves rounding alone. As they come, those of
# a task stand together and are padded alike.
grpo_trainer.shuffle_sequence_dict = lambda batch: batch


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
    policy = run.config.policy
    chat = Chat.load(folder, policy)
    for task in run.tasks[:1] if policy.kind == "transformers" else ():
        fit.check(chat, *fit.shown(run.config, run.players, task))
        room = Room.of(run.config) if ranks.first else None
        if room and (cramped := room.cramped(run.training.tasks, run.environments.load)):
            log.warning(cramped)
    bf16 = torch_settings.bf16(run.config.operation, policy.kind)
    engine = LocalEngine(load_shared(chat, ranks), chat, run.config.rollouts, bf16=bf16)
    engine.model = adapted(engine.model, policy, run.config.random_seeds.policy)
    WeightTrainer(run, training, ranks, engine, sharding.checked(run.config)).train()


def load_shared(chat: Chat, ranks: Ranks) -> Any:
    """The model, in memory that the processes of a node share until they write to it: the first of
    them writes its float32 into a temporary file, and all map that. Raises UserError, in every
    process, where one cannot load it."""
    if ranks.count == 1:
        return chat.load_model()
    with TemporaryDirectory(prefix="rods-weights-") as folder:
        place: str | UserError = ""
        if ranks.first_of_node:
            try:
                save_plain(chat.load_model(), Path(folder))
                place = folder
            except UserError as error:
                place = error
            except (OSError, SafetensorError) as error:
                remedy = "set TMPDIR to a folder with 4 bytes a parameter free"
                place = UserError(f"cannot hold the weights: {error}", where=folder, remedy=remedy)
        places = ranks.gathered([place])
        for place in places:
            if isinstance(place, UserError):
                raise place
        # that of the node's first, whose processes have ranks in a row
        nearest = [place for place in places[: ranks.index + 1] if place][-1]
        model = chat.load_model(Path(str(nearest)))
        model.config._name_or_path = str(chat.folder)  # TRL loads a reference policy from there
        ranks.gathered([""])  # the file goes when all have it
    return model


def starting_weights(run: TrainingRun) -> Path:
    """The folder of the untrained policy; nano is built and warm-started first if its cache lacks
    it."""
    if run.config.policy.kind == "transformers":
        return Path(run.config.policy.model)
    from rods.trainer.nano.warm_start import warm_started

    return warm_started(
        run.config, lambda step, steps, loss: run.preparing("warm start", step / steps)
    )


class WeightTrainer(OwnTokenLoss, RunTrainer):
    """The trainer of a run with the policy's weights, in this process."""

    def __init__(
        self,
        run: Run,
        training: TrainingRun | None,
        ranks: Ranks,
        engine: LocalEngine,
        how: sharding.Kind,
    ) -> None:
        self.engine = engine
        self.ahead = Ahead()
        self.shards = sharding.Shards(
            how, engine.model, lambda: self.optimizer, lambda: self.model_wrapped, ranks.first
        )
        settings = arguments(run, ranks.count, bf16=engine.bf16)
        super().__init__(
            run, training, ranks, engine.chat.tokenizer, model=self.shards.trained, args=settings
        )
        self.rollout_engine = rollout = rollout_engine(self, run, engine, ranks)
        self.shards.copied = ranks.first or rollout is engine
        if how != "whole" and rollout is engine:
            # what TRL does with a policy that is not spread
            engine.model.to(self.accelerator.device)
        self.weights = Weights(
            run.config,
            run.players,
            engine,
            rollout,
            self.synchronise,
            self.shards,
            ranks,
            self.ahead,
        )

    def synchronise(self) -> None:
        if self.use_vllm:
            self.vllm_generation.sync_weights()
        else:
            self.shards.gather()

    def recorded(self) -> None:
        """Has the next batch played during the update, where that is to be (`rollouts.ahead`)."""
        ahead = self.config.rollouts.ahead
        if ahead and (batch := require_rank0(self.training).batch_ahead()):
            self.ahead.begin(batch, partial(super().rollouts, batch))

    def rollouts(self, batch: Batch, before: int = 0) -> list[Sample]:
        self.ahead_of, played = self.ahead.taken(batch)
        return super().rollouts(batch, before) if played is None else played

    def create_optimizer(self, model: Any = None) -> Any:
        """The run's optimizer over all trained parameters."""
        settings = self.config.training
        self.optimizer = torch_settings.make_optimizer(
            settings.optimizer, self.shards.trained, settings.learning_rate
        )
        return self.optimizer

    def _generate_and_score_completions(self, inputs: Any) -> JsonObject:
        output = super()._generate_and_score_completions(inputs)
        if self.use_vllm:
            compare(output, self.ranks)
        return output


def arguments(run: Run, processes: int, *, bf16: bool) -> GRPOConfig:
    """What TRL is told. Raises UserError for batches that do not split over `processes`."""
    config = run.config
    training = config.training
    rollouts = config.rollouts
    operation = config.operation
    gpu = torch.cuda.is_available()
    sequences, micro_batch = split(config, processes, gpu=gpu)
    accumulated = sequences // processes // micro_batch
    settings = GRPOConfig(
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
        report_to=[],  # what it logs goes to the run's own reporters
        **vllm_arguments(config),
    )
    settings.num_generations = rollouts.rollouts_per_task
    return settings
