"""Whoever writes a world of jars, in this process: what is asked is answered by its template, and
kept in `asked`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.asking import Question
from rods.config import Operation
from rods.family.environments.settings import Writing

PLAN: dict[str, Any] = {
    "tables": [{"name": "jars", "about": "how full"}],
    "rules": ["A jar holds at most 90."],
    "tools": [
        {
            "name": "look",
            "group": "jars",
            "reads": True,
            "about": "Looks.",
            "takes": [{"name": "jar", "about": "it"}],
        },
        {
            "name": "fill",
            "group": "jars",
            "reads": False,
            "about": "Fills.",
            "takes": [{"name": "jar", "about": "it"}, {"name": "more", "about": "how much"}],
        },
    ],
}
STATE = """\
Name = Annotated[str, Field(min_length=1, max_length=20)]


@dataclass
class World:
    jars: dict[Name, int] = field(default_factory=dict)


def broken_rules(before: World, world: World) -> dict[int, str]:
    return {1: f"{jar} holds {much}" for jar, much in world.jars.items() if much > 90}
"""
BROKEN = [{"rule": 1, "state": {"jars": {"plums": 91}}}]
LOOK = '''\
def look(world: World, jar: Name) -> int:
    """How much is in a jar."""
    if jar not in world.jars:
        raise ToolError("there is no such jar")
    return world.jars[jar]
'''
FILL = '''\
def fill(world: World, jar: Name, more: Annotated[int, Field(ge=1, le=30)]) -> int:
    """Puts more into a jar."""
    if world.jars.get(jar, 0) + more > 90 or len(world.jars) > 50:
        raise ToolError("there is no room")
    world.jars[jar] = world.jars.get(jar, 0) + more
    return world.jars[jar]
'''
CHECK = '''\
def check(world: World) -> bool:
    """There are nine plums."""
    return world.jars.get("plums") == 9
'''
START = {"jars": {"plums": 7, "pears": 3, "figs": 1}}
TASK: dict[str, Any] = {
    "task": "Put 2 more into plums.",
    "query": "Plums.",
    "manner": "Short.",
    "knows": [],
}

Codes = Mapping[str, Any]


class Answering:
    """`codes`: the code of "world_state", of a tool by its name, or of "scenario_checklist", or
    what gives it; or the whole answer to another template."""

    settings = Operation().model_copy(
        update={"writing": Writing(fewest_tools=2, rounds=0, corrections=2)}
    )

    def __init__(self, **codes: Any) -> None:
        self.codes: Codes = {
            "world_state": STATE,
            "look": LOOK,
            "fill": FILL,
            "scenario_checklist": CHECK,
            **codes,
        }
        self.asked: list[Question[Any]] = []
        self.records: list[dict[str, Any]] = []
        self.record = self
        fill = {"name": "fill", "arguments": {"jar": "plums", "more": 2}}
        self.steps: list[dict[str, Any]] = [{"calls": [fill], "then": "finish"}]
        self.said: list[str] = []

    def append(self, kind: str, **fields: Any) -> None:
        self.records.append({"kind": kind, **fields})

    def tell(self, about: str, what: str) -> None:
        self.said.append(what)

    def named(self, question: Question[Any]) -> str:
        """The template, or the names of the tools that are asked for."""
        if question.template != "world_tool":
            return question.template
        lines = question.fields["wanted"].splitlines()
        return " ".join(line.partition("(")[0] for line in lines)

    async def ask(self, question: Question[Any], about: str, number: int = 0) -> Any:
        self.asked.append(question)
        known: dict[str, Any] = {
            "world_plan": PLAN,
            "scenario_state": {"state": START},
            "scenario_task": TASK,
        }
        known = {name: self.codes.get(name, answer) for name, answer in known.items()}
        given = known.get(question.template, {})
        if question.template == "scenario_solver":
            given = self.steps.pop(0)
        elif not given:
            codes = [self.codes[name] for name in self.named(question).split()]
            texts = [code if isinstance(code, str) else code(question) for code in codes]
            code = texts if question.template == "world_tool" else texts[0]
            given = {"code": code, "broken": BROKEN, "conditions": texts}
        meant = question.read(given)
        if question.check is not None:
            await question.check(meant)
        return meant
