"""What a turn has to say and what no turn may say: the checks of a model's text before there is a task to judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daemon.authors.llm.showing import compact, turn_lines
from rods.analysis.says import Text, is_small
from rods.canonical import canonical
from rods.composing.catalogue import Slot
from rods.composing.records import BoundCall, Draft
from rods.environments.base import Environment, Parameter, Tool, reference
from rods.gates import leaks
from rods.gates.drafts import unnatural
from rods.tasks import Task

LONGEST = 80  # words of a turn; BFCL's own users need as many for seven calls
TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 700}


@dataclass(frozen=True, slots=True)
class Said:
    """An argument that only the user can know, and the words for it. `free`: a listed option or a truth value, for
    which a user has words of their own that no rule can check. `needed`: the call cannot be made without it."""

    bound: BoundCall
    argument: str
    slot: Slot
    free: bool
    needed: bool

    @property
    def value(self) -> Any:
        return self.bound.call.arguments[self.argument]

    def by(self, texts: Iterable[str]) -> bool:
        """Whether one of `texts` says it, as it is or in the slot's words."""
        return any(Text.of(text).tells(words) for text in texts for words in (self.value, self.slot.text))


def said(tools: Mapping[str, Tool], calls: Sequence[BoundCall]) -> list[Said]:
    """What the user has to say for `calls`, each value once. What a recipe implies, what calls find out and what
    earlier turns put on the table is left out."""
    found: dict[bytes, Said] = {}
    for bound in calls:
        parameters = {parameter.name: parameter for parameter in tools[bound.call.name].parameters}
        words = {canonical(slot.value): slot for slot in bound.slots.values() if not slot.thing}
        for argument, flow in bound.flows.items():
            key = canonical(bound.call.arguments.get(argument))
            if flow.source in ("user", "earlier") and key in words:
                parameter = parameters[argument]
                free = _free(bound.call.arguments[argument], parameter)
                found.setdefault(key, Said(bound, argument, words[key], free, parameter.required))
    return list(found.values())


def unsaid(tools: Mapping[str, Tool], draft: Draft, texts: Sequence[str], turn: int) -> list[str]:
    """The values of `turn` that neither its text nor an earlier one says, as complaints to a model."""
    return [
        f"turn {turn + 1} must say {compact(one.slot.text)}"
        for one in said(tools, draft.turns[turn])
        if not one.free and not one.by(texts[: turn + 1])
    ]


def found_out(calls: Sequence[BoundCall]) -> list[Any]:
    """What calls find out for later ones, each value once: a user who says it would spare the policy the looking up,
    and the task would have another shape than its root."""
    found = {
        canonical(bound.call.arguments[argument]): bound.call.arguments[argument]
        for bound in calls
        for argument, flow in bound.flows.items()
        if flow.origin is not None
    }
    return [found[key] for key in sorted(found)]


def given_away(tools: Mapping[str, Tool], draft: Draft, texts: Sequence[str], turn: int) -> list[str]:
    """The values that calls of `turn` are to find out and its text says, as complaints to a model."""
    own = [one for calls in draft.turns[: turn + 1] for one in said(tools, calls)]
    text = Text.of(texts[turn])
    return [
        f"turn {turn + 1} must not say {compact(value)}, which is found out by a call"
        for value in found_out(draft.turns[turn])
        if not is_small(value) and text.tells(value) and not any(one.value == value for one in own)
    ]


def amiss(environment: Environment, calls: Sequence[BoundCall], text: str) -> list[str]:
    """Why nobody would say `text` for `calls`: names of functions, artefacts, no sentence, too long."""
    truth = tuple(bound.call for bound in calls)
    tools = tuple(dict.fromkeys(call.name for call in truth))
    alone = Task(reference(environment), "base", (text,), (truth,), tools)
    return [reason.text for reason in leaks(environment, alone)] + unnatural(text, LONGEST)


def with_values(tools: Mapping[str, Tool], calls: Sequence[BoundCall]) -> str:
    """The calls of a turn as prompts show them; what must be said, and what must not because calls find it out."""
    values = ", ".join(compact(one.slot.text) for one in said(tools, calls))
    hidden = ", ".join(map(compact, found_out(calls)))
    lines = [turn_lines(calls), f"must say: {values or '(nothing in particular)'}"]
    return "\n".join([*lines, *([f"never say: {hidden}"] if hidden else [])])


def _free(value: Any, parameter: Parameter) -> bool:
    listed = "enum" in parameter.schema or "enum" in parameter.schema.get("items", {})
    return listed or value is None or isinstance(value, bool)
