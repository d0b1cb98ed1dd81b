"""A policy with weights as a run sees it. A checkpoint holds a folder that transformers and vLLM load, the optimizer's
state, and torch's generators of every process. The rollouts' own draws are keyed by the step and need no state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from rods.buffers.checkpoints import ADOPTED
from rods.config import Config
from rods.episode.engine import Trace
from rods.errors import UserError
from rods.observations import Rollout
from rods.players import Players
from rods.tasks import AnyTask
from rods.trainer import batches
from rods.trainer.engines.base import RolloutEngine
from rods.trainer.engines.local import LocalEngine
from rods.trainer.policy import Batch
from rods.trainer.ranks import Ranks
from rods.trainer.sharding import Shards
from rods.trainer.weight_files import load_adapter, load_plain, load_tensors, save_adapter, save_plain

GENERATORS = "generators.pt"


@dataclass
class Weights:
    """Saved by the first process, restored by all of them. Validation uses the rollout engine `rollouts`, after
    `synchronise` has given it the current weights."""

    config: Config
    players: Players
    engine: LocalEngine
    rollouts: RolloutEngine
    synchronise: Callable[[], None]
    shards: Shards
    ranks: Ranks
    _generators: list[torch.Tensor] | None = None

    def __post_init__(self) -> None:
        self.ranks.services = {
            "gather": self.shards.gather,
            "save optimizer": self.shards.save_optimizer,
            "generators": self._all_generators,
            "restore": self._restore,
            "play": self._play,
        }

    def save(self, folder: Path) -> None:
        """Writes the policy into the empty `folder` (rods.trainer.policy.Policy)."""
        self.ranks.ask("gather")
        self.ranks.ask("save optimizer", folder)
        save_plain(self.engine.model, folder)
        save_adapter(self.engine.model, folder)
        self.engine.chat.tokenizer.save_pretrained(folder)
        torch.save(self.ranks.ask("generators"), folder / GENERATORS)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote, in every process. Raises UserError when the files do not fit the policy."""
        self.ranks.ask("restore", folder)

    def rehearse(self, batch: Batch, rollouts: int, random_seed: int) -> list[Sequence[Rollout]]:
        played = batches.by_slot(batch, self.ranks.ask("play", batch, rollouts, random_seed))
        return [group.rollouts for group in batches.groups(batch, played, self.config, self.players.environments)]

    def validate(self, tasks: Sequence[AnyTask]) -> list[float | None]:
        """Greedy rollouts, shared out over all processes (rods.trainer.policy.Policy)."""
        traces = self.ranks.ask("play", tuple(tasks), 0, 0)
        return [None if trace.end == "infrastructure" else trace.resolved / trace.expected for trace in traces]

    def restore_generators(self) -> None:
        """Puts torch's generators where the latest checkpoint, taken or resumed, left them. Called before every batch,
        since TRL draws from them while it starts and to shuffle."""
        if self._generators is not None:
            torch.set_rng_state(self._generators[0])
            if torch.cuda.is_available() and len(self._generators) > 1:
                torch.cuda.set_rng_state(self._generators[1])
            self._generators = None

    def _play(self, what: Batch | tuple[AnyTask, ...], rollouts: int, random_seed: int) -> list[Trace]:
        """So many episodes of each slot of a batch, or (0) a greedy one of each task; every process plays a part."""
        if isinstance(what, Batch):
            jobs = batches.jobs(what, self.config, self.players, rollouts)
        else:
            jobs = [self.players.scored(task, self.config) for task in what]
        self.synchronise()
        first = self.ranks.index * (share := -(-len(jobs) // self.ranks.count))
        mine = jobs[first : first + share]
        samples = self.rollouts.rollouts(mine, random_seed=random_seed, first=first, greedy=not rollouts)
        return self.ranks.gathered([sample.trace for sample in samples])

    def _all_generators(self) -> list[list[torch.Tensor]]:
        """A list a process: the generator of the CPU, then that of its own GPU (it may see others, which another start
        need not have). The next batch begins with them, here as after a resume: TRL may draw in between."""
        self._generators = [torch.get_rng_state()]
        if torch.cuda.is_available():
            self._generators.append(torch.cuda.get_rng_state())
        return self.ranks.gathered([self._generators])

    def _restore(self, folder: Path) -> None:
        model, adopted = self.engine.model, (folder / ADOPTED).exists()
        try:
            generators = load_tensors(folder / GENERATORS)
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
