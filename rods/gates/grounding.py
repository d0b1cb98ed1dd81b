"""Every argument of a ground-truth call can be found by whoever reads the conversation.

A value may come from what the user says in this turn or said before, from an earlier result, from what the tool's
document says (its default, the values that it lists), or from what a visible tool would show at that moment
(`plausible_calls`; asked last, because it executes). True, False, None and "" need no mention. Of a list or an object
every leaf has to be found.

Listed values are often said in words of one's own ("a round trip"), so they pass, but not when the text names another
one of the list instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rods.analysis.flows import Output
from rods.analysis.plausible_calls import documented, shows, visible
from rods.analysis.says import Text, leaves, stems
from rods.environments.base import Environment, Parameter, Results
from rods.gates.records import Reason
from rods.tasks import Task

LONG = 4  # words from which on a text need not stand there word for word
SHARE = 0.7  # of the words of such a text that must be found


def grounding(environment: Environment, task: Task, results: Results) -> list[Reason]:
    """The arguments whose values nobody can know; empty when there are none. `results` are those of the ground truth.

    Where an environment cannot be forked, what its tools would show counts only as far as the calls themselves ask.
    """
    tools = environment.tools()
    reasons: list[Reason] = []
    texts: list[Text] = []
    outputs: list[Output] = []
    for turn, calls in enumerate(task.calls):
        texts.append(Text.of(task.script[turn]))
        for index, call in enumerate(calls):
            parameters = {parameter.name: parameter for parameter in tools[call.name].parameters}
            for name, value in call.arguments.items():
                lost = [leaf for leaf in parts(value) if not _found(name, leaf, parameters.get(name), texts, outputs)]
                if lost and not all(readable(environment, task, (turn, index), name, leaf) for leaf in lost):
                    told = f"{call.name}: nobody says {name}={value!r}, and nothing shows it"
                    reasons.append(Reason(told, turn, index))
            outputs.append(Output((turn, index), call, results[turn][index]))
    return reasons


def parts(value: Any) -> list[Any]:
    return [leaf for _, leaf in leaves(value)] if isinstance(value, (list, dict)) else [value]


def _found(
    name: str, value: Any, parameter: Parameter | None, texts: Sequence[Text], outputs: Sequence[Output]
) -> bool:
    if value is None or isinstance(value, bool) or value == "":
        return True
    if any(text.tells(value) for text in texts):
        return True
    if parameter is not None and parameter.default is not None and value == parameter.default:
        return True
    if any(output.brought(name, value) or output.mentions(value) for output in outputs):
        return True
    if parameter is not None:
        listed = documented(parameter)
        if value in listed:
            return not any(texts[-1].tells(other) for other in listed if other != value)
        if Text.of(parameter.description).says(value):
            return True
    return _composed(value, texts, outputs)


def _composed(value: Any, texts: Sequence[Text], outputs: Sequence[Output]) -> bool:
    """Whether a longer text is put together from what was said and shown."""
    if not isinstance(value, str) or len(wanted := list(stems(value))) < LONG:
        return False
    had = {word for text in texts for word in stems(text.folded)}
    had |= {word for output in outputs for word in stems(output.text.folded)}
    return sum(word in had for word in wanted) >= SHARE * len(wanted)


def readable(environment: Environment, task: Task, place: tuple[int, int], name: str, value: Any) -> bool:
    """Whether a tool that is visible in the turn of `place` shows `value` right before that call."""
    turn, index = place
    calls = [call for number in range(turn) for call in task.calls[number]]
    tools = visible(environment, task, turn)
    return shows(
        environment, task.state, (*calls, *task.calls[turn][:index]), task.script[: turn + 1], tools, name, value
    )
