#!/usr/bin/env bash
# Software: trl 1.16.0 (its chat templates and response templates), transformers 5.23.0 (which
#   reads replies by the latter).
# Expected: TRL pairs a chat template, which writes a call, with a response template, which reads
#   one (`add_response_schema`, then `tokenizer.parse_response(reply, tools=…)`). What the one
#   writes the other should read as the same arguments.
# Seen: of 25 pairs 8 do, over 12 calls with ordinary arguments. LFM2's lose an apostrophe and all
#   that follows ("O'Neil" comes back as "O") and cut at a parenthesis; the two of them that
#   escape are read without being unescaped. Gemma 4's, but for the newest, write null as None,
#   which their reader refuses with ValueError. Qwen3.5 to 3.8, Nemotron and GLM lose blanks at
#   the ends of a text.
# Touches: rewards that compare arguments, worlds that carry out what was read, and data sets made
#   by rendering ground truths: the model can write the right call, in just the form that it was
#   shown, and another one is carried out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 jinja2==3.1.6 datasets==5.2.0
"$folder/venv/bin/pip" install -q --no-deps trl==1.16.0 # without PyTorch: not needed here
cat >"$folder/expected" <<'END'
gemma4
  {'maybe': None} → ValueError
gemma4_v2
  {'maybe': None} → ValueError
gemma4_v3
  {'maybe': None} → ValueError
gemma4_v4
  {'maybe': None} → ValueError
glm4moe
  {'text': ' x '} → {'text': 'x'}
lfm2_2_5
  {'text': "O'Neil"} → {'text': 'O'}
  {'text': 'f(x)'} → {'text': "'f(x"}
lfm2_2_5_v2
  {'text': "O'Neil"} → {'text': 'O'}
  {'text': 'f(x)'} → {'text': "'f(x"}
lfm2_2_5_vl
  {'text': "O'Neil"} → {'text': 'O\\'}
  {'text': 'f(x)'} → {'text': "'f(x"}
  {'text': 'one\ntwo'} → {'text': 'one\\ntwo'}
  {'text': 'a\\b'} → {'text': 'a\\\\b'}
lfm2_v2
  {'text': "O'Neil"} → {'text': 'O\\'}
  {'text': 'f(x)'} → {'text': "'f(x"}
  {'text': 'one\ntwo'} → {'text': 'one\\ntwo'}
  {'text': 'a\\b'} → {'text': 'a\\\\b'}
nemotron_3_5_lightning
  {'text': ' x '} → {'text': 'x'}
nemotron_3_nano
  {'text': ' x '} → {'text': 'x'}
nemotron_3_super
  {'text': ' x '} → {'text': 'x'}
nemotron_3_ultra
  {'text': ' x '} → {'text': 'x'}
qwen3_5_nothink
  {'text': ' x '} → {'text': 'x'}
qwen3_5_think
  {'text': ' x '} → {'text': 'x'}
qwen3_6
  {'text': ' x '} → {'text': 'x'}
qwen3_8
  {'text': ' x '} → {'text': 'x'}
equal for all calls: gemma4_v5, gptoss, llama3_1, llama3_2, qwen2_5, qwen3, qwen3_instruct_2507, qwen3_vl
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils as utils

KINDS = {
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "maybe": {"type": ["string", "null"]},
    "count": {"type": "integer"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "place": {"type": "object"},
}
TOOL = {
    "name": "book",
    "description": "Books.",
    "parameters": {"type": "object", "properties": KINDS},
}
TOOLS = [{"type": "function", "function": TOOL}]
CALLS = (
    {"text": "O'Neil"},
    {"text": "f(x)"},
    {"text": 'say "hi"'},
    {"text": "one\ntwo"},
    {"text": "a\\b"},
    {"text": " x "},
    {"text": "007"},
    {"flag": True},
    {"maybe": None},
    {"count": 3},
    {"texts": ["a", "b'c"]},
    {"place": {"street": "High", "open": True}},
)


def tokenizer(template):
    """Every byte is a token: enough for what TRL compares."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={each: i for i, each in enumerate(letters)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<BOS>", eos_token="<EOS>")
    made.chat_template = template
    return made


def read_back(made, arguments):
    """What is read of the reply that the template writes for a call with these arguments."""
    asked = [{"role": "user", "content": "Go."}]
    call = {"type": "function", "function": {"name": "book", "arguments": arguments}}
    replied = [*asked, {"role": "assistant", "content": "", "tool_calls": [call]}]
    whole = made.apply_chat_template(replied, tools=TOOLS, tokenize=False)
    for opened in (True, False):  # where the reply is no continuation: from the question
        prompt = made.apply_chat_template(
            asked, tools=TOOLS, tokenize=False, add_generation_prompt=opened
        )
        if whole.startswith(prompt):
            break
    try:
        message = made.parse_response(whole.removeprefix(prompt), prefix=prompt, tools=TOOLS)
    except ValueError as error:
        return type(error).__name__
    return [each["function"]["arguments"] for each in message["tool_calls"]]


equal = []
for file in sorted((Path(utils.__file__).parent / "chat_templates").glob("*.jinja")):
    made = tokenizer(file.read_text(encoding="utf-8"))
    if file.stem.endswith("_training") or not utils.supports_tool_calling(made):
        continue
    try:
        made = utils.add_response_schema(made)
    except ValueError:  # TRL has no response template for it
        continue
    other = [(each, back) for each in CALLS if (back := read_back(made, each)) != [each]]
    if not other:
        equal.append(file.stem)
        continue
    print(file.stem)
    for arguments, back in other:
        print(f"  {arguments} → {back if isinstance(back, str) else back[0]}")
print("equal for all calls:", ", ".join(equal))
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
