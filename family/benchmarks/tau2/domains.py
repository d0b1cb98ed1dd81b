"""The domains and their tools as a policy reads them: natively, or in a prompt. The package itself
knows native calls alone; in a prompt, documents and calls have the Hermes form (rods.dialects)."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NoReturn

import orjson

from rods.analysis.containment import read_json
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen
from rods.dialects import NO_TOOLS, Parsed, RoleAndText
from rods.dialects.tags import Hermes
from rods.environments.base import Features, Tool, Tools
from rods.family.benchmarks.episodes import NativeText
from rods.family.benchmarks.tau2.package import WHEEL

BEHAVIOUR = 1  # to be raised when equal calls may give other results


@frozen
class Documented(Tool):
    """A tool with the package's own document."""

    document: JsonMapping = field(default_factory=dict)

    def schema(self) -> JsonObject:
        return dict(self.document)


class Native(NativeText, Hermes):
    """Native calls: the tools travel beside the messages, a reply is JSON
    (rods.family.benchmarks.episodes)."""

    name = "native"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def tools(self, visible: Sequence[str], returned: Sequence[str]) -> list[JsonObject]:
        """The tools of a request."""
        return [
            {"type": "function", "function": self._tools[name].schema()}
            for name in (*visible, *returned)
        ]

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        reply = orjson.loads(text)
        calls = [(name, read_json(arguments)) for name, arguments in reply["calls"]]
        if unread := next(
            (name for name, arguments in calls if not isinstance(arguments, dict)), None
        ):
            return Parsed(error=f"the arguments of {unread} are no JSON object")
        return (
            Parsed(tuple(Call(*call) for call in calls))
            if calls
            else Parsed(answer=reply["content"] or "")
        )

    def complaint(self, error: str) -> RoleAndText:
        return "tool", orjson.dumps([f"Error: {error}"]).decode()


class Domain:
    """A domain as an environment: its tools, in the wheel's words. Its worlds belong to a
    conversation."""

    features = Features(waits=True)

    def __init__(self, name: str, described: JsonMapping) -> None:
        self.name = f"tau2_{name}"
        self.system = described["system"]
        tools = (
            Documented(one["name"], name, one["description"], document=one)
            for one in described["tools"]
        )
        self._tools = {tool.name: tool for tool in tools}
        self.hash = content_id({"wheel": WHEEL.sha256, "behaviour": BEHAVIOUR, "domain": described})

    def tools(self) -> Tools:
        return self._tools

    def reset(self, state: JsonMapping | None) -> NoReturn:
        raise ValueError("its worlds begin with the wheel's database, and belong to a conversation")
