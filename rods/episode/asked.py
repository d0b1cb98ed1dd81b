"""What the user of a turn asks to know, and whether it was shown: the goal of a task that is judged
by `asked` or `state` (`Features.reads_judged`; docs/decisions/goals.md).

A look-up of the ground truth that feeds a later call of its turn is a way, unless the words ask to
know what it shows; any other one is asked for. What is asked for was shown where its text is among
the results of the episode, as BFCL's scorer wants it, or where the values that answer it stand in
results of the turn beside what they are about, whichever tool gave them. A value that the ground
truth looks up is guessed where a call takes it before anything showed it: such a turn is not
resolved."""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

from rods.analysis.containment import (
    Text,
    akin,
    is_small,
    key_of,
    keys_in,
    leaves,
    numbers,
    stems,
    things,
    values_in,
)
from rods.analysis.flows import Output, entries
from rods.analysis.plausible_calls import documented
from rods.calls import Call, ReadsJudged
from rods.composing.lexicon import CLAUSE, SHARE, SOUGHT, lexicon
from rods.environments.base import Environment, Result, Results, value_of
from rods.episode.engine import NeedVerdict
from rods.tasks import Task, asked

Position = tuple[int, int]  # turn and call, both from 0
Taken = tuple[int, int, str, Any]  # turn, call, argument (or a key inside of it) and value
Made = Sequence[tuple[Call, Result]]
Entry = tuple[str, Any, Mapping[Any, Any]]  # as of `rods.analysis.flows.entries`
Says = Callable[[Any], bool]  # whether a value is there
DUMP = 50  # words of a text: what is said in a longer one answers nothing
TALLIES = {"count", "total", "number", "size", "length", "returned", "found", "matches"}
IDENTIFYING = 2  # so many values tell a record from others, if one of them is a text
SENTENCE = re.compile(r"(?<=[.!?])\s+")
# Words that ask to know, unless they are nouns ("the list"); and how a clause begins that asks, in
# a sentence that does.
TELLING = re.compile(
    r"(?<!\bthe )(?<!['’]s )(?<!\bmy )(?<!\ba )\b(?:show|tell|say|list|give (?:me|us)|check|report"
    r"|read|see|know|look|display|print|find out)\b",
    re.IGNORECASE,
)
OPENING = re.compile(
    r"\W*(?:(?:so|also|in|on|at|for|to|from|by|of)\s+)*(?:what|whether|which|when|where|who|whom"
    r"|whose|how|why|is|are|was|were|do|does|did|has|have)\b",
    re.IGNORECASE,
)
# whoever says one of these wants more than the fields that are named
WHOLE = re.compile(
    r"\b(?:all|every|everything|details?|full|complete|whole|else|anything|info\w*)\b",
    re.IGNORECASE,
)


def judged(environment: Environment, task: Task) -> ReadsJudged:
    """What the turns of `task` are judged by beside the state: its own word, else the
    environment's."""
    if isinstance(task.reads, str):
        return task.reads
    return environment.features.reads_judged if task.reads is None else "asked"


def asked_places(
    environment: Environment, task: Task, results: Results, changed: Set[Position]
) -> dict[Position, set[str]]:
    """The ground-truth calls whose results the user asks to know, each with the fields (stems of
    their names) that alone are asked about, none for all. `results` are theirs; `changed` those
    that changed the state, which says all that they do."""
    if task.places is not None:
        return {place: set() for place in task.places}
    takers = defaultdict[Position, list[Position]](list)
    for (turn, index, *_), origin in fed(environment, task, results).items():
        if origin[0] == turn:
            takers[origin].append((turn, index))
    wanted = {}
    for turn, calls in enumerate(task.calls):
        for index, result in enumerate(results[turn]):
            place = (turn, index)
            if place not in changed:
                rivals = [calls[taker].name for _, taker in takers[place]]
                looked = {*takers[place]} - changed
                others = stems(" ".join(results[turn][taker].text for _, taker in looked))
                served = {*others} - {*stems(result.text)}
                fields = _fields(environment, task, place, result, rivals, served)
                if fields is not None:
                    wanted[place] = fields
    return wanted


