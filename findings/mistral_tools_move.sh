#!/usr/bin/env bash
# Software: mistral-common 1.13.1 (Mistral's own tokenization of conversations, which vLLM uses
#   for these models), sentencepiece 0.2.3.
# Expected: a conversation that goes on begins with the tokens that it had; a tool's result stands
#   in it as the tool gave it.
# Seen: the tools stand before the last user message, and in version 3 the system prompt in it:
#   both move when the user speaks again, so that no later turn begins with the tokens of an
#   earlier one. In version 3 a result that is JSON is read and written anew, without quotation
#   marks around it: the text 3 becomes the number, {"a":1e2} becomes {"a": 100.0}; in version 7
#   it stays. Results have the call's id and no tool's name. A reply with text beside its call is
#   refused by version 3 and taken by version 7.
# Touches: whoever trains on tokens over several user turns or caches prefixes: no prefix survives
#   a user turn; and whoever exports conversations with text beside calls.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mistral-common==1.13.1 sentencepiece==0.2.3
cat >"$folder/expected" <<'END'
version 3
  first turn: '<s>[TOOLS][INST] Be brief.\n\nFirst.[/INST]'
  second turn: '<s>[INST] First.[/INST] Done.</s>[TOOLS][INST] Be brief.\n\nSecond.[/INST]'
  begins with the first: False
  result '3': [TOOL_RESULTS] {"content": 3, "call_id": "aaaaaaaaa"}[/TOOL_RESULTS]
  result '007': [TOOL_RESULTS] {"content": "007", "call_id": "aaaaaaaaa"}[/TOOL_RESULTS]
  result '{"a":1e2}': [TOOL_RESULTS] {"content": {"a": 100.0}, "call_id": "aaaaaaaaa"}[/TOOL_RESULTS]
  text beside a call: InvalidAssistantMessageException
version 7
  first turn: '<s>[SYSTEM_PROMPT] Be brief.[/SYSTEM_PROMPT][TOOLS][INST] First.[/INST]'
  second turn: '<s>[SYSTEM_PROMPT] Be brief.[/SYSTEM_PROMPT][INST] First.[/INST] Done.</s>[TOOLS][INST] Second.[/INST]'
  begins with the first: False
  result '3': [TOOL_RESULTS] aaaaaaaaa[TOOL_CONTENT] 3[/TOOL_RESULTS]
  result '007': [TOOL_RESULTS] aaaaaaaaa[TOOL_CONTENT] 007[/TOOL_RESULTS]
  result '{"a":1e2}': [TOOL_RESULTS] aaaaaaaaa[TOOL_CONTENT] {"a":1e2}[/TOOL_RESULTS]
  text beside a call: taken
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import importlib.util
import logging
import re
from pathlib import Path

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

logging.disable(logging.CRITICAL)
DATA = Path(importlib.util.find_spec("mistral_common").submodule_search_locations[0], "data")
FILES = {
    "version 3": "mistral_instruct_tokenizer_240323.model.v3",
    "version 7": "mistral_instruct_tokenizer_241114.model.v7",
}
EMPTY = {"type": "object", "properties": {}}
TOOL = {"name": "look", "description": "Looks.", "parameters": EMPTY}
CALL = {"type": "function", "id": "aaaaaaaaa", "function": {"name": "look", "arguments": "{}"}}
SYSTEM = {"role": "system", "content": "Be brief."}
FIRST = {"role": "user", "content": "First."}
SECOND = {"role": "user", "content": "Second."}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
ANSWER = {"role": "assistant", "content": "Done."}


def result(text):
    return {"role": "tool", "tool_call_id": "aaaaaaaaa", "name": "look", "content": text}


def encoded(tokenizer, *messages):
    """The text, with a short word for the tools, and the tokens."""
    request = ChatCompletionRequest(
        messages=list(messages), tools=[{"type": "function", "function": TOOL}]
    )
    made = tokenizer.encode_chat_completion(request)
    text = re.sub(r"\[AVAILABLE_TOOLS\].*\[/AVAILABLE_TOOLS\]", "[TOOLS]", made.text)
    return text.replace("▁", " ").replace("<0x0A>", "\n"), made.tokens


for version, file in FILES.items():
    tokenizer = MistralTokenizer.from_file(str(DATA / file))
    print(version)
    before, tokens = encoded(tokenizer, SYSTEM, FIRST)
    after, more = encoded(tokenizer, SYSTEM, FIRST, ANSWER, SECOND)
    print("  first turn:", repr(before))
    print("  second turn:", repr(after))
    print("  begins with the first:", more[: len(tokens)] == tokens)
    for content in ("3", "007", '{"a":1e2}'):
        text, _ = encoded(tokenizer, FIRST, CALLED, result(content))
        print(f"  result {content!r}:", text[text.index("[TOOL_RESULTS]") :])
    try:
        encoded(tokenizer, FIRST, {**CALLED, "content": "I look."}, result("3"))
        print("  text beside a call: taken")
    except MistralCommonException as error:
        print("  text beside a call:", type(error).__name__)
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
