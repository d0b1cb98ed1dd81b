"""Calls in tags. `Tags`: the think / tool_call / answer form of Environment Tuning (000 Appendix
G), with its two system prompts: `resourceful`, of the late stages, asks the policy to look before
it asks and to ask before it guesses. The wording is this project's own. `Hermes`: the Hermes/Qwen
form, plain text otherwise."""

import json
import re
from collections.abc import Mapping, Sequence

import orjson

from rods.calls import MAX_CALL_TEXT, Call
from rods.dialects import ESCAPES, NO_TOOLS, Message, Parsed, RoleAndText
from rods.dialects.families import Family
from rods.dialects.native import Native
from rods.environments.base import Result, Tool
from rods.model_json import is_json, read_exact
from rods.prompts import load

TEMPLATES = {"plain": "policy_tags", "resourceful": "policy_tags_resourceful"}
# text without tags; none of it is given back
_INSIDE = r"(?:[^<]++|<(?!/?(?:think|tool_call|answer)>))*+"
REPLY = re.compile(
    rf"\s*(?:<think>{_INSIDE}</think>\s*)?"
    rf"(?:<tool_call>(?P<calls>{_INSIDE})</tool_call>|<answer>(?P<answer>{_INSIDE})</answer>)\s*"
)


class Tags:
    """A reply is an optional <think> block, then exactly one <tool_call> (a JSON list) or one
    <answer>."""

    name = "tags"

    def __init__(self, prompt: str = "plain") -> None:
        self.template = load(TEMPLATES[prompt])

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        prompt = self.template.render(functions=self._documents(tools))
        return f"{prompt}\n\nGuidelines:\n{guidelines}" if guidelines else prompt

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return f"{text}\n{self._documents(returned)}" if returned else text

    def beside(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ()

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        match = REPLY.fullmatch(text)
        if match is None:
            return Parsed(
                error="the reply must be one <tool_call>…</tool_call> or one <answer>…</answer>, "
                f"after an optional <think>…</think>, and nothing else: {ESCAPES}"
            )
        if match["answer"] is not None:
            return Parsed(answer=match["answer"].strip())
        return _json_calls(match["calls"], "the <tool_call> block")

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> Sequence[Message]:
        lines = ",\n ".join(_as_json(result.text) for result in results)
        return [Message("user", f"<tool_response>\n[{lines}]\n</tool_response>")]

    def complaint(self, error: str) -> RoleAndText:
        return "user", f"<tool_response>\nFormat error: {error}.\n</tool_response>"

    def write(self, calls: Sequence[Call]) -> str:
        listed = orjson.dumps([call.as_json() for call in calls]).decode()
        # no text can be mistaken for a tag: `<` stands only inside strings, and is escaped there
        return "<tool_call>\n" + listed.replace("<", "\\u003c") + "\n</tool_call>"

    def _documents(self, tools: Sequence[Tool]) -> str:
        """The function documents, one JSON object a line."""
        return "\n".join(orjson.dumps(tool.schema()).decode() for tool in tools)

    def answer(self, text: str) -> str:
        return f"<answer>\n{text}\n</answer>"


HERMES = Family(
    name="hermes",
    title="Hermes",
    holds=(),
    grammar="json",
    open="<tool_call>\n",
    close="\n</tool_call>",
    between="\n",
    unclosed=True,
    prose=True,
    think=("<think>", "</think>"),
)


class Hermes(Tags):
    """A reply with at least one block calls; a reply without any ends the turn. What stands in
    thinking is not said. Tools are documented as Qwen's chat templates do."""

    name = "hermes"

    def __init__(self) -> None:
        self.template = load("policy_hermes")
        self._native = Native(HERMES)

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return f"{text}\n<tools>\n{self._documents(returned)}\n</tools>" if returned else text

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        return self._native.parse(text, {})

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> Sequence[Message]:
        shown = (f"<tool_response>\n{result.text}\n</tool_response>" for result in results)
        return [Message("user", "\n".join(shown))]

    def write(self, calls: Sequence[Call]) -> str:
        return self._native.write(calls)

    def _documents(self, tools: Sequence[Tool]) -> str:
        """The tools as Qwen's chat templates document them, one JSON object a line; no text of a
        tool can close them."""
        documents = [{"type": "function", "function": tool.schema()} for tool in tools]
        text = "\n".join(json.dumps(document, ensure_ascii=False) for document in documents)
        return text.replace("</tools>", "\\u003c/tools>")

    def answer(self, text: str) -> str:
        return text


def _json_calls(text: str, place: str) -> Parsed:
    """Reads a JSON list of calls. Never raises; the error names `place`."""
    if len(text) > MAX_CALL_TEXT:
        return Parsed(
            error=f"{place} is longer than {MAX_CALL_TEXT} characters: make several", in_call=True
        )
    try:
        values = read_exact(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return Parsed(error=f"{place} is not valid JSON: {ESCAPES}", in_call=True)
    except ValueError as error:
        return Parsed(error=f"{place}: {error}", in_call=True)
    if not isinstance(values, list) or not values:
        return Parsed(error=f"{place} must hold a JSON list with at least one call", in_call=True)
    try:
        return Parsed.made([Call.from_json(value) for value in values])
    except ValueError as error:
        return Parsed(error=f"{place}: {error}", in_call=True)


def _as_json(text: str) -> str:
    return (
        text if is_json(text) else orjson.dumps(text.encode("utf-8", "replace").decode()).decode()
    )