def fed(environment: Environment, task: Task, results: Results) -> dict[Taken, Position]:
    """The values in arguments of the ground truth that a result feeds, each with the place of that,
    the latest that has the value: what the turn's words do not say for this call and no default
    is."""
    sources = {}
    outputs: list[Output] = []
    for turn, calls in enumerate(task.calls):
        text = Text.of(asked(task, turn))
        for index, call in enumerate(calls):
            declared = environment.tools()[call.name].parameters
            defaults = {parameter.name: parameter.default for parameter in declared}
            for name, leaf in _values(call):
                for output in outputs:
                    if (
                        not (
                            text.contains_exact(leaf)
                            and _said_for(environment, task, turn, call, leaf)
                        )
                        and leaf != defaults.get(name)
                        and (output.has(name, leaf) or _mentions(output.text.folded, name, leaf))
                    ):
                        sources[turn, index, name, leaf] = output.position
            outputs.append(Output((turn, index), call, results[turn][index]))
    return sources


def _said_for(environment: Environment, task: Task, turn: int, call: Call, value: Any) -> bool:
    """Whether the words of a turn that says `value` may say it for `call`: they do not where each
    clause with it means another call more that takes it as well."""
    takers = [
        call.name,
        *(one.name for one in task.calls[turn] if key_of(value) in keys_in(one.arguments)),
    ]
    clauses = [
        lexicon(environment).asks(stems(clause), takers)
        for clause in CLAUSE.split(asked(task, turn))
        if Text.of(clause).contains_exact(value)
    ]
    return not clauses or any(
        strength[call.name] >= SHARE * max(strength.values()) for strength in clauses
    )


def _fields(
    environment: Environment,
    task: Task,
    place: Position,
    result: Result,
    takers: Sequence[str],
    served: Set[str],
) -> set[str] | None:
    """The fields of a call's result that alone are asked about, empty for all of it; None where it
    is but a way to the tools that are its `takers`: no clause asks to know it and means them no
    more. A clause that means no tool means the calls of which it names a field or says a value,
    unless it has one of the words (`served`) that a look-up among the takers adds."""
    turn, index = place
    calls = task.calls[turn]
    call = calls[index]
    fields = {*stems(" ".join(name for name, _ in leaves(value_of(result))))} - {*stems(call.name)}
    named: set[str] | None = None if takers else set()
    whole = False
    for sentence in SENTENCE.split(asked(task, turn)):
        asks = sentence.endswith("?") or TELLING.search(sentence)
        for clause in CLAUSE.split(sentence):
            if not (TELLING.search(clause) or (asks and OPENING.match(clause))):
                continue
            strength = lexicon(environment).asks(stems(clause), [one.name for one in calls])
            best = max(strength.values())
            least = max(SOUGHT, SHARE * best, *(strength[name] for name in takers))
            fielded = not fields.isdisjoint(stems(clause))
            says = served.isdisjoint(stems(clause)) and any(
                map(Text.of(clause).contains_any_form, call.arguments.values())
            )
            if fielded or says if best < SOUGHT else strength[call.name] >= least:
                named = (named or set()) | fields.intersection(stems(sentence))
                whole |= not fielded or WHOLE.search(sentence) is not None
    return set() if named and whole else named


def shown(
    wanted: tuple[Call, Result], outputs: Made, fields: Set[str], about: Callable[[Says], bool]
) -> bool:
    """Whether `outputs` (calls and what they gave) show the values that the call `wanted` did, or
    those of its `fields` (stems of their names): each beside those that identify it, or beside what
    the result is `about`; but for the length of a list, unless it is named. An error shows none."""
    call, result = wanted
    own = keys_in(call.arguments)
    if not fields:
        result = result._replace(value=_uncounted(value_of(result)))
    heard = [entry for pair in outputs if pair[1].error is None for entry in _entries(*pair)]

    def answered(name: str, leaf: Any, beside: Mapping[Any, Any]) -> bool:
        telling = beside.keys() - own
        named = any(isinstance(key, str) and not is_small(key) for key in telling)
        for entry in heard:
            other, there, near = entry
            same = key_of(leaf) == key_of(there) and (not is_small(leaf) or akin(other, name))
            if same or (str(there).count(" ") < DUMP and _mentions(there, name, leaf)):
                if named and len(telling) >= IDENTIFYING and telling <= near.keys():
                    return True
                if about(partial(_says, entry)):
                    return True
        return False

    parts = [
        part
        for part in telling(call, result)
        if key_of(part[1]) not in own and (not fields or not fields.isdisjoint(stems(part[0])))
    ]
    return bool(parts) and all(itertools.starmap(answered, parts))


def _uncounted(value: Any) -> Any:
    """The value without fields that only count a list beside them: whoever saw the list could
    count."""
    if not isinstance(value, Mapping):
        return value
    sizes = {len(held) for held in value.values() if isinstance(held, list) and held}
    return {
        name: _uncounted(held)
        for name, held in value.items()
        if not (type(held) is int and held in sizes and TALLIES & {*name.lower().split("_")})
    }


