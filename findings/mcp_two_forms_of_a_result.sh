#!/usr/bin/env bash
# Software: mcp 2.3.0 (the Python SDK of the Model Context Protocol; server and client in one
#   process).
# Expected: a result's `content` and its `structuredContent` say the same, as the protocol asks.
# Seen: lists are flattened into blocks of text at every depth, so [[1], [2, 3]] and [[1, 2], [3]]
#   have one content, and no block tells a list of one from its element; an empty list and None
#   have no content at all (the former is on record as an open question of the SDK). Whether there
#   is a structured form hangs on the annotation's letters: `dict[str, int]` has one, `dict` and
#   `Any` have none, and `dict[int, int]` has one in a wrapper.
# Touches: whoever shows models the content alone, or compares worlds by it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mcp==2.3.0
cat >"$folder/expected" <<'END'
list[list[int]] [[1], [2, 3]]
   content: ['1', '2', '3'] | structured: {"result": [[1], [2, 3]]}
list[list[int]] [[1, 2], [3]]
   content: ['1', '2', '3'] | structured: {"result": [[1, 2], [3]]}
list[str] ['a']
   content: ['a'] | structured: {"result": ["a"]}
str a
   content: ['a'] | structured: {"result": "a"}
list[int] []
   content: [] | structured: {"result": []}
int | None None
   content: [] | structured: {"result": null}
dict[str, int] {'a': 1}
   content: ['{  "a": 1}'] | structured: {"a": 1}
dict[int, int] {1: 1}
   content: ['{  "1": 1}'] | structured: {"result": {"1": 1}}
dict {'a': 1}
   content: ['{  "a": 1}'] | structured: null
Any {'a': 1}
   content: ['{  "a": 1}'] | structured: null
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import asyncio
import json
from typing import Any, get_args

from mcp import Client
from mcp.server.mcpserver import MCPServer

server = MCPServer("results")
RESULTS = (
    (list[list[int]], [[1], [2, 3]]),
    (list[list[int]], [[1, 2], [3]]),
    (list[str], ["a"]),
    (str, "a"),
    (list[int], []),
    (int | None, None),
    (dict[str, int], {"a": 1}),
    (dict[int, int], {1: 1}),
    (dict, {"a": 1}),
    (Any, {"a": 1}),
)


def tool(annotation, value):
    def returns():
        return value

    returns.__annotations__["return"] = annotation
    return returns


for number, (annotation, value) in enumerate(RESULTS):
    server.add_tool(tool(annotation, value), name=f"tool_{number}")


async def main():
    async with Client(server) as client:
        for number, (annotation, value) in enumerate(RESULTS):
            named = str(annotation) if get_args(annotation) else annotation.__name__
            print(named, value)
            result = await client.call_tool(f"tool_{number}", {})
            texts = [block.text.replace("\n", "") for block in result.content]
            print("   content:", texts, "| structured:", json.dumps(result.structured_content))


asyncio.run(main())
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
