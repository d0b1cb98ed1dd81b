#!/usr/bin/env bash
# Software: bfcl-eval 2026.3.23 (`ast_checker`, which scores calls in BFCL's single-turn
#   categories).
# Expected: what the checker forgives of a value (an int for a float; case, blanks and some
#   punctuation of a text) it forgives wherever the value stands, and what it refuses (a boolean
#   for an integer) it refuses everywhere.
# Seen: an int for a float is right as an argument and inside a dictionary, and an error of type
#   inside a list, unless the expected list happens to be written with ints. A boolean for 1 is
#   refused as an argument and right inside a dictionary. Texts are compared loosely as arguments
#   and in lists, and to the letter in a list inside a dictionary. Since the minus sign and the
#   point are among the punctuation, "-1.5" is right for "15".
# Touches: whoever scores, rewards or writes tasks with it: the same slip of a model costs an item
#   or not, by the shape of the tool.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps bfcl-eval==2026.3.23 # of its 150 packages
cat >"$folder/expected" <<'END'
float: 3 for 3.0: right
floats in a list: [3] for [3.0]: type_error:nested
floats in a list, expected as ints: [3] for [3]: right
float in a dictionary: {'a': 3} for {'a': [3.0]}: right
integer: True for 1: type_error:simple
integer in a dictionary: {'a': True} for {'a': [1]}: right
text: 'new york' for 'New York': right
texts in a list: ['new york'] for ['New York']: right
text in a dictionary: {'a': 'new york'} for {'a': ['New York']}: right
texts in a list there: {'a': ['new york']} for {'a': [['New York']]}: value_error:dict_value
text: '-1.5' for '15': right
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import sys
from types import ModuleType

# The checker's module imports the table of models, and with it the clients of all providers.
models = ModuleType("bfcl_eval.constants.model_config")
models.MODEL_CONFIG_MAPPING = {}
sys.modules[models.__name__] = models

from bfcl_eval.constants.enums import Language  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402


def check(what, schema, value, *expected):
    parameters = {"type": "dict", "properties": {"x": schema}, "required": ["x"]}
    document = {"name": "f", "parameters": parameters}
    verdict = ast_checker(
        [document],
        [{"f": {"x": value}}],
        [{"f": {"x": list(expected)}}],
        Language.PYTHON,
        "simple",
        "any model",
    )
    said = "right" if verdict["valid"] else verdict["error_type"]
    print(f"{what}: {value!r} for {expected[0]!r}: {said}")


FLOATS = {"type": "array", "items": {"type": "float"}}
TEXTS = {"type": "array", "items": {"type": "string"}}
check("float", {"type": "float"}, 3, 3.0)
check("floats in a list", FLOATS, [3], [3.0])
check("floats in a list, expected as ints", FLOATS, [3], [3])
check("float in a dictionary", {"type": "dict"}, {"a": 3}, {"a": [3.0]})
check("integer", {"type": "integer"}, True, 1)
check("integer in a dictionary", {"type": "dict"}, {"a": True}, {"a": [1]})
check("text", {"type": "string"}, "new york", "New York")
check("texts in a list", TEXTS, ["new york"], ["New York"])
check("text in a dictionary", {"type": "dict"}, {"a": "new york"}, {"a": ["New York"]})
check("texts in a list there", {"type": "dict"}, {"a": ["new york"]}, {"a": [["New York"]]})
check("text", {"type": "string"}, "-1.5", "15")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
