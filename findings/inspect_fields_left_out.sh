#!/usr/bin/env bash
# Software: inspect-ai 0.3.285 (tools made of functions, and `execute_tools`, which carries calls
#   out), pydantic 2.14.4.
# Expected: a field that has a default in the type of an argument is not required, as the schema
#   says; a call without it gets the default.
# Seen: of a dataclass no default is used. A field that is left out becomes None, and None is made
#   a value of its type: a text "None", False in place of True, and for a number the model reads
#   of an error with 'None', which it has not written. A typed dictionary gets a key that
#   the call has not, with the text "None". Defaults are not in the schema, so a policy cannot
#   write them either. Models of pydantic and parameters of the function itself keep theirs. A
#   tuple's schema has the type of its first element for all: what the type asks for is refused.
# Touches: whoever gives a tool a dataclass or a typed dictionary: valid calls do something else,
#   without an error, and rewards that compare states count it against the policy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q inspect-ai==0.3.285 pydantic==2.14.4
cat >"$folder/expected" <<'END'
parameters: required ['place'], defaults {'view': 'sea'}
  {"place": "Rome"} → 'Rome', 'sea'
model of pydantic: required ['place'], defaults {'view': 'sea', 'breakfast': True, 'nights': 2}
  {"room": {"place": "Rome"}} → Model(place='Rome', view='sea', breakfast=True, nights=2)
dataclass: required ['place'], defaults {}
  {"room": {"place": "Rome"}} → Class(place='Rome', view='None', breakfast=False)
  {"room": {"place": "Rome", "view": "sea"}} → Class(place='Rome', view='sea', breakfast=False)
list of them: required ['place'], defaults {}
  {"room": [{"place": "Rome"}]} → [Class(place='Rome', view='None', breakfast=False)]
dataclass with a number: required ['place'], defaults {}
  {"room": {"place": "Rome"}} → an error that says 'None'
typed dictionary: required ['place'], defaults {}
  {"room": {"place": "Rome"}} → {'place': 'Rome', 'view': 'None'}
tuple of a text and a number: required None, defaults {}
  {"room": ["Rome", 2]} → an error that says 'string'
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import asyncio
import inspect
import json
import logging
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, execute_tools
from inspect_ai.tool import ToolCall, ToolDef
from pydantic import BaseModel

logging.disable(logging.CRITICAL)


class Model(BaseModel):
    place: str
    view: str = "sea"
    breakfast: bool = True
    nights: int = 2


@dataclass
class Class:
    place: str
    view: str = "sea"
    breakfast: bool = True


@dataclass
class ClassWithNumber:
    place: str
    nights: int = 2


class Dictionary(TypedDict):
    place: str
    view: NotRequired[str]


async def plain(place: str, view: str = "sea") -> str:
    return f"{place!r}, {view!r}"


async def model(room: Model) -> str:
    return repr(room)


async def dataclass_(room: Class) -> str:
    return repr(room)


async def dataclass_with_number(room: ClassWithNumber) -> str:
    return repr(room)


async def list_(room: list[Class]) -> str:
    return repr(room)


async def dictionary(room: Dictionary) -> str:
    return repr(room)


async def tuple_(room: tuple[str, int]) -> str:
    return repr(room)


async def show(what, function, *arguments):
    texts = dict.fromkeys(inspect.signature(function).parameters, "What.")
    tool = ToolDef(function, "book", "Books.", texts)
    schema = tool.parameters.model_dump(exclude_none=True)
    schema = schema["properties"].get("room", schema)
    schema = schema.get("items", schema)
    fields = schema.get("properties", {})
    defaults = {name: each["default"] for name, each in fields.items() if "default" in each}
    print(f"{what}: required {schema.get('required')}, defaults {defaults}")
    for each in arguments:
        call = ToolCall(id="1", function="book", arguments=each)
        said = ChatMessageAssistant(content="", tool_calls=[call])
        (result,) = (await execute_tools([ChatMessageUser(content="Go."), said], [tool])).messages
        said = result.content
        if result.error:
            told = [word for word in ("'None'", "'string'") if word in result.error.message]
            said = f"an error that says {', '.join(told)}"
        print(f"  {json.dumps(each)} → {said}")


async def main():
    rome = {"place": "Rome"}
    await show("parameters", plain, rome)
    await show("model of pydantic", model, {"room": rome})
    await show("dataclass", dataclass_, {"room": rome}, {"room": rome | {"view": "sea"}})
    await show("list of them", list_, {"room": [rome]})
    await show("dataclass with a number", dataclass_with_number, {"room": rome})
    await show("typed dictionary", dictionary, {"room": rome})
    await show("tuple of a text and a number", tuple_, {"room": ["Rome", 2]})


asyncio.run(main())
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
