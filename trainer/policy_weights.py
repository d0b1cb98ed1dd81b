"""A policy with weights as a run sees it, and its files.

A checkpoint holds a folder that transformers and vLLM load, the optimizer's state, and torch's generators of every
process. The rollouts' own draws are keyed by the step and need no state.

With LoRA (`policy.lora_rank`, through peft) small matrices are trained beside frozen weights. Whoever loads a
checkpoint still finds plain weights: what was learnt is added to a copy of the frozen weights when they are saved. The
model itself is never merged and unmerged, which would accumulate rounding errors. The files are transformers' own. It
names and splits weights differently in files and models (a model keeps all experts of a layer of a mixture in one
tensor, its files each in one of its own), so it must read them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from buffers.checkpoints import ADOPTED
from rods.config import Config
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.tasks import Task
from trainer.batches import scoring_jobs
from trainer.engines.base import RolloutEngine
from trainer.engines.local import LocalEngine
from trainer.ranks import Ranks
from trainer.sharding import Shards

GENERATORS = "generators.pt"
ADAPTER = "adapter.pt"  # no .safetensors: servers load all of those in a folder


class Weights:
    """Saved by the first process, restored by all of them. Validation uses the rollout engine `rollouts`, after
    `synchronise` has given it the current weights."""

    def __init__(
        self,
        config: Config,
        environments: Environments,
        engine: LocalEngine,
        rollouts: RolloutEngine,
        synchronise: Callable[[], None],
        shards: Shards,
        ranks: Ranks,
    ) -> None:
        self.synchronise = synchronise
        self.config, self.environments = config, environments
        self.engine, self.rollouts, self.shards, self.ranks = engine, rollouts, shards, ranks
        self._generators: list[torch.Tensor] | None = None
        ranks.services = {
            "gather": self._gather,
            "generators": self._all_generators,
            "restore": self._restore,
            "validate": self._validate,
        }

    def save(self, folder: Path) -> None:
        """Writes the policy into the empty `folder` (trainer.policy.Policy)."""
        self.ranks.ask("gather", folder)
        save_plain(self.engine.model, folder)
        save_adapter(self.engine.model, folder)
        self.engine.chat.tokenizer.save_pretrained(folder)
        torch.save(self.ranks.ask("generators"), folder / GENERATORS)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote, in every process. Raises UserError when the files do not fit the policy."""
        self.ranks.ask("restore", folder)

    def validate(self, tasks: Sequence[Task]) -> list[float | None]:
        """Greedy rollouts, shared out over all processes (trainer.policy.Policy)."""
        return self.ranks.ask("validate", tuple(tasks))  # type: ignore[no-any-return]

    def restore_generators(self) -> None:
        """Puts torch's generators where the latest checkpoint, taken or resumed, left them. Called before every batch:
        TRL draws from them while it starts, and to shuffle every batch."""
        if self._generators is not None:
            torch.set_rng_state(self._generators[0])
            if torch.cuda.is_available() and len(self._generators) > 1:
                torch.cuda.set_rng_state(self._generators[1])
            self._generators = None

    def _validate(self, tasks: Sequence[Task]) -> list[float | None]:
        mine = tasks[self.ranks.index :: self.ranks.count]
        self.synchronise()
        jobs = scoring_jobs(mine, self.config, self.environments)
        samples = self.rollouts.rollouts(jobs, random_seed=0, greedy=True)
        earned = [
            None if one.trace.end == "infrastructure" else one.trace.resolved / one.trace.expected for one in samples
        ]
        found = dict(self.ranks.gathered([(task.id, score) for task, score in zip(mine, earned, strict=True)]))
        return [found[task.id] for task in tasks]

    def _gather(self, folder: Path) -> None:
        self.shards.gather()
        self.shards.save_optimizer(folder)

    def _all_generators(self) -> list[list[torch.Tensor]]:
        """A list a process: the generator of the CPU, then that of its GPU if it has one. It may see the others' GPUs,
        which another start need not have. The next batch begins with them, here as after a resume: TRL may draw in
        between."""
        self._generators = [torch.get_rng_state()]
        if torch.cuda.is_available():
            self._generators.append(torch.cuda.get_rng_state())
        return self.ranks.gathered([self._generators])

    def _restore(self, folder: Path) -> None:
        model, adopted = self.engine.model, (folder / ADOPTED).exists()
        try:
            generators = torch.load(folder / GENERATORS, weights_only=True)
            if not load_adapter(model, folder):
                load_plain(model, folder)
            self.shards.scatter()
            if adopted:  # the run's first start, or one that took no step
                self.shards.begin_optimizer()
            else:
                self.shards.load_optimizer(folder)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            remedy = "remove that checkpoint folder; the run continues from the one before"
            if adopted:  # there is none before, and without it the run would train policy.model
                remedy = "fork without --weights, and name this folder in policy.model of the new run's configuration"
            raise UserError(
                f"the checkpoint does not fit this policy ({str(error).splitlines()[0]})",
                where=str(folder),
                remedy=remedy,
            ) from error
        if self.ranks.index < len(generators):  # a start with more processes than before has new ones for the rest
            self._generators = generators[self.ranks.index]


