"""Calls in tags. `Tags`: the think / tool_call / answer form of Environment Tuning (000 Appendix
G), with its two system prompts: `resourceful`, of the late stages, asks the policy to look before
it asks and to ask before it guesses. The wording is this project's own. `Hermes`: the Hermes/Qwen
form, plain text otherwise."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from rods.calls import MAX_CALL_TEXT, MAX_CALLS, Call
from rods.dialects import NO_TOOLS, Message, Parsed, RoleAndText
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
        prompt = self.template.render(functions=_documents(tools))
        return f"{prompt}\n\nGuidelines:\n{guidelines}" if guidelines else prompt

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return f"{text}\n{_documents(returned)}" if returned else text

    def beside(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ()

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        match = REPLY.fullmatch(text)
        if match is None:
            return Parsed(
                error="the reply must be one <tool_call>…</tool_call> or one <answer>…</answer>, "
                "after an optional <think>…</think>, and nothing else"
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
        return f"<tool_call>\n{_tagless_json([call.as_json() for call in calls])}\n</tool_call>"

    def answer(self, text: str) -> str:
        return f"<answer>\n{text}\n</answer>"


# what opens
THINK_OR_CALL = re.compile("<(think|tool_call)>")
BLOCK = re.compile("<(tool_call)>")


class Hermes(Tags):
    """A reply with at least one block calls; a reply without any ends the turn. What stands in
    thinking is not said."""

    name = "hermes"

    def __init__(self) -> None:
        self.template = load("policy_hermes")

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return f"{text}\n<tools>\n{_documents(returned)}\n</tools>" if returned else text

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        spoken = _spoken(text) if "think>" in text else text
        parts = list(_parts(spoken, BLOCK))
        blocks = [inside for _, kind, inside in parts if kind]
        rest = "".join(before for before, *_ in parts)
        if "tool_call>" in rest and ("<tool_call>" in rest or "</tool_call>" in rest):
            return Parsed(error="a <tool_call> block is not closed, or closed twice")
        if "think>" in rest and ("<think>" in rest or "</think>" in rest):
            return Parsed(error="a <think> block is not closed, or closed twice")
        if not blocks:
            return Parsed(answer=rest.strip())
        calls: list[Call] = []
        for number, block in enumerate(blocks[: MAX_CALLS + 1], start=1):
            parsed = _json_calls(f"[{block}]", f"<tool_call> block {number}")
            if parsed.error is not None:
                return parsed
            calls += parsed.calls
        return Parsed.made(calls)

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> Sequence[Message]:
        shown = (f"<tool_response>\n{result.text}\n</tool_response>" for result in results)
        return [Message("user", "\n".join(shown))]

    def write(self, calls: Sequence[Call]) -> str:
        return "\n".join(
            f"<tool_call>\n{_tagless_json(call.as_json())}\n</tool_call>" for call in calls
        )

    def answer(self, text: str) -> str:
        return text


def _spoken(text: str) -> str:
    """The reply without its thinking. Where the first thing of a tag is its end, the prompt opened
    it. Whatever opens first owns what it encloses: a call in thinking is no call, a tag in a call's
    text is text."""
    end = text.find("</think>")
    if end >= 0 and "<think>" not in text[:end]:
        text = text[end + len("</think>") :]
    return "".join(
        f"{before}<tool_call>{inside}</tool_call>" if kind == "tool_call" else before
        for before, kind, inside in _parts(text, THINK_OR_CALL)
    )


def _parts(text: str, opening: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """(what stands before a block, its kind, what stands in it), and last what is left (with no
    kind). Whatever opens first owns what it encloses, up to the first end of its kind; a tag that
    is never closed opens nothing. One pass: no kind whose end was missed is looked for again."""
    begin = place = 0
    unclosed: set[str] = set()
    while match := opening.search(text, place):
        end = -1 if match[1] in unclosed else text.find(f"</{match[1]}>", place := match.end())
        if end < 0:
            unclosed.add(match[1])
            place = match.end()
        else:
            yield text[begin : match.start()], match[1], text[place:end]
            begin = place = end + len(match[0]) + 1
    yield text[begin:], "", ""


def _documents(tools: Sequence[Tool]) -> str:
    """The function documents, one JSON object a line."""
    return "\n".join(orjson.dumps(tool.schema()).decode() for tool in tools)


def _tagless_json(value: Any) -> str:
    """JSON in which no text can be mistaken for a tag: `<` stands only inside strings, so it may be
    escaped there."""
    return orjson.dumps(value).decode().replace("<", "\\u003c")


def _json_calls(text: str, place: str) -> Parsed:
    """Reads a JSON list of calls. Never raises; the error names `place`."""
    if len(text) > MAX_CALL_TEXT:
        return Parsed(error=f"{place} is too long", in_call=True)
    try:
        values = read_exact(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return Parsed(error=f"{place} is not valid JSON", in_call=True)
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
