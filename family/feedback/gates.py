"""What a text of feedback may hold: nothing that any ground truth holds and nobody showed, in whatever spelling. It may
be made of nothing but plain English words (plain_words.txt, in any form), the words of the documents of the failing
tool and of its remedy's, those of the refusal, and names of tools and parameters. Values that are words themselves may
not be told where these do not tell them, neither whole nor with other endings, signs or words among their own, nor
spelled by first or last letters or capitals."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rods.analysis.containment import WORD, Text, is_small, key_of, leaves, stem
from rods.analysis.flows import value_of
from rods.analysis.plausible_calls import KnownValues, documented, options, plausible
from rods.analysis.sampling import WORDS
from rods.calls import Call
from rods.environments.base import Environment, Instance, Result, Tool
from rods.family.feedback.failures import pattern, shape
from rods.family.feedback.hints import tools_named
from rods.tasks import AnyTask, Task

LONGEST, SHORTEST = 300, 20  # characters of a text
NAMED = 2  # tools that a text may name, the failing one included
APART = 3  # so many other words may stand among those of a value, which tell it all the same
INITIALS, CAPITALS = 4, 3  # letters of a value that first or last letters, and that capitals may not spell
# A judge's four verdicts, and what each of them is of a text that may be shown (000 Appendix C.2).
VERDICTS = {"solution_leakage": False, "exploration_constraint": False, "actionability": True, "hint_quality": True}
ORDINARY = ("and", "the", "not", "for", "with")  # values that prove nothing: no sentence can be made without them
_FORM = re.compile(r"[A-Za-z0-9 .,;:'\"`?!_/-]*")
_RUNS = re.compile(r"[.,;:'\"?!/-]{2,}|_{2,}|(?<=[\w]) (?=[.,;:?!])")
_TOKEN = re.compile(r"[A-Za-z0-9_]+")
_LETTERS = re.compile(r"[^\W_]")
_ENDS = re.compile(r"[.!?]")


class GroundTruthValues:
    """The values of the arguments of every ground truth and check among `tasks`, held-out ones included."""

    def __init__(self, tasks: Iterable[AnyTask]) -> None:
        values: dict[Any, str] = {}
        for task in tasks:
            for call in task.goal_calls:
                for _, leaf in leaves(dict(call.arguments)):
                    if (
                        isinstance(leaf, str)
                        and leaf.strip()
                        and not is_small(leaf)
                        and leaf.casefold() not in ORDINARY
                    ):
                        values.setdefault(key_of(leaf), leaf)
        self._values = [(value, Counter(map(stem, WORD.findall(value)))) for value in values.values()]
        short = {"".join(_LETTERS.findall(value)).casefold() for value in values.values()}
        self._spelled = {word for word in short if len(word) >= CAPITALS and word.isalpha()}

    def told(self, text: str, shown: Sequence[str]) -> list[str]:
        """The words of `text` that tell values which none of `shown` tells: whole, in another form, or word by word,
        close together in whatever order and with whatever endings."""
        said, words, told = Text.of(text), list(WORD.finditer(text)), []
        stemmed = [stem(word[0]) for word in words]
        known = [(Text.of(part), [stem(word) for word in WORD.findall(part)]) for part in shown]
        for value, parts in self._values:
            place = _together(parts, stemmed, APART)
            if place is None and not said.contains_any_form(value):
                continue
            if not any(passage.contains_any_form(value) or _together(parts, there, 0) for passage, there in known):
                told.append(text[words[place[0]].start() : words[place[1]].end()] if place else "something")
        return told

    def spelled(self, text: str) -> bool:
        """Whether first or last letters of successive words, the first ones of sentences, or capitals spell a value,
        forwards or backwards."""
        words = [WORD.findall(sentence) for sentence in _ENDS.split(text.casefold())]
        every = [word for sentence in words for word in sentence]
        lines = [
            (INITIALS, "".join(word[0] for word in every)),
            (INITIALS, "".join(word[-1] for word in every)),
            (INITIALS, "".join(sentence[0][0] for sentence in words if sentence)),
            (CAPITALS, "".join(letter for letter in text if letter.isupper()).casefold()),
        ]
        return any(
            len(value) >= least and (value in line or value in line[::-1])
            for value in self._spelled
            for least, line in lines
        )


def feedback_faults(
    environment: Environment, tool: Tool, remedy: Tool | None, pattern: str, text: str, truth: GroundTruthValues
) -> list[str]:
    """Why `text` may not be shown for refusals of `tool` with this pattern; empty where it may. `remedy`: the tool that
    its remedy names. The reasons tell a writer what to change, and none of the values that it must not know."""
    if not SHORTEST <= len(text) <= LONGEST:
        return [f"it has {len(text)} characters; it must have {SHORTEST} to {LONGEST}"]
    if not _FORM.fullmatch(text) or _RUNS.search(text):
        return ["it holds characters other than letters, single signs (. , ; : ' \" ` ? ! / -) and single blanks"]
    tools = [tool, *([remedy] if remedy else [])]
    documents = [_document(described) for described in tools]
    shown = [*documents, re.sub(r"\{\w+\}|<\w+>", " ", pattern)]
    names = {name for known in environment.tools().values() for name in (known.name, *known.parameter_names)}
    allowed = plain_words() | {stem(word) for part in shown for word in WORD.findall(part)}
    exact = names | {token for part in shown for token in _TOKEN.findall(part)}

    def admitted(token: str) -> bool:
        if token in exact or token in ("a", "A"):
            return True
        return token.isalpha() and len(token) > 1 and token[1:].islower() and stem(token) in allowed

    odd = list(dict.fromkeys(token for token in _TOKEN.findall(text) if not admitted(token)))
    if odd:
        some = ", ".join(map(repr, odd[:5]))
        return [f"these are neither plain words nor words of the tool's document: {some}"]
    named = tools_named(environment, text)
    if len(named | {tool.name}) > NAMED:
        return [f"it names {len(named)} tools; it may name one beside {tool.name}"]
    if told := truth.told(text, shown):
        some = " and ".join(map(repr, told[:3]))
        return [f"it says {some}, which may be a value of an argument and stands in no document: say it otherwise"]
    if truth.spelled(text):
        return ["first or last letters, or capitals, spell a value"]
    return []


def failing(verdicts: Mapping[str, bool]) -> tuple[str, ...]:
    """Those of a judge's verdicts that stand against a text."""
    return tuple(name for name, good in VERDICTS.items() if verdicts.get(name, good) is not good)


