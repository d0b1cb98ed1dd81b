#!/usr/bin/env bash
# Software: inspect-evals 0.28.0 (its BFCL, whose scorer says that it is based on the official
#   one), inspect-ai 0.3.285, bfcl-eval 2026.3.23 (the official checker, and the data of both).
# Expected: the call that the ground truth asks for is right by either.
# Seen: in a ground truth a dictionary holds for each key the list of what is allowed. inspect
#   compares the lists themselves: {"min": 300000} is wrong, {"min": [300000]} right, and the
#   official checker says the opposite. For Java and JavaScript both show all parameters as texts
#   in the language's syntax; the official checker reads them, and inspect compares the text
#   "true" with True, so what the document asks for is wrong and what it forbids right. It
#   refuses 95 of the ground truth's calls, among them more than half of JavaScript's.
# Touches: whoever rewards with this scorer, or compares its scores with the leaderboard's: the
#   tasks can only be earned by calls that break the tool's schema, and that is what is learned.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q inspect-ai==0.3.285 requests==2.34.2
# one of inspect-evals' packages is on no index; of bfcl-eval's 150 the checker needs none
"$folder/venv/bin/pip" install -q --no-deps inspect-evals==0.28.0 bfcl-eval==2026.3.23
cat >"$folder/expected" <<'END'
multiple_8, budget:
  {'min': 300000, 'max': 400000}: official right, inspect wrong
  {'min': [300000], 'max': [400000]}: official wrong, inspect right
simple_javascript_0, isComplete:
  'true': official right, inspect wrong
  True: official wrong, inspect right
the ground truth's calls that are right by the official checker, and refused by inspect:
  simple_python: 400, 5
  multiple: 200, 3
  parallel: 200, 2
  parallel_multiple: 198, 4
  live_simple: 256, 18
  live_multiple: 1050, 9
  live_parallel: 16, 0
  live_parallel_multiple: 24, 1
  simple_java: 77, 25
  simple_javascript: 50, 28
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import copy
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

# The checker's module imports the table of models, and with it the clients of all providers; the
# package of the other the one that is on no index.
models = ModuleType("bfcl_eval.constants.model_config")
models.MODEL_CONFIG_MAPPING = {"any model": SimpleNamespace(underscore_to_dot=True)}
package = ModuleType("inspect_evals.bfcl")
(folder,) = importlib.util.find_spec("inspect_evals").submodule_search_locations
package.__path__ = [f"{folder}/bfcl"]
sys.modules |= {models.__name__: models, package.__name__: package}

from bfcl_eval.constants.enums import Language  # noqa: E402
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402
from inspect_ai.model import ChatMessageAssistant  # noqa: E402
from inspect_ai.tool import ToolCall  # noqa: E402
from inspect_evals.bfcl.data import load_records_by_category  # noqa: E402
from inspect_evals.bfcl.score import ast_match  # noqa: E402
from inspect_evals.bfcl.utils import CATEGORIES  # noqa: E402

(folder,) = importlib.util.find_spec("bfcl_eval").submodule_search_locations
DATA = Path(folder) / "data"
LANGUAGES = {"python": Language.PYTHON, "java": Language.JAVA, "js": Language.JAVASCRIPT}
NAMES = (
    "simple_python multiple parallel parallel_multiple live_simple live_multiple live_parallel "
    "live_parallel_multiple simple_java simple_javascript"
).split()


def one(allowed):
    """A value that the ground truth allows, of a dictionary one for each key."""
    if not isinstance(allowed, list):  # in dictionaries of dictionaries
        return whole(allowed)
    return whole(next((each for each in allowed if each != ""), ""))


def whole(value):
    if isinstance(value, dict):
        return {key: one(each) for key, each in value.items() if one(each) != ""}
    if isinstance(value, list):
        return [whole(each) if isinstance(each, dict) else each for each in value]
    return value


def written(value, language):
    """As a text in Java's or JavaScript's syntax, which these categories ask for."""
    return value if language == "python" or isinstance(value, str) else json.dumps(value)


def verdicts(category, record, document, calls):
    config = CATEGORIES[category]
    truth = record.ground_truth
    official = ast_checker(
        document,
        [{name: dict(arguments)} for name, arguments in calls],
        copy.deepcopy(truth),
        LANGUAGES[config.language],
        category,
        "any model",
    )
    made = [ToolCall(id="1", function=name, arguments=arguments) for name, arguments in calls]
    state = SimpleNamespace(
        metadata={"parsed_ground_truth": truth, "tools": record.function},
        messages=[ChatMessageAssistant(content="", tool_calls=made)],
    )
    return official["valid"], ast_match(state, None, config).value == 1


def show(category, key, name, *values):
    record, document, calls = tasks[category][key]
    print(f"{key}, {name}:")
    for value in values:
        ((function, arguments),) = calls
        said = verdicts(category, record, document, [(function, arguments | {name: value})])
        official, inspect = ("right" if each else "wrong" for each in said)
        print(f"  {value!r}: official {official}, inspect {inspect}")


tasks, counts = {}, []
for category in NAMES:
    with (DATA / f"BFCL_v4_{category}.json").open() as lines:
        documents = {task["id"]: task["function"] for task in map(json.loads, lines)}
    language = CATEGORIES[category].language
    tasks[category], right, refused = {}, 0, 0
    for key, record in load_records_by_category(category, DATA).items():
        calls = []
        for truth in record.ground_truth:
            ((name, parameters),) = truth.items()
            arguments = {each: one(allowed) for each, allowed in parameters.items()}
            arguments = {each: written(v, language) for each, v in arguments.items() if v != ""}
            calls.append((name.replace(".", "_"), arguments))
        tasks[category][key] = record, documents[key], calls
        official, inspect = verdicts(category, *tasks[category][key])
        right += official
        refused += official and not inspect
    counts.append(f"  {category}: {right}, {refused}")

budget = {"min": 300000, "max": 400000}
show("multiple", "multiple_8", "budget", budget, {key: [each] for key, each in budget.items()})
show("simple_javascript", "simple_javascript_0", "isComplete", "true", True)
print("the ground truth's calls that are right by the official checker, and refused by inspect:")
print(*counts, sep="\n")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
