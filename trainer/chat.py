"""Conversations as tokens, by a tokenizer's own chat template. `prompt` opens a conversation;
`continuation` gives the tokens that follow a reply as it was sampled: the template's closing of the
reply after its end token, the new messages, and the opening of the next reply. It is found by
rendering a dummy exchange before the new messages, so history is never rendered (some templates
rewrite it)."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rods.episode.engine import Message
from rods.errors import UserError
from rods.trainer.prerequisites import no_model
from rods.trainer.weight_files import check_texts

transformers_logging.disable_progress_bar()
DUMMY = (Message("user", "a"), Message("assistant", "b"))


class Chat:
    """A tokenizer with a chat template. `ends` are the token ids that end a reply, `pad` one to
    fill blocks with."""

    def __init__(self, tokenizer: Any, folder: Path) -> None:
        self.tokenizer = tokenizer
        self.folder = folder
        if not tokenizer.chat_template:
            raise UserError(
                "the tokenizer has no chat template",
                where=folder,
                remedy="use an instruction-tuned model, or save a chat_template.jinja beside its "
                "tokenizer.json",
            )
        if tokenizer.eos_token_id is None:
            raise UserError("the tokenizer has no end token", where=folder, remedy="set eos_token")
        self.ends: frozenset[int] = frozenset({tokenizer.eos_token_id})
        self.pad: int = (
            tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        )
        self._ids = lru_cache(maxsize=2048)(self._rendered)

    @staticmethod
    def load(folder: Path) -> "Chat":
        """Raises UserError when there is no `folder`, or no tokenizer or chat template in it."""
        if not folder.is_dir():
            raise no_model(folder)
        return Chat(_loaded("tokenizer", AutoTokenizer, folder), folder)

    def load_model(self) -> Any:
        """The causal language model beside the tokenizer, in float32. Raises UserError when it
        cannot be loaded."""
        model = _loaded(
            "causal language model", AutoModelForCausalLM, self.folder, dtype=torch.float32
        )
        ends = model.generation_config.eos_token_id
        if ends is not None:
            self.ends |= {ends} if isinstance(ends, int) else set(ends)
        return model

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The tokens that open a conversation, up to where the first reply begins."""
        return list(self._ids(tuple(messages), True))

    def continuation(self, messages: Sequence[Message]) -> list[int]:
        """The tokens between a reply's end token and the next reply."""
        before = self._ids(DUMMY, False)
        after = self._ids((*DUMMY, *messages), True)
        end = self.tokenizer.eos_token_id
        cut = len(before) - before[::-1].index(end) if end in before else 0
        if not cut or after[:cut] != before[:cut]:
            raise UserError(
                "the chat template does not close a reply with the end token, or rewrites earlier "
                "messages",
                where=self.folder,
                remedy="use a template that appends messages and ends each with eos_token",
            )
        return after[cut:]

    def text(self, tokens: Sequence[int]) -> str:
        return str(
            self.tokenizer.decode(
                tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def tokens(self, text: str) -> list[int]:
        """The tokens of a reply as a well-behaved policy would write it (supervised learning
        only)."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _rendered(self, messages: tuple[Message, ...], opening: bool) -> list[int]:
        rendered = [asdict(message) for message in messages]
        return self.tokens(
            self.tokenizer.apply_chat_template(
                rendered, tokenize=False, add_generation_prompt=opening
            )
        )


def _loaded(what: str, kind: Any, folder: Path, **options: Any) -> Any:
    try:
        check_texts(folder)
        return kind.from_pretrained(folder, local_files_only=True, **options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = (
            "weights of another shape than config.json says"
            if isinstance(error, RuntimeError)
            else str(error)
        )
        raise UserError(
            f"no {what} that transformers can load ({why.splitlines()[0]})",
            where=folder,
            remedy="policy.model must be a folder with weights, config.json and tokenizer files",
        ) from error
