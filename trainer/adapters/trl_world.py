"""A world as an environment of TRL's own tool loop (`environment_factory`), with rows and a reward
for its tasks.

    world = World("desk")
    StreamTrainer("runs/mine", world.row, environment_factory=world, reward_funcs=world.reward, …)

TRL documents all tools at once: those that a task holds out until a later turn refuse calls until
then.
"""

from collections.abc import Callable, Sequence
from inspect import Parameter as Argument, Signature
from typing import Any, Literal

import orjson

from rods.canonical import JsonMapping, JsonObject
from rods.environments.base import Tool
from rods.environments.loading import Environments
from rods.episode.rewards import score
from rods.errors import UserError
from rods.tasks import AnyTask
from rods.trainer.adapters.tool_loop import ANSWER, ToolLoop

TYPES = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


class Episode:
    """One rollout. The methods that a world's tools become stand in a class of it (`World`)."""

    loop: ToolLoop

    def __init__(self, world: "World") -> None:
        self._world = world

    def reset(self, record: str, **_: Any) -> None:
        """Begins an episode of the task in a row's column `record`."""
        self.loop = ToolLoop(self._world.environment, AnyTask.from_json(orjson.loads(record)))


class World:
    """The environment that is called `name`, as a factory of episodes. Raises UserError where it
    cannot be loaded, and where one of its tools cannot be a method for TRL."""

    def __init__(self, name: str) -> None:
        self.environment = Environments().load(name)
        tools = self.environment.tools()
        try:
            if taken := {*tools} & {*vars(Episode), ANSWER.name, "loop", "get_reward"}:
                raise ValueError(f"{min(taken)!r} is one already")
            self._class = type(
                "World",
                (Episode,),
                {tool.name: _method(tool) for tool in (*tools.values(), ANSWER)},
            )
        except ValueError as error:
            raise UserError(
                f"its tools become methods for TRL, and {error}",
                where=f"environment {name!r}",
                remedy="train in it by `rods-train`",
            ) from error

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


def _method(tool: Tool) -> Callable[..., str]:
    """`tool` as a method with its name, signature and document, from which transformers makes its
    schema. Raises ValueError where an argument's name is none in Python."""

    def method(self: Episode, **arguments: Any) -> str:
        return self.loop.call(tool.name, arguments)

    takes = [Argument(each.name, Argument.KEYWORD_ONLY, annotation=_type(each.schema),
                      default=Argument.empty if each.required else each.default)
             for each in tool.parameters]  # fmt: skip
    method.__name__ = tool.name
    signature = Signature([Argument("self", Argument.POSITIONAL_ONLY), *takes])
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__annotations__ = {each.name: each.annotation for each in takes}
    lines = [
        f"    {each.name}: {' '.join((each.description or each.name).split())}"
        for each in tool.parameters
    ]
    method.__doc__ = "\n".join(
        [" ".join(tool.description.split()), *(["", "Args:", *lines] if lines else [])]
    )
    return method


def _type(schema: JsonMapping) -> Any:
    """The type hint that transformers turns into `schema`, as far as there is one: limits are left
    out."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema.get("type") == "array" and "items" in schema:
        return list[_type(schema["items"])]  # type: ignore[misc]
    return TYPES.get(schema.get("type", ""), Any)
