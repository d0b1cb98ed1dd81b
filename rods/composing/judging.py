"""Stage IV by rules: what is wrong with a finished task (004 Appendix G, gate 4). An empty list accepts it.

Four parts, each usable alone:

- `structure`: calls as drafted; the turns without calls of miss_func and miss_param really cannot be served before the
  next turn; a long context is longer.
- `alignment`: every argument is to be had (said so far, in an earlier result, a default, implied by the recipe), every
  recipe is asked for in its turn, and no number or name is asked about that no call uses.
- `leaks`: no tool or parameter is named.
- `naturalness`: prose, without raw JSON or artefacts of generation.

That the calls run and reproduce their results is gate 1's business (`rods.gates`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rods.composing.catalogue import Catalogue, Implied, catalogue_for
from rods.composing.forms import said
from rods.composing.records import Draft
from rods.composing.wording import requests
from rods.environments import load
from rods.tasks import RETURN_SENTENCE, Task

WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
ARTEFACTS = re.compile(
    r"thought process|construct query|step \d+:|ground truth|tool call|function call|api call|<\w+>|```|[{}\[\]\\|<>]",
    re.IGNORECASE,
)
DOUBLED = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)


def judge(catalogue: Catalogue, task: Task, draft: Draft) -> list[str]:
    """The faults of `task`, made from `draft`; empty when it is accepted."""
    faults = structure(task, draft)
    if faults:  # the other parts take the structure for granted
        return faults
    return alignment(catalogue, task, draft) + leaks(catalogue, task) + naturalness(catalogue, task)


def structure(task: Task, draft: Draft) -> list[str]:
    """Whether calls and turns are the draft's, in the form of the task's type."""
    drafted = [[bound.call.as_json() for bound in turn] for turn in draft.turns]
    if [[call.as_json() for call in turn] for turn in task.calls] != drafted:
        return ["the ground truth is not what was drafted"]
    faults = []
    blanks = [turn for turn, calls in enumerate(task.calls) if not calls]
    returns = [turn for turn, text in enumerate(task.script) if text == RETURN_SENTENCE]
    for turn in blanks:
        if turn + 1 >= len(task.calls) or not task.calls[turn + 1]:
            faults.append(f"turn {turn} asks in vain and nothing follows")
    if task.type in ("base", "long_context"):
        if blanks or task.held_out:
            faults.append(f"a {task.type} task has no turns without calls and no held-out tools")
        if task.type == "long_context" and _size(task.state) <= _size(draft.state):
            faults.append("the state of a long context is no longer than the draft's")
    elif not blanks:
        faults.append(f"a {task.type} task needs a turn without calls")
    if task.type == "miss_func":
        if returns != [turn + 1 for turn in blanks] or sorted(task.held_out) != returns:
            faults.append("held-out tools must return, with the fixed sentence, right after each turn without calls")
        for turn, names in task.held_out.items():
            now = {call.name for call in task.calls[turn]}
            before = {call.name for calls in task.calls[:turn] for call in calls}
            if not names or not now.intersection(names):
                faults.append(f"turn {turn} needs none of the tools that return in it")
            if before.intersection(names):
                faults.append(f"a tool held out until turn {turn} is needed before")
    elif task.held_out or returns:
        faults.append(f"a {task.type} task holds no tools out")
    if task.type == "miss_param" and not faults:
        faults += [fault for turn in blanks for fault in _gap(task, draft, turn)]
    return faults


def _gap(task: Task, draft: Draft, turn: int) -> list[str]:
    """Whether a value that the following turn supplies can be had in no way before."""
    texts = [*task.script[: turn + 1], *(bound.result.text for calls in draft.turns[:turn] for bound in calls)]
    for bound in draft.turns[turn + 1]:
        for argument, flow in bound.flows.items():
            value = bound.call.arguments[argument]
            told = flow.source in ("user", "earlier") and said(value, task.script[turn + 1])
            if told and not any(said(value, text) for text in texts):
                return []
    return [f"turn {turn + 1} supplies nothing that turn {turn} lacks"]


def alignment(catalogue: Catalogue, task: Task, draft: Draft) -> list[str]:
    """Whether texts and calls ask for the same: nothing missing, nothing unasked."""
    faults: list[str] = []
    tools = load(catalogue.environment).tools()
    results: list[str] = []
    known: set[str] = set(_words(draft.plan.narrative))
    for turn, calls in enumerate(draft.turns):
        texts = task.script[: turn + 1]
        known |= _book_words(catalogue.environment)
        for bound in calls:
            recipe = catalogue.recipes[bound.recipe]
            defaults = {parameter.name: parameter.default for parameter in tools[bound.call.name].parameters}
            implied = [
                source.value
                for step in recipe.steps
                for source in step.arguments.values()
                if isinstance(source, Implied)
            ]
            for argument, value in bound.call.arguments.items():
                flow = bound.flows.get(argument)
                if flow is None:
                    faults.append(f"turn {turn}: nobody knows where {argument}={value!r} came from")
                elif flow.origin is not None:
                    if not said(value, draft.turns[flow.origin[0]][flow.origin[1]].result.text):
                        faults.append(
                            f"turn {turn}: {argument}={value!r} is not in the result that it is said to be from"
                        )
                elif flow.source == "state":
                    if not said(value, " ".join(_words(draft.state))):
                        faults.append(f"turn {turn}: {argument}={value!r} is not in the state")
                elif not (
                    any(said(value, text) for text in texts)
                    or any(said(value, text) for text in results)
                    or value == defaults.get(argument)
                    or value in implied
                ):
                    faults.append(f"turn {turn}: nobody says {argument}={value!r}")
            results.append(bound.result.text)
            known |= set(_words(dict(bound.call.arguments))) | set(WORD.findall(bound.result.text.lower()))
            known |= {word for slot in bound.slots.values() for word in WORD.findall(slot.text.lower())}
        # What a turn without calls asks for is done in the next one.
        if calls:
            asked = (
                " ".join(task.script[turn - 1 : turn + 1]) if turn and not draft.turns[turn - 1] else task.script[turn]
            )
            for request in requests(catalogue, calls):
                if not any(pattern.search(asked) for pattern in _patterns(catalogue.environment, request.recipe.name)):
                    faults.append(f"turn {turn}: nobody asks for what {request.recipe.name} does")
            names = set(_words(task.state)) | set(_words(draft.state))
            for word in WORD.findall(asked.lower()):
                if (word.isdigit() or word in names) and word not in known:
                    faults.append(f"turn {turn}: {word!r} is asked about and no call uses it")
    return faults


def leaks(catalogue: Catalogue, task: Task) -> list[str]:
    """Tools and parameters that the texts name. Names that are plain words may be said when they are listed as
    ordinary, and parameters that are plain words always."""
    faults = []
    for turn, text in enumerate(task.script):
        found = _secret_names(catalogue.environment).intersection(re.findall(r"\w+", text))
        faults += [f"turn {turn} names {name!r}" for name in sorted(found)]
    return faults


def naturalness(catalogue: Catalogue, task: Task) -> list[str]:
    """Texts that no user would type."""
    faults = []
    for turn, text in enumerate(task.script):
        if text == RETURN_SENTENCE:
            continue
        if not text or text != text.strip() or "  " in text or text[-1] not in ".!?" or text[0].islower():
            faults.append(f"turn {turn} is not written in sentences: {text!r}")
        if found := ARTEFACTS.search(text):
            faults.append(f"turn {turn} holds the artefact {found[0]!r}")
        if found := DOUBLED.search(text):
            faults.append(f"turn {turn} says {found[0]!r}")
        if len(text.split()) > catalogue.book.longest:
            faults.append(f"turn {turn} is {len(text.split())} words long, over {catalogue.book.longest}")
    return faults


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


@lru_cache(maxsize=8)
def _secret_names(environment: str) -> frozenset[str]:
    ordinary = catalogue_for(environment).ordinary
    tools = load(environment).tools()
    names = set(tools) - ordinary
    for tool in tools.values():
        names |= {name for name in tool.parameter_names if "_" in name or not name.islower()}
    return frozenset(names)


@lru_cache(maxsize=8)
def _book_words(environment: str) -> frozenset[str]:
    """The fixed words of the phrase book: saying one of them asks for nothing in particular."""
    catalogue = catalogue_for(environment)
    book = catalogue.book
    groups: list[Sequence[str]] = [book.links, *book.frames.values()]
    groups += [part for story in book.stories for part in (story.opening, story.later, story.closing)]
    groups += [part for words in book.things.values() for part in (words.explicit, words.back)]
    groups += [*book.vague.values(), *book.supply.values(), *book.again.values()]
    groups += [recipe.phrases for recipe in catalogue.recipes.values()]
    return frozenset(
        word for group in groups for text in group for word in WORD.findall(re.sub(r"\{[^}]*\}", " ", text).lower())
    )


@lru_cache(maxsize=4096)
def _patterns(environment: str, recipe: str) -> tuple[re.Pattern[str], ...]:
    """What a request for `recipe` sounds like: its phrases, with anything in place of the fields."""
    phrases = catalogue_for(environment).recipes[recipe].phrases
    return tuple(
        re.compile(
            ".+?".join(re.escape(part) for part in re.split(r"\{[^}]*\}", phrase)).replace(r"\ ", " "), re.IGNORECASE
        )
        for phrase in phrases
    )
