"""The domains and their tools as a policy reads them."""

from dataclasses import field
from typing import NoReturn

from rods.canonical import JsonMapping, JsonObject, content_id, frozen
from rods.environments.base import Features, Tool, Tools
from rods.family.benchmarks.tau2.package import WHEEL

BEHAVIOUR = 1  # to be raised when equal calls may give other results


@frozen
class Documented(Tool):
    """A tool with the package's own document."""

    document: JsonMapping = field(default_factory=dict)

    def schema(self) -> JsonObject:
        return dict(self.document)


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
