"""Judges a conversation by a rubric without a model: by what can be read from its calls (001 §2.2.3).

The five criteria of drawn tasks (`generating.CRITERIA`) are read so:

- *intent*: every expected call was carried out, with the values that its tool requires.
- *expected_tools*: every expected call was carried out as it is expected, with its optional values and no others.
- *no_hallucination*: no call of a tool that was not offered, and no value in a call that was neither said nor known by
  the user, nor shown by an earlier result, nor is a default.
- *no_redundancy*: no call was made twice, and none failed.
- *efficiency*: at most `SPARE` calls more than are expected.

A severe error is to carry out none of what is expected, which gives the wish up, and a call that created, changed or
removed something which no expected call is about. What an assistant claims, asks or leaves unsaid is not seen, nor
whether another way leads to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rods.analysis.containment import Text, key_of, leaves
from rods.calls import Call
from rods.conversations import RUBRIC_LEVELS, Persona, Rubric
from rods.environments.base import Instance, Result
from rods.episode.engine import NeedOutcome, Outcome
from rods.family.simulation.generating import CRITERIA
from rods.family.simulation.roles import Assessment, verdict, without_asking
from rods.family.simulation.tools import SimulatedTool
from rods.tasks import OpenTask

SPARE = 2  # calls beyond the expected ones that a short way may have
WRITES = frozenset({"creates", "changes", "removes"})


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said and done: the texts of the user, the calls with their results, and whether any reply could not be
    read."""

    said: Sequence[str]
    made: Sequence[tuple[Call, Result]]
    malformed: bool


def unjudged(rubric: Rubric) -> str:
    """Why this rubric cannot be judged without a model; empty where it can."""
    if not rubric.calls:
        return "it expects no calls"
    others = [criterion for criterion in rubric.criteria if criterion not in CRITERIA]
    return f"its criterion {others[0][:80]!r} is none of {', '.join(CRITERIA)}" if others else ""


def judged(task: OpenTask, tools: Mapping[str, SimulatedTool], conversation: Conversation) -> Assessment:
    """The verdict on a conversation about a task whose rubric is not `unjudged`; `tools` are those of its world."""
    assert isinstance(task.goal, Rubric)
    if (clear := without_asking(len(conversation.made), conversation.malformed)) is not None:
        return clear
    criteria = task.goal.criteria
    objections = {name: objection for name, objection in _objections(task, tools, conversation) if objection}
    met = tuple(name for name in criteria if name not in objections)
    severe = _severe(task.goal.calls, tools, conversation.made)
    why = [f"{name} is missed: {objections[name]}" for name in criteria if name in objections]
    reason = "; ".join([*why, *([f"severe: {severe}"] if severe else [])])
    return Assessment(verdict(len(met), len(criteria), bool(severe)), met, reason or "all criteria are met")


def _objections(
    task: OpenTask, tools: Mapping[str, SimulatedTool], conversation: Conversation
) -> Iterator[tuple[str, str]]:
    """What speaks against each criterion; empty where nothing does."""
    assert isinstance(task.goal, Rubric)
    expected, made = task.goal.calls, conversation.made
    done = [call for call, result in made if result.error is None]
    wanted = next((call for call in expected if not any(_serves(one, call, tools) for one in done)), None)
    yield "intent", f"{wanted} was not carried out" if wanted else ""
    exact = next((call for call in expected if not any(_equal(one, call) for one in done)), None)
    yield "expected_tools", f"{exact} was not carried out as it is" if exact else ""
    yield "no_hallucination", next(_invented(task, tools, conversation), "")
    failed = next((call for call, result in made if result.error is not None), None)
    places = enumerate(made)
    twice = next((call for place, (call, _) in places if any(_equal(call, one) for one, _ in made[:place])), None)
    yield "no_redundancy", f"{failed} failed" if failed else f"{twice} was made twice" if twice else ""
    yield "efficiency", f"{len(made)} calls, {len(expected)} are expected" if len(made) > len(expected) + SPARE else ""


def _serves(call: Call, expected: Call, tools: Mapping[str, SimulatedTool]) -> bool:
    """Whether `call` does what is expected as far as its tool requires values."""
    if call.name != expected.name:
        return False
    required = [each.name for each in tools[call.name].tool.parameters if each.required]
    names = [name for name in expected.arguments if name in required] or list(expected.arguments)
    return all(
        name in call.arguments and key_of(call.arguments[name]) == key_of(expected.arguments[name]) for name in names
    )


def _equal(one: Call, other: Call) -> bool:
    return one.name == other.name and key_of(dict(one.arguments)) == key_of(dict(other.arguments))


def _invented(task: OpenTask, tools: Mapping[str, SimulatedTool], conversation: Conversation) -> Iterator[str]:
    """Every tool that was not offered, and every value that nobody gave."""
    knows = task.user.knows.values() if isinstance(task.user, Persona) else ()
    sources = [Text.of(" | ".join([*conversation.said, *knows]))]
    for call, result in conversation.made:
        if call.name not in task.tools:
            yield f"there is no tool {call.name}"
            continue
        defaults = {each.name: each.default for each in tools[call.name].tool.parameters}
        for name, value in call.arguments.items():
            if defaults.get(name) == value:
                continue
            for _, leaf in leaves(value):
                if not isinstance(leaf, bool) and not any(source.contains_any_form(leaf) for source in sources):
                    yield f"nobody gave {str(leaf)[:80]!r} ({call.name}, {name})"
        sources.append(Text.shown(result.text) if result.value is None else Text.holding(result.value))


def _severe(expected: Sequence[Call], tools: Mapping[str, SimulatedTool], made: Sequence[tuple[Call, Result]]) -> str:
    """What was done that nobody asked for, or that nothing was done that somebody has; else empty."""
    served = False
    for call, result in made:
        effect = tools[call.name].effect if call.name in tools else None
        wanted = result.error is None and any(_serves(call, one, tools) for one in expected)
        if result.error is None and not wanted and effect is not None and effect.does in WRITES:
            return f"{call} was not asked for"
        served |= wanted
    return "" if served else "nothing of what is expected was carried out"


@dataclass(frozen=True, slots=True)
class ByRule:
    """A `WholeGoal`: the rubric of `task`, by what can be read from the calls. `tools` are all of its world."""

    task: OpenTask
    tools: Mapping[str, SimulatedTool]

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        steps = [step for turn in need.turns for step in turn.steps]
        made = [pair for step in steps for pair in zip(step.calls, step.results, strict=True)]
        malformed = any(step.error is not None for step in steps)
        found = judged(self.task, self.tools, Conversation([text for text, _ in need.said], made, malformed))
        return Outcome(found.verdict + 1, RUBRIC_LEVELS, (found.reason,))
