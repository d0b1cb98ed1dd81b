#!/usr/bin/env bash
# Software: evalscope 1.14.1 (its ACEBench, which says that it follows the official checker
#   closely).
# Expected: a call with a wrong number, a wrong boolean or another word of an enumeration is
#   wrong: three of the benchmark's categories, normal_atom_number, normal_atom_bool and
#   normal_atom_enum, are about such arguments.
# Seen: of numbers and booleans the type alone is compared, of words of an enumeration nothing:
#   any is right. (Value checks exist for texts, lists and dictionaries; "enum" stands for a
#   Python type that no value has, and a value whose type is not the schema's is not checked, as
#   the file's description says.) Texts are right when they contain the expected one, "not Paris"
#   for "Paris"; an argument that the schema does not require may be left out, as described.
# Touches: whoever reads ACEBench scores as knowledge of arguments, rewards with this checker, or
#   compares it with a checker of his own: it is the more lenient one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps evalscope==1.14.1 # the checker needs none
cat >"$folder/expected" <<'END'
normal_atom_number: 7 for 5: right
normal_atom_number: 7 for 5: right
normal_atom_number: 7.5 for 5.5: right
normal_atom_bool: True for False: right
normal_atom_enum: 'red' for 'blue': right
normal_atom_list: ['red'] for ['blue']: wrong
normal_similar_api: 'Rome' for 'Paris': wrong
normal_similar_api: 'not Paris' for 'Paris': right
normal_atom_object_short: {'count': 15} for {'count': 5}: right
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import importlib.util
from pathlib import Path

folder = Path(importlib.util.find_spec("evalscope").submodule_search_locations[0])
file = folder / "benchmarks/acebench/checker.py"  # by its path: the package imports much more
spec = importlib.util.spec_from_file_location("checker", file)
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)

CASES = (
    ("normal_atom_number", "integer", 7, 5),
    ("normal_atom_number", "number", 7, 5),
    ("normal_atom_number", "float", 7.5, 5.5),
    ("normal_atom_bool", "boolean", True, False),
    ("normal_atom_enum", "enum", "red", "blue"),
    ("normal_atom_list", "list(string)", ["red"], ["blue"]),
    ("normal_similar_api", "string", "Rome", "Paris"),
    ("normal_similar_api", "string", "not Paris", "Paris"),
    ("normal_atom_object_short", "object", {"count": 15}, {"count": 5}),
)
for category, kind, value, expected in CASES:
    parameters = {"type": "object", "properties": {"x": {"type": kind}}, "required": ["x"]}
    document = {"name": "f", "parameters": parameters}
    call = [{"f": {"x": value}}]
    verdict = checker.check_normal_answer([document], call, {"f": {"x": expected}}, category)
    print(f"{category}: {value!r} for {expected!r}: {'right' if verdict['valid'] else 'wrong'}")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
