"""The cookbook's synchronous training, but for the policy and its update: its groups, strategies
and rollouts, with rewards that are given."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import tinker
from tinker_cookbook.rl.rollouts import do_group_rollout_and_filter_constant_reward as rolled_out
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult

from rods.trainer.adapters.conformance import Job
from rods.trainer.adapters.tinker_dataset import RunDataset

SHOWN = tinker.ModelInput.from_ints([1])


class Given(Env):
    def __init__(self, reward: float) -> None:
        self.reward = reward

    async def initial_observation(self):
        return SHOWN, [0]

    async def step(self, action, **_):
        return StepResult(self.reward / 2, True, SHOWN, [0])


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

    async def sample_async(self, *_, **__):
        sequence = tinker.SampledSequence(
            stop_reason="stop", _tokens_list=[0], _logprobs_list=[0.0]
        )
        return tinker.SampleResponse(sequences=[sequence])


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
