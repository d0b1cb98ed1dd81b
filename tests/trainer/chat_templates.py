"""Tokenizers for the chat templates that TRL packages: byte-level, with the markers of the template
as tokens of their own, as those of the families have them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rods.dialects.families import family_of

MARKERS = re.compile(
    r"<[|｜][^<>\s'\"{}]{1,40}[|｜]>|<\|?[a-z_]{2,40}\|?>|<\|\"\|>|</[a-z_]{1,20}>|\[/?[A-Z_]{3,30}\]|<end_of_turn>"
)
ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eot|>",
    "<|return|>",
    "<turn|>",
    "<end_of_turn>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<|end_of_text|>",
    "<|end|>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<end_of_utterance>",
    "</s>",
)

# tokens of their own, but shown where special ones are left out
PLAIN = re.compile(r"</?(think|tool_call|tool_response|tools)>")
BEGINS = ("<|begin_of_text|>", "<bos>", "<｜begin▁of▁sentence｜>")


def names() -> list[str]:
    """Of TRL's packaged templates."""
    folder = files("trl") / "chat_templates"
    return sorted(
        file.name.removesuffix(".jinja")
        for file in folder.iterdir()
        if file.name.endswith(".jinja")
    )


@cache
def template(name: str) -> str:
    return (files("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def tokenizer(text: str, *extra: str) -> Any:
    """One for the chat template `text`; `extra` are further markers."""
    alphabet = sorted(ByteLevel.alphabet())
    core = Tokenizer(BPE({letter: place for place, letter in enumerate(alphabet)}, []))
    core.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = ByteDecoder()
    found = dict.fromkeys([*MARKERS.findall(text), *extra])
    end = next((end for end in ENDS if end in text), "<|endoftext|>")
    begin = next((begin for begin in BEGINS if begin in text), "<s>")
    made = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token=begin, eos_token=end, pad_token=end
    )
    made.add_tokens([mark for mark in found if PLAIN.fullmatch(mark)])
    special = [mark for mark in found if mark != end and not PLAIN.fullmatch(mark)]
    made.add_special_tokens({"additional_special_tokens": special})
    made.chat_template = text
    return made


def saved(folder: Path, name: str) -> Path:
    """A tiny model of random weights with the chat template `name`, as a folder for
    `policy.model`."""
    text = template(name)
    family = family_of(text)
    made = tokenizer(text, *((*family.ends, *family.closes) if family else ()))
    torch.manual_seed(1)
    shape = LlamaConfig(
        vocab_size=len(made),
        hidden_size=64,  # heads of 32, the least that vLLM computes
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16_384,
        tie_word_embeddings=False,
        eos_token_id=made.eos_token_id,
        bos_token_id=made.bos_token_id,
    )
    LlamaForCausalLM(shape).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder
