"""A world as an environment of TRL's own tool loop (`environment_factory`), with rows and a reward
for its tasks.

    world = World("desk")
    StreamTrainer("runs/mine", world.row, environment_factory=world, reward_funcs=world.reward, …)

TRL documents all tools at once: those that a task holds out until a later turn refuse calls until
then.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from rods.canonical import JsonObject
from rods.environments.base import Tool
from rods.environments.loading import Environments
from rods.episode.rewards import score
from rods.errors import UserError
from rods.tasks import AnyTask
from rods.trainer.adapters.tool_loop import ANSWER, ToolLoop


class Episode:
    """One rollout. A world's tools are attributes that can be called."""

    loop: ToolLoop

    def __init__(self, world: "World") -> None:
        self._world = world
        for tool in world.tools:
            setattr(self, tool.name, ToolMethod(self, tool))

    def reset(self, record: str, **_: Any) -> None:
        """Begins an episode of the task in a row's column `record`."""
        self.loop = ToolLoop(self._world.environment, AnyTask.from_json(orjson.loads(record)))


class World:
    """The environment that is called `name`, as a factory of episodes. Raises UserError where it
    cannot be loaded, and where one of its tools cannot be a method for TRL."""

    def __init__(self, name: str) -> None:
        self.environment = Environments().load(name)
        tools = self.environment.tools()
        own = {"reset", "get_reward", "loop", ANSWER.name}
        if taken := [tool for tool in tools if tool in own or tool.startswith("_")]:
            raise UserError(
                f"its tools become methods for TRL, which cannot have one called {taken[0]!r}",
                where=f"environment {name!r}",
                remedy="train in it by `rods-train`",
            )
        self.tools = (*tools.values(), ANSWER)
        self._class = type("World", (Episode,), dict.fromkeys((*tools, ANSWER.name), _listed))

    def __call__(self) -> Episode:
        """A new instance, for TRL's `environment_factory`."""
        episode: Episode = self._class(self)
        return episode

    def row(self, task: AnyTask) -> JsonObject:
        """The row of a data set that is `task`. Raises UserError for a task of another world."""
        if task.environment.name != self.environment.name:
            raise UserError(
                f"it lives in {task.environment.name!r}",
                where=f"task {task.id}",
                remedy=f"give tasks of {self.environment.name!r}",
            )
        system = [{"role": "system", "content": task.system}] if task.system else []
        prompt = [*system, {"role": "user", "content": task.texts[0]}]
        return {"prompt": prompt, "record": orjson.dumps(task.as_json()).decode()}

    def reward(
        self, completions: Sequence[Any], environments: Sequence[Episode], **_: Any
    ) -> list[float | None]:
        """The progress of each rollout, from 0 to 1; None where its world broke."""
        for completion, episode in zip(completions, environments, strict=True):
            if (
                completion
                and completion[-1]["role"] == "assistant"
                and not completion[-1].get("tool_calls")
            ):
                episode.loop.reply(str(completion[-1].get("content") or ""))  # a last answer
        return [score(episode.loop.trace(), "progress").reward for episode in environments]


class ToolMethod(dict[str, Any]):
    """A tool of `episode` as TRL has it: called by name, and documented by the schema that it is.
    Of a method TRL would make a schema from type hints, which say less."""

    def __init__(self, episode: Episode, tool: Tool) -> None:
        super().__init__(type="function", function=tool.schema())
        self.__name__ = tool.name
        self._episode = episode

    def __call__(self, /, **arguments: Any) -> str:
        return self._episode.loop.call(self.__name__, arguments)


def _listed(episode: Episode) -> None:
    """Stands in the class under a tool's name, where TRL looks for methods; an instance has its
    `ToolMethod` there."""