def adapted(model: Any, rank: int, random_seed: int) -> Any:
    """`model` with matrices of `rank` beside all its linear layers, of which only they are trained; scale 2. Half of
    them begin with draws of `random_seed`, the others at 0. The model itself for rank 0."""
    if not rank:
        return model
    from peft import LoraConfig, get_peft_model

    with torch.random.fork_rng():
        torch.manual_seed(random_seed)
        return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))


def save_plain(model: Any, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Writes plain weights and their config into `folder`, as transformers and vLLM load them; rounded to `dtype` when
    one is given."""
    base, plain = _plain(model) if _is_adapted(model) else (model, model.state_dict())
    if dtype is not None:  # on the CPU, where there is room for a copy; tied weights stay one
        copies = {(value.data_ptr(), value.shape): value.to("cpu", dtype) for value in plain.values()}
        plain = {name: copies[value.data_ptr(), value.shape] for name, value in plain.items()}
    base.save_pretrained(folder, state_dict=plain)


def load_plain(model: Any, folder: Path) -> None:
    """Restores what `save_plain` wrote, unrounded, into a model without an adapter: the same parameters get its values,
    so that an optimizer keeps them. Raises OSError, RuntimeError, ValueError for files that lack a weight, have one too
    many, or one of another shape."""
    options = {"dtype": model.dtype, "output_loading_info": True, "ignore_mismatched_sizes": True}
    with _unpartitioned():
        written, found = type(model).from_pretrained(folder, local_files_only=True, **options)
    found["mismatched_keys"] = [name for name, *_ in found["mismatched_keys"]]  # beside both shapes
    # The second of two tied names is neither missing nor unexpected.
    for kind, how in (("missing", "missing"), ("unexpected", "unexpected"), ("mismatched", "of another shape")):
        if names := sorted(found[f"{kind}_keys"]):
            raise RuntimeError(f"weights that are {how}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}")
    model.load_state_dict(written.state_dict())


@contextmanager
def _unpartitioned() -> Iterator[None]:
    """A context in which transformers loads whole models: under ZeRO-3 it would partition them over the processes."""
    import transformers.integrations.deepspeed as deepspeed

    kept = deepspeed._hf_deepspeed_config_weak_ref
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = kept


def _plain(model: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """The model under its adapter, and its weights with what was learnt added.

    peft puts itself around what it adapts: a linear layer, or a module of which it adapts a parameter, as it does with
    the experts of a mixture; around those once for each of their parameters.
    """
    from peft.tuners.lora import LoraLayer

    base = model.get_base_model()
    layers: dict[str, Any] = {}  # by the plain name of what they adapt
    for name, module in base.named_modules():
        if isinstance(module, LoraLayer):
            layers[_unwrapped(f"{name}.{getattr(module, 'parameter_name', 'weight')}")] = module
    plain: dict[str, torch.Tensor] = {}
    for key, value in base.state_dict().items():
        if ".lora_" in key:
            continue
        name = _unwrapped(key)
        if name in layers:
            value = (value.float() + layers[name].get_delta_weight("default").float()).to(value.dtype)
        plain[name] = value
    return base, plain


def _unwrapped(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != "base_layer")


def save_adapter(model: Any, folder: Path) -> None:
    """Writes what is trained, exactly, where it is only a part of the weights."""
    if _is_adapted(model):
        torch.save({name: value for name, value in model.state_dict().items() if _learnt(name)}, folder / ADAPTER)


def load_adapter(model: Any, folder: Path) -> bool:
    """Restores what `save_adapter` wrote; False where all weights are trained. Raises OSError, RuntimeError."""
    if not _is_adapted(model):
        return False
    state = torch.load(folder / ADAPTER, weights_only=True)
    missing = model.load_state_dict(state, strict=False)
    if missing.unexpected_keys or any(_learnt(key) for key in missing.missing_keys):
        raise RuntimeError("an adapter of another shape")
    return True


def _learnt(name: str) -> bool:
    """Whether a weight of that name is trained. TRL keeps a copy of the first adapter, `ref`, for the KL penalty."""
    return ".lora_" in name and ".ref." not in name


def _is_adapted(model: Any) -> bool:
    return hasattr(model, "peft_config")
