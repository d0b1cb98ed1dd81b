"""Pads the world of an environment without a catalogue: more entries, copied from those that the conversation does not
mention.

What an entry means is not known here. A copy of what the user asks for would be a second right answer beside the ground
truth. So an entry of which any word is said or used is never copied, and a collection is left as it is where more
entries would change a result from which a later call takes a value.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from daemon.authors.state_shapes import at, is_map
from rods.analysis.says import COMMON, stem
from rods.composing.records import Draft
from rods.environments.base import Environment
from rods.errors import InfrastructureError

WORD = re.compile(r"\w+")
PADDED_MAPS, PADDING = 4, 8  # collections that padding fills up, and entries for each


def padded(environment: Environment, draft: Draft, spoken: frozenset[str], rng: random.Random) -> dict[str, Any]:
    """The draft's state with more entries in its largest collections, copies of those that are there under new keys, as
    far as the environment and the draft's calls allow. `spoken`: the words, in small letters, of texts and arguments.

    Raises InfrastructureError when the machinery broke."""
    state = copy.deepcopy(dict(draft.state))
    meant = frozenset(map(stem, spoken))
    maps = sorted(_maps(state, ()), key=lambda path: -len(at(state, path)))[:PADDED_MAPS]
    for path in maps:
        longer = copy.deepcopy(state)
        entries = at(longer, path)
        models = [key for key in sorted(entries) if not _stems(key, entries[key]) & meant]
        for number in range(PADDING if models else 0):
            key = rng.choice(models)
            taken = {int(each) for each in entries if each.isdecimal()}
            new = str(max(taken) + 1) if key.isdecimal() else f"{key}_{number + 2}"
            if new not in entries and new.lower() not in spoken:
                entries[new] = _renamed(at(state, path)[key], key, new)
        if _holds(environment, draft, longer):
            state = longer
    return state


def _holds(environment: Environment, draft: Draft, state: Mapping[str, Any]) -> bool:
    """Whether `state` is legal, all calls succeed there, and what later calls take their values from is as it was."""
    try:
        instance = environment.reset(state)
    except ValueError:
        return False
    taken = {flow.origin for calls in draft.turns for bound in calls for flow in bound.flows.values()}
    for turn, calls in enumerate(draft.turns):
        for index, bound in enumerate(calls):
            result = instance.call(bound.call)
            if result.error == "infrastructure":
                raise InfrastructureError(f"while padding, {bound.call}: {result.text}")
            if result.error is not None or ((turn, index) in taken and result.text != bound.result.text):
                return False
    return True


def _stems(key: str, entry: Any) -> frozenset[str]:
    """The words of an entry's key and values that may say which one is meant, without their endings."""
    words = WORD.findall(" ".join((key, *_texts(entry, record=True))).lower())
    return frozenset(map(stem, words)) - COMMON


def _texts(value: Any, *, record: bool) -> Iterator[str]:
    """Every value in an entry, and the keys of maps in it; the names of a record's fields say nothing."""
    if isinstance(value, Mapping):
        keyed = is_map(value, record=record)
        for key, item in value.items():
            yield from (key,) if keyed else ()
            yield from _texts(item, record=keyed)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, record=True)
    else:
        yield str(value)


def _maps(value: Mapping[str, Any], path: tuple[str, ...], *, record: bool = True) -> Iterator[tuple[str, ...]]:
    keyed = is_map(value, record=record)
    if keyed:
        yield path
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _maps(item, (*path, key), record=keyed)


def _renamed(entry: Any, key: str, new: str) -> Any:
    """A copy of an entry in which its own key, where it stands among its fields, is the new one."""
    if not isinstance(entry, Mapping):
        return copy.deepcopy(entry)
    own: dict[Any, Any] = {key: new}
    if key.isdecimal():
        own[int(key)] = int(new)
    return {
        name: own[item] if isinstance(item, (str, int)) and item in own else copy.deepcopy(item)
        for name, item in entry.items()
    }
