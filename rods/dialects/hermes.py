"""The Hermes/Qwen form: one <tool_call> block a call, plain text otherwise; results come back in <tool_response>."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prompts import load
from rods.calls import Call
from rods.dialects.base import Parsed, RoleAndText
from rods.dialects.tags import documents, json_calls, tagless_json, with_guidelines
from rods.environments.base import Result, Tool

THINK_OR_CALL = re.compile(r"<think>.*?</think>|(<tool_call>.*?</tool_call>)", re.DOTALL)
BLOCK = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class Hermes:
    """A reply with at least one block calls; a reply without any ends the turn. What stands in thinking is not said."""

    name = "hermes"

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        return with_guidelines(load("policy_hermes").render(functions=documents(tools)), guidelines)

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return f"{text}\n<tools>\n{documents(returned)}\n</tools>" if returned else text

    def parse(self, text: str) -> Parsed:
        spoken = _spoken(text) if "think>" in text else text
        blocks = BLOCK.findall(spoken)
        rest = BLOCK.sub("", spoken)
        if "tool_call>" in rest and ("<tool_call>" in rest or "</tool_call>" in rest):
            return Parsed(error="a <tool_call> block is not closed, or closed twice")
        if "think>" in rest and ("<think>" in rest or "</think>" in rest):
            return Parsed(error="a <think> block is not closed, or closed twice")
        if not blocks:
            return Parsed(answer=rest.strip())
        calls: list[Call] = []
        for number, block in enumerate(blocks, start=1):
            parsed = json_calls(f"[{block}]", f"<tool_call> block {number}")
            if parsed.error is not None:
                return parsed
            calls += parsed.calls
        return Parsed(calls=tuple(calls))

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> RoleAndText:
        return "user", "\n".join(f"<tool_response>\n{result.text}\n</tool_response>" for result in results)

    def complaint(self, error: str) -> RoleAndText:
        return "user", f"<tool_response>\nFormat error: {error}.\n</tool_response>"

    def write(self, calls: Sequence[Call]) -> str:
        return "\n".join(f"<tool_call>\n{tagless_json(call.as_json())}\n</tool_call>" for call in calls)

    def answer(self, text: str) -> str:
        return text


def _spoken(text: str) -> str:
    """The reply without its thinking. Where the first thing of a tag is its end, the prompt opened it. Whatever opens
    first owns what it encloses: a call in thinking is no call, a tag in a call's text is text."""
    end = text.find("</think>")
    if end >= 0 and "<think>" not in text[:end]:
        text = text[end + len("</think>") :]
    return THINK_OR_CALL.sub(lambda found: found[1] or "", text)
