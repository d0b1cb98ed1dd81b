"""BFCL's protocol as two dialects of the episode engine: calls in the text of a prompt, and native
tool calls.

An output that cannot be decoded, or decodes to no call, ends the turn; nothing is ever complained
about. Run these with `Harness.steps` replies a turn and without `visible_only`: the official
executor answers for hidden tools, too.

Native replies are text, too (rods.dialects.remote). A dialect serves one task, because
the tools of its classes decide how a call string is read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject
from rods.dialects import NO_TOOLS, Message, Parsed, RoleAndText
from rods.dialects.remote import Served
from rods.environments.base import Result, Tool
from rods.family.benchmarks.bfcl.decoding import decode, executed
from rods.family.benchmarks.bfcl.harness import Harness
from rods.family.benchmarks.folder import Documents, Form
from rods.tasks import RETURN_SENTENCE


class _Calls(tuple[Call, ...]):
    """Calls, and the strings that they were read from, which results are shown beside."""

    strings: Sequence[str]


class _Official:
    """What both have in common. `owners`: the class of every callable tool."""

    name = "official"
    form: Form

    def __init__(
        self, harness: Harness, owners: Mapping[str, str], documents: Documents = "full"
    ) -> None:
        self.harness = harness
        self.owners = owners
        self.documents = documents

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        strings = decode(self.step(text), self.form)  # type: ignore[attr-defined]
        if not strings:
            return Parsed(answer=text)
        calls = _Calls(executed(string, self.owners) for string in strings)
        calls.strings = strings
        return Parsed(calls=calls)

    def complaint(self, error: str) -> RoleAndText:
        return "user", error


class Prompted(_Official):
    """Prompt mode: tool documents in the system prompt, calls as a Python list, results in a user's
    message."""

    form = "prompt"

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        prompt: str = self.harness.system_prompt(self._shown(tools, returned=False))
        return f"{prompt}\n\n{guidelines}" if guidelines else prompt

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        return (
            self.harness.returned_prompt(self._shown(returned, returned=True)) if returned else text
        )

    def observation(self, calls: Sequence[Call], results: Sequence[Result]) -> Sequence[Message]:
        strings = calls.strings if isinstance(calls, _Calls) else [*map(str, calls)]
        texts = [result.text for result in results]
        return [Message("user", self.harness.results_prompt(strings, texts))]

    def write(self, calls: Sequence[Call]) -> str:
        return f"[{', '.join(map(str, calls))}]"

    def beside(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return ()

    def answer(self, text: str) -> str:
        return text

    def step(self, text: str) -> Any:
        """The reply as BFCL's result files keep it."""
        return text

    def _shown(self, tools: Sequence[Tool], *, returned: bool) -> Sequence[Any]:
        if self.documents == "signatures":
            return [tool.signature() for tool in tools]
        return self.harness.documents([tool.name for tool in tools], returned=returned)


class Native(_Official, Served):
    """Native tool calls: no system prompt; tools travel beside the messages."""

    form = "native"

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        if not returned or text != RETURN_SENTENCE:
            return text
        return str(self.harness.texts["DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC"])

    def beside(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        shown = self.tools([tool.name for tool in tools], returned=False)
        return tuple(orjson.dumps(tool).decode() for tool in shown)

    def tools(self, names: Sequence[str], *, returned: bool) -> list[JsonObject]:
        """Tools of a request: those visible from the start, or those that have `returned`."""
        documents = self.harness.documents(names, returned=returned)
        if self.documents == "signatures":
            documents = [
                {"name": full["name"], "description": "", "parameters": _bare(full["parameters"])}
                for full in documents
            ]
        return self.harness.native_tools(documents)


def _bare(schema: JsonMapping) -> JsonObject:
    """The schema without descriptions: arguments and types."""
    bare = {key: value for key, value in schema.items() if key not in ("description", "properties")}
    if "properties" in schema:
        bare["properties"] = {
            name: _bare(part) | {"description": ""} for name, part in schema["properties"].items()
        }
    return bare


FORMS: dict[Form, type[Prompted] | type[Native]] = {"prompt": Prompted, "native": Native}
