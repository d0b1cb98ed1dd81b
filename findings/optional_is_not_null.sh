#!/usr/bin/env bash
# Software: transformers 5.23.0 (`get_json_schema`, which makes tool documents of functions),
#   jsonschema 4.26.0.
# Expected: the schema that is made of a signature accepts what the function accepts, and says
#   what the signature says: null for `str | None`, the default, the bounds of an `Annotated`
#   type.
# Seen: `str | None = None` becomes {"type": "string", "nullable": true}. `nullable` is a word of
#   OpenAPI 3.0; JSON Schema has none, so every validator and grammar refuses null, the default
#   itself. Defaults are left out altogether, and so are bounds, without a word. A mapping that
#   can be called passes as a tool whole: what `tools=` shows is then the mapping.
# Touches: whoever hands functions to `apply_chat_template(tools=…)` or to TRL's environments and
#   checks calls against the same document: a model that writes null, as it is told that it may,
#   is refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 jinja2==3.1.6 \
  jsonschema==4.26.0 annotated-types==0.7.0
cat >"$folder/expected" <<'END'
place {"type": "string", "nullable": true, "description": "Where."}
nights {"type": "integer", "description": "How many."}
{"place": null} invalid
{"nights": 0} valid
nights, as a function among the tools: {"type": "integer", "description": "How many."}
nights, as a Tool among the tools: {"type": "integer", "description": "How many.", "minimum": 1, "default": 2}
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import json
from typing import Annotated

from annotated_types import Interval
from jsonschema import Draft202012Validator
from transformers.utils import get_json_schema
from transformers.utils.chat_template_utils import render_jinja_template


def book(place: str | None = None, nights: Annotated[int, Interval(ge=1, le=9)] = 2) -> str:
    """
    Books a room.

    Args:
        place: Where.
        nights: How many.
    """
    return f"{place} {nights}"


class Tool(dict):
    """A tool's document that can be called."""

    def __call__(self, **arguments):
        return book(**arguments)


parameters = get_json_schema(book)["function"]["parameters"]
for name, schema in parameters["properties"].items():
    print(name, json.dumps(schema))
validator = Draft202012Validator(parameters)
for arguments in ({"place": None}, {"nights": 0}):
    print(json.dumps(arguments), "valid" if validator.is_valid(arguments) else "invalid")

whole = get_json_schema(book)
whole["function"]["parameters"]["properties"]["nights"] |= {"minimum": 1, "default": 2}
template = "{{ tools[0].function.parameters.properties.nights | tojson }}"
asked = [{"role": "user", "content": "Go."}]
for tool in (book, Tool(whole)):
    shown = render_jinja_template([asked], tools=[tool], chat_template=template)[0][0]
    print(f"nights, as a {type(tool).__name__} among the tools:", shown)
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
