"""`rods-train` where accelerate takes processes on the CPU for GPUs, so that FSDP2 or DeepSpeed
spreads a policy over them, by gloo.

accelerate leaves both off on CPUs: its state knows them for kinds of processes that have
accelerators. So the kind is the one thing that it is told here, and what a process holds is
printed, for a test to see that it is a part.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import accelerate.accelerator
from accelerate.state import PartialState
from accelerate.utils import DistributedType

from rods.trainer.__main__ import main
from tests.trainer import replayed

KIND = DistributedType.MULTI_GPU
prepare = accelerate.accelerator.fsdp2_prepare_model
begin = PartialState.__init__


def begun(state: Any, *args: Any, **options: Any) -> None:
    """Every time that the state is made anew (transformers does so): other kinds of processes, on
    the same CPU."""
    begin(state, *args, **options)
    if state.distributed_type == DistributedType.MULTI_CPU:
        state.distributed_type = KIND


def prepared(accelerator: Any, model: Any) -> Any:
    total = sum(weight.numel() for weight in model.parameters())
    model = prepare(accelerator, model)
    held = sum(weight.to_local().numel() for weight in model.parameters())
    print(f"this process holds {held / total:.2f} of the weights", flush=True)
    return model


if __name__ == "__main__":
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        from deepspeed import comm

        backend: Any = importlib.import_module("deepspeed.comm.torch")
        # compiled first; gloo is enough
        backend.build_shm_op = lambda: None
        comm.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)
        KIND = DistributedType.DEEPSPEED
    PartialState.__init__ = begun
    accelerate.accelerator.fsdp2_prepare_model = prepared
    replayed.install()
    main()
