"""Judges a task against the draft that it was made from (004 Appendix G, gate 4, by rules). No
fault accepts it.

That the calls run and give the recorded results is the business of the other gates
(`rods.gates.check`)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rods.analysis.containment import Text
from rods.composing.catalogue import Catalogue, Constant
from rods.composing.parse_wording import read
from rods.composing.records import BoundCall, Draft
from rods.environments.base import Environment, Results, Tool
from rods.gates.ground_truth import run
from rods.gates.leaks import leaks
from rods.gates.records import Defect
from rods.tasks import RETURN_SENTENCE, Task

SLACK = 2  # words that a blur may add
DOUBLED = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)
# "the another", but not "the The Great Gatsby": the second in small letters
ARTICLES = re.compile(r"\b(?i:the|an?) (?:the|an?|another|some|this|that|one of)\b")


def judge(
    catalogue: Catalogue,
    environment: Environment,
    task: Task,
    draft: Draft,
    results: Results | None = None,
) -> list[Defect]:
    """The faults of `task`, made from `draft`; empty when it is accepted. `results` are those of
    its ground truth where the caller has just run it; otherwise it is run in a fresh instance."""
    faults = structure(task, draft)
    if faults:  # the other parts take the structure for granted
        return faults
    result_texts: list[Text] = []  # what the calls so far gave
    tools = environment.tools()
    for turn, calls in enumerate(draft.turns):
        for bound in calls:
            faults += _unfounded(
                catalogue, tools[bound.call.name], task, draft, turn, bound, result_texts
            )
            result_texts.append(Text.shown(bound.result.text))
    # texts and calls have to ask for the same: nothing missing, nothing unasked
    readings = read(
        catalogue, environment, task, run(environment, task) if results is None else results
    )
    for turn, reading in enumerate(readings):
        if reading.unexplained and not any(fault.turn == turn for fault in faults):
            call = task.calls[turn][reading.unexplained[0]]
            faults.append(Defect("query_fixable", f"nobody asks for {call}", turn))
        faults += [
            Defect("query_fixable", f"{word!r} is asked about and no call uses it", turn)
            for word in reading.left
        ]
    issues = [
        (reason.text, reason.turn) for reason in leaks(environment, task) if reason.turn is not None
    ]
    longest = catalogue.book.longest + SLACK
    texts = enumerate(task.script)
    own = [(turn, text) for turn, text in texts if text != RETURN_SENTENCE]
    issues += [(reason, turn) for turn, text in own for reason in unnatural(text, longest)]
    return faults + [
        Defect("query_fixable", reason, turn if task.calls[turn] else turn + 1)
        for reason, turn in issues
    ]


def structure(task: Task, draft: Draft) -> list[Defect]:
    """Whether calls and turns are the draft's, in the form of the task's type."""
    drafted = [[bound.call.as_json() for bound in turn] for turn in draft.turns]
    if [[call.as_json() for call in turn] for turn in task.calls] != drafted:
        return [Defect("gt_unfixable", "the ground truth is not what was drafted")]
    reasons = []
    blanks = [turn for turn, calls in enumerate(task.calls) if not calls]
    returns = [turn for turn, text in enumerate(task.script) if text == RETURN_SENTENCE]
    if any(turn + 1 >= len(task.calls) or not task.calls[turn + 1] for turn in blanks):
        reasons.append("a request is made in vain and nothing follows")
    if bool(blanks) != (task.type in ("miss_func", "miss_param")):
        reasons.append(f"{len(blanks)} turns without calls in a {task.type} task")
    if task.type == "long_context" and not lengthened(task, draft):
        reasons.append(
            "neither the state nor a result of a long context is longer than the draft's"
        )
    if task.type == "miss_func":
        if returns != [turn + 1 for turn in blanks] or sorted(task.held_out) != returns:
            reasons.append(
                "tools must return, with the fixed sentence, right after each turn without calls"
            )
        for turn, names in task.held_out.items():
            if not {call.name for call in task.calls[turn]}.intersection(names):
                reasons.append(f"turn {turn} needs none of the tools that return in it")
            if any(call.name in names for calls in task.calls[:turn] for call in calls):
                reasons.append(f"a tool held out until turn {turn} is needed before")
    elif task.held_out or returns:
        reasons.append(f"a {task.type} task holds no tools out")
    if (
        task.type == "miss_param"
        and not reasons
        and not all(_missing(task, draft, turn) for turn in blanks)
    ):
        reasons.append("a turn without calls lacks nothing that the next one supplies")
    return [Defect("gt_unfixable", reason) for reason in reasons]


def lengthened(task: Task, draft: Draft) -> bool:
    """Whether a long context is longer than its draft, by its state or, where a flag pads the
    world, by its results."""
    drafted = sum(len(bound.result.text) for calls in draft.turns for bound in calls)
    length = sum(len(text) for texts in task.provenance.get("results", ()) for text in texts)
    return _size(task.state) > _size(draft.state) or length > drafted


def _missing(task: Task, draft: Draft, turn: int) -> bool:
    """Whether the turn after `turn` supplies a value that could be had in no way before."""
    texts = [Text.of(text) for text in task.script[: turn + 1]]
    texts += [Text.shown(bound.result.text) for calls in draft.turns[:turn] for bound in calls]
    flows = [(bound.call, *item) for bound in draft.turns[turn + 1] for item in bound.flows.items()]
    values = [
        call.arguments[name] for call, name, flow in flows if flow.source in ("user", "earlier")
    ]
    supplied = filter(Text.of(task.script[turn + 1]).contains_exact, values)
    return any(not any(text.contains_exact(value) for text in texts) for value in supplied)


def _unfounded(
    catalogue: Catalogue,
    tool: Tool,
    task: Task,
    draft: Draft,
    turn: int,
    bound: BoundCall,
    result_texts: Sequence[Text],
) -> list[Defect]:
    """Arguments of a call that nobody could know."""
    faults = []
    steps = catalogue.recipes[bound.recipe].steps
    implied = [
        source.value
        for step in steps
        for source in step.arguments.values()
        if isinstance(source, Constant)
    ]
    texts = [*(Text.of(text) for text in task.script[: turn + 1]), *result_texts]
    defaults = {parameter.name: parameter.default for parameter in tool.parameters}
    for argument, value in bound.call.arguments.items():
        flow = bound.flows.get(argument)
        assigned = f"{argument}={value!r}"
        if flow is None:
            faults.append(Defect("gt_unfixable", f"nobody knows where {assigned} came from", turn))
        elif flow.origin is not None:
            if not Text.shown(
                draft.turns[flow.origin[0]][flow.origin[1]].result.text
            ).contains_exact(value):
                faults.append(
                    Defect(
                        "gt_unfixable", f"{assigned} is not in the result that it came from", turn
                    )
                )
        elif flow.source == "state":
            if not Text.holding(draft.state).contains_exact(value):
                faults.append(Defect("gt_unfixable", f"{assigned} is not in the state", turn))
        elif value not in implied and value != defaults.get(argument):
            words = [value, *(slot.text for slot in bound.slots.values() if slot.value == value)]
            if not any(text.contains_exact(word) for text in texts for word in words):
                faults.append(Defect("query_fixable", f"nobody says {assigned}", turn))
    return faults


def unnatural(text: str, longest: int) -> list[str]:
    """Why no user would type `text`, which may have `longest` words."""
    reasons = []
    if (
        not text
        or text != text.strip()
        or "  " in text
        or text[-1] not in ".!?"
        or text[0].islower()
    ):
        reasons.append(f"not written in sentences: {text!r}")
    if phrase := next(
        (match[0] for pattern in (DOUBLED, ARTICLES) if (match := pattern.search(text))), None
    ):
        reasons.append(f"says {phrase!r}")
    if len(text.split()) > longest:
        reasons.append(f"{len(text.split())} words long, over {longest}")
    return reasons


def _size(state: Any) -> int:
    return 1 + sum(map(_size, state.values())) if isinstance(state, Mapping) else 1
