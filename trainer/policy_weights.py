"""A policy with weights as a run sees it. A checkpoint holds a folder that transformers and vLLM
load, and the optimizer's state. Draws, the rollouts' own and those of torch's generators, are keyed
by the step and need no state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rods.buffers.checkpoints import ADOPTED
from rods.config import Config
from rods.episode.engine import Trace
from rods.errors import UserError
from rods.players import Players
from rods.tasks import AnyTask
from rods.trainer.ahead import Ahead
from rods.trainer.engines.base import RolloutEngine
from rods.trainer.engines.local import LocalEngine
from rods.trainer.ranks import Ranks
from rods.trainer.sharding import Shards
from rods.trainer.weight_files import load_adapter, load_plain, save_adapter, save_plain


@dataclass
class Weights:
    """Saved by the first process, restored by all of them. Validation uses the rollout engine
    `rollouts`, after `synchronise` has given it the current weights."""

    config: Config
    players: Players
    engine: LocalEngine
    rollouts: RolloutEngine
    synchronise: Callable[[], None]
    shards: Shards
    ranks: Ranks
    ahead: Ahead

    def __post_init__(self) -> None:
        self.ranks.services = {
            "gather": self.shards.gather,
            "save optimizer": self.shards.save_optimizer,
            "restore": self._restore,
            "play": self._play,
        }

    def save(self, folder: Path) -> None:
        """Writes the policy into the empty `folder` (rods.trainer.policy.Policy)."""
        self.ahead.save(folder)
        self.ranks.ask("gather")
        self.ranks.ask("save optimizer", folder)
        save_plain(self.engine.model, folder)
        save_adapter(self.engine.model, folder)
        self.engine.chat.tokenizer.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote, in every process. Raises UserError when the files do not fit
        the policy."""
        self.ranks.ask("restore", folder)

    def validate(self, tasks: Sequence[AnyTask]) -> list[float | None]:
        """Greedy rollouts, shared out over all processes (rods.trainer.policy.Policy)."""
        traces = self.ranks.ask("play", tuple(tasks))
        return [
            None if trace.end == "infrastructure" else trace.resolved / trace.expected
            for trace in traces
        ]

    def _play(self, tasks: tuple[AnyTask, ...]) -> list[Trace]:
        """A greedy episode of each task; every process plays a part."""
        jobs = [self.players.scored(task, self.config) for task in tasks]
        self.synchronise()
        first = self.ranks.index * (share := -(-len(jobs) // self.ranks.count))
        mine = jobs[first : first + share]
        samples = self.rollouts.rollouts(mine, random_seed=0, first=first, greedy=True)
        return self.ranks.gathered([sample.trace for sample in samples])

    def _restore(self, folder: Path) -> None:
        model = self.engine.model
        adopted = (folder / ADOPTED).exists()
        try:
            if not load_adapter(model, folder):
                mapped = self.shards.kind != "whole" and model.device.type == "cpu"
                load_plain(model, folder, mapped=mapped)
            self.shards.scatter()
            if adopted:  # the run's first start, or one that took no step
                self.shards.begin_optimizer()
            else:
                self.shards.load_optimizer(folder)
            self.ahead.load(folder)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            remedy = "remove that checkpoint folder; the run continues from the one before"
            if adopted:  # there is none before, and without it the run would train policy.model
                remedy = (
                    "fork without --weights, and name this folder in policy.model of the new run's "
                    "configuration"
                )
            raise UserError(
                f"the checkpoint does not fit this policy ({str(error).splitlines()[0]})",
                where=folder,
                remedy=remedy,
            ) from error
