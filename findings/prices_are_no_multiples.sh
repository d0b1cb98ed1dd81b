#!/usr/bin/env bash
# Software: pydantic 2.14.4, jsonschema 4.26.0, jsonschema-rs 0.61.2, mcp 2.3.0 (the Python SDK of
#   the Model Context Protocol), fastmcp 4.2.3.
# Expected: a price that a tool's type takes, `Field(multiple_of=0.01)`, is valid by the schema
#   that is made of this type, for every validator.
# Seen: jsonschema divides as floats do and refuses 0.07, 19.99 and 13.6 % of all prices below
#   100; of tenths it refuses a third. pydantic, whose schema it is, and jsonschema-rs take all.
#   Both MCP clients validate results by jsonschema: a server takes the price, carries the call
#   out and answers, and its caller gets an error in place of the result.
# Touches: whoever checks calls by jsonschema against schemas made by pydantic: right calls are
#   refused, by the amount. With an MCP tool whose results have such a field the state has
#   changed, and the policy reads that it failed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pydantic==2.14.4 jsonschema==4.26.0 jsonschema-rs==0.61.2 \
  mcp==2.3.0 fastmcp==4.2.3
cat >"$folder/expected" <<'END'
multiples of 0.01, up to 99.99:
  pydantic takes 9999, jsonschema-rs 9999, jsonschema 8636: not [0.07, 0.14, 0.28, 0.29], …
multiples of 0.05, up to 499.95:
  pydantic takes 9999, jsonschema-rs 9999, jsonschema 6771: not [0.15, 0.3, 0.35, 0.6], …
multiples of 0.1, up to 999.9:
  pydantic takes 9999, jsonschema-rs 9999, jsonschema 6771: not [0.3, 0.6, 0.7, 1.2], …
multiples of 0.25, up to 2499.75:
  pydantic takes 9999, jsonschema-rs 9999, jsonschema 9999
mcp, pay(0.5): paid [0.5]
  the caller has {'price': 0.5}
mcp, pay(19.99): paid [19.99]
  the caller has a RuntimeError that says 19.99, 0.01
fastmcp, pay(0.5): paid [0.5]
  the caller has {'price': 0.5}
fastmcp, pay(19.99): paid [19.99]
  the caller has a RuntimeError that says 19.99, 0.01
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import asyncio
import logging
from typing import Annotated

import fastmcp
import jsonschema_rs
import mcp
from jsonschema import Draft202012Validator
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

logging.disable(logging.CRITICAL)

Price = Annotated[float, Field(multiple_of=0.01)]


class Offer(BaseModel):
    price: Price


paid = []


def pay(price: Price) -> Offer:
    paid.append(price)
    return Offer(price=price)


def takes(adapter, value):
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


for step, digits in ((0.01, 2), (0.05, 2), (0.1, 1), (0.25, 2)):
    adapter = TypeAdapter(Annotated[float, Field(multiple_of=step)])
    schema = adapter.json_schema()
    python, rust = Draft202012Validator(schema), jsonschema_rs.validator_for(schema)
    values = [round(number * step, digits) for number in range(1, 10_000)]
    refused = [value for value in values if not python.is_valid(value)]
    taken = sum(takes(adapter, value) for value in values)
    said = f"pydantic takes {taken}, jsonschema-rs {sum(map(rust.is_valid, values))}"
    print(f"multiples of {step}, up to {values[-1]}:")
    print(f"  {said}, jsonschema {len(values) - len(refused)}", end="")
    print(f": not {refused[:4]}, …" if refused else "")


async def main():
    sdk, other = MCPServer("sdk"), fastmcp.FastMCP("other")
    sdk.tool()(pay)
    other.tool(pay)
    async with mcp.Client(sdk) as one, fastmcp.Client(other) as two:
        for name, call in (("mcp", one.call_tool), ("fastmcp", two.call_tool)):
            for price in (0.5, 19.99):
                paid.clear()
                try:
                    result = (await call("pay", {"price": price})).structured_content
                except RuntimeError as error:
                    told = [each for each in (str(price), "0.01") if each in str(error)]
                    result = f"a RuntimeError that says {', '.join(told)}"
                print(f"{name}, pay({price}): paid {paid}\n  the caller has {result}")


asyncio.run(main())
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
