#!/usr/bin/env bash
# Software: trl 1.16.0 (its packaged chat templates), transformers 5.23.0.
# Expected: messages of assistants carry a list of calls, and TRL's `supports_tool_calling` says
#   of a template that every part of an exchange with tools appears in what it renders. Two calls
#   and two results should be four things in the text, or an error.
# Seen: the template of gpt-oss passes that check (which makes one call), renders the first of two
#   calls, leaves out the second without a word, and then names the second call's result after the
#   first tool. The templates of Llama 3.1 and 3.2 refuse a second call. The other 25 render both.
# Touches: whoever stores or trains on conversations in which one reply calls twice: for gpt-oss
#   split the reply, one call and its result at a time, before it is rendered.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 jinja2==3.1.6 datasets==5.2.0
"$folder/venv/bin/pip" install -q --no-deps trl==1.16.0 # without PyTorch: not needed here
cat >"$folder/expected" <<'END'
gptoss: said to support tools
  calls in the text: weather
  result of weather stands behind: functions.weather
  result of clock stands behind: functions.weather
llama3_1: TemplateError
llama3_2: TemplateError
25 templates render both calls
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
from pathlib import Path

from jinja2 import TemplateError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils as utils

CALLED = {"weather": {"city": "Paris"}, "clock": {"zone": "Madrid"}}
CALLS = [
    {"type": "function", "function": {"name": name, "arguments": arguments}}
    for name, arguments in CALLED.items()
]
MESSAGES = [
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": "", "tool_calls": CALLS},
    {"role": "tool", "name": "weather", "content": "sunny"},
    {"role": "tool", "name": "clock", "content": "noon"},
]


def tokenizer(template):
    """Every byte is a token: enough for what TRL compares."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={each: i for i, each in enumerate(letters)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<BOS>", eos_token="<EOS>")
    made.chat_template = template
    return made


def header(text, result):
    """The tool that the text names last before a result."""
    before = text[: text.index(result)]
    return max(("functions.weather", "functions.clock"), key=before.rfind)


both = 0
for file in sorted((Path(utils.__file__).parent / "chat_templates").glob("*.jinja")):
    made = tokenizer(file.read_text(encoding="utf-8"))
    if file.stem.endswith("_training") or not utils.supports_tool_calling(made):
        continue
    try:
        text = made.apply_chat_template(MESSAGES, tokenize=False)
    except TemplateError as error:
        print(f"{file.stem}: {type(error).__name__}")
        continue
    except TypeError:  # DeepSeek V3's wants arguments as text
        for call in CALLS:
            call["function"]["arguments"] = str(call["function"]["arguments"])
        text = made.apply_chat_template(MESSAGES, tokenize=False)
        for call in CALLS:
            call["function"]["arguments"] = CALLED[call["function"]["name"]]
    places = {"weather": "Paris", "clock": "Madrid"}
    rendered = [name for name, place in places.items() if place in text]
    if len(rendered) == 2:
        both += 1
        continue
    print(f"{file.stem}: said to support tools")
    print("  calls in the text:", ", ".join(rendered))
    print("  result of weather stands behind:", header(text, "sunny"))
    print("  result of clock stands behind:", header(text, "noon"))
print(both, "templates render both calls")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
