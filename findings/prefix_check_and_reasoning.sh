#!/usr/bin/env bash
# Software: trl 1.16.0 (its packaged chat templates), transformers 5.23.0.
# Expected: TRL's page on templates asks for templates in which appended messages change nothing
#   of earlier ones, and `is_chat_template_prefix_preserving` says whether one is such. So a
#   template of which it says True, above all one that `get_training_chat_template` hands out,
#   should keep a conversation as it is when a user speaks again.
# Seen: the check looks at one call with one result and no reasoning. It says True of every
#   template that GRPO would use with tools, and 14 of these 28 write the same conversation
#   otherwise once a second user turn follows a reply with reasoning; gpt-oss does so without
#   reasoning too. Of the 14, seven keep it with a variable of their own (`preserve_thinking`,
#   `truncate_history_thinking`), which TRL sets nowhere. Where TRL rewrote that branch (Qwen3 to
#   3.8), the history is kept.
# Touches: whoever renders history again (servers, evaluation, SFT on whole conversations) and
#   takes the check's word that the tokens are those of the rollout.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 jinja2==3.1.6 datasets==5.2.0
"$folder/venv/bin/pip" install -q --no-deps trl==1.16.0 # without PyTorch: not needed here
cat >"$folder/expected" <<'END'
template                | check | no reasoning | reasoning | with a variable
deepseekv3              | True  | kept         | kept      |
diffusion_gemma         | True  | kept         | rewritten | rewritten
gemma4                  | True  | kept         | rewritten | rewritten
gemma4_v2               | True  | kept         | kept      |
gemma4_v3               | True  | kept         | rewritten | rewritten
gemma4_v4               | True  | kept         | rewritten | rewritten
gemma4_v5               | True  | kept         | rewritten | rewritten
glm4moe                 | True  | kept         | rewritten | rewritten
gptoss                  | True  | rewritten    | rewritten | rewritten
lfm2_2_5                | True  | kept         | rewritten | kept: preserve_thinking=True
lfm2_2_5_v2             | True  | kept         | rewritten | kept: preserve_thinking=True
lfm2_2_5_vl             | True  | kept         | rewritten | kept: preserve_thinking=True
lfm2_v2                 | True  | kept         | kept      |
llama3_1                | True  | kept         | kept      |
llama3_2                | True  | kept         | kept      |
muse_glimmer            | True  | kept         | kept      |
nemotron_3_5_lightning  | True  | kept         | rewritten | kept: truncate_history_thinking=False
nemotron_3_nano         | True  | kept         | rewritten | kept: truncate_history_thinking=False
nemotron_3_super        | True  | kept         | rewritten | kept: truncate_history_thinking=False
nemotron_3_ultra        | True  | kept         | rewritten | kept: truncate_history_thinking=False
qwen2_5                 | True  | kept         | kept      |
qwen3                   | True  | kept         | kept      |
qwen3_5_nothink         | True  | kept         | kept      |
qwen3_5_think           | True  | kept         | kept      |
qwen3_6                 | True  | kept         | kept      |
qwen3_8                 | True  | kept         | kept      |
qwen3_instruct_2507     | True  | kept         | kept      |
qwen3_vl                | True  | kept         | kept      |
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils as utils

SWITCHES = {"preserve_thinking": True, "truncate_history_thinking": False}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}


def tokenizer(template):
    """Every byte is a token: enough for what TRL compares."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={each: i for i, each in enumerate(letters)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<BOS>", eos_token="<EOS>")
    made.chat_template = template
    return made


def history(reasoning, made, **switch):
    """Whether a second user turn leaves the text of all before it as it was."""
    why = {name: reasoning for name in ("reasoning_content", "reasoning", "thinking") if reasoning}
    before = [
        {"role": "user", "content": "Paris?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL], **why},
        {"role": "tool", "name": "weather", "content": "sunny"},
        {"role": "assistant", "content": "It is sunny.", **why},
    ]
    first = made.apply_chat_template(before, tokenize=False, **switch)
    after = [*before, {"role": "user", "content": "And Rome?"}]
    second = made.apply_chat_template(after, tokenize=False, add_generation_prompt=True, **switch)
    return "kept" if second.startswith(first) else "rewritten"


print("template                | check | no reasoning | reasoning | with a variable")
for file in sorted((Path(utils.__file__).parent / "chat_templates").glob("*.jinja")):
    made = tokenizer(file.read_text(encoding="utf-8"))
    if file.stem.endswith("_training") or not utils.supports_tool_calling(made):
        continue
    try:
        replaced = utils.get_training_chat_template(made)
    except ValueError:  # no training template: GRPO asks for none where the check says True
        replaced = None
    if replaced is not None:
        made = tokenizer(replaced)
    check = utils.is_chat_template_prefix_preserving(made)
    plain = history("", made)
    thinking = history("It asks for the weather.", made)
    remedy = ""
    if thinking == "rewritten":
        remedy = " rewritten"
        for name, value in SWITCHES.items():
            if history("It asks for the weather.", made, **{name: value}) == "kept":
                remedy = f" kept: {name}={value}"
    print(f"{file.stem:23} | {check!s:5} | {plain:12} | {thinking:9} |{remedy}")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
