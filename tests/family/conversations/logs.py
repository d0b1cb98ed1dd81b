"""A stranger's log of 50 conversations, in all forms that logs have, some of them half broken: made
from tasks of desk, whose calls are replayed for the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from rods.canonical import JsonObject
from rods.gates.ground_truth import run
from rods.tasks import Task
from tests.environments import desk_tasks, load

Messages = list[JsonObject]
COUNT = 50


def results_of(task: Task) -> list[list[str]]:
    return [[result.text for result in turn] for turn in run(load("desk"), task)]


def openai(task: Task, *, objects: bool = False) -> JsonObject:
    """All calls of a turn in one message, with ids."""
    messages: Messages = [{"role": "system", "content": "Help with the desk."}]
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        messages.append({"role": "user", "content": text})
        ids = [f"call_{turn}_{index}" for index in range(len(calls))]
        called = [
            {
                "id": own,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": dict(call.arguments)
                    if objects
                    else orjson.dumps(dict(call.arguments)).decode(),
                },
            }
            for own, call in zip(ids, calls, strict=True)
        ]
        if called:
            messages.append({"role": "assistant", "content": None, "tool_calls": called})
        messages += [
            {"role": "tool", "tool_call_id": own, "content": text}
            for own, text in zip(ids, results_of(task)[turn], strict=True)
        ]
        messages.append({"role": "assistant", "content": "Done."})
    return {"messages": messages, "state": dict(task.state or {})}


def anthropic(task: Task) -> JsonObject:
    messages: Messages = []
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        for index, call in enumerate(calls):
            own = f"toolu_{turn}_{index}"
            use = {"type": "tool_use", "id": own, "name": call.name, "input": dict(call.arguments)}
            words = {"type": "text", "text": "Let me see."}
            messages.append({"role": "assistant", "content": [words, use]})
            answer = [{"type": "text", "text": results_of(task)[turn][index]}]
            result = {"type": "tool_result", "tool_use_id": own, "content": answer}
            messages.append({"role": "user", "content": [result]})
        messages.append({"role": "assistant", "content": "Done."})
    return {"system": "Help with the desk.", "messages": messages, "state": dict(task.state or {})}


def sharegpt(task: Task) -> JsonObject:
    messages: Messages = [{"from": "system", "value": "Help with the desk."}]
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        messages.append({"from": "human", "value": text})
        for index, call in enumerate(calls):
            value = orjson.dumps(call.as_json()).decode()
            messages.append({"from": "function_call", "value": value})
            messages.append({"from": "observation", "value": results_of(task)[turn][index]})
        messages.append({"from": "gpt", "value": "Done."})
    return {"conversations": messages, "state": orjson.dumps(dict(task.state or {})).decode()}


def tagged(task: Task) -> JsonObject:
    """ShareGPT with calls between tags."""
    messages: Messages = []
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        messages.append({"from": "human", "value": text})
        if calls:
            written = [orjson.dumps(call.as_json()).decode() for call in calls]
            said = "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in written)
            heard = "\n".join(
                f"<tool_response>\n{text}\n</tool_response>" for text in results_of(task)[turn]
            )
            messages += [{"from": "gpt", "value": said}, {"from": "tool", "value": heard}]
        messages.append({"from": "gpt", "value": "Done."})
    return {"conversations": messages, "state": dict(task.state or {})}


def items(task: Task) -> JsonObject:
    """Calls and their outputs as items of their own."""
    messages: Messages = []
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        messages.append({"role": "user", "content": [{"type": "input_text", "text": text}]})
        for index, call in enumerate(calls):
            own = f"fc_{turn}_{index}"
            arguments = orjson.dumps(dict(call.arguments)).decode()
            named = {"name": call.name, "arguments": arguments, "call_id": own}
            messages.append({"type": "function_call", **named})
            output = results_of(task)[turn][index]
            messages.append({"type": "function_call_output", "call_id": own, "output": output})
        said = {"type": "output_text", "text": "Done."}
        messages.append({"type": "message", "role": "assistant", "content": [said]})
    return {"input": messages, "state": dict(task.state or {})}


def older(task: Task) -> JsonObject:
    """`function_call` of one call a message."""
    messages: Messages = []
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        messages.append({"role": "user", "content": text})
        for index, call in enumerate(calls):
            arguments = orjson.dumps(dict(call.arguments)).decode()
            called = {"name": call.name, "arguments": arguments}
            messages.append({"role": "assistant", "content": None, "function_call": called})
            content = results_of(task)[turn][index]
            messages.append({"role": "function", "name": call.name, "content": content})
        messages.append({"role": "assistant", "content": "Done."})
    return {"messages": messages, "state": dict(task.state or {})}


FORMS: tuple[Callable[[Task], JsonObject], ...] = (
    openai, anthropic, sharegpt, tagged, items, older,
    lambda task: openai(task, objects=True),
)  # fmt: skip


def first(record: JsonObject, role: str) -> int:
    return next(
        place for place, message in enumerate(record["messages"]) if message["role"] == role
    )


def calling(record: JsonObject) -> JsonObject:
    return next(message for message in record["messages"] if message.get("tool_calls"))


def _no_result(record: JsonObject) -> None:
    del record["messages"][first(record, "tool")]


def _result_first(record: JsonObject) -> None:
    messages = record["messages"]
    messages.insert(first(record, "user") + 1, messages.pop(first(record, "tool")))


def _torn_arguments(record: JsonObject) -> None:
    function = calling(record)["tool_calls"][0]["function"]
    function["arguments"] = function["arguments"][:-2]


def _listed_arguments(record: JsonObject) -> None:
    calling(record)["tool_calls"][0]["function"]["arguments"] = [1, 2]


def _no_arguments(record: JsonObject) -> None:
    del calling(record)["tool_calls"][0]["function"]["arguments"]


def _unknown_tool(record: JsonObject) -> None:
    calling(record)["tool_calls"][0]["function"]["name"] += "s"


def _other_result(record: JsonObject) -> None:
    record["messages"][first(record, "tool")]["content"] = '{"id": "R-17", "name": "Blue"}'


def _unknown_role(record: JsonObject) -> None:
    record["messages"][-1]["role"] = "narrator"


def _image(record: JsonObject) -> None:
    part = {"type": "image_url", "image_url": {"url": "https://pictures.example/1.png"}}
    record["messages"][first(record, "user")]["content"] = [part]


def _no_messages(record: JsonObject) -> None:
    record["messages"] = None


def _no_call(record: JsonObject) -> None:
    record["messages"] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}]


def _nameless(record: JsonObject) -> None:
    calling(record)["tool_calls"][0]["function"] = None


BROKEN: dict[str, Callable[[JsonObject], None]] = {  # by what is said of it
    "has no result of it": _no_result,
    "which no message before it makes": _result_first,
    "are no JSON": _torn_arguments,
    "where an object of arguments stands": _listed_arguments,
    "fails here (bad_arguments)": _no_arguments,
    "which the world does not have; did it mean": _unknown_tool,
    "gives another result here": _other_result,
    "which is no known role": _unknown_role,
    "which no task can say": _image,
    "has no list of messages": _no_messages,
    "makes no call": _no_call,
    "has a call without a name": _nameless,
}
TORN = "no JSON"


def log() -> tuple[bytes, dict[int, Task], dict[int, str]]:
    """The file; the tasks that are right by line; and what is said of the lines that are not."""
    tasks = [task for task in desk_tasks(7, 80, 0) if not task.later_tools and task.calls[0]]
    lines: list[bytes] = []
    right: dict[int, Task] = {}
    wrong: dict[int, str] = {}
    kinds: list[Any] = [*BROKEN.items(), (TORN, None)]
    for place, task in enumerate(tasks[:COUNT]):
        if place % 3 or not kinds:
            right[place + 1] = task
            lines.append(orjson.dumps(FORMS[place % len(FORMS)](task)))
            continue
        wrong[place + 1], spoil = kinds.pop()
        record = openai(task)
        if spoil is not None:
            spoil(record)
        line = orjson.dumps(record)
        lines.append(line if spoil is not None else line[: len(line) // 2])
    assert len(lines) == COUNT and not kinds
    return b"".join(line + b"\n" for line in lines), right, wrong
