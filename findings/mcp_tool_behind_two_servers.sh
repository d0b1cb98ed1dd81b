#!/usr/bin/env bash
# Software: mcp 2.3.0 (the Python SDK of the Model Context Protocol) and fastmcp 4.2.3, which is
#   built on it.
# Expected: the same Python function as a tool of either, called with the same arguments, gives a
#   model the same to read.
# Seen: a ValueError's text reaches the caller by fastmcp and not by mcp, where a model reads only
#   that the tool failed (by design: only its own ToolError is shown); an argument that the tool
#   does not have is dropped by mcp and an error by fastmcp; a list given as text is taken by mcp
#   and an error by fastmcp; a list's content is a block for each element by mcp and one block of
#   JSON by fastmcp, whose JSON has no blanks; a mapping without annotations has a structured form
#   by fastmcp alone, None by mcp alone.
# Touches: whoever trains against one and serves the other, moves a server from one to the other,
#   or compares worlds by the text of results: the errors from which a policy learns to mend its
#   calls are others.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mcp==2.3.0 fastmcp==4.2.3
cat >"$folder/expected" <<'END'
order {"number": 101}
  mcp: an error that says no reason
  fastmcp: an error that says up to 100
order {"nunber": 3}
  mcp: ['1 None'], structured {"result": "1 None"}
  fastmcp: an error that says nunber
order {"notes": "[\"late\"]"}
  mcp: ["1 ['late']"], structured {"result": "1 ['late']"}
  fastmcp: an error that says notes
rows {}
  mcp: ['{  "a": 1}', '{  "a": 2}'], structured {"result": [{"a": 1}, {"a": 2}]}
  fastmcp: ['[{"a":1},{"a":2}]'], structured {"result": [{"a": 1}, {"a": 2}]}
mapping {}
  mcp: ['{  "a": 1}'], structured null
  fastmcp: ['{"a":1}'], structured {"a": 1}
nothing {}
  mcp: [], structured {"result": null}
  fastmcp: [], structured null
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import asyncio
import json
import logging

import fastmcp
import mcp
from mcp.server.mcpserver import MCPServer

logging.disable(logging.CRITICAL)


def order(number: int = 1, notes: list[str] | None = None) -> str:
    if number > 100:
        raise ValueError("Orders go up to 100.")
    return f"{number} {notes}"


def rows() -> list[dict]:
    return [{"a": 1}, {"a": 2}]


def mapping():
    return {"a": 1}


def nothing() -> None:
    return None


CALLS = (
    ("order", {"number": 101}),
    ("order", {"nunber": 3}),
    ("order", {"notes": '["late"]'}),
    ("rows", {}),
    ("mapping", {}),
    ("nothing", {}),
)


async def main():
    sdk = MCPServer("sdk")
    other = fastmcp.FastMCP("other")
    for function in (order, rows, mapping, nothing):
        sdk.tool()(function)
        other.tool(function)
    async with mcp.Client(sdk) as one, fastmcp.Client(other) as two:
        for name, arguments in CALLS:
            print(name, json.dumps(arguments))
            results = {
                "mcp": await one.call_tool(name, arguments),
                "fastmcp": await two.call_tool_mcp(name, arguments),
            }
            for server, result in results.items():
                if result.is_error:
                    said = " ".join(block.text for block in result.content)
                    told = [word for word in ("up to 100", "nunber", "notes") if word in said]
                    print(f"  {server}: an error that says {', '.join(told) or 'no reason'}")
                    continue
                texts = [block.text.replace("\n", "") for block in result.content]
                print(f"  {server}: {texts}, structured {json.dumps(result.structured_content)}")


asyncio.run(main())
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
