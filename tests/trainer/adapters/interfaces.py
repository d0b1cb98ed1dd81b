"""The interfaces of libraries that want environments of their own, as far as adapters use them:
where a library is not installed, an adapter is driven by these classes; where it is (`make tinker`,
`make verl`, `make verifiers`), by its own."""

from __future__ import annotations

import asyncio
import runpy
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")
PARTS = ("GroupInfo", "PolicySpan", "TrainRunInfo", "TrainWorkInfo")  # of an episode's record


def stand_in(library: str) -> None:
    """Makes what is here of `library` importable, unless that is installed."""
    if find_spec(library) is not None:
        return
    for name, members in LIBRARIES[library].items():
        module = module_from_spec(ModuleSpec(name, None, is_package=True))
        vars(module).update(members)
        sys.modules[name] = module
        parent, _, own = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], own, module)


class Env:
    pass


class EnvGroupBuilder:
    pass


async def do_group_rollout_and_filter_constant_reward(
    client: Any, group: Any, max_tokens: int, temperature: float, filtered: bool, **_: Any
) -> None:
    """Each environment until its episode is over, then the group's rewards; cleaned up whatever
    comes."""

    async def episode(env: Any) -> Any:
        shown, _ = await env.initial_observation()
        steps = list[Any]()
        over = False
        while not over:
            said = (await client.sample_async(shown)).sequences[0]._tokens_list
            step = await env.step(said)
            steps = [*steps, step]
            over = step.episode_done
            shown = step.next_observation
        return SimpleNamespace(transitions=steps)

    try:
        envs = await group.make_envs()
        await group.compute_group_rewards(await asyncio.gather(*map(episode, envs)), envs)
    finally:
        await group.cleanup()


class StepResult:
    def __init__(
        self,
        reward: float,
        episode_done: bool,
        next_observation: Any,
        next_stop_condition: Any,
        metrics: Any = None,
    ) -> None:
        self.reward = reward
        self.episode_done = episode_done
        self.next_observation = next_observation


class RLHFDataset:
    def __init__(
        self,
        data_files: Any,
        tokenizer: Any,
        config: Any,
        processor: Any = None,
        max_samples: int = -1,
    ):
        self.data_files = [data_files]
        self.config = config
        self.dataframe: Any = None
        self._download()  # type: ignore[attr-defined]
        self._read_files_and_tokenize()  # type: ignore[attr-defined]

    def __getitem__(self, item: int) -> Any:
        return self.dataframe[item]


class Loader:
    """torchdata's StatefulDataLoader without workers: batches in order, and a state that counts
    them."""

    def __init__(self, dataset: Any, batch_size: int, collate_fn: Any, **_: Any) -> None:
        self.dataset = dataset
        self.size = batch_size
        self.collate = collate_fn
        self.done = 0

    def __iter__(self) -> Any:
        while (self.done + 1) * self.size <= len(self.dataset):
            at = self.done * self.size
            batch = self.collate([self.dataset[place] for place in range(at, at + self.size)])
            self.done += 1
            yield batch

    def state_dict(self) -> int:
        return self.done

    def load_state_dict(self, state: int) -> None:
        self.done = state


class Settings(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        return Settings(self[name]) if isinstance(self[name], dict) else self[name]


def get_dataset_class(config: Settings) -> Any:
    return loaded(config.custom_cls.path, config.custom_cls.name)


def collate_fn(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def loaded(path: str, name: str) -> Any:
    return runpy.run_path(path)[name]


class TaskData(BaseModel):
    idx: int | None = None
    prompt: str | None = None
    system_prompt: str | None = None


class Task(Generic[First, Second, Third]):
    hash = ""

    def __init__(self, data: Any, config: Any = None) -> None:
        self.data = data
        self.config = config


class TasksetConfig(BaseModel):
    task: Any = None


class Taskset(Generic[First, Second]):
    INFINITE: ClassVar[bool] = False

    def __init__(self, config: Any) -> None:
        self.config = config

    def __iter__(self) -> Any:
        for number, task in enumerate(self.load()):  # type: ignore[attr-defined]
            yield type(task)(task.data.model_copy(update={"idx": number}), task.config)


class Toolset(Generic[First]):
    pass


class Trace:
    """Of a rollout: its agent, and rewards by name."""

    def __init__(self, agent: Any, ok: bool, **_: Any) -> None:
        self.agent = agent
        self.ok = ok
        self.rewards = dict[str, Any]()

    def record_reward(self, name: str, score: float) -> None:
        self.rewards[name] = {"score": score, "weight": 1.0}


class Episode:
    def __init__(self, task: Any, traces: list[Trace], ok: bool) -> None:
        self.task = task
        self.traces = traces
        self.ok = ok
        self.run = None

    def record_run(self, run: Any) -> None:
        self.run = run

    def to_record(self) -> dict[str, Any]:
        policy = {"policy": vars(self.run.work.policy)} if self.run else {}
        return {
            "task": {"data": self.task.data.model_dump(mode="json"), "key": self.task.key},
            "traces": [
                {"agent": {"trainable": True}, "rewards": trace.rewards} for trace in self.traces
            ],
            "ok": self.ok,
            "run": {"work": {"step": self.run.work.step, **policy}} if self.run else None,
        }


def named(*classes: Any) -> dict[str, Any]:
    return {each.__name__: each for each in classes}


ANY = SimpleNamespace  # where nothing but its attributes is asked for
LIBRARIES: dict[str, dict[str, dict[str, Any]]] = {
    "tinker_cookbook": {
        "tinker": {
            "ModelInput": ANY(from_ints=list),
            "SampledSequence": ANY,
            "SampleResponse": ANY,
        },
        "tinker_cookbook": {},
        "tinker_cookbook.rl": {},
        "tinker_cookbook.rl.types": {
            **named(Env, EnvGroupBuilder, StepResult),
            **{"Metrics": dict, "RLDataset": object, "Trajectory": object},
        },
        "tinker_cookbook.rl.rollouts": named(do_group_rollout_and_filter_constant_reward),
    },
    "verl": {
        "omegaconf": {"OmegaConf": ANY(create=Settings)},
        "torchdata": {},
        "torchdata.stateful_dataloader": {"StatefulDataLoader": Loader},
        "verl": {},
        "verl.utils": {},
        "verl.utils.import_utils": {"load_extern_object": loaded},
        "verl.utils.dataset": {},
        "verl.utils.dataset.rl_dataset": named(RLHFDataset, get_dataset_class, collate_fn),
    },
    "verifiers": {
        "verifiers": {},
        "verifiers.v1": {
            **named(Task, TaskData, Taskset, TasksetConfig, Toolset, Trace),
            **dict.fromkeys(("ToolsetConfig", "TaskConfig", "State"), BaseModel),
            "reward": lambda scored: scored,
        },
        "verifiers.v1.configs": {},
        "verifiers.v1.configs.agent": {"WireAgentConfig": ANY},
        "verifiers.v1.episode": {"Episode": Episode, **dict.fromkeys(PARTS, ANY)},
        "verifiers.v1.trace": {"Trace": Trace, "AgentInfo": ANY, "TraceTask": ANY},
    },
}
