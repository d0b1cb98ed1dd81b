"""GRPO on a run's tasks through the Tinker API: `train.py RUN CONFIG MODEL LOG [STEPS]`, in an
environment with the Tinker cookbook, against the server at TINKER_BASE_URL. MODEL is the folder
that the server serves."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chz
import tinker
from tinker_cookbook.rl.train import Config, main
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDatasetBuilder, StepResult

from rods.buffers.run.run import Run
from rods.episode.drivers import run_episode
from rods.episode.engine import NeedText, Reply, Trace
from rods.errors import InfrastructureError
from rods.tasks import AnyTask
from rods.trainer.adapters.tinker_dataset import RunDataset
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Conversation


class TaskEnv(Env):
    """An episode of a task with its tools, users and verdicts, whose reward is the share of turns
    resolved. What was sampled is never tokenised again, and what was shown never rendered again:
    each observation begins with the one before."""

    def __init__(self, run: Run, task: AnyTask, chat: Chat) -> None:
        self.job = run.episode(task)
        self.chat = chat
        self.limits = run.config.rollouts
        self.talk = Conversation()
        self.asked: asyncio.Queue[NeedText | Trace] = asyncio.Queue()
        self.replies: asyncio.Queue[Reply] = asyncio.Queue()

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[int]]:
        self.episode = asyncio.create_task(self.play())
        await self.shown()
        return self.observation(), sorted(self.chat.ends)

    async def step(self, action: Sequence[int], **_: Any) -> StepResult:
        self.replies.put_nowait(self.talk.take(self.chat, list(action), self.limits))
        trace = await self.shown()
        reward = 0.0 if trace is None else trace.resolved / trace.expected
        return StepResult(reward, trace is not None, self.observation(), sorted(self.chat.ends))

    async def play(self) -> None:
        async def complete(need: NeedText) -> Reply:
            self.asked.put_nowait(need)
            return await self.replies.get()

        self.asked.put_nowait(await run_episode(self.job, complete))

    async def shown(self) -> Trace | None:
        """Until the policy is asked again; the trace, where the episode is over."""
        while isinstance(asked := await self.asked.get(), NeedText):
            self.talk.ask(self.chat, asked)
            if self.talk.room(self.limits) >= 1:
                return None
            self.replies.put_nowait(Reply("", "context"))
        if asked.end == "infrastructure":
            raise InfrastructureError(f"the machinery of task {asked.task} broke")
        return asked

    def observation(self) -> tinker.ModelInput:
        return tinker.ModelInput.from_ints(self.talk.prompt + self.talk.completion)


class TaskGroup(EnvGroupBuilder):
    """As many episodes of a task as a group of the run has."""

    def __init__(self, run: Run, task: AnyTask, chat: Chat) -> None:
        self.made = run, task, chat

    async def make_envs(self) -> Sequence[Env]:
        return [TaskEnv(*self.made) for _ in range(self.made[0].config.rollouts.rollouts_per_task)]


@chz.chz
class Tasks(RLDatasetBuilder):
    run: str
    config: str
    model: str

    async def __call__(self) -> tuple[RunDataset, None]:
        chat = Chat.load(Path(self.model))
        data = RunDataset(
            self.run, lambda task: TaskGroup(data.run, task, chat), config=self.config
        )
        return data, None


if __name__ == "__main__":
    run, config, model, log, *steps = sys.argv[1:]
    asyncio.run(
        main(
            Config(
                dataset_builder=Tasks(run=run, config=config, model=model),
                model_name=model,
                recipe_name="rods",
                log_path=log,
                learning_rate=1e-3,
                lora_rank=8,
                max_tokens=96,
                max_steps=int(steps[0]) if steps else None,
                save_every=5,
                eval_every=0,
                num_groups_to_log=0,
            )
        )
    )
