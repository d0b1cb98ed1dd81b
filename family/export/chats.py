"""Kept traces as conversations in the common form: messages with `tool_calls`, whatever dialect the
policy wrote them in."""

from collections.abc import Iterator

import orjson

from rods.canonical import JsonObject
from rods.episode.engine import StepTrace, Trace
from rods.tasks import AnyTask, Task


def conversation(task: AnyTask, trace: Trace) -> Iterator[JsonObject]:
    """The messages of an episode of `task`. Prompts and documents of tools are left out; a
    complaint about a malformed reply is the message of a `system`."""
    if task.system:
        yield {"role": "system", "content": task.system}
    steps = iter([(turn, step) for turn, part in enumerate(trace.turns) for step in part.steps])
    turn = -1
    last: StepTrace | None = None
    calls = 0
    for message in trace.messages[1:]:
        if message.role == "assistant":
            turn, last = next(steps)
            names = [f"call_{calls + place}" for place in range(len(last.calls))]
            calls += len(names)
            yield _reply(last, names)
            for name, result in zip(names, last.results, strict=True):
                yield {"role": "tool", "tool_call_id": name, "content": result.text}
        elif last is not None and last.error is not None:
            yield {"role": "system", "content": message.content}
        elif last is None or not last.calls:
            # without the documents of tools that return with it
            said = task.script[turn + 1] if isinstance(task, Task) else message.content
            yield {"role": "user", "content": said}


def _reply(step: StepTrace, names: list[str]) -> JsonObject:
    if not step.calls:
        return {"role": "assistant", "content": step.text}
    called = [
        {
            "id": name,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": orjson.dumps(dict(call.arguments)).decode(),
            },
        }
        for name, call in zip(names, step.calls, strict=True)
    ]
    return {"role": "assistant", "content": None, "tool_calls": called}
