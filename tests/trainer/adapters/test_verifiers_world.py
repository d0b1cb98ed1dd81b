"""A world as verifiers plays it: two hundred tasks through its tool server, and some through its
whole tool loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.tasks import task_lines
from rods.trainer.adapters.conformance import CONFIG
from tests.environments import load
from tests.trainer.adapters.scripted import Line, moves, ours, tasks

vf: Any = pytest.importorskip(
    "verifiers.v1", reason="needs verifiers in an environment of its own: make verifiers"
)

pytestmark = [pytest.mark.slow, pytest.mark.needs("adapters")]


def called(move: Call | str, last: bool) -> tuple[str, dict[str, Any]] | None:
    """The tool and the arguments of a move; None where it is a reply in plain words."""
    if isinstance(move, Call):
        return move.name, dict(move.arguments)
    return None if last else ("answer", {"text": move})


def lines(first: str, messages: list[Any]) -> list[Line]:
    """A transcript of verifiers' as one of ours: a result of `answer` is what the user says
    next."""
    made: list[Line] = [("user", first)]
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "tool":
            content = (
                message.content if isinstance(message.content, str) else message.content[0].text
            )
            made.append(("user" if names[message.tool_call_id] == "answer" else "result", content))
        elif message.role == "assistant":
            for call in message.tool_calls or ():
                arguments = json.loads(call.arguments)
                names[call.id] = call.name
                answer = call.name == "answer"
                made.append(
                    ("answer", arguments["text"])
                    if answer
                    else ("call", Call(call.name, arguments))
                )
            if not message.tool_calls:
                made.append(("answer", message.content))
    return made


async def test_two_hundred_tasks_are_the_same_behind_verifiers_tool_server() -> None:
    from mcp.server.mcpserver import MCPServer
    from verifiers.v1.types import AssistantMessage, ToolCall, ToolMessage

    from rods.trainer.adapters.verifiers_world import WorldData, WorldTools, WorldToolsConfig

    earned = set()
    for task in tasks():
        # as it comes to the server
        data = WorldData.model_validate_json(WorldData.of(task).model_dump_json())
        tools = WorldTools(WorldToolsConfig())
        mcp = MCPServer("world")
        messages = []
        await tools.setup_task(data)
        tools.register(mcp)
        script = moves(task)
        for number, move in enumerate(script):
            if (call := called(move, number == len(script) - 1)) is None:
                messages.append(AssistantMessage(content=str(move)))
                continue
            made = ToolCall(id=str(number), name=call[0], arguments=json.dumps(call[1]))
            (result,) = (await mcp.call_tool(*call)).content
            messages += [
                AssistantMessage(tool_calls=[made]),
                ToolMessage(tool_call_id=made.id, content=result.text),
            ]
        own, resolved = ours(task)
        assert lines(data.prompt, messages) == own, task.id
        assert data.played(messages).resolved == resolved
        earned.add(resolved / task.expected)
    offered = {tool.name: tool.input_schema for tool in await mcp.list_tools()}
    assert {
        name: tool.schema()["parameters"] for name, tool in load("desk").tools().items()
    }.items() < offered.items()
    assert len(earned) > 3


class Scripted(BaseHTTPRequestHandler):
    """A model server that answers with the next move of the task whose first text it is shown."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = body["messages"]
        first = next(message["content"] for message in asked if message["role"] == "user")
        first = first if isinstance(first, str) else first[0]["text"]
        script = next(moves(task) for task in tasks(8) if task.script[0] == first)
        number = sum(message["role"] == "assistant" for message in asked)
        call = called(script[number], number == len(script) - 1)
        message: dict[str, Any] = {"role": "assistant", "content": None if call else script[number]}
        if call:
            function = {"name": call[0], "arguments": json.dumps(call[1])}
            message["tool_calls"] = [
                {"index": 0, "id": f"call{number}", "type": "function", "function": function}
            ]
        stream = body.get("stream", False)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls" if call else "stop"}
        choice["delta" if stream else "message"] = message
        reply = {
            "id": "x",
            "object": "chat.completion.chunk" if stream else "chat.completion",
            "created": 0,
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        text = json.dumps({**reply, "model": "script", "choices": [choice], "usage": usage})
        data = (f"data: {text}\n\ndata: [DONE]\n\n" if stream else text).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def test_tasks_of_a_run_are_the_same_in_verifiers_whole_tool_loop(tmp_path: Path) -> None:
    """`vf-eval`: its harness, tool servers, interception and traces."""
    from verifiers.v1.trace import WireTrace
    from verifiers.v1.utils.trace_store import read_episodes

    (tmp_path / "tasks.jsonl").write_bytes(task_lines(tasks(8)))
    config = CONFIG.replace('"desk", train = 8, held_out = 4', f'"{tmp_path}/tasks.jsonl"')
    (tmp_path / "run.toml").write_text(config.replace('sync = "lockstep"', ""))
    (tmp_path / "my_tasks.py").write_text(
        "from rods.trainer.adapters.verifiers_stream import StreamTaskset\n\n__all__ = "
        "['StreamTaskset']\n"
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bin = Path(sys.executable).parent
    told = {"taskset.run": "run", "taskset.run-config": "run.toml",
            "taskset.traces": "traces.jsonl", "agent.harness.id": "null",
            "agent.runtime.type": "subprocess"}  # fmt: skip
    more = [part for name, value in told.items() for part in (f"--env.{name}", value)]
    command = [
        str(bin / "vf-eval"),
        "my_tasks",
        "-n",
        "2",
        "-m",
        "script",
        "-c",
        "2",
        "--no-rich",
        "--no-push",
        *more,
    ]
    command += [
        "--client.base-url",
        f"http://127.0.0.1:{server.server_port}/v1",
        "-o",
        "out",
        "--run.dir",
        "it",
    ]
    path = os.pathsep.join(map(str, (tmp_path, *sys.path)))
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PATH": f"{bin}:{os.environ['PATH']}",
        "OPENAI_API_KEY": "none",
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500
    )
    server.shutdown()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    known = {task.id: task for task in tasks(8)}
    episodes = read_episodes(tmp_path / "out" / "it", WireTrace)
    assert len(episodes) == 2
    for episode in episodes:
        (trace,) = episode.traces
        task = known[episode.task.key]
        own, resolved = ours(task)
        assert lines(task.script[0], trace.messages) == own
        assert trace.reward == pytest.approx(resolved / task.expected)
