"""Every argument of a ground-truth call can be found by whoever reads the conversation:
docs/gates.md says where.

Of a list or an object every leaf has to be found. Listed values are often said in words of one's
own ("a round trip"), so they pass, but not when the text names another one of the list instead.
What a visible tool would show is asked last, because that executes (`plausible_calls`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from rods.analysis.containment import Text, leaves, stems
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import documented, shows, visible
from rods.calls import Call
from rods.conversations import Persona, Script
from rods.environments.base import Environment, Parameter, Result, Results, Tool
from rods.gates.records import Reason
from rods.gates.reference_policy import told
from rods.tasks import Task

LONG = 4  # words from which on a text need not stand there word for word
SHARE = 0.7  # of the words of such a text that must be found


def grounding(environment: Environment, task: Task, results: Results) -> list[Reason]:
    """The arguments whose values nobody can know; empty when there are none. `results` are those of
    the ground truth. Without forks, what tools would show counts only as far as the calls
    themselves ask."""
    tools = environment.tools()
    reasons: list[Reason] = []
    texts: list[Text] = []
    outputs: list[Output] = []
    earlier: list[Call] = []
    for turn, calls in enumerate(task.calls):
        texts.append(Text.of(task.script[turn]))
        usable = visible(environment, task, turn)
        script = task.script[: turn + 1]
        for index, call in enumerate(calls):
            parameters = {parameter.name: parameter for parameter in tools[call.name].parameters}
            for name, value in call.arguments.items():
                parameter = parameters.get(name)
                lost = [
                    leaf
                    for _, leaf in leaves(value)
                    if not _found(name, leaf, parameter, texts, outputs)
                ]
                if not all(
                    shows(environment, task.state, earlier, script, usable, name, leaf)
                    for leaf in lost
                ):
                    why = f"{call.name}: nobody says {name}={value!r}, and nothing shows it"
                    reasons.append(Reason(why, turn, index))
            outputs.append(Output((turn, index), call, results[turn][index]))
            earlier.append(call)
    return reasons


def _found(
    name: str, value: Any, parameter: Parameter | None, texts: list[Text], outputs: list[Output]
) -> bool:
    if any(told(value, text) for text in texts) or any(
        output.has(name, value) for output in outputs
    ):
        return True
    if parameter is not None:
        listed = documented(parameter)
        if parameter.default is not None and value == parameter.default:
            return True
        if value in listed:
            return not any(texts[-1].contains_any_form(other) for other in listed if other != value)
        if Text.of(parameter.description).contains_exact(value):
            return True
    # a longer text may be put together from what was said and shown
    if not isinstance(value, str) or len(wanted := list(stems(value))) < LONG:
        return False
    had = {
        word
        for text in (*texts, *(output.text for output in outputs))
        for word in stems(text.folded)
    }
    return sum(word in had for word in wanted) >= SHARE * len(wanted)


def ungrounded(
    tools: Mapping[str, Tool], user: Script | Persona, calls: Sequence[Call], seen: Sequence[Result]
) -> list[Reason]:
    """The arguments of `calls` whose values nobody can know: not said or known by the user, no
    default, and not in the results `seen` of the calls before. That a document lists a value does
    not tell that it is meant."""
    texts = (
        (user.query, *user.further, *user.knows.values())
        if isinstance(user, Persona)
        else user.texts
    )
    heard = Text.of(" | ".join(texts))
    outputs = list[Output]()
    reasons = list[Reason]()
    for index, call in enumerate(calls):
        defaults = {
            param.name: param.default
            for param in tools[call.name].parameters
            if param.default is not None
        }
        for name, value in call.arguments.items():
            parts = [leaf for _, leaf in leaves({name: value}) if not told(leaf, heard)]
            in_results = all(any(output.has(name, leaf) for output in outputs) for leaf in parts)
            if not in_results and (name not in defaults or value != defaults[name]):
                why = (
                    f"{call.name}: nobody says or knows {name}={value!r}, and no call before shows "
                    f"it"
                )
                reasons.append(Reason(why, call=index))
        outputs += [Output((0, index), call, result) for result in seen[index : index + 1]]
    return reasons
