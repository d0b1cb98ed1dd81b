"""The ladder of hints for a task: what each rung tells of its ground truth. A pure function of the
task and of the results that its ground truth gave in a fresh world.

Rung 0 tells nothing, 1 the first tool of every request, 2 all tools in their order, 3 where the
value of every argument comes from, 4 the values, 5 the calls. Rungs 1 to 3 have no value of an
argument. A hint stands in the system prompt, since the words of a request decide what is judged:
the task is otherwise the same."""

import re
from collections.abc import Mapping
from dataclasses import replace

import orjson

from rods.analysis.containment import WORDS
from rods.analysis.flows import Flow, infer
from rods.calls import Call
from rods.canonical import Texts
from rods.environments.base import Results, Tools
from rods.files import module_table
from rods.tasks import RETURN_SENTENCE, Task

TEXTS = module_table(__file__)
NAMES: tuple[str, ...] = tuple(TEXTS["names"])
LAST = len(NAMES) - 1
# the lowest rung that tells values
VALUES = 4
INDEFINITE = re.compile(r"\ban? (?=\w)")


def hinted(tools: Tools, task: Task, results: Results, rung: int) -> Task:
    """`task` with the hint of `rung` in its system prompt; the same task at rung 0."""
    if not rung:
        return task
    text = "\n".join(hints(tools, task, results, rung))
    origin = {"triaged": task.id, "rung": rung}
    return replace(
        task,
        id="",
        system=f"{task.system}\n\n{text}" if task.system else text,
        provenance={**task.provenance, **origin},
    )


def hints(tools: Tools, task: Task, results: Results, rung: int) -> list[str]:
    """What `rung`, from 1, tells of each request. `results`: of the ground truth. Raises KeyError
    for a tool that is unknown."""
    words = TEXTS["request"]
    flows = infer(tools, task, results)
    texts = []
    for turn, calls in enumerate(task.calls):
        lines = []
        for index, call in enumerate(calls):
            sources = {
                name: TEXTS["source"][flow.source].format(tool=_tool(task, flow))
                for name, flow in flows[turn][index].items()
            }
            lines.append(_call(call, rung, sources))
        names = [call.name for call in calls]
        told = words["forms"][rung if calls else 0].format(
            names=names, tools=", ".join(names), calls=("\n" if rung == LAST else "; ").join(lines)
        )
        texts.append(words["place"].format(ordinal=_ordinal(turn).capitalize(), told=told))
    return texts


def requested(tools: Tools, task: Task, results: Results, rung: int) -> Texts:
    """What a user adds to each request who tells what `rung`, from 1 to 3, does: the same tools in
    the words of their documents. "" where no call is right, or a fixed sentence asks."""
    words = TEXTS["requested"]
    flows = infer(tools, task, results)

    def does(call: Call) -> str:
        # the thing is one that the request is about
        what = INDEFINITE.sub("the ", tools[call.name].summary)
        return what[:1].lower() + what[1:]

    def step(turn: int, place: int) -> str:
        origins = {flow.origin for flow in flows[turn][place].values() if rung > 2 and flow.origin}
        found = {does(task.calls[origin][call]) for origin, call in origins}
        sources = (words["source"].format(what=what) for what in sorted(found))
        return ", ".join([does(task.calls[turn][place]), *sources])

    def added(turn: int) -> str:
        places = range(len(task.calls[turn]))
        if not places or task.script[turn] == RETURN_SENTENCE:
            return ""
        steps = (step(turn, place) for place in places[: 1 if rung == 1 else None])
        return str(words["first" if rung == 1 else "order"].format(steps="; ".join(steps)))

    return tuple(map(added, range(len(task.calls))))


def _call(call: Call, rung: int, sources: Mapping[str, str]) -> str:
    """One call as rungs 3 to 5 tell of it."""
    if rung == LAST:
        return orjson.dumps(call.as_json()).decode()
    words = TEXTS["call"]
    if not call.arguments:
        return str(words["bare"].format(tool=call.name))
    arguments = (
        words["origin"].format(name=name, source=sources[name])
        if rung < VALUES
        else words["value"].format(name=name, value=orjson.dumps(value).decode())
        for name, value in call.arguments.items()
    )
    return str(words["with"].format(tool=call.name, arguments=", ".join(arguments)))


def _tool(task: Task, flow: Flow) -> str:
    """The tool whose result a value comes from, if any."""
    if flow.origin is None:
        return ""
    turn, index = flow.origin
    return task.calls[turn][index].name


def _ordinal(place: int) -> str:
    """`place`, from 0, as a word, so that no number is told."""
    ordinals = WORDS["ordinals"]
    return str(ordinals[place]) if place < len(ordinals) else "next"
