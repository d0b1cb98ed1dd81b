"""A task of ours as one of verifiers, for its own tool loop: `Task.key` is our id, the world is a
tool server of the rollout, and the reward is the progress of the episode that the trace tells. All
tools are documented at once: those that a task holds out until a later turn refuse calls until
then.

`python -m rods.trainer.adapters.verifiers_world` is the server, which verifiers starts.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import verifiers.v1 as vf

from rods.canonical import JsonObject
from rods.environments.base import Tool
from rods.environments.loading import Environments
from rods.episode.engine import Trace
from rods.errors import UserError
from rods.tasks import AnyTask
from rods.trainer.adapters.tool_loop import ANSWER, ToolLoop

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

ENVIRONMENTS = Environments()


class WorldData(vf.TaskData):  # type: ignore[misc]
    record: JsonObject  # the task as in tasks.jsonl

    @staticmethod
    def of(task: AnyTask) -> "WorldData":
        return WorldData(
            prompt=task.texts[0], system_prompt=task.system or None, record=task.as_json()
        )

    def loop(self) -> ToolLoop:
        """A new episode of the task. Raises UserError for a world that cannot be played again, as
        the reward has it."""
        environment = ENVIRONMENTS.load(self.record["environment"]["name"])
        if not environment.features.deterministic or ANSWER.name in environment.tools():
            raise UserError(
                f"equal calls give unequal results in it, or it has a tool {ANSWER.name!r} of its "
                f"own",
                where=f"environment {environment.name!r}",
                remedy="train in it by `rods-train`",
            )
        return ToolLoop(environment, AnyTask.from_json(self.record))

    def played(self, messages: Sequence[Any]) -> Trace:
        """Our own trace of the episode that the messages of a trace of verifiers tell."""
        loop = self.loop()
        for message in messages:
            if message.role == "assistant" and not message.tool_calls:
                loop.reply(message.content or "")
            for call in (message.tool_calls or ()) if message.role == "assistant" else ():
                # arguments that are no object: verifiers has refused them
                with suppress(ValueError, TypeError):
                    loop.call(call.name, {**orjson.loads(call.arguments)})
        return loop.trace()


class WorldToolsConfig(vf.ToolsetConfig):  # type: ignore[misc]
    folder: Path = Path()  # from which a world that is named by a file is found


class WorldTools(vf.Toolset[WorldToolsConfig]):  # type: ignore[misc]
    """The tools of a task's world, and `answer`, for one rollout."""

    TOOL_PREFIX = None

    async def setup_task(self, task: WorldData) -> None:
        os.chdir(self.config.folder)  # verifiers starts the server in a folder of the rollout
        self.loop = task.loop()
        self.tools = (
            *ENVIRONMENTS.load(task.record["environment"]["name"]).tools().values(),
            ANSWER,
        )

    def register(self, mcp: "MCPServer") -> None:
        """Offers the tools under the schemas that they have elsewhere. What is wrong with a call is
        for the world to say, so nothing is checked before."""
        from mcp.server.mcpserver.tools.base import Tool as Offered
        from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata

        class Anything(ArgModelBase, extra="allow"):  # type: ignore[call-arg, misc]
            def model_dump_one_level(self) -> JsonObject:
                return {"arguments": self.model_extra}

        def offered(tool: Tool) -> Offered:
            async def call(arguments: JsonObject) -> str:
                return self.loop.call(tool.name, arguments)

            document = {"description": tool.description, "parameters": tool.schema()["parameters"]}
            unchecked = FuncMetadata(arg_model=Anything)
            return Offered(
                fn=call, name=tool.name, **document, fn_metadata=unchecked, is_async=True
            )

        mcp._tool_manager._tools.update({tool.name: offered(tool) for tool in self.tools})


class WorldTask(vf.Task[WorldData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
    @property
    def key(self) -> str:
        return str(self.data.record["id"])

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [WorldTools(WorldToolsConfig(folder=Path.cwd()))]

    @vf.reward  # type: ignore[untyped-decorator]
    async def progress(self, trace: vf.Trace) -> float:
        played = self.data.played(trace.messages)
        return float(played.resolved / played.expected)


if __name__ == "__main__":
    WorldTools.run()
