"""A policy whose weights and optimizer are partitioned over the processes by FSDP2 or DeepSpeed
ZeRO, as `accelerate launch` and its configuration (experiments/training/*.yaml) say.

The rest of the trainer works on a whole copy of the policy in every process (`LocalEngine.model`):
`gather` updates the copy from the partitions, `scatter` the partitions from the copy. So rollouts
need no other process between two tokens, and a checkpoint holds plain weights. Where others roll
out, only the first process brings its copy up to date. Where nothing is sharded the copy is the
policy itself.

Checkpoints of whole and of FSDP2 runs are alike: a run may go on with another number of processes.
What DeepSpeed keeps is written and read by DeepSpeed, one file a process, and can only be resumed
by as many."""

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from rods.canonical import JsonObject
from rods.config import Config
from rods.errors import UserError
from rods.trainer.weight_files import check_archive, load_tensors

OPTIMIZER = "optimizer.pt"
PARTITIONS = "deepspeed"
TAG = "state"  # DeepSpeed's name for what it writes into PARTITIONS
Kind = Literal["whole", "fsdp", "deepspeed"]
KINDS: tuple[Kind, ...] = ("fsdp", "deepspeed")  # those that partition


def checked(config: Config) -> Kind:
    """How the policy is partitioned, as `accelerate launch` says. Raises UserError for a
    configuration that cannot."""
    used = [
        how
        for how in KINDS
        if os.environ.get(f"ACCELERATE_USE_{how.upper()}", "false").lower() == "true"
    ]
    kind: Kind = used[0] if used else "whole"
    if kind != "whole" and config.training.optimizer == "muon":
        raise UserError(
            "Muon needs whole matrices, and each process has a part of them",
            where="training.optimizer",
            remedy='use "adamw", or start without FSDP and DeepSpeed',
        )
    if kind == "fsdp" and os.environ.get("FSDP_VERSION", "1") != "2":
        raise UserError(
            "FSDP 1 is not supported",
            where="FSDP_VERSION",
            remedy="set fsdp_version: 2 in accelerate's configuration",
        )
    return kind


class Shards:
    """`trained` is what the optimizer moves, `whole` the copy. Every method is called by all
    processes at once. `optimizer` and `wrapped` (the model as accelerate wraps it) are asked late:
    there are none before training begins.
    """

    def __init__(
        self,
        how: Kind,
        whole: Any,
        optimizer: Callable[[], Optimizer],
        wrapped: Callable[[], Any],
        first: bool,
    ) -> None:
        self.kind = how
        self.whole = whole
        self.optimizer = optimizer
        self.wrapped = wrapped
        self.first = first
        self.copied = True  # whether this process uses its copy
        self.trained = whole
        if how != "whole":
            # FSDP2 splits parameters into storage of its own, and until then they are not written
            shared = {
                id(part): torch.nn.Parameter(part.data, part.requires_grad)
                for part in whole.parameters()
                if how == "fsdp"
            }
            self.trained = copy.deepcopy(whole, shared)

    @torch.no_grad()
    def gather(self) -> None:
        """Brings the copy up to date, where it is used."""
        for copied, part in self._pairs(writing=False):
            value = _full(part)
            if self.copied:
                copied.copy_(value)

    @torch.no_grad()
    def scatter(self) -> None:
        """Puts the copy's weights into what is trained."""
        for copied, part in self._pairs(writing=True):
            part.copy_(_part(copied, part))

    def _pairs(self, *, writing: bool) -> Iterator[tuple[Any, Any]]:
        """Each parameter of the copy beside what is trained of it, one at a time."""
        if self.kind != "whole":
            # TRL may have added a frozen adapter for the KL penalty
            parts = dict(self.trained.named_parameters())
            for name, copied in self.whole.named_parameters():
                with _gathered(parts[name], writing=writing):
                    yield copied, parts[name]

    def save_optimizer(self, folder: Path) -> None:
        """Writes the optimizer's state into `folder`."""
        if self.kind == "deepspeed":
            self.wrapped().save_checkpoint(str(folder / PARTITIONS), tag=TAG, save_latest=False)
            return
        state = self.optimizer().state_dict()
        if self.kind == "fsdp":
            state = {
                **state,
                "state": {key: self._whole_state(value) for key, value in state["state"].items()},
            }
        if self.first:
            torch.save(state, folder / OPTIMIZER)

    def load_optimizer(self, folder: Path) -> None:
        """Restores what `save_optimizer` wrote. Raises OSError, RuntimeError or ValueError when it
        does not fit."""
        if self.kind == "deepspeed":
            for part in sorted((folder / PARTITIONS).rglob("*.pt")):
                check_archive(part)
            path, _ = self.wrapped().load_checkpoint(
                str(folder / PARTITIONS), tag=TAG, load_lr_scheduler_states=False
            )
            if path is None:
                raise RuntimeError(
                    "nothing of DeepSpeed's is there; it was written by another kind of start"
                )
            return
        if not (folder / OPTIMIZER).exists() and (folder / PARTITIONS).is_dir():
            raise RuntimeError("it was written under DeepSpeed")
        fsdp = self.kind == "fsdp"  # of the file, each process needs its own part alone
        state = load_tensors(folder / OPTIMIZER, mapped=fsdp)
        if fsdp:
            parts = [part for group in self.optimizer().param_groups for part in group["params"]]
            moved = {
                key: _parts_of_state(value, parts[key]) for key, value in state["state"].items()
            }
            state = {**state, "state": moved}
        self.optimizer().load_state_dict(state)

    def begin_optimizer(self) -> None:
        """Lets an optimizer without state go on from what `scatter` wrote; only DeepSpeed's keeps
        an earlier copy."""
        if self.kind == "deepspeed":
            self.wrapped().optimizer.refresh_fp32_params()

    def _whole_state(self, state: JsonObject) -> JsonObject:
        """A parameter's whole state in the first process; the others take part in gathering it."""
        whole = {name: _full(value) for name, value in state.items()}
        if not self.first:
            return {}
        return {
            name: value.cpu() if isinstance(value, torch.Tensor) else value
            for name, value in whole.items()
        }


def _gathered(part: Any, *, writing: bool) -> Any:
    """A context in which a parameter that ZeRO-3 has spread is whole; what is written there is
    spread again."""
    if not hasattr(part, "ds_id"):
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters([part], modifier_rank=0 if writing else None)


def _full(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def _part(value: torch.Tensor, like: Any) -> Any:
    """This process's part of a tensor that all of them have whole, partitioned as `like` is."""
    if not isinstance(like, DTensor):
        return value
    there = value.to(like.device)
    return distribute_tensor(there, like.device_mesh, like.placements, src_data_rank=None)


def _parts_of_state(state: JsonObject, like: Any) -> JsonObject:
    """An optimizer's state of the parameter `like`: what has its shape is spread as it is."""
    return {
        name: _part(value, like)
        if isinstance(value, torch.Tensor) and value.shape == like.shape
        else value
        for name, value in state.items()
    }
