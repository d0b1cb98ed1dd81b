"""Judges the form of a task against the draft that it was made from (004 Appendix G, gate 4, by
rules). No defect accepts it.

Whether calls run, and whether texts and calls agree, is the business of the other gates
(`rods.gates.check`)."""

import re
from collections.abc import Mapping
from typing import Any

from rods.analysis.containment import Text
from rods.composing.records import Draft
from rods.environments.base import Environment
from rods.faults import Defect
from rods.gates.texts import leaks
from rods.tasks import RETURN_SENTENCE, Task

DOUBLED = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)
# "the another", but not "the The Great Gatsby": the second in small letters
ARTICLES = re.compile(r"\b(?i:the|an?) (?:the|an?|another|some|this|that|one of)\b")


def judge(environment: Environment, task: Task, draft: Draft, longest: int) -> list[Defect]:
    """What is wrong with `task`, made from `draft`: calls and turns that are not the draft's in the
    form of the task's type; else texts that no user would type, in more than `longest` words among
    them. Empty when it is accepted."""
    if defects := structure(task, draft):
        return defects
    texts = enumerate(task.script)
    own = [(turn, text) for turn, text in texts if text != RETURN_SENTENCE]
    leaked = [(reason.turn, reason.text) for reason in leaks(environment, task)]
    unlike = [(turn, issue) for turn, text in own for issue in unnatural(text, longest)]
    return [
        Defect("query_fixable", issue, turn if task.calls[turn] else turn + 1)
        for turn, issue in (*leaked, *unlike)
        if turn is not None
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
