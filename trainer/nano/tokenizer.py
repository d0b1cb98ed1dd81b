"""nano's word-level tokenizer: about 900 entries, byte fallback, and a chat template.

A word is an entry together with the single space before it, so text is kept exactly and copying a word is copying a
token. What is no entry falls apart into characters and bytes: every text encodes and decodes to itself.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

ENTRIES = 900
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
END, PAD = "<|end|>", "<|pad|>"
# `key=`, then words with inner signs (9:00, a-b, notes.txt), then single signs and white space.
PIECES = Regex(r" ?[A-Za-z_][A-Za-z_0-9]*=(?= |$)| ?\w(?:[\w:./'-]*\w)?| ?[^\w\s]|\s")
# Every message but a reply opens with its role and a space (the space belongs to its first word); a reply ends itself.
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'assistant' %}<|assistant|>{{ message.content }}<|end|>"
    "{% else %}<|{{ message.role }}|> {{ message.content }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build(texts: Iterable[str]) -> Any:
    """The tokenizer whose words are the most frequent pieces of `texts` (a PreTrainedTokenizerFast)."""
    splitter = pre_tokenizers.Split(PIECES, behavior="isolated")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in splitter.pre_tokenize_str(text))
    entries = [PAD, END, *ROLES, *(f"<0x{byte:02X}>" for byte in range(256)), " ", "\n"]
    entries += list(string.digits + string.punctuation)
    known = set(entries)
    words = sorted((word for word in counts if word not in known), key=lambda word: (-counts[word], word))
    entries += words[: ENTRIES - len(entries)]
    inner = Tokenizer(
        models.BPE(
            vocab={entry: index for index, entry in enumerate(entries)},
            merges=[],
            byte_fallback=True,
            ignore_merges=True,
        )
    )
    inner.pre_tokenizer = splitter
    inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, pad_token=PAD, extra_special_tokens=list(ROLES), padding_side="left"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
