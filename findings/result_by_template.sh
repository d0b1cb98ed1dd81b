#!/usr/bin/env bash
# Software: trl 1.16.0 (its packaged chat templates), transformers 5.23.0.
# Expected: a tool's result `{"sky": "clear"}` reaches the model as these characters, whether the
#   message of role "tool" holds them as text or as the mapping itself: each form is taken without
#   an error by most templates.
# Seen: of the 27 templates that render calls given as mappings, 24 write the text as it is; those
#   of Llama 3.1, 3.2 and gpt-oss make a JSON string literal of it, so that JSON stands in JSON
#   with each quotation mark escaped. The mapping comes out whole in five, three of them those
#   that quote text; it vanishes in five, leaves its keys alone in three, becomes Python's repr
#   (no JSON) in five, and is an error in nine. TRL's loop of tools passes `str(result)` on: of a
#   tool that returns a mapping all see the repr.
# Touches: whoever writes tools or stores results: return text, made by json.dumps, not a mapping;
#   for Llama and gpt-oss nothing that TRL passes on comes out as plain JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 jinja2==3.1.6
"$folder/venv/bin/pip" install -q --no-deps trl==1.16.0 # for its folder of templates
cat >"$folder/expected" <<'END'
template                | text    | mapping
diffusion_gemma         | whole   | UndefinedError
gemma4                  | whole   | UndefinedError
gemma4_v2               | whole   | nothing
gemma4_v3               | whole   | UndefinedError
gemma4_v4               | whole   | UndefinedError
gemma4_v5               | whole   | UndefinedError
glm4moe                 | whole   | keys
gptoss                  | quoted  | whole
lfm2_2_5                | whole   | keys
lfm2_2_5_v2             | whole   | keys
lfm2_2_5_vl             | whole   | whole
lfm2_v2                 | whole   | whole
llama3_1                | quoted  | whole
llama3_2                | quoted  | whole
muse_glimmer            | whole   | nothing
nemotron_3_5_lightning  | whole   | repr
nemotron_3_nano         | whole   | repr
nemotron_3_super        | whole   | repr
nemotron_3_ultra        | whole   | repr
qwen2_5                 | whole   | repr
qwen3                   | whole   | nothing
qwen3_5_nothink         | whole   | TemplateError
qwen3_5_think           | whole   | TemplateError
qwen3_6                 | whole   | TemplateError
qwen3_8                 | whole   | TemplateError
qwen3_instruct_2507     | whole   | nothing
qwen3_vl                | whole   | nothing
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import importlib.util
import json
from pathlib import Path

from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

RESULT = {"sky": "clear"}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
FOLDER = Path(importlib.util.find_spec("trl").submodule_search_locations[0], "chat_templates")


def rendered(template, content):
    messages = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "weather", "content": content},
    ]
    tokens = {"bos_token": "<BOS>", "eos_token": "<EOS>"}
    return render_jinja_template([messages], chat_template=template, **tokens)[0][0]


def said(template, content):
    try:
        text = rendered(template, content)
    except (TemplateError, TypeError) as error:
        return type(error).__name__
    as_json = json.dumps(RESULT)
    if "Paris" not in text:
        return "no calls"
    if json.dumps(as_json) in text:
        return "quoted"
    if as_json in text:
        return "whole"
    if str(RESULT) in text:
        return "repr"
    return "keys" if "sky" in text else "nothing"


print("template                | text    | mapping")
for file in sorted(FOLDER.glob("*.jinja")):
    template = file.read_text(encoding="utf-8")
    text = said(template, json.dumps(RESULT))
    if not file.stem.endswith("_training") and text in ("whole", "quoted"):
        print(f"{file.stem:23} | {text:7} | {said(template, RESULT)}")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
