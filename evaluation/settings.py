"""What an evaluation is: tasks, protocol, policy and sampling. Its folder remembers them, and refuses others.

Where the policy is reached (addresses, keys, concurrency, budgets) is no part of it and may change at every start.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from buffers.log.disk import replace
from evaluation.bfcl.decoding import Form
from evaluation.bfcl.dialects import Documents
from evaluation.bfcl.results import check_version, data_version
from rods.canonical import keyed_random
from rods.errors import RefusedError, UserError
from rods.tasks import HELD_OUT_SPLITS, SPLITS, TASK_TYPES, Split, Task, TaskType
from worlds.bfcl.world import Bfcl

FILE = "evaluation.json"
Protocol = Literal["official", "tags", "hermes", "compact"]
SystemPrompt = Literal["plain", "resourceful"]
Part = Literal["held-out", "test", "validation", "train", "all"]
COLDEST = 0.001  # the harness's own temperature
PARTS: dict[Part, tuple[Split, ...]] = {
    "held-out": HELD_OUT_SPLITS,  # the 400 of the papers
    "test": ("test",),  # the 300 of them that no transition between curriculum stages has seen
    "validation": ("validation",),
    "train": ("train",),
    "all": SPLITS,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """`policy` says what is evaluated; `tasks_per_type` 0 takes all; `samples` are episodes a task."""

    policy: dict[str, Any]
    part: Part = "held-out"
    types: tuple[TaskType, ...] = TASK_TYPES
    tasks_per_type: int = 0
    samples: int = 1
    protocol: Protocol = "official"
    system_prompt: SystemPrompt = "plain"  # of the tags dialect
    form: Form = "prompt"
    documents: Documents = "full"
    temperature: float = COLDEST
    top_p: float = 1.0
    max_tokens: int = 4096  # of one output

    @property
    def greedy(self) -> bool:
        """Whether outputs are all but determined: the temperature is at most the harness's own."""
        return self.temperature <= COLDEST

    @property
    def results_form(self) -> Form:
        """The form in which outputs are recorded; the calls of a training dialect are kept as native ones."""
        return self.form if self.protocol == "official" else "native"

    def choose(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks of the evaluation, in BFCL's order; fewer of a type by a draw that never changes."""
        found: list[Task] = []
        for kind in self.types:
            fitting = [task for task in tasks if task.type == kind and task.split in PARTS[self.part]]
            if 0 < self.tasks_per_type < len(fitting):
                drawn = _draw(kind).sample(range(len(fitting)), len(fitting))[: self.tasks_per_type]
                fitting = [fitting[index] for index in sorted(drawn)]
            found += fitting
        return found

    def identity(self, bfcl: Bfcl) -> dict[str, Any]:
        """What the folder remembers: these settings, the version of the data, the environment's hash."""
        record: dict[str, Any] = orjson.loads(orjson.dumps(asdict(self)))
        return {"format": 1, "data": data_version(), "environment": bfcl.hash, **record}


def remember(folder: Path, settings: Settings, bfcl: Bfcl) -> None:
    """Opens `folder` for `settings`: makes it, or finds it made for the same. Raises RefusedError with what differs,
    UserError for a folder that is something else."""
    ours = settings.identity(bfcl)
    if not (folder / FILE).exists():
        if folder.exists() and any(folder.iterdir()):
            raise UserError("is no evaluation, and not empty", where=str(folder), remedy="name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / FILE, orjson.dumps(ours, option=orjson.OPT_INDENT_2) + b"\n")
        return
    theirs = recorded(folder)
    different = [key for key in sorted(ours.keys() | theirs.keys()) if ours.get(key) != theirs.get(key)]
    if different:
        shown = "; ".join(f"{key} is {theirs.get(key)!r} there, {ours.get(key)!r} now" for key in different)
        raise RefusedError(
            f"was made with other settings: {shown}",
            where=str(folder),
            remedy="name a new folder, or the same settings",
        )


def recorded(folder: Path) -> dict[str, Any]:
    """What an evaluation's folder remembers. Raises UserError when it is none, RefusedError for other data."""
    try:
        found: dict[str, Any] = orjson.loads((folder / FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise UserError("is no evaluation", where=str(folder), remedy="`rods-eval run` makes one") from error
    check_version(found.get("data", {}), folder / FILE)
    return found


def load(folder: Path) -> Settings:
    """The settings of the evaluation in `folder`."""
    found = recorded(folder)
    fields = {name: found[name] for name in Settings.__dataclass_fields__}
    return Settings(**{**fields, "types": tuple(found["types"])})


def _draw(kind: str) -> random.Random:
    return keyed_random(0, "evaluation", kind)
