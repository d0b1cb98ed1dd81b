#!/usr/bin/env bash
# Software: tinker-cookbook 0.6.1 (its renderers, which write and read conversations), tinker
#   0.38.0, transformers 5.23.0, torch 2.13.0.
# Expected: a renderer reads the call that it wrote: a text comes back as this text.
# Seen: by the renderers of Qwen3.5, Qwen3.8 and Nemotron 3, whose format has no quotation marks,
#   each argument that can be read as JSON is: the postcode "75001" comes back as a number, "true"
#   as True, "null" as None, "[1]" as a list, and a quoted text without its quotation marks; the
#   tool's schema, which says what it is, is not asked. Those of Qwen3.5 and Nemotron 3 write True
#   and None for true and null and read them as the texts "True" and "None". The renderers of
#   Qwen3, Kimi K2 and gpt-oss, whose formats are JSON, give back all.
# Touches: whoever rewards or carries out calls with these families: a ground truth that is a text
#   of digits cannot be earned, and the same reply has other arguments by TRL's reader, which asks
#   the schema.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 transformers==5.23.0 tinker==0.38.0 pillow==13.0.0
"$folder/venv/bin/pip" install -q --no-deps tinker-cookbook==0.6.1 # one of the rest is on no index
cat >"$folder/expected" <<'END'
qwen3
kimi_k2
gpt_oss_medium_reasoning
qwen3_5
  '75001' → 75001
  'true' → True
  'null' → None
  '[1]' → [1]
  '"quoted"' → 'quoted'
  True → 'True'
  None → 'None'
qwen3_8_disable_thinking
  '75001' → 75001
  'true' → True
  'null' → None
  '[1]' → [1]
  '"quoted"' → 'quoted'
nemotron3
  '75001' → 75001
  'true' → True
  'null' → None
  '[1]' → [1]
  '"quoted"' → 'quoted'
  True → 'True'
  None → 'None'
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import json

from tinker_cookbook import renderers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

MARKERS = (
    "<|im_start|> <|im_end|> <think> </think> <tool_call> </tool_call> <|im_user|> <|im_middle|> "
    "<|im_assistant|> <|im_system|> <|tool_calls_section_begin|> <|tool_calls_section_end|> "
    "<|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|> <|start|> <|end|> "
    "<|message|> <|channel|> <|constrain|> <|call|> <|return|>"
)
ARGUMENTS = ("75001", "007", "true", "null", "[1]", '"quoted"', "plain", 3, True, None)
NAMES = (
    "qwen3",
    "kimi_k2",
    "gpt_oss_medium_reasoning",
    "qwen3_5",
    "qwen3_8_disable_thinking",
    "nemotron3",
)


def tokenizer():
    """Every byte is a token, and so is every marker."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={each: i for i, each in enumerate(letters)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(MARKERS.split())
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")


def read_back(renderer, value):
    arguments = json.dumps({"x": value})
    body = renderers.ToolCall.FunctionBody(name="book", arguments=arguments)
    call = renderers.ToolCall(function=body, id="functions.book:0")
    context = renderers.RenderContext(
        idx=1, is_last=True, prev_message={"role": "user", "content": "Go."}
    )
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    written = renderer.render_message(message, context).output
    reply, _ = renderer.parse_response([token for chunk in written for token in chunk.tokens])
    (call,) = reply["tool_calls"]
    return json.loads(call.function.arguments)["x"]


shared = tokenizer()
for name in NAMES:
    renderer = renderers.get_renderer(name, shared)
    print(name)
    for value in ARGUMENTS:
        back = read_back(renderer, value)
        if back != value or type(back) is not type(value):
            print(f"  {value!r} → {back!r}")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
