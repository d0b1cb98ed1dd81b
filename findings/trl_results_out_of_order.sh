#!/usr/bin/env bash
# Software: trl 1.16.0 (the loop of tools in GRPOTrainer), torch 2.13.0, transformers 5.23.0.
# Expected: the results of a reply's calls follow in the order of the calls; tools may be
#   functions or coroutines.
# Seen: results of functions come first, and those of coroutines behind them, whatever the order
#   of the calls. The messages have the tool's name and no call's id, and most templates write
#   neither (Qwen's, Nemotron's, LFM2's): the model reads the second call's result as that of the
#   first, and learns from it. Functions also act first.
# Touches: environments that mix functions and coroutines, where a reply may make several calls:
#   make all tools of one kind.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 transformers==5.23.0 trl==1.16.0 \
  accelerate==1.15.0 datasets==5.2.0
cat >"$folder/expected" <<'END'
called: weather, clock | acted: weather, clock
  messages: [('weather', 'sunny'), ('clock', 'noon')]
  of these Qwen's prompt has: sunny, noon
called: clock, weather | acted: weather, clock
  messages: [('weather', 'sunny'), ('clock', 'noon')]
  of these Qwen's prompt has: sunny, noon
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import trl
from transformers.utils.chat_template_utils import render_jinja_template

acted = []


def weather():
    acted.append("weather")
    return "sunny"


async def clock():
    acted.append("clock")
    return "noon"


loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
template = Path(trl.__file__).parent / "chat_templates" / "qwen3_instruct_2507.jinja"


def play(*names):
    """The loop's first round, up to where the results become tokens; what follows needs a model."""
    acted.clear()
    calls = [{"type": "function", "function": {"name": name, "arguments": {}}} for name in names]
    messages = [{"role": "user", "content": "Go."}]
    reply = {"role": "assistant", "content": "", "tool_calls": calls}
    results = []
    trainer = SimpleNamespace(
        _sync_tool_dicts=[{"weather": weather}],
        _async_tool_dicts=[{"clock": clock}],
        _get_tool_suffix_ids=lambda given: results.extend(given) or [0],
        _is_vlm=False,
        async_loop=loop,
        max_completion_length=0,  # so that the loop ends behind it
        max_tool_calling_iterations=1,
        model=SimpleNamespace(config=SimpleNamespace(max_position_embeddings=1)),
        use_vllm=False,
    )
    trl.GRPOTrainer._tool_call_loop(trainer, [messages], [[1]], [[2]], [[reply]], None, None, {})
    print("called:", ", ".join(names), "| acted:", ", ".join(acted))
    print("  messages:", [(each["name"], each["content"]) for each in results])
    asked = [{"role": "user", "content": "Go."}, reply]
    text = render_jinja_template([[*asked, *results]], chat_template=template.read_text())[0][0]
    behind = text[text.rindex("</tool_call>") :]
    words = sorted(("sunny", "noon", "weather", "clock"), key=behind.find)
    print("  of these Qwen's prompt has:", ", ".join(word for word in words if word in behind))


play("weather", "clock")
play("clock", "weather")
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
