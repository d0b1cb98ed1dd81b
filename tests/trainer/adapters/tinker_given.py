"""The cookbook's synchronous training, but for the policy and its update: its groups, strategies
and rollouts, with rewards that are given."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tinker
from tinker_cookbook.rl.rollouts import do_group_rollout_and_filter_constant_reward as rolled_out
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult

from rods.buffers.state import RunState
from rods.trainer.adapters.conformance import CONFIG, Job
from rods.trainer.adapters.tinker_dataset import RunDataset

if TYPE_CHECKING:
    from tinker_cookbook.rl.rollout_limits import TerminationRewardPolicy

NAMED = {}
with contextlib.suppress(ValueError):  # the interface beside has no signature
    if "sequence_id" in inspect.signature(tinker.SampledSequence).parameters:  # newer versions
        NAMED = {"sequence_id": ""}
SHOWN = tinker.ModelInput.from_ints([1])


class Given(Env):
    def __init__(self, reward: float, cut: bool = False) -> None:
        self.reward = reward
        self.ends = {f"stop/{'max_turns' if cut else 'done'}": 1.0}

    async def initial_observation(self):
        return SHOWN, [0]

    async def step(self, action, **_):
        return StepResult(self.reward / 2, True, SHOWN, [0], metrics=self.ends)


class Group(EnvGroupBuilder):
    """Half of a reward comes with a step, half with the group."""

    def __init__(self, rewards: list[float] | None) -> None:
        self.rewards = rewards

    async def make_envs(self) -> Sequence[Env]:
        if self.rewards is None:
            raise RuntimeError("a group got lost")
        return [Given(reward) for reward in self.rewards]

    async def compute_group_rewards(self, trajectory_group, env_group):
        return [(env.reward / 2, {}) for env in env_group]


class Sampling:
    """A sampling client that says one token."""

    async def sample(self, *_, **__):
        sequence = tinker.SampledSequence(
            stop_reason="stop", **NAMED, _tokens_list=[0], _logprobs_list=[0.0]
        )
        return tinker.SampleResponse(sequences=[sequence])

    sample_async = sample  # what the cookbook calls up to 0.5


def train(job: Job) -> None:
    asyncio.run(train_sync(job))


async def train_sync(job: Job) -> None:
    saved = Path(job.own) / "batch"
    start = int(saved.read_text()) if saved.exists() else 0
    start = start if job.from_step is None else job.from_step
    places = itertools.cycle(range(4))
    data = RunDataset(job.run, lambda task: Group(job.rewards(data.step, next(places), task.id)))
    for index in range(start, job.steps):
        groups = data.get_batch(index)
        rolled = [
            rolled_out(Sampling(), group, 4, 1.0, False, enable_logging=False)
            for group in groups[::-1]
        ]
        # a strategy that tolerates errors leaves groups out
        await asyncio.gather(*rolled, return_exceptions=True)
        saved.write_text(str(index + 1))


class HalfCut(Group):
    """Every other rollout has met a limit."""

    async def make_envs(self) -> Sequence[Env]:
        assert self.rewards is not None
        return [Given(reward, bool(number % 2)) for number, reward in enumerate(self.rewards)]


def limited(
    folder: Path, policy: TerminationRewardPolicy | None
) -> tuple[list[list[float]], list[list[float]]]:
    """What a step of one task has on record, and what the cookbook would train on."""
    # of a cookbook that is installed; the interface beside has neither
    from tinker_cookbook.completers import TinkerTokenCompleter
    from tinker_cookbook.rl.rollouts import do_group_rollout

    folder.mkdir()
    config = folder / "run.toml"
    config.write_text(CONFIG.replace("batch_tasks = 4", "batch_tasks = 1"))
    group = HalfCut([0.5, 0.25, 1.0, 0.75])
    data = RunDataset(folder / "run", lambda task: group, config=config, termination=policy)
    (drawn,) = data.get_batch(0)
    completer = TinkerTokenCompleter(Sampling(), max_tokens=4)
    trained = asyncio.run(do_group_rollout(drawn, completer, termination=policy))
    assert data.stream is not None
    data.stream.close()
    steps = RunState(data.run, strict=True).steps()
    records = [record for step in steps for record in step.records]
    earned = [[rollout["reward"] for rollout in record["rollouts"]] for record in records]
    return earned, [trained.get_total_rewards()]
