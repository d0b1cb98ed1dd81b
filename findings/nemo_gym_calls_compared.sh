#!/usr/bin/env bash
# Software: nemo-gym 0.4.0 (two of the environments that it ships: xlam_fc, which compares all
#   calls of a reply, and single_step_tool_use_with_argument_comparison, which compares one).
# Expected: a reply that makes the expected calls earns 1 in any order, another one 0; texts are
#   compared by their Jaccard similarity, as a comment says, so a text and itself have 1.
# Seen: xlam_fc gives each expected call the first call that has its arguments, whatever else that
#   has: two calls, each as expected, earn 1 in one order and 0 in the other, and arguments nobody
#   asked for cost nothing. The other divides the shared words by those of both texts together:
#   the same text has a similarity of 0.5, so a threshold above it refuses every text of two
#   words and more; of the shipped ones 0.3 lets another city pass, and 0.0 any such text. Of a
#   single word the case counts, of two it does not. True is 1, and 3 is not 3.0. Only a reply's
#   first call is looked at.
# Touches: whoever trains with these rewards, by NeMo Gym or by a framework that plays its
#   environments: parallel calls are rewarded by luck, and a query needs few of its words.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
# of its packages the comparisons need one; they run under Python 3.11 too
"$folder/venv/bin/pip" install -q pydantic==2.14.4
"$folder/venv/bin/pip" install -q --no-deps --ignore-requires-python nemo-gym==0.4.0
cat >"$folder/expected" <<'END'
xlam_fc, book(city='Rome') and book(city='Rome', nights=2) expected
  book(city='Rome'), book(city='Rome', nights=2): 1.0
  book(city='Rome', nights=2), book(city='Rome'): 0.0
xlam_fc, book(city='Rome') expected
  book(city='Rome', nights=99, notify='all'): 1.0
shipped thresholds: 0.0, 0.1, 0.3
threshold 0.0
  'remove everything' for 'list files': 1.0
threshold 0.3
  'cheap flights to Oslo' for 'cheap flights to Rome': 1.0
  'delete all files' for 'list all files': 1.0
  'new york' for 'New York': 1.0
  'rome' for 'Rome': 0.0
  True for 1: 1.0
  3 for 3.0: 0.0
threshold 0.5
  'New York' for 'New York': 1.0
threshold 0.6
  'New York' for 'New York': 0.0
  'Rome' for 'Rome': 1.0
a second call, delete(): 1.0
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

from pydantic import BaseModel

# The modules import the web server, and with it Ray and the trackers, for the bases of classes.
web = ModuleType("nemo_gym.base_resources_server")
for name in ("BaseResourcesServerConfig", "BaseVerifyRequest", "BaseVerifyResponse"):
    setattr(web, name, type(name, (BaseModel,), {}))
web.SimpleResourcesServer = object
types = ModuleType("nemo_gym.openai_utils")
for name in ("NeMoGymResponse", "NeMoGymResponseFunctionToolCall", "NeMoGymResponseOutputText"):
    setattr(types, name, SimpleNamespace)
sys.modules |= {web.__name__: web, types.__name__: types}

from resources_servers.single_step_tool_use_with_argument_comparison.common import (  # noqa: E402
    response_utils,
    verification_utils,
)
from resources_servers.xlam_fc.app import XlamFcResourcesServer  # noqa: E402


def text(call):
    return f"book({', '.join(f'{name}={value!r}' for name, value in call.items())})"


def xlam(expected, *replies):
    print(f"xlam_fc, {' and '.join(map(text, expected))} expected")
    for made in replies:
        calls, wanted = (
            [{"name": "book", "arguments": call} for call in each] for each in (made, expected)
        )
        reward, _ = XlamFcResourcesServer()._calculate_reward(calls, wanted)
        print(f"  {', '.join(map(text, made))}: {reward}")


def compare(threshold, *pairs):
    config = verification_utils.ToolCallComparatorConfig(word_count_similarity_threshold=threshold)
    comparator = verification_utils.ToolCallComparator(config=config)
    print(f"threshold {threshold}")
    for value, expected in pairs:
        calls = [
            SimpleNamespace(name="f", arguments=json.dumps({"x": each}))
            for each in (expected, value)
        ]
        print(f"  {value!r} for {expected!r}: {comparator.compare_tool_call(*calls)[0]}")


short, long = {"city": "Rome"}, {"city": "Rome", "nights": 2}
xlam([short, long], [short, long], [long, short])
xlam([short], [{"city": "Rome", "nights": 99, "notify": "all"}])

shipped = set()
for file in Path(verification_utils.__file__).parents[1].glob("configs/*.yaml"):
    shipped |= {*re.findall(r"word_count_similarity_threshold: (\S+)", file.read_text())}
print("shipped thresholds:", ", ".join(sorted(shipped)))
compare(0.0, ("remove everything", "list files"))
compare(
    0.3,
    ("cheap flights to Oslo", "cheap flights to Rome"),
    ("delete all files", "list all files"),
    ("new york", "New York"),
    ("rome", "Rome"),
    (True, 1),
    (3, 3.0),
)
compare(0.5, ("New York", "New York"))
compare(0.6, ("New York", "New York"), ("Rome", "Rome"))

config = verification_utils.ToolCallComparatorConfig(word_count_similarity_threshold=0.3)
reply = [
    SimpleNamespace(type="function_call", name=name, arguments="{}") for name in ("list", "delete")
]
first = response_utils.extract_tool_call_or_text(SimpleNamespace(output=reply))
expected = SimpleNamespace(name="list", arguments="{}")
comparator = verification_utils.ToolCallComparator(config=config)
print("a second call, delete():", comparator.compare_tool_call(expected, first)[0])
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