@cache
def plain_words() -> frozenset[str]:
    """The stems of plain_words.txt."""
    words = Path(__file__).with_name("plain_words.txt").read_text(encoding="utf-8").split()
    return frozenset(map(stem, words))


def _document(tool: Tool) -> str:
    """All that the document of `tool` says."""
    said = (leaf for _, leaf in leaves(tool.schema(), keys=True))
    return "\n".join(str(leaf) for leaf in said if not isinstance(leaf, bool) and leaf is not None)


def _together(parts: Counter[str], stemmed: Sequence[str], apart: int) -> tuple[int, int] | None:
    """The first and the last of successive words that hold all of `parts` and at most `apart` others; None where there
    are none."""
    if not parts or not parts.keys() <= set(stemmed):
        return None
    for first, word in enumerate(stemmed):
        if word in parts:
            for end in range(first + parts.total(), first + parts.total() + apart + 1):
                if parts <= Counter(stemmed[first:end]):
                    return first, min(end, len(stemmed)) - 1
    return None


RemedyKind = Literal["look_up", "first", "argument"]
DOCUMENTED = "documented"
WORLDS, WITNESSES = 40, 4  # tasks that are looked through, and failures that are brought about, at most
TRIES = 40  # calls of another tool, or values of an argument, that are tried
FILLED = 3  # values that are made of one shape


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a text advises. `tool`: the other one of `look_up` and `first`; `argument`: of the failing tool, for
    `look_up` and `argument`; `shape`: for `argument`."""

    kind: RemedyKind
    tool: str = ""
    argument: str = ""
    shape: str = ""

    def faults(self, environment: Environment, failing: Tool, seen: Iterable[Mapping[str, str]]) -> list[str]:
        """Why it cannot be followed; `seen` are the shapes of arguments that failed."""
        tools, wanted = environment.tools(), []
        if self.kind in ("look_up", "first") and (self.tool not in tools or self.tool == failing.name):
            wanted.append(f"{self.kind} needs another tool of the environment, not {self.tool!r}")
        if self.kind in ("look_up", "argument") and self.argument not in failing.parameter_names:
            wanted.append(f"{self.kind} needs an argument of {failing.name}, not {self.argument!r}")
        elif self.kind == "argument":
            parameter = next(declared for declared in failing.parameters if declared.name == self.argument)
            if self.shape == DOCUMENTED and not documented(parameter):
                wanted.append(f"the document of {failing.name} lists no values for {self.argument}")
            elif not self.shape or self.shape in {shapes.get(self.argument) for shapes in seen}:
                wanted.append("argument needs the shape of values that are accepted, unlike that of those which failed")
        return wanted


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A refused call in the world of another task; `known` are values that its conversation speaks of, `calls` its
    ground truth."""

    task: str
    world: Instance
    call: Call
    known: KnownValues
    calls: Sequence[Call]


