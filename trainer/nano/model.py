"""nano's network and tokenizer (docs/nano.md): a Llama configuration of about half a million
parameters, and about 900 word entries. transformers loads both wherever it loads a Llama."""

import string
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

LAYERS = 3
WIDTH = 96
INNER = 256
HEADS = 3
CONTEXT = 1024

ENTRIES = 900
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
END = "<|end|>"
PAD = "<|pad|>"
# `key=`, then words with inner signs (9:00, a-b, notes.txt), then single signs and white space.
PIECES = Regex(r" ?[A-Za-z_][A-Za-z_0-9]*=(?= |$)| ?\w(?:[\w:./'-]*\w)?| ?[^\w\s]|\s")
# Every message but a reply opens with its role and a space (the space belongs to its first word); a
# reply ends itself.
TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'assistant' %}<|assistant|>{{ "
    "message.content }}<|end|>{% else %}<|{{ message.role }}|> {{ message.content }}{% endif %}{% "
    "endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def fresh(tokenizer: Any, random_seed: int) -> Any:
    """A network with random weights that depend on `random_seed` only."""
    configuration = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.05,
    )
    with torch.random.fork_rng():
        torch.manual_seed(random_seed)
        return LlamaForCausalLM(configuration)


def build_tokenizer(texts: Iterable[str], pieces: Regex = PIECES, size: int = ENTRIES) -> Any:
    """The tokenizer of at most `size` entries whose words are the most frequent of the `pieces` of
    `texts` (a PreTrainedTokenizerFast)."""
    splitter = pre_tokenizers.Split(pieces, behavior="isolated")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in splitter.pre_tokenize_str(text))
    entries = [PAD, END, *ROLES, *(f"<0x{byte:02X}>" for byte in range(256)), " ", "\n"]
    entries += list(string.digits + string.punctuation)
    special = set(entries)
    words = sorted(
        (word for word in counts if word not in special), key=lambda word: (-counts[word], word)
    )
    entries += words[: size - len(entries)]
    numbers = {entry: index for index, entry in enumerate(entries)}
    inner = Tokenizer(models.BPE(vocab=numbers, merges=[], byte_fallback=True, ignore_merges=True))
    inner.pre_tokenizer = splitter
    inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=list(ROLES),
        padding_side="left",
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