def _entries(call: Call, result: Result) -> Iterator[Entry]:
    """The values of a result, each beside the arguments of the call; of texts their lines."""
    own = {key_of(leaf): leaf for leaf in values_in(call.arguments)}
    for name, leaf, beside in entries(value_of(result), call.name, own):
        lines = leaf.splitlines() if isinstance(leaf, str) else [leaf]
        yield from ((name, line, beside) for line in lines)


def telling(call: Call, result: Result) -> Iterator[Entry]:
    """The values that a result shows; of a line of text, that is named so, the numbers and names
    in it, if one of them is not small."""
    value = value_of(result)
    whole = () if isinstance(value, str) else keys_in(value, keys=True)
    for name, leaf, beside in _entries(call, result):
        values = [] if key_of(leaf) in whole else things(leaf)
        if all(map(is_small, values)):
            yield name, leaf, beside
        else:
            yield from ((leaf, value, beside) for value in values)


def _mentions(text: Any, name: str, value: Any) -> bool:
    """Whether a text contains a value; a small one, with a word of its `name`."""
    return _contains(text, value) and (not is_small(value) or akin(text, name))


def _values(call: Call) -> Iterator[tuple[str, Any]]:
    """The leaves of a call's arguments, with the names of their keys, and the numbers in texts:
    what a query or a command has of a result."""
    for name, leaf in leaves(call.arguments):
        yield name, leaf
        if isinstance(leaf, str):
            yield from ((name, number) for number in numbers(leaf))


def _says(entry: Entry, value: Any) -> bool:
    """Whether a value stands there or beside it."""
    name, leaf, beside = entry
    there = {*beside, key_of(leaf), key_of(name)}
    return not there.isdisjoint((key_of(value), key_of(str(value)))) or _contains(leaf, value)


def _contains(leaf: Any, value: Any) -> bool:
    return isinstance(leaf, str) and Text.of(leaf).contains_exact(value)


class Asked:
    """What the turns of a task ask to know, of whose ground truth these are the `results`, and the
    places of the calls that `changed` the state."""

    def __init__(
        self, environment: Environment, task: Task, results: Results, changed: Set[Position]
    ) -> None:
        self._calls = task.calls
        self._results = results
        self._texts = [Text.of(text) for text in task.script]
        self._wanted = asked_places(environment, task, results, changed)
        self._fed = fed(environment, task, results)
        # what the ground truth looks up, by turn and key_of, with the argument that takes it
        self._taken: dict[tuple[int, Any], str] = {}
        tools = environment.tools()
        for (turn, index, name, leaf), origin in self._fed.items():
            offered = [
                option
                for parameter in tools[task.calls[turn][index].name].parameters
                if parameter.name == name
                for option in documented(parameter)
            ]
            if origin not in changed and not isinstance(leaf, bool) and leaf not in offered:
                self._taken[turn, key_of(leaf)] = name

    def answered(self, need: NeedVerdict) -> bool:
        """Whether everything was shown that the turn asks for, with nothing guessed."""
        return not self._guessed(need) and all(
            self._results[turn][index].text in need.results
            or shown(
                (self._calls[turn][index], self._results[turn][index]),
                need.made[need.begun :],
                fields,
                partial(self._about, (turn, index)),
            )
            for (turn, index), fields in self._wanted.items()
            if turn == need.turn
        )

    def _guessed(self, need: NeedVerdict) -> bool:
        """Whether a call of the turn takes what has to be looked up, and nobody said or showed it
        before, under whatever name."""
        outputs: list[Output] = []

        def known(value: Any) -> bool:
            return any(
                key_of(value) in output.fields or _contains(output.text.folded, value)
                for output in outputs
            ) or any(text.contains_any_form(value) for text in self._texts[: need.turn + 1])

        for place, (call, result) in enumerate(need.made):
            for name, leaf in _values(call):
                if (
                    place >= need.begun
                    and result.error is None
                    and akin(name, self._taken.get((need.turn, key_of(leaf)), ""))
                    and not known(leaf)
                    # a path that was shown folder by folder is known
                    and not ("/" in str(leaf) and all(map(known, filter(None, leaf.split("/")))))
                ):
                    return True
            outputs.append(Output((need.turn, place), call, result))
        return False

    def _about(self, place: Position, says: Says) -> bool:
        """Whether all is said that the call at `place` is given, or what that was looked up by."""
        turn, index = place
        for name, leaf in leaves(self._calls[turn][index].arguments):
            origin = self._fed.get((turn, index, name, leaf))
            if not says(leaf) and (origin is None or not self._about(origin, says)):
                return False
        return True
