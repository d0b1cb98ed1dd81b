"""A world as a program (003 eq. 4): one file with imports, state, the environment, and a function
for each tool and check, whoever writes its parts; and the plan of one whose parts models write."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from rods.canonical import frozen
from rods.environments import addressed
from rods.files import read_toml

HEAD, FOOT = read_toml(Path(__file__).with_suffix(".toml")).values()
_IMPORTS = r"(?:(?:from|import) .*\n)*"


def assemble(about: str, state: str, functions: Iterable[str]) -> str:
    """The source of a world, with `{address}` where its own address belongs
    (rods.environments.addressed). `state` holds types and classes, `World` among them; `functions`
    come after the environment, which tools and checks need."""
    return "".join((HEAD.format(about=about), state, FOOT, *functions))


def placed(source: str, folder: Path) -> str:
    """Writes the source of a world below `folder`; what it is loaded by."""
    return f"{folder}/{addressed.keep(source, folder)}"


def tool(group: str, reads: bool, source: str) -> str:
    """A function of a state, after imports of a line each, as a tool of API class `group`."""
    return re.sub(rf"\A({_IMPORTS})", rf'\n\n\1@WORLD.tool("{group}", reads={reads})\n', source)


def check(source: str) -> str:
    """A function of a state as a check."""
    return re.sub(rf"\A({_IMPORTS})", r"\n\n\1@WORLD.check\n", source)


RULES = "broken_rules"  # the function that says which rules a state breaks
# types, classes and rules among the parts of a program, which are called by the names of functions
STATE_PART = "the state"


@frozen
class PlannedTool:
    """A tool of a plan. `takes`: its parameters after the state, each with what it is."""

    name: str
    group: str
    reads: bool
    about: str
    takes: Mapping[str, str]

    def __str__(self) -> str:
        parameters = "; ".join(f"{name}: {about}" for name, about in self.takes.items())
        does = (
            f"{'only reads' if self.reads else 'changes something'}. "
            f"{self.about}{f' ({parameters})' if parameters else ''}"
        )
        return f"{self.name}({', '.join(self.takes)}), group {self.group}, {does}"


@frozen
class WorldPlan:
    """What a world is to be (003 eq. 2): `tables` by name with what is known of an entry, `rules`
    in words."""

    topic: str
    tables: Mapping[str, str]
    rules: tuple[str, ...]
    tools: tuple[PlannedTool, ...]

    @property
    def documentation(self) -> str:
        """What the policy is told of the world: its topic, its tables and its rules."""
        tables = (f"- {name}: {about}" for name, about in self.tables.items())
        return "\n".join([self.topic, *tables, *(f"- {rule}" for rule in self.rules)])


@frozen
class WorldProgram:
    """A planned world with the source of its `state` and rules, of each tool, and of check
    functions, by name."""

    plan: WorldPlan
    state: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)

    @property
    def classes(self) -> str:
        """The source of the state before its rules: for whoever needs to know what there is."""
        return self.state.partition(f"def {RULES}(")[0]

    def source(self) -> str:
        """The whole file (003 eq. 4)."""
        return "".join(self._parts().values())

    def lines(self) -> dict[str, range]:
        """Which lines of the file are whose: of "state", or of a tool or check by its name."""
        first = 1
        lines = dict[str, range]()
        for part, text in self._parts().items():
            lines[part] = range(first, first := first + text.count("\n"))
        return lines

    def _parts(self) -> dict[str, str]:
        held = (f"\n\nWORLD.rules({RULES})\n",) if f"def {RULES}(" in self.state else ()
        # the topic, in the first line of the file
        about = re.sub(r'["\\]', "'", self.plan.topic)[:200].rstrip(".")
        parts = {STATE_PART: assemble(about, self.state, held)}
        for spec in self.plan.tools if self.tools else ():
            parts[spec.name] = tool(spec.group, spec.reads, self.tools[spec.name])
        return parts | {name: check(code) for name, code in self.checks.items()}
