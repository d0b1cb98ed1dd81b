"""Texts and calls have to agree: every call is asked for, and everything asked for is done.

- *unasked*: a call counts as asked for when the words of its turn ask for its tool (`lexicon`; few words do when the
  text also says a value of the call), or when a later call of the turn cannot do without it: it takes something from
  its result, or fails when it is left out. A turn whose calls the environment's phrase book explains
  (`parse_wording`) needs no such evidence.
- *undone*: every number, quotation and identifier in a turn's text has to occur in the turn's calls, in their results,
  or in what was said and shown before. Only a task of type miss_func or miss_param has turns without calls, and the
  next turn serves each of them.

A request that no call of its own turn serves is read together with the turn that serves it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rods.analysis.flows import Output, infer
from rods.analysis.says import Text, is_small, key_of, leaves, stems, things
from rods.calls import Call
from rods.composing.parse_wording import read
from rods.environments.base import Environment, Result, Results
from rods.gates.lexicon import lexicon
from rods.gates.records import Reason
from rods.tasks import RETURN_SENTENCE, Task

ENOUGH = 0.8  # of a lexicon's weight: about one telling word of a document, or a share of the phrases
CLAUSE = re.compile(r"[.;:?!,]|\b(?:and|then|afterwards|before|after)\b")  # what stands between clauses
LITTLE = 0.05  # where the request also says a value of the call, or it takes up what was shown: any word at all


def requests(environment: Environment, task: Task, results: Results) -> list[Reason]:
    """Calls that nobody asks for, and requests that no call serves. `results` are those of the ground truth."""
    return unasked(environment, task, results) + undone(task, results)


def asked(task: Task, turn: int) -> str:
    """What is asked in `turn`, with the request right before it that no call served."""
    text = task.script[turn]
    if turn and not task.calls[turn - 1]:
        before = task.script[turn - 1]
        return before if text == RETURN_SENTENCE else f"{before} {text}"
    return text


def unasked(environment: Environment, task: Task, results: Results) -> list[Reason]:
    """Calls that nobody asks for; empty when each has a reason."""
    book = lexicon(environment)
    doubtful = []
    shown: list[Output] = []
    for turn, calls in enumerate(task.calls):
        text = asked(task, turn)
        scores = book.asks(stems(text), [call.name for call in calls])
        said = Text.of(text)
        for index, call in enumerate(calls):
            enough = LITTLE if _about(call, said, shown) else ENOUGH
            if scores[call.name] < enough and not _needed(environment, task, results, turn, index):
                doubtful.append((turn, index))
            shown.append(Output((turn, index), call, results[turn][index]))
    if not doubtful:
        return []
    readings = None if book.catalogue is None else read(book.catalogue, environment, task, results)
    return [
        Reason(f"nobody asks for {task.calls[turn][index]}", turn, index)
        for turn, index in doubtful
        if readings is None or not readings[turn].understood
    ]


def _about(call: Call, said: Text, shown: Sequence[Output]) -> bool:
    """Whether the request says one of the call's values, or what was shown before gives all of them."""
    values = [(name, value) for name, value in leaves(dict(call.arguments)) if not is_small(value)]
    if any(said.tells(value) for _, value in values):
        return True
    return bool(values) and all(any(output.brought(name, value) for output in shown) for name, value in values)


def _needed(environment: Environment, task: Task, results: Results, turn: int, index: int) -> bool:
    """Whether a later call of the turn takes something from the result of this one, or fails without it."""
    calls = task.calls[turn]
    if index + 1 == len(calls):
        return False
    shown = Output((turn, index), calls[index], results[turn][index])
    for later in calls[index + 1 :]:
        for name, value in leaves(dict(later.arguments)):
            if shown.brought(name, value) or shown.mentions(value):
                return True
    world = environment.reset(task.state)
    for number in range(turn + 1):
        for place, call in enumerate(task.calls[number]):
            if (number, place) == (turn, index):
                continue
            failed = world.call(call).error is not None
            if failed and number == turn and place > index and results[turn][place].error is None:
                return True
    return False


def look_ups(environment: Environment, task: Task) -> dict[tuple[int, int], bool]:
    """The calls (turn, index) that change nothing and only feed a later call of their turn, and whether the user asks
    for each: whether a clause of the turn asks for it and for no other call."""
    world = environment.reset(task.state)
    results: list[list[Result]] = []
    idle = set()
    before = world.snapshot() if environment.features.snapshot else None
    for turn, calls in enumerate(task.calls):
        results.append([])
        for index, call in enumerate(calls):
            results[turn].append(world.call(call))
            after = world.snapshot() if environment.features.snapshot else None
            if before == after:
                idle.add((turn, index))
            before = after
    feeding = {
        flow.origin
        for turn, calls in enumerate(infer(environment.tools(), task, results))
        for flows in calls
        for flow in flows.values()
        if flow.origin is not None and flow.origin[0] == turn
    }
    book, found = lexicon(environment), {}
    for turn, index in sorted(feeding & idle):
        names = [call.name for call in task.calls[turn]]
        name = names[index]
        scores = [book.asks(stems(clause), names) for clause in CLAUSE.split(asked(task, turn))]
        found[turn, index] = any(
            [other for other, amount in each.items() if amount >= ENOUGH] == [name] for each in scores
        )
    return found


def undone(task: Task, results: Results) -> list[Reason]:
    """What is asked about and no call uses; empty when all of it is used."""
    reasons = []
    shown: list[Text] = []
    world = {key_of(leaf) for _, leaf in leaves(dict(task.state or {}), keys=True)}
    for turn, calls in enumerate(task.calls):
        if not calls:
            served = turn + 1 < len(task.calls) and task.calls[turn + 1]
            if task.type not in ("miss_func", "miss_param") or not served:
                reasons.append(Reason("no call does what it asks for", turn))
            continue
        used = [leaf for call in calls for _, leaf in leaves(dict(call.arguments), keys=True)]
        shown += [Text.shown(result.text) for result in results[turn]]
        unserved = turn and not task.calls[turn - 1]
        said = [Text.of(text) for text in task.script[: turn - 1 if unserved else turn]]
        for thing in things(asked(task, turn)):
            if isinstance(thing, str) and thing.isupper() and thing.isalpha() and key_of(thing) not in world:
                continue  # "PSI" is a word, "AAPL" a name of this world
            if not any(_same(thing, value) for value in used) and not any(text.says(thing) for text in (*said, *shown)):
                reasons.append(Reason(f"{thing!r} is asked about and no call uses it", turn))
    return reasons


def _same(thing: Any, value: Any) -> bool:
    if isinstance(thing, float):
        return Text.of(str(value)).says(thing)
    folded, other = " ".join(thing.casefold().split()).strip(".,!?"), " ".join(str(value).casefold().split())
    return folded in other or (not is_small(value) and other in folded)
