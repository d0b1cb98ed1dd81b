"""Conversations as tokens, by a tokenizer's own chat template. `prompt` opens a conversation;
`continuation` gives the tokens that follow a reply as it was sampled: the template's closing of the
reply after its end token, the new messages, and the opening of the next reply. It is found by
rendering a short exchange whose reply holds a mark, and cutting behind the end of what is marked:
history is never rendered again, so a template that rewrites it changes nothing of what was
sampled."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import orjson
import torch
from jinja2 import TemplateError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rods.canonical import JsonMapping, JsonObject
from rods.config import PolicySettings
from rods.dialects import Message
from rods.dialects.families import Family
from rods.dialects.native import as_rendered, assistant_as_rendered, call_as_rendered, family_in
from rods.errors import UserError
from rods.logs import log
from rods.trainer.prerequisites import check_model
from rods.trainer.weight_files import check_texts

transformers_logging.disable_progress_bar()
THINKING = ("<think>", "</think>")
MARK = "zqxjv"  # nothing that a template writes
ASKED: JsonObject = {"role": "user", "content": "a"}
REMEDY = "use another chat template (`chat_template.jinja` beside the weights), or another dialect"


class Unrendered(UserError):
    """The chat template cannot show something."""


class Chat:
    """A tokenizer with a chat template. `family` is how its template writes calls, where they are
    the model's own; `options` are further variables of the template. `ends` are the token ids that
    end a reply, `pad` one to fill blocks with."""

    def __init__(
        self,
        tokenizer: Any,
        folder: Path,
        family: Family | None = None,
        options: JsonMapping | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.folder = folder
        self.family = family
        self.options = options or {}
        if not tokenizer.chat_template:
            raise UserError(
                "the tokenizer has no chat template",
                where=folder,
                remedy="use an instruction-tuned model, or save a chat_template.jinja beside its "
                "tokenizer.json",
            )
        if tokenizer.eos_token_id is None:
            raise UserError("the tokenizer has no end token", where=folder, remedy="set eos_token")
        vocabulary = tokenizer.get_vocab()
        named = [*family.ends, *family.closes] if family else []
        self._closing = {text: vocabulary[text] for text in named if text in vocabulary}
        self._openers = {text for text in self._closing if family and text in family.openers}
        own = {
            token for text, token in self._closing.items() if family and text not in family.closes
        }
        self.ends: frozenset[int] = frozenset(
            {tokenizer.eos_token_id, *_generation_ends(folder), *own}
        )
        self._closing |= {tokenizer.convert_ids_to_tokens(end): end for end in self.ends}
        self.pad: int = (
            tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        )
        self._prompt = lru_cache(maxsize=2048)(self._opened)
        self._after = lru_cache(maxsize=2048)(self._continued)

    @staticmethod
    def load(folder: Path, policy: PolicySettings | None = None) -> "Chat":
        """The chat of a `policy` whose files are in `folder`; None: of one in a dialect of ours.
        Raises UserError when there is no `folder`, or no tokenizer or chat template in it."""
        check_model(folder)
        tokenizer = _loaded("tokenizer", AutoTokenizer, folder)
        if policy is None:
            return Chat(tokenizer, folder)
        native = policy.dialect == "native"
        family = family_in(str(folder), policy.family) if native else None
        chat = Chat(tokenizer, folder, family, policy.chat_template_kwargs)
        if family is None or not chat.rewrites:
            return chat
        from rods.trainer.trl_templates import appending  # late: it takes seconds

        if (template := appending(tokenizer)) is None:
            return chat
        log.info("the chat template rewrites history: TRL's training template is used instead")
        tokenizer.chat_template = template
        return Chat(tokenizer, folder, family, policy.chat_template_kwargs)

    def load_model(self, folder: Path | None = None) -> Any:
        """The causal language model beside the tokenizer, or in `folder`, in float32: mapped from
        its file where that holds such numbers. Raises UserError when it cannot be loaded."""
        return _loaded(
            "causal language model",
            AutoModelForCausalLM,
            folder or self.folder,
            dtype=torch.float32,
        )

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The tokens that open a conversation, up to where the first reply begins. Raises
        Unrendered."""
        return list(self._prompt(tuple(messages)))

    def continuation(self, messages: Sequence[Message], end: int | None = None) -> list[int]:
        """The tokens between a reply's end token and the next reply. `end` is that token: where the
        template would have opened the next message by another one, that stands first. Raises
        Unrendered."""
        tokens, closing = self._after(tuple(messages))
        token = self._closing[closing]
        lacking = end is not None and end != token and closing in self._openers
        return [token, *tokens] if lacking else list(tokens)

    def closing(self, messages: Sequence[Message]) -> int:
        """The token that ends a reply before `messages` (none: the conversation is over), as the
        template writes it."""
        end = int(self.tokenizer.eos_token_id)
        closing = self._closing[self._after(tuple(messages))[1]] if messages else end
        return closing if closing in self.ends else end

    def text(self, tokens: Sequence[int]) -> str:
        """A reply without its end token, with what the template opened of its thinking. Markers of
        calls stay where the dialect is the model's own."""
        return self.opening + str(
            self.tokenizer.decode(
                tokens, skip_special_tokens=self.family is None, clean_up_tokenization_spaces=False
            )
        )

    @cached_property
    def renders_calls(self) -> bool:
        """Whether the template writes the calls of a message; else they are part of its text."""
        try:
            called = assistant_as_rendered([call_as_rendered("a", {MARK: MARK})])
            return MARK in self.rendered([ASKED, called], opening=False)
        except Unrendered:
            return True

    @property
    def rewrites(self) -> bool:
        """Whether the template shows a call otherwise once its result is there."""
        called = [ASKED, assistant_as_rendered([call_as_rendered("a", {"b": "c"})])]
        result = as_rendered(Message("tool", "d", name="a"))
        try:
            before = self.rendered(called, opening=False)
            return not self.rendered([*called, result], opening=False).startswith(before)
        except Unrendered:
            return False

    @cached_property
    def opening(self) -> str:
        """The thinking that the template opens for the policy and leaves open ("<think>\\n")."""
        rendered = self.rendered([{"role": "user", "content": MARK}], opening=True)
        begin, end = self._thinking
        tail = rendered[rendered.rfind(MARK) + len(MARK) :]
        place = tail.rfind(begin)
        return tail[place:] if place >= 0 and end not in tail[place:] else ""

    @cached_property
    def _blocks(self) -> bool:
        """Whether the template takes a message's text as a list of blocks alone."""
        message = {"role": "user", "content": MARK}
        try:
            return MARK not in self._rendered([message], (), True)
        except Unrendered:
            return True

    @cached_property
    def _no_system(self) -> bool:
        try:
            return MARK not in self.rendered(
                [{"role": "system", "content": MARK}, ASKED], opening=True
            )
        except Unrendered:
            return True

    @property
    def _thinking(self) -> tuple[str, str]:
        return self.family.think if self.family and self.family.think else THINKING

    def reply(self, text: str) -> list[int]:
        """The tokens of a reply as a well-behaved policy would write it (supervised learning only),
        without its end token. Thinking that the template opens is closed first."""
        return self.tokens(self.closed(text))

    def closed(self, text: str) -> str:
        """The text of `reply`."""
        opening = self.opening
        if opening and not text.startswith(opening):
            return f"\n{self._thinking[1]}\n\n{text}"
        return text.removeprefix(opening)

    def tokens(self, text: str) -> list[int]:
        """`text` as it stands."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def rendered(
        self, messages: Sequence[JsonMapping], tools: Sequence[Any] = (), *, opening: bool
    ) -> str:
        """What the template makes of `messages` as it is given them. Raises Unrendered."""
        if self._blocks:
            messages = [
                {**message, "content": [{"type": "text", "text": message["content"]}]}
                for message in messages
            ]
        return self._rendered(messages, tools, opening)

    def _rendered(
        self, messages: Sequence[JsonMapping], tools: Sequence[Any], opening: bool
    ) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    list(messages),
                    tools=list(tools) or None,
                    tokenize=False,
                    add_generation_prompt=opening,
                    **self.options,
                )
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            roles = ", ".join(str(message["role"]) for message in messages)
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Unrendered(
                f"the chat template cannot render a conversation of {roles} ({why})",
                where=self.folder,
                remedy=REMEDY,
            ) from error

    def opened(self, messages: Sequence[Message]) -> str:
        """The text of `prompt`."""
        return self.rendered(*self.listed(messages), opening=True)

    def listed(self, messages: Sequence[Message]) -> tuple[list[JsonObject], list[Any]]:
        """`messages` and their tools as the template takes them. Where it has no role for the
        system, that text stands before the first user's."""
        tools = [orjson.loads(tool) for message in messages for tool in message.tools]
        listed = [as_rendered(message) for message in messages if message.content or message.name]
        if self._no_system and [message["role"] for message in listed[:2]] == ["system", "user"]:
            system, user, *rest = listed
            joined = {**user, "content": f"{system['content']}\n\n{user['content']}"}
            return [joined, *rest], tools
        return listed, tools

    def continued(self, messages: Sequence[Message]) -> tuple[str, str]:
        """The text of `continuation`, and that of the end token before it."""
        rendered = self._marked(messages)
        place = rendered.rfind(MARK) + len(MARK)
        found = [(at, text) for text in self._closing if (at := rendered.find(text, place)) >= 0]
        if place < len(MARK) or not found:
            raise Unrendered(
                "the chat template does not close a reply with an end token",
                where=self.folder,
                remedy=REMEDY,
            )
        at, text = min(found)
        return rendered[at + len(text) :], text

    def _marked(self, messages: Sequence[Message]) -> str:
        """A short exchange up to a reply that holds the mark, and `messages` behind it."""
        rest = [as_rendered(message, place) for place, message in enumerate(messages)]
        called = [message for message in rest if "tool_call_id" in message]
        if not called or not self.renders_calls:
            reply = {"role": "assistant", "content": MARK}
            return self.rendered([ASKED, reply, *rest], opening=True)
        calls = [
            call_as_rendered(message["name"], {MARK: MARK}, place)
            for place, message in enumerate(called)
        ]
        try:
            return self.rendered([ASKED, assistant_as_rendered(calls), *rest], opening=True)
        except Unrendered:  # one call at a time: the first one's closing is that of all
            return self.rendered([ASKED, assistant_as_rendered(calls[:1]), *rest], opening=True)

    def _opened(self, messages: tuple[Message, ...]) -> list[int]:
        return self.tokens(self.opened(messages))

    def _continued(self, messages: tuple[Message, ...]) -> tuple[list[int], str]:
        text, closing = self.continued(messages)
        return self.tokens(text), closing


def _generation_ends(folder: Path) -> set[int]:
    """The end tokens that the model's folder names for generation."""
    for name in ("generation_config.json", "config.json"):
        try:
            ends = orjson.loads((folder / name).read_bytes()).get("eos_token_id")
        except (OSError, ValueError):
            continue
        if ends is not None:
            return {ends} if isinstance(ends, int) else set(ends)
    return set()


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
