"""`python -m rods.family.harbor.world`: the world of an exported task, inside of its environment.

    tools                     the tools that are there now, as JSON, one a line
    call NAME ARGUMENTS …     calls tools, one after the other, and prints what each answers
    turn                      ends the turn
    mcp                       serves the tools on standard input and output
    score TASK REWARD         writes the verdict on what was called

What was called is logged, and the world is made anew from that each time: the commands and the
server are one world, and its verdict rests on nothing but calls."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rods.calls import Call
from rods.canonical import JsonObject
from rods.environments.base import Environment, Result, Tool
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, RodsError, UserError, complain
from rods.model_json import read_exact

if TYPE_CHECKING:
    from rods.tasks import AnyTask

FOLDER = "RODS_WORLD"  # where task.json and the log lie, if not in /world
TURN: JsonObject = {"turn": True}


class World:
    """The world of the task in `folder`. Raises UserError where it is another version of it than
    the task was written in."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "calls.jsonl"
        self._task: JsonObject = orjson.loads((folder / "task.json").read_bytes())
        self._folder = folder

    @cached_property
    def environment(self) -> Environment:
        os.chdir(self._folder)  # from which a world that is named by a file is found
        wanted = self._task["environment"]
        environment = Environments().load(wanted["name"])
        if environment.hash != wanted["hash"]:
            raise UserError(
                f"{wanted['name']} is {environment.hash} here, and the task's is {wanted['hash']}",
                where=self._folder,
                remedy="install the version of the package that exported it",
            )
        return environment

    def tools(self) -> list[Tool]:
        """Those that may be called in this turn."""
        return self._tools_at(sum("turn" in entry for entry in self.entries()))

    def _tools_at(self, turn: int) -> list[Tool]:
        names = self._task["tools"]
        later = [held for until, held in names.get("held_out", {}).items() if turn < int(until)]
        hidden = {name for held in later for name in held}
        return [self.environment.tools()[name] for name in names["names"] if name not in hidden]

    def entries(self) -> Iterator[JsonObject]:
        """What was logged. A line that is none of ours is nobody's call."""
        for line in self._log.read_bytes().splitlines() if self._log.exists() else ():
            with suppress(ValueError):
                entry = orjson.loads(line)
                yield TURN if entry == TURN else Call.from_json(entry).as_json()

    def call(self, call: Call) -> Result:
        """Carries `call` out after all before it."""
        with self._locked():
            instance = self.environment.reset(self._task.get("state"))
            result = Result("")
            turn = 0
            for entry in [*self.entries(), call.as_json()]:
                turn += "turn" in entry
                if "name" in entry:
                    there = any(tool.name == entry["name"] for tool in self._tools_at(turn))
                    result = Result(f"no tool named {entry['name']}", error="unknown_tool")
                    result = instance.call(Call.from_json(entry)) if there else result
            if result.error == "infrastructure":
                raise InfrastructureError(result.text)
            self._append(call.as_json())
        return result

    def turn(self) -> None:
        """The turn is over, whatever was called in it."""
        with self._locked():
            self._append(TURN)

    def score(self, task: "AnyTask") -> JsonObject:
        """`reward`: 1 where the whole task is resolved, so 0 before its last turn; `progress`: the
        share that training has. Raises InfrastructureError where there is no verdict."""
        if not self._log.exists():
            remedy = "`world turn` ends a turn and brings it here"
            raise UserError("there is no log of a turn", where=self._log, remedy=remedy)
        # imports for which no call waits
        from rods.dialects.remote import Served
        from rods.episode.drivers import Job, Running
        from rods.episode.engine import NeedText, Reply, Trace
        from rods.episode.goals import goal_of

        served = Served()
        goal = goal_of(self.environment, task)
        running = Running(Job(task, self.environment, served, goal, max_steps=sys.maxsize))
        state = running.advance(None)
        for entry in self.entries():
            if isinstance(state, NeedText):
                done = "turn" in entry
                text = served.answer("Done.") if done else served.write([Call.from_json(entry)])
                state = running.advance(Reply(text))
        # a turn that was not ended is not resolved
        trace = state if isinstance(state, Trace) else running.advance(Reply("", "length"))
        assert isinstance(trace, Trace)
        if trace.end == "infrastructure":
            raise InfrastructureError("the calls could not be judged")
        return {"reward": float(trace.binary), "progress": trace.resolved / trace.expected}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._log.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _append(self, entry: JsonObject) -> None:
        with self._log.open("ab") as file:
            file.write(orjson.dumps(entry) + b"\n")


def main(arguments: list[str]) -> int:
    """Carries out one command. Returns 0, or what is wrong with the command line or the world."""
    try:
        return _carried_out(World(Path(os.environ.get(FOLDER, "/world")).absolute()), arguments)
    except RodsError as error:
        complain("world", str(error))
        return error.exit_code


def _carried_out(world: World, arguments: list[str]) -> int:
    match arguments:
        case ["tools"]:
            for tool in world.tools():
                sys.stdout.write(orjson.dumps(tool.schema()).decode() + "\n")
        case ["call", *pairs] if pairs and len(pairs) % 2 == 0:
            for name, text in zip(pairs[::2], pairs[1::2], strict=True):
                sys.stdout.write(_called(world, name, text) + "\n")
        case ["turn"]:
            world.turn()
        case ["mcp"]:
            asyncio.run(serve(world))
        case ["score", task, reward]:
            from rods.tasks import AnyTask

            record = orjson.loads(Path(task).read_bytes())
            target = Path(reward).absolute()
            target.write_bytes(orjson.dumps(world.score(AnyTask.from_json(record))))
        case _:
            sys.stderr.write(str(__doc__))
            return 1
    return 0


def _called(world: World, name: str, text: str) -> str:
    try:
        call = Call.from_json({"name": name, "arguments": read_exact(text)})
    except ValueError as error:
        return f"the arguments of {name} are no JSON object: {error}"
    return world.call(call).text


async def serve(world: World) -> None:
    """Serves the tools of the world by MCP, until standard input ends."""
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    async def listed(*_: Any) -> types.ListToolsResult:
        documents = [tool.schema() for tool in world.tools()]
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=document["name"],
                    description=document["description"],
                    input_schema=document["parameters"],
                )
                for document in documents
            ]
        )

    async def called(_: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        result = world.call(Call(request.name, request.arguments or {}))
        content = [types.TextContent(type="text", text=result.text)]
        return types.CallToolResult(content=content, is_error=result.error is not None)

    server = Server("world", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
