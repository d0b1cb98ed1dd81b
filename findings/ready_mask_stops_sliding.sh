#!/usr/bin/env bash
# Software: transformers 5.23.0 with torch 2.13.0; tiny models with random weights.
# Expected: a model whose configuration says `sliding_window` looks back so far in its sliding
#   layers, whoever makes the causal mask: none given, or the same causal mask given ready as
#   (batch, 1, queries, keys).
# Seen: a ready four-dimensional mask is taken as it is by all layers, sliding ones too, without a
#   warning: the model is another one as soon as the context is longer than the window, exactly
#   the one whose window is as long as the context. A mapping with one mask for each kind of layer
#   gives the model's own result (Mistral, with one kind: its one mask). That a ready mask is
#   taken as it is stands in the source; what it does to windows does not.
# Touches: whoever keeps caches or packs rows by himself and so makes masks: rollouts drawn this
#   way come from another distribution than the loss has (Mistral 0.1, Gemma 3, gpt-oss, whose
#   window is 128).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 transformers==5.23.0
cat >"$folder/expected" <<'END'
logits over 24 tokens with a window of 8, beside those without a mask
mistral
  one ready causal mask: different
  … beside a model without windows: equal
  ready masks that slide where the layers do: equal
gemma3_text
  one ready causal mask: different
  … beside a model without windows: equal
  ready masks that slide where the layers do: equal
gpt_oss
  one ready causal mask: different
  … beside a model without windows: equal
  ready masks that slide where the layers do: equal
END
"$folder/venv/bin/python" - >"$folder/seen" <<'END'
import torch
from transformers import AutoConfig, AutoModelForCausalLM

torch.set_num_threads(1)
LENGTH = 24
WINDOW = 8
SHAPE = {
    "vocab_size": 200,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}


def mask(window):
    """A causal mask that is added to scores: 0 for what a query may see."""
    behind = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    hidden = (behind < 0) | (behind >= window)
    return torch.zeros(LENGTH, LENGTH).masked_fill(hidden, torch.finfo(torch.float).min)[None, None]


def logits(kind, window, given):
    torch.manual_seed(0)
    more = EXPERTS if kind == "gpt_oss" else {}
    config = AutoConfig.for_model(kind, **SHAPE, **more, sliding_window=window)
    model = AutoModelForCausalLM.from_config(config).eval()
    tokens = torch.randint(3, 200, (1, LENGTH))
    with torch.inference_mode():
        return model(tokens, attention_mask=given).logits


def compared(one, other):
    return "equal" if torch.allclose(one, other, atol=1e-5) else "different"


print(f"logits over {LENGTH} tokens with a window of {WINDOW}, beside those without a mask")
for kind in ("mistral", "gemma3_text", "gpt_oss"):
    own = logits(kind, WINDOW, None)
    ready = logits(kind, WINDOW, mask(LENGTH))
    by_kind = {"full_attention": mask(LENGTH), "sliding_attention": mask(WINDOW)}
    apart = logits(kind, WINDOW, mask(WINDOW) if kind == "mistral" else by_kind)
    print(kind)
    print("  one ready causal mask:", compared(ready, own))
    print("  … beside a model without windows:", compared(ready, logits(kind, LENGTH, None)))
    print("  ready masks that slide where the layers do:", compared(apart, own))
END
cat "$folder/seen"
diff "$folder/expected" "$folder/seen"
