"""SEAL's learning interface (002 §3.3, eq. 9, Appendix D): what it shows is told by its components,
each a switch (docs/training.md): cues in tool documents (D.2), hints beside a failure (D.3), and
guidelines in the system prompt (D.4), one for each kind of failure of Table 6.

A policy of a terse dialect reads a few words in place of a sentence. Nothing here is given a task:
cues and hints are made of documents and of what the policy wrote, guidelines are fixed sentences
(prompts/learning_interface.txt).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from rods.analysis.schemas import options
from rods.calls import Call
from rods.canonical import JsonMapping
from rods.dialects import TERSE
from rods.environments.base import Parameter, Result, Tool
from rods.errors import UserError
from rods.family.seal.evolution import COMPONENTS
from rods.family.seal.settings import GUIDELINES, Component, SealStage
from rods.faults import WRONG_ARGUMENTS
from rods.interfaces import Identity, Shown, beside
from rods.interfaces.remedies import LISTED, alike, misuses, named, similar
from rods.prompts import load

# raise it whenever a component says something else: windows are kept apart by it (a golden test
# tells)
VERSION = 2
PROMPT = "learning_interface"
LONGEST_GUIDELINE = 200  # characters
LONGEST_HINT = 400
TYPES = {"array": "list"}


class LearningInterface(Identity):
    """The interface of a stage whose `interface` is seal-active or seal-full, with the components
    that are `shown` of those that may come and go; the others of the stage are always there."""

    def __init__(self, stage: SealStage, dialect: str, visible: Collection[Component]) -> None:
        self.brief = dialect in TERSE
        self.form = section(f"form_{dialect}")
        evolving = stage.evolving
        self._lineage = "-".join(
            [stage.interface, str(VERSION), *(f"no_{name}" for name in sorted(stage.without))]
        )
        if evolving:
            self._lineage += f"-evolving_{stage.evolve}"
        there = [name for name in evolving if name in visible]
        self.version = f"{self._lineage}:{'+'.join(there) or 'none'}" if evolving else self._lineage
        self.components = frozenset(
            name for name in stage.components if name not in evolving or name in there
        )
        self._lines = [
            said(name, self.brief)
            for name in get_args(Component)
            if name in self.components & SPOKEN
        ]

    @property
    def lineage(self) -> str:
        return self._lineage

    def guidelines(self) -> str:
        return (
            " . ".join(self._lines)
            if self.brief
            else "\n".join(f"- {line}" for line in self._lines)
        )

    def documents(self, environment: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        if not self.components & {"required", "allowed", "format"}:
            return tools
        return [replace(tool, parameters=tuple(map(self._cued, tool.parameters))) for tool in tools]

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        hint = self._hint(shown, call, result)
        return beside(result, hint) if hint else result

    def complaint(self, shown: Shown, error: str) -> str:
        if "malformed" not in self.components:
            return error
        tools = _fitting((f"`{name}`" for name in shown.tools), LONGEST_HINT // 2, ", ") or "none"
        hint = section("compact_malformed" if self.brief else "malformed").format(
            form=self.form, tools=tools
        )
        return f"{error} . {hint}" if self.brief else f"{error}. {hint.rstrip('.')}"

    def _cued(self, parameter: Parameter) -> Parameter:
        """The parameter with what its public schema says of it in words; its hidden bounds stay
        hidden."""
        marks: list[str] = []
        listed = [str(value) for value in parameter.options or options(parameter.schema)]
        if "required" in self.components and parameter.required:
            marks.append("*" if self.brief else "[required]")
        if "format" in self.components and not listed and (form := _form(parameter.schema)):
            marks.append(form if self.brief else f"Format: {form}.")
        if "allowed" in self.components and 0 < len(listed) <= LISTED:
            marks.append(
                "|".join(listed) if self.brief else f"Allowed values: {', '.join(listed)}."
            )
        return replace(parameter, cue=" ".join(marks)) if marks else parameter

    def _hint(self, shown: Shown, call: Call, result: Result) -> str:
        """What may help after `result`, within LONGEST_HINT characters; empty where there is
        nothing to say."""
        tool = shown.tools.get(call.name)
        if tool is None:
            if result.error is None or "unknown_tool" not in self.components:
                return ""
            close = alike(call.name, shown.tools)
            if self.brief:
                return similar(close)
            return f"There is no such function{f'; similar ones: {named(close)}' if close else ''}."
        if result.error not in WRONG_ARGUMENTS:
            return ""
        wrong = [
            misuse for misuse in misuses(tool, call.arguments) if misuse.kind in self.components
        ]
        return _fitting(
            (misuse.brief if self.brief else misuse.sentence for misuse in wrong), LONGEST_HINT, " "
        )


SPOKEN: frozenset[Component] = frozenset({"note", *GUIDELINES})  # they stand in the system prompt


def said(component: Component, brief: bool = False) -> str:
    """What a component of the system prompt says. Raises UserError where it was made too long to be
    read with every episode."""
    text = section(f"compact_{component}" if brief else component)
    if len(text) > LONGEST_GUIDELINE:
        raise UserError(
            f"{component} has {len(text)} characters, at most {LONGEST_GUIDELINE} are shown",
            where=f"prompts/{PROMPT}.txt",
            remedy="say it in fewer words",
        )
    return text


def words(component: Component, brief: bool) -> str:
    """What a component does, or says where it stands in the system prompt."""
    return (
        f"“{said(component, brief)}”" if component in SPOKEN else str(COMPONENTS[component]["does"])
    )


def section(name: str) -> str:
    """A section of the prompt, its fields not filled."""
    return load(PROMPT).sections[name].strip()


def _form(schema: JsonMapping) -> str:
    """Type and limits of a value in words: "integer 0 to 23", "list of string"; empty for plain
    text and where nothing is documented."""
    kind = schema.get("type")
    if not isinstance(kind, str) or kind == "string":
        return ""
    words = TYPES.get(kind, kind)
    inner = schema.get("items")
    if kind == "array" and isinstance(inner, Mapping) and isinstance(inner.get("type"), str):
        words = f"list of {inner['type']}"
    low = schema.get("minimum")
    high = schema.get("maximum")
    if low is None:
        return words if high is None else f"{words} up to {high}"
    return f"{words} from {low}" if high is None else f"{words} {low} to {high}"


def _fitting(parts: Iterable[str], limit: int, between: str) -> str:
    """As many of the parts, in order, as fit into `limit` characters. A first one that does not is
    cut at a word."""
    text = ""
    for part in parts:
        longer = f"{text}{between}{part}" if text else part
        if len(longer) > limit:
            return text or f"{part[: limit - 2].rpartition(' ')[0] or part[: limit - 2]} …"
        text = longer
    return text