def witnesses(
    environment: Environment,
    tasks: Iterable[AnyTask],
    tool: Tool,
    words: str,
    shapes: Sequence[Mapping[str, str]],
    rng: random.Random,
) -> list[RefusedCall]:
    """At most `WITNESSES` refusals of `tool` in these words, each in the world of another one of `tasks`. Empty where
    the environment cannot be forked or gives other results each time."""
    features = environment.features
    if not (features.fork and features.deterministic):
        return []
    calling = [
        task for task in tasks if isinstance(task, Task) and any(call.name == tool.name for call in task.goal_calls)
    ]
    rng.shuffle(calling)
    tried = (_witness(environment, task, tool, words, shapes, rng) for task in calling[:WORLDS])
    return list(itertools.islice((witness for witness in tried if witness is not None), WITNESSES))


def mends(environment: Environment, witness: RefusedCall, remedy: Remedy) -> bool:
    """Whether the refused call goes through once the remedy is followed."""
    failing = environment.tools()[witness.call.name]
    if remedy.kind == "argument":
        parameter = next(declared for declared in failing.parameters if declared.name == remedy.argument)
        if remedy.shape == DOCUMENTED:
            values = documented(parameter)
        else:
            values = [value for value in options(parameter, witness.known, TRIES) if shape(value) == remedy.shape]
        return any(_goes_through(witness.world, _with(witness.call, remedy.argument, value)) for value in values)
    for world, result in _called(environment, witness, remedy.tool):
        if remedy.kind == "first":
            if _goes_through(world, witness.call):
                return True
            continue
        gifts = dict.fromkeys(leaf for _, leaf in leaves(value_of(result), keys=True) if isinstance(leaf, str | int))
        looked_up = (_with(witness.call, remedy.argument, value) for value in itertools.islice(gifts, TRIES))
        if any(_goes_through(world, call) for call in looked_up):
            return True
    return False


def _witness(
    environment: Environment,
    task: Task,
    tool: Tool,
    words: str,
    shapes: Sequence[Mapping[str, str]],
    rng: random.Random,
) -> RefusedCall | None:
    calls, known = task.goal_calls, KnownValues()
    for text in task.script:
        known.add_text(text)
    worlds = [environment.reset(task.state)]
    for call in calls:
        worlds.append(after := worlds[-1].fork())
        known.add_all((*call.arguments.items(), *leaves(after.call(call).value)))
    for place, call in enumerate(calls):
        if call.name != tool.name:
            continue
        spoilt = itertools.chain(
            ((worlds[place], changed) for changed in _reshaped(call, shapes, rng)),
            ((worlds[before], call) for before in range(place - 1, -1, -1)),
            ((worlds[place], changed) for changed in _misplaced(call, known, rng)),
        )
        for world, tried in itertools.islice(spoilt, TRIES):
            result = world.fork().call(tried)
            if result.error == "tool" and pattern(tried, result) == words:
                return RefusedCall(task.id, world, tried, known, calls)
    return None


def _reshaped(call: Call, shapes: Sequence[Mapping[str, str]], rng: random.Random) -> Iterator[Call]:
    """The call with an argument of a shape that was seen to fail."""
    for seen in shapes:
        for name, wanted in seen.items():
            value = call.arguments.get(name)
            if not isinstance(value, str) or wanted == shape(value):
                continue
            for _ in range(FILLED):
                # its own value inside the shape where it has room, else words that mean nothing here
                own = wanted.replace(shape(value), value, 1) if shape(value) in wanted else wanted
                rest = own.replace(value, "\0") if own is not wanted else own
                made = re.sub("[a9]", lambda gap: rng.choice(WORDS) if gap[0] == "a" else str(rng.randint(1, 99)), rest)
                yield _with(call, name, made.replace("\0", value))


def _misplaced(call: Call, known: KnownValues, rng: random.Random) -> Iterator[Call]:
    """The call with a value in an argument that belongs elsewhere, or nowhere."""
    for name, value in call.arguments.items():
        if isinstance(value, str):
            texts = [other for _, other in known.values if isinstance(other, str) and other != value]
            for text in (rng.choice(WORDS), *texts[:8]):
                yield _with(call, name, text)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            others = [other for _, other in known.values if type(other) is type(value) and other != value]
            for number in (type(value)(99_999), type(value)(7), *others[:8]):
                yield _with(call, name, number)


def _called(environment: Environment, witness: RefusedCall, name: str) -> Iterator[tuple[Instance, Result]]:
    """The world after each call of the tool `name` that goes through, those of the ground truth first."""
    own = [call for call in witness.calls if call.name == name]
    tried = plausible([environment.tools()[name]], witness.known, TRIES)
    for call in itertools.islice(itertools.chain(own, tried), TRIES):
        world = witness.world.fork()
        result = world.call(call)
        if result.error is None:
            yield world, result


def _goes_through(world: Instance, call: Call) -> bool:
    return world.fork().call(call).error is None


def _with(call: Call, argument: str, value: Any) -> Call:
    return Call(call.name, {**call.arguments, argument: value})
