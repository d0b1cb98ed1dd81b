#!/usr/bin/env bash
# Software: mcp 2.3.0 (the Python SDK of the Model Context Protocol), jsonschema 4.26.0.
# Expected: a server takes a call whose arguments are valid under the schema that it publishes for
#   the tool, hands the tool these arguments, and refuses others.
# Seen: both ways it does not. A text for `str | None` that happens to be a JSON object or list, a
#   valid one, is parsed and then refused as no string; the text "null" arrives as None (the SDK
#   parses texts for clients that send lists as text; plain `str` is left alone). Arguments that
#   the schema refuses pass: "3" and true for an integer, "yes" for a boolean, a list as text. An
#   argument that the tool does not have is dropped without a word, as the schema allows it.
# Touches: whoever checks a model's calls against schemas, trains with such a server or writes
#   tasks for it: misspelt optional arguments count as right calls, and notes that hold JSON as
#   wrong ones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mcp==2.3.0 jsonschema==4.26.0
cat >"$folder/expected" <<'END'
{"note": "plain"}: valid; book('plain', '', 1, False, None)
{"note": "{\"a\": 1}"}: valid; refused
{"note": "[\"a\"]"}: valid; refused
{"note": "null"}: valid; book(None, '', 1, False, None)
{"text": "{\"a\": 1}"}: valid; book(None, '{"a": 1}', 1, False, None)
{"nights": "3"}: invalid; book(None, '', 3, False, None)
{"nights": 3.5}: invalid; refused
{"nights": true}: invalid; book(None, '', 1, False, None)
{"late": "yes"}: invalid; book(None, '', 1, True, None)
{"guests": "[\"ann\"]"}: invalid; book(None, '', 1, False, ['ann'])
{"nigths": 3}: valid; book(None, '', 1, False, None)
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import asyncio
import json
import logging

from jsonschema import Draft202012Validator
from mcp import Client
from mcp.server.mcpserver import MCPServer

logging.disable(logging.CRITICAL)
server = MCPServer("arguments")


@server.tool()
def book(
    note: str | None = None,
    text: str = "",
    nights: int = 1,
    late: bool = False,
    guests: list[str] | None = None,
) -> str:
    return repr((note, text, nights, late, guests))


CALLS = (
    {"note": "plain"},
    {"note": '{"a": 1}'},
    {"note": '["a"]'},
    {"note": "null"},
    {"text": '{"a": 1}'},
    {"nights": "3"},
    {"nights": 3.5},
    {"nights": True},
    {"late": "yes"},
    {"guests": '["ann"]'},
    {"nigths": 3},
)


async def main():
    async with Client(server) as client:
        schema = (await client.list_tools()).tools[0].input_schema
        validator = Draft202012Validator(schema)
        for arguments in CALLS:
            valid = "valid" if validator.is_valid(arguments) else "invalid"
            result = await client.call_tool("book", arguments)
            said = "refused" if result.is_error else f"book{result.content[0].text}"
            print(f"{json.dumps(arguments)}: {valid}; {said}")


asyncio.run(main())
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
