"""Stage IV by rules: what is wrong with a finished task (004 Appendix G, gate 4). An empty list accepts it.

Four parts, each usable alone:

- `structure`: calls as drafted; the turns without calls of miss_func and miss_param really cannot be served before the
  next turn; a long context is longer.
- `alignment`: every argument is to be had (said so far, in an earlier result, a default, implied by the recipe), and
  the phrase book, read backwards (`reading`), finds the calls of each turn in its words and nothing else.
- `leaks`: no tool or parameter is named.
- `naturalness`: prose, without raw JSON or artefacts of generation.

That the calls run and reproduce their results is gate 1's business (`rods.gates`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rods.composing.catalogue import Catalogue, Implied
from rods.composing.parse_wording import read
from rods.composing.records import BoundCall, Draft
from rods.composing.task_types import said
from rods.environments.base import Environment, Results, Tool
from rods.gates.ground_truth import run
from rods.gates.leaks import artefacts, secrets
from rods.tasks import RETURN_SENTENCE, Task

WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
SLACK = 2  # words that a blur may add
DOUBLED = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DraftFault:
    """What is wrong, and where: in the `calls` (or how the task is built), or in the `query` of `turn` (from 0), which
    another wording may mend. A request made in vain counts to the next turn, in which it is served."""

    reason: str
    part: Literal["calls", "query"]
    turn: int | None = None


def judge(
    catalogue: Catalogue, environment: Environment, task: Task, draft: Draft, results: Results | None = None
) -> list[DraftFault]:
    """The faults of `task`, made from `draft`; empty when it is accepted. `results` are those of its ground truth where
    the caller has just run it; otherwise it is run in a fresh instance."""
    faults = structure(task, draft)
    if faults:  # the other parts take the structure for granted
        return faults
    return (
        alignment(catalogue, environment, task, draft, results)
        + leaks(catalogue, environment, task)
        + naturalness(task, catalogue.book.longest + SLACK)
    )


def structure(task: Task, draft: Draft) -> list[DraftFault]:
    """Whether calls and turns are the draft's, in the form of the task's type."""
    drafted = [[bound.call.as_json() for bound in turn] for turn in draft.turns]
    if [[call.as_json() for call in turn] for turn in task.calls] != drafted:
        return [DraftFault("the ground truth is not what was drafted", "calls")]
    reasons = []
    blanks = [turn for turn, calls in enumerate(task.calls) if not calls]
    returns = [turn for turn, text in enumerate(task.script) if text == RETURN_SENTENCE]
    if any(turn + 1 >= len(task.calls) or not task.calls[turn + 1] for turn in blanks):
        reasons.append("a request is made in vain and nothing follows")
    if bool(blanks) != (task.type in ("miss_func", "miss_param")):
        reasons.append(f"{len(blanks)} turns without calls in a {task.type} task")
    if task.type == "long_context" and _size(task.state) <= _size(draft.state) and not _longer(task, draft):
        reasons.append("neither the state nor a result of a long context is longer than the draft's")
    if task.type == "miss_func":
        if returns != [turn + 1 for turn in blanks] or sorted(task.held_out) != returns:
            reasons.append("tools must return, with the fixed sentence, right after each turn without calls")
        for turn, names in task.held_out.items():
            if not {call.name for call in task.calls[turn]}.intersection(names):
                reasons.append(f"turn {turn} needs none of the tools that return in it")
            if any(call.name in names for calls in task.calls[:turn] for call in calls):
                reasons.append(f"a tool held out until turn {turn} is needed before")
    elif task.held_out or returns:
        reasons.append(f"a {task.type} task holds no tools out")
    if task.type == "miss_param" and not reasons and not all(_missing(task, draft, turn) for turn in blanks):
        reasons.append("a turn without calls lacks nothing that the next one supplies")
    return [DraftFault(reason, "calls") for reason in reasons]


def _longer(task: Task, draft: Draft) -> bool:
    """Whether the calls give longer results than they gave in the draft: a world may be padded by a flag."""
    drafted = sum(len(bound.result.text) for calls in draft.turns for bound in calls)
    return sum(len(text) for texts in task.provenance.get("results", ()) for text in texts) > drafted


def _missing(task: Task, draft: Draft, turn: int) -> bool:
    """Whether the turn after `turn` supplies a value that could be had in no way before."""
    texts = [*task.script[: turn + 1], *(bound.result.text for calls in draft.turns[:turn] for bound in calls)]
    supplied = (
        bound.call.arguments[argument]
        for bound in draft.turns[turn + 1]
        for argument, flow in bound.flows.items()
        if flow.source in ("user", "earlier") and said(bound.call.arguments[argument], task.script[turn + 1])
    )
    return any(not any(said(value, text) for text in texts) for value in supplied)


def alignment(
    catalogue: Catalogue, environment: Environment, task: Task, draft: Draft, results: Results | None = None
) -> list[DraftFault]:
    """Whether texts and calls ask for the same: nothing missing, nothing unasked."""
    faults: list[DraftFault] = []
    shown: list[str] = []  # results of the calls so far
    tools = environment.tools()
    for turn, calls in enumerate(draft.turns):
        for bound in calls:
            faults += _unfounded(catalogue, tools[bound.call.name], task, draft, turn, bound, shown)
            shown.append(bound.result.text)
    if results is None:
        results = run(environment, task)
    for turn, reading in enumerate(read(catalogue, environment, task, results)):
        if reading.unexplained and not any(fault.turn == turn for fault in faults):
            call = task.calls[turn][reading.unexplained[0]]
            faults.append(DraftFault(f"nobody asks for {call}", "query", turn))
        faults += [DraftFault(f"{word!r} is asked about and no call uses it", "query", turn) for word in reading.left]
    return faults


def _unfounded(
    catalogue: Catalogue, tool: Tool, task: Task, draft: Draft, turn: int, bound: BoundCall, shown: Sequence[str]
) -> list[DraftFault]:
    """Arguments of a call that nobody could know."""
    faults = []
    steps = catalogue.recipes[bound.recipe].steps
    implied = [source.value for step in steps for source in step.arguments.values() if isinstance(source, Implied)]
    defaults = {parameter.name: parameter.default for parameter in tool.parameters}
    for argument, value in bound.call.arguments.items():
        flow = bound.flows.get(argument)
        other = [slot.text for slot in bound.slots.values() if slot.value == value]  # words for the value
        if flow is None:
            faults.append(DraftFault(f"nobody knows where {argument}={value!r} came from", "calls", turn))
        elif flow.origin is not None:
            if not said(value, draft.turns[flow.origin[0]][flow.origin[1]].result.text):
                faults.append(DraftFault(f"{argument}={value!r} is not in the result that it came from", "calls", turn))
        elif flow.source == "state":
            if not said(value, " ".join(_words(draft.state))):
                faults.append(DraftFault(f"{argument}={value!r} is not in the state", "calls", turn))
        elif value in implied or value == defaults.get(argument):
            continue
        elif not any(said(words, text) for text in (*task.script[: turn + 1], *shown) for words in (value, *other)):
            faults.append(DraftFault(f"nobody says {argument}={value!r}", "query", turn))
    return faults


def leaks(catalogue: Catalogue, environment: Environment, task: Task) -> list[DraftFault]:
    """Tools and parameters that the texts name. Tools whose names are plain words may be said when the catalogue lists
    them as ordinary, parameters that are plain words always."""
    secret = secrets(environment.tools(), catalogue.ordinary)
    return [
        DraftFault(f"the text names {name!r}", "query", turn)
        for turn, text in _requests(task)
        for name in sorted(secret.intersection(re.findall(r"\w+", text)))
    ]


def naturalness(task: Task, longest: int) -> list[DraftFault]:
    """Texts that no user would type, or of more than `longest` words."""
    return [DraftFault(reason, "query", turn) for turn, text in _requests(task) for reason in unnatural(text, longest)]


def unnatural(text: str, longest: int) -> list[str]:
    """Why no user would type `text`."""
    reasons = []
    if not text or text != text.strip() or "  " in text or text[-1] not in ".!?" or text[0].islower():
        reasons.append(f"not written in sentences: {text!r}")
    reasons += artefacts(text)
    if found := DOUBLED.search(text):
        reasons.append(f"says {found[0]!r}")
    if len(text.split()) > longest:
        reasons.append(f"{len(text.split())} words long, over {longest}")
    return reasons


def _requests(task: Task) -> Iterator[tuple[int, str]]:
    """The texts that are the task's own, each with the turn in which it is served."""
    for turn, (text, calls) in enumerate(zip(task.script, task.calls, strict=True)):
        if text != RETURN_SENTENCE:
            yield (turn if calls else turn + 1), text


def _size(state: Any) -> int:
    if isinstance(state, Mapping):
        return 1 + sum(_size(value) for value in state.values())
    return 1


def _words(value: Any) -> Iterator[str]:
    """The lower-case words of all keys and texts in a JSON value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from WORD.findall(str(key).lower())
            yield from _words(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _words(item)
    else:
        yield from WORD.findall(str(value).lower())
