#!/usr/bin/env bash
# Software: bfcl-eval 2026.3.23 (the checker of BFCL's multi-turn categories).
# Expected: in a turn whose ground truth has no call (in the category "missing function" the tool
#   is not there yet) a model must not call, and the comment in the checker says that another
#   function of the package checks just that.
# Seen: the checker skips such turns: a call that deletes a file there is right, as long as no
#   later turn with calls compares the state. The function of the comment,
#   `multi_turn_irrelevance_checker`, refuses the same conversation; the runner imports it and
#   calls it nowhere.
# Touches: whoever reads "miss_func" and "miss_param" as scores of abstention, or trains on this
#   verdict: guessing costs nothing in these turns.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps bfcl-eval==2026.3.23 mpmath==1.3.0 # of its 150 packages
cat >"$folder/expected" <<'END'
ground truth: [['ls()'], []]
model: [[['ls()']], [["rm(file_name='a.txt')"]]]
multi_turn_checker: True
multi_turn_irrelevance_checker: False
in the package's files: 1 import of it, 0 calls
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import ast
import importlib.util
from pathlib import Path

from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker as checker

FILES = {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "x"}}}
TASK = {
    "id": "multi_turn_miss_func_0",
    "initial_config": {"GorillaFileSystem": {"root": {"workspace": FILES}}},
    "involved_classes": ["GorillaFileSystem"],
}
TRUTH = [["ls()"], []]  # what is asked second needs a tool that is missing
MODEL = [[["ls()"]], [["rm(file_name='a.txt')"]]]
NAME = "multi_turn_irrelevance_checker"

verdict = checker.multi_turn_checker(MODEL, TRUTH, TASK, "multi_turn_miss_func", "model")
print("ground truth:", TRUTH)
print("model:", MODEL)
print("multi_turn_checker:", verdict["valid"])
print(f"{NAME}:", getattr(checker, NAME)(MODEL, TRUTH)["valid"])

package = Path(importlib.util.find_spec("bfcl_eval").submodule_search_locations[0])
imports = calls = 0
for file in package.rglob("*.py"):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        imports += isinstance(node, ast.ImportFrom) and NAME in [each.name for each in node.names]
        calls += isinstance(node, ast.Call) and getattr(node.func, "id", "") == NAME
print(f"in the package's files: {imports} import of it, {calls} calls")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
