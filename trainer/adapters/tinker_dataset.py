"""The tasks of a run as a data set of the Tinker cookbook's (docs/trainers.md).

A batch of the cookbook's synchronous training is a step of the run. It is on record once the last
of its groups has its rewards, or has failed: before the cookbook trains on any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, RLDataset, Trajectory

from rods.buffers.run.creation import open_or_create
from rods.buffers.state import read_state
from rods.tasks import AnyTask
from rods.trainer.adapters.stream import DrawnTask, TaskStream, open_stream

if TYPE_CHECKING:
    from tinker_cookbook.rl.rollout_limits import TerminationRewardPolicy  # from 0.6 on


class RunDataset(RLDataset):  # type: ignore[misc]
    """The batches of the run in `folder`, made from the file `config` where there is none.
    `group(task)` builds the task's environments; the rewards of a rollout, of its steps and of its
    group, sum to one in `reward_range`. `termination`: the policy by which the training lowers
    rewards of rollouts that met a limit, behind their groups' own (`Config.effective_termination()`
    of the cookbook's); a group that it does not grade at all is recorded as lost."""

    def __init__(
        self,
        folder: Path | str,
        group: Callable[[AnyTask], EnvGroupBuilder],
        *,
        config: Path | str | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        termination: TerminationRewardPolicy | None = None,
    ) -> None:
        self.termination = termination
        self.run = open_or_create(folder, config)
        self.group = group
        self.reward_range = reward_range
        self.stream: TaskStream | None = None
        self.step = 0
        self.drawn: Sequence[DrawnTask] = ()
        # place → what its group earned, nothing where that failed
        self.over: dict[int, Sequence[float]] = {}

    def __len__(self) -> int:
        return self.run.config.training.steps

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        if self.stream is None:  # the cookbook goes on behind the checkpoint that it has restored
            self.stream = open_stream(
                self.run.path, from_step=min(index, read_state(self.run).last_step)
            )
        self.step, self.drawn, self.over = index + 1, self.stream.draw(index + 1), {}
        return [_Drawn(self, one, self.group(one.task)) for one in self.drawn]

    def ended(self, one: DrawnTask, rewards: Sequence[float] = ()) -> None:
        """Notes what the group of `one` earned; without rewards it got lost. The last of its step
        closes it."""
        if one not in self.drawn or one.place in self.over:
            return
        one.group(rewards, self.reward_range)  # refused before it is noted
        self.over[one.place] = rewards
        if len(self.over) == len(self.drawn):
            assert self.stream is not None
            self.stream.observe_rewards(self.step, self.over, self.reward_range)


class _Drawn(EnvGroupBuilder):  # type: ignore[misc]
    """A group of a step, which tells the data set what it earned."""

    def __init__(self, data: RunDataset, one: DrawnTask, group: EnvGroupBuilder) -> None:
        self.data = data
        self.one = one
        self.group = group

    async def make_envs(self) -> Sequence[Env]:
        return await self.group.make_envs()  # type: ignore[no-any-return]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        rewards: list[tuple[float, Metrics]] = await self.group.compute_group_rewards(
            trajectory_group, env_group
        )
        earned = []
        policy = self.data.termination
        for trajectory, (last, _) in zip(trajectory_group, rewards, strict=True):
            total = sum(step.reward for step in trajectory.transitions) + last
            if policy is not None and policy.zero_reward_on_limit:
                cut = trajectory.stop_reason in policy.limit_stop_reasons
                total = min(total, 0.0) if cut else total
            earned.append(total)
        self.data.ended(self.one, earned)
        return rewards

    async def cleanup(self) -> None:
        self.data.ended(self.one)
        await self.group.cleanup()

    def logging_tags(self) -> list[str]:
        return list(self.group.logging_tags())
