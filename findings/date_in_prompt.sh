#!/usr/bin/env bash
# Software: trl 1.16.0 (its packaged chat templates), transformers 5.23.0 (which renders them).
# Expected: the same messages and tools give the same prompt, today and next week.
# Seen: the templates of gpt-oss, of Llama 3.2, and, where no system message is given, of Muse
#   Glimmer write the day on which they are rendered into the prompt; Llama 3.1's writes 26 July
#   2024, on every day. The variable that holds the day still has another name in each,
#   `date_string` in Llama's and `current_date` in Muse's, and gpt-oss has none: the function
#   `strftime_now` that it calls cannot be given as a variable, since transformers hands templates
#   no callable of the caller's, but a text in its place.
# Touches: evaluations that are repeated, runs over midnight, caches by prompt: scores and tokens
#   differ by the day.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 jinja2==3.1.6
"$folder/venv/bin/pip" install -q --no-deps trl==1.16.0 # for its folder of templates
cat >"$folder/expected" <<'END'
gptoss
  without a system message: TODAY
  with one: TODAY
  date_string='2026-01-01': TODAY
  current_date='2026-01-01': TODAY
  strftime_now=lambda …: TypeError
llama3_1
  without a system message: 26 Jul 2024
  with one: 26 Jul 2024
  date_string='2026-01-01': 2026-01-01
  current_date='2026-01-01': 26 Jul 2024
  strftime_now=lambda …: 26 Jul 2024
llama3_2
  without a system message: TODAY
  with one: TODAY
  date_string='2026-01-01': 2026-01-01
  current_date='2026-01-01': TODAY
  strftime_now=lambda …: TypeError
muse_glimmer
  without a system message: 2026-01-04, TODAY
  with one: none
  date_string='2026-01-01': 2026-01-04, TODAY
  current_date='2026-01-01': 2026-01-04, 2026-01-01
  strftime_now=lambda …: TypeError
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import importlib.util
import re
from datetime import date
from pathlib import Path

from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = Path(importlib.util.find_spec("trl").submodule_search_locations[0], "chat_templates")
ASKED = [{"role": "user", "content": "Go."}]
SYSTEM = [{"role": "system", "content": "Be brief."}, *ASKED]


def days(template, messages, **variables):
    """The dates in a prompt, with today's called by its name; or the error."""
    tokens = {"bos_token": "<BOS>", "eos_token": "<EOS>"}
    try:
        text = render_jinja_template(
            [messages], chat_template=template, add_generation_prompt=True, **tokens, **variables
        )[0][0]
    except (TemplateError, TypeError) as error:
        return type(error).__name__
    for form in ("%Y-%m-%d", "%d %b %Y"):
        text = text.replace(date.today().strftime(form), "TODAY")
    found = re.findall(r"TODAY|\d{4}-\d\d-\d\d|\d\d \w{3} \d{4}", text)
    return ", ".join(found) or "none"


for file in sorted(FOLDER.glob("*.jinja")):
    template = file.read_text(encoding="utf-8")
    plain = days(template, ASKED)
    if file.stem.endswith("_training") or plain == "none" or "Error" in plain:
        continue
    print(file.stem)
    print("  without a system message:", plain)
    print("  with one:", days(template, SYSTEM))
    for name in ("date_string", "current_date"):
        print(f"  {name}='2026-01-01':", days(template, ASKED, **{name: "2026-01-01"}))
    fixed = days(template, ASKED, strftime_now=lambda form: "2026-01-01")
    print("  strftime_now=lambda …:", fixed)
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
