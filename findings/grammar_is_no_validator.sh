#!/usr/bin/env bash
# Software: llguidance 1.9.1, outlines-core 0.2.14 (both make grammars of JSON schemas for
#   constrained decoding, in vLLM among others), jsonschema 4.26.0.
# Expected: a model that is bound to a tool's schema can write every call that is valid under the
#   schema, and no other.
# Seen: neither. Valid calls that no bound model can write, with both engines: keys in another
#   order than the schema's, 3.0 for an integer, a letter beyond ASCII written as an escape, which
#   is how Python's json.dumps writes it, and an escaped slash with llguidance; with outlines-core
#   alone also 1e5 for a number, line ends between keys, keys that the schema leaves open, and a
#   pattern's match inside a longer text. Invalid calls that outlines-core lets through: it drops
#   bounds and multipleOf without a word. `"uniqueItems": false`, which asks for nothing, is an
#   error of llguidance.
# Touches: whoever measures or trains with constrained decoding: the probability of a ground truth
#   can be nought for its spelling, and a bound reply still has to be checked.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q llguidance==1.9.1 outlines-core==0.2.14 jsonschema==4.26.0
cat >"$folder/expected" <<'END'
valid | llguidance | outlines-core | text
yes   | yes        | yes           | '{"city": "Rome", "days": 3}'
yes   | yes        | yes           | '{"city":"Rome","days":3}'
yes   | no         | no            | '{"days": 3, "city": "Rome"}'
yes   | no         | no            | '{"city": "Rome", "days": 3.0}'
yes   | yes        | yes           | '{"city": "Zürich"}'
yes   | no         | no            | '{"city": "Z\\u00fcrich"}'
yes   | no         | yes           | '{"city": "Rome\\/Lazio"}'
yes   | yes        | no            | '{"city": "Rome", "ratio": 1e5}'
yes   | yes        | no            | '{\n  "city": "Rome",\n  "days": 3\n}'
yes   | yes        | no            | '{"city": "Rome", "note": "late"}'
yes   | yes        | no            | '{"city": "Rome", "code": "ABC"}'
no    | no         | yes           | '{"city": "Rome", "days": 99}'
no    | no         | yes           | '{"city": "Rome", "step": 7}'
uniqueItems: false: an error of llguidance
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import json
import re

import llguidance
from jsonschema import Draft202012Validator
from outlines_core.json_schema import build_regex_from_schema

TOOL = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "step": {"type": "integer", "multipleOf": 5},
        "ratio": {"type": "number"},
        "code": {"type": "string", "pattern": "B"},
    },
    "required": ["city"],
}
TEXTS = (
    '{"city": "Rome", "days": 3}',
    '{"city":"Rome","days":3}',
    '{"days": 3, "city": "Rome"}',
    '{"city": "Rome", "days": 3.0}',
    '{"city": "Zürich"}',
    json.dumps({"city": "Zürich"}),
    r'{"city": "Rome\/Lazio"}',
    '{"city": "Rome", "ratio": 1e5}',
    '{\n  "city": "Rome",\n  "days": 3\n}',
    '{"city": "Rome", "note": "late"}',
    '{"city": "Rome", "code": "ABC"}',
    '{"city": "Rome", "days": 99}',
    '{"city": "Rome", "step": 7}',
)
tokenizer = llguidance.LLTokenizer("byte")
outlines = re.compile(build_regex_from_schema(json.dumps(TOOL)))
validator = Draft202012Validator(TOOL)


def by_llguidance(text):
    """Whether a model that writes one byte at a time can write the text and end there."""
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(TOOL))
    tokens = list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


print("valid | llguidance | outlines-core | text")
for text in TEXTS:
    valid = "yes" if validator.is_valid(json.loads(text)) else "no"
    first = "yes" if by_llguidance(text) else "no"
    second = "yes" if outlines.fullmatch(text) else "no"
    print(f"{valid:5} | {first:10} | {second:13} | {text!r}")
unique = {"type": "array", "items": {"type": "string"}, "uniqueItems": False}
grammar = llguidance.LLMatcher.grammar_from_json_schema(unique)
refused = llguidance.LLMatcher(tokenizer, grammar).is_error()
print("uniqueItems: false:", "an error of llguidance" if refused else "taken")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
