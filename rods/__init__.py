"""The shared language of RODS: tasks, calls, environments, episodes, rewards and rules. No torch;
opens no run log.

The names in `__all__` are the Python API (docs/api.md). Most live in `console`, on top of
everything, and are fetched from there when somebody asks for them: nothing in this package uses
them. Their types stand in `__init__.pyi`."""

import importlib
from pathlib import Path
from typing import Any

__version__ = "0.2.0"
__all__ = [
    "DrawnTask",
    "Evaluation",
    "InfrastructureError",
    "OpenEpoch",
    "Task",
    "TaskStream",
    "Training",
    "evaluate",
    "merge",
    "observe",
    "open_run",
    "open_stream",
    "open_training",
    "play",
    "read_state",
    "read_tasks",
    "score",
]
_ELSEWHERE = {
    "InfrastructureError": "rods.errors",
    **dict.fromkeys(("Task", "read_tasks"), "rods.tasks"),
    **dict.fromkeys(("OpenEpoch", "merge", "observe"), "rods.console.foreign_trainer"),
    **dict.fromkeys(("DrawnTask", "TaskStream", "open_stream"), "rods.trainer.adapters.stream"),
}

_room = Path(__file__).with_name("prompts")
if not (_room.is_dir() or _room.is_symlink()):  # in a confined process the link may lead nowhere
    raise ImportError(
        "rods/prompts, rods/daemon and the other rooms are not folders: this copy was checked out, "
        "or built from a checkout, without symbolic links → in the checkout: "
        "git config core.symlinks true; git checkout -- rods; then install again "
        "(on Windows: all of it inside WSL)"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rods' has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE.get(name, "rods.console.api")), name)
