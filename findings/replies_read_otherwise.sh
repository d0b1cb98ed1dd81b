#!/usr/bin/env bash
# Software: trl 1.16.0 (its response templates), transformers 5.23.0 (`parse_response`, which
#   reads replies by them).
# Expected: of a reply that is prose no call is read; a call that is written as the model's family
#   documents it is read; a reply that cannot be read keeps its text or raises.
# Seen: by LFM2's template prose that mentions `ping()` behind a comma is a call of ping, and the
#   words before it are lost. By gpt-oss's a call with its recipient behind the channel's name,
#   the other order in which the model writes it, is nothing: neither call nor text nor error. By
#   GLM's a call on one line is a call of a tool whose name contains the arguments. By Qwen3's one
#   broken call of two loses the sound one with a ValueError, and so do two calls of Llama 3.1,
#   which its models write with a semicolon between.
# Touches: whoever trains or evaluates with these readers: TRL itself turns the ValueError into a
#   message without calls; the other cases pass as what the model did.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 jinja2==3.1.6 datasets==5.2.0
"$folder/venv/bin/pip" install -q --no-deps trl==1.16.0 # without PyTorch: not needed here
cat >"$folder/expected" <<'END'
LFM2: 'First, ping() tells whether it is up.<|im_end|>'
   call: ping {}
   beside calls: {'content': 'tells whether it is up.'}
gpt-oss: ' to=functions.weather<|channel|>commentary json<|message|>{"city": "Rome"}<|call|>'
   call: weather {'city': 'Rome'}
   beside calls: {}
gpt-oss: '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>'
   beside calls: {}
GLM-4.5: '<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>'
   call: weather {'city': 'Rome'}
   beside calls: {}
GLM-4.5: '<tool_call>weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>'
   call: weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call> {}
   beside calls: {}
Qwen3: '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "weather", "arguments": {"city": }}\n</tool_call><|im_end|>'
   ValueError
Llama 3.1: '{"name": "ping", "parameters": {}}<|eot_id|>'
   call: ping {}
   beside calls: {}
Llama 3.1: '{"name": "ping", "parameters": {}}; {"name": "ping", "parameters": {}}<|eot_id|>'
   ValueError
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
from transformers.utils.chat_parsing.response_parser import parse_response
from trl import chat_template_utils as utils

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NONE = {"type": "object", "properties": {}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}
    for name, parameters in (("weather", CITY), ("ping", NONE))
]
ROME = '<|message|>{"city": "Rome"}<|call|>'
PING = '{"name": "ping", "parameters": {}}'
REPLIES = (
    ("LFM2", utils.lfm2_2_5_template, "First, ping() tells whether it is up.<|im_end|>"),
    ("gpt-oss", utils.gptoss_template, " to=functions.weather<|channel|>commentary json" + ROME),
    (
        "gpt-oss",
        utils.gptoss_template,
        "<|channel|>commentary to=functions.weather <|constrain|>json" + ROME,
    ),
    (
        "GLM-4.5",
        utils.glm4moe_template,
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>",
    ),
    (
        "GLM-4.5",
        utils.glm4moe_template,
        "<tool_call>weather<arg_key>city</arg_key><arg_value>Rome</arg_value></tool_call>",
    ),
    (
        "Qwen3",
        utils.qwen3_template,
        '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>\n'
        '<tool_call>\n{"name": "weather", "arguments": {"city": }}\n</tool_call><|im_end|>',
    ),
    ("Llama 3.1", utils.llama3_template, f"{PING}<|eot_id|>"),
    ("Llama 3.1", utils.llama3_template, f"{PING}; {PING}<|eot_id|>"),
)
for family, template, reply in REPLIES:
    print(f"{family}: {reply!r}")
    try:
        message = parse_response(reply, template, prefix="", tools=TOOLS)
    except ValueError as error:
        print("  ", type(error).__name__)
        continue
    for call in message.pop("tool_calls", []):
        print("   call:", call["function"]["name"], call["function"]["arguments"])
    print("   beside calls:", {key: value for key, value in message.items() if key != "role"})
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
