"""What a text of feedback may hold: nothing that singles out a value, whoever knows it, and no
order of calls. The rules, and what they leave open, stand in docs/feedback.md; the vocabulary in
plain_words.txt, describing_words.txt and barred_words.txt."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rods.analysis.containment import WORD, Text, is_small, key_of, leaves, stem, values_in
from rods.analysis.plausible_calls import KnownValues, documented, options, plausible
from rods.analysis.sampling import WORDS
from rods.calls import Call
from rods.canonical import frozen
from rods.environments.base import Environment, Instance, Parameter, Result, Tool, value_of
from rods.family.feedback.failures import pattern, shape
from rods.family.feedback.hints import tools_named
from rods.tasks import AnyTask, Task

# characters of a text
LONGEST = 300
SHORTEST = 20
MOST_WORDS = 30  # of a text
APART = 3  # so many other words may stand among those of a value, which tell it all the same
# A judge's four verdicts, and what each of them is of a text that may be shown (000 Appendix C.2).
VERDICTS = {
    "solution_leakage": False,
    "exploration_constraint": False,
    "actionability": True,
    "hint_quality": True,
}
# values that prove nothing: no sentence can be made without them
ORDINARY = ("and", "the", "not", "for", "with")
_FORM = re.compile(r"(?:[A-Za-z0-9_ .,;:-]|(?<=[a-z])'s\b|(?<=s)'(?= ))*")
_RUNS = re.compile(r"[.,;:-]{2,}|_{2,}|(?<=\w) (?=[.,;:])|[.,;:](?=\w)|-(?!\w)|(?<!\w)-")
_TOKEN = re.compile(r"[A-Za-z0-9_]+")
# Words of ranks and numbers where they are none: "at least", "look it up first.", "in order to".
_IDIOMS = re.compile(
    r"(?i)\b(?:at (?:least|most)|(?<=has )a (?:maximum|minimum)|in order to|two(?= different)"
    r"|(?<!the )(?<!is )(?<!are )(?<!be )(?<!come )(?<!comes )first(?=[.,;]|$))"
)
_RULES = re.compile(
    r"(?i)\b(?:(?:in|of|from|see|that|as) the document|the document (?:gives|lists|explains)|this "
    r"error)\b"
)
# single out, behind those, unless a document or a result speaks
_BY = "that|which|who|whose|where|with"
_SPEAKS = r"(?! (?:the )?(?:document\b|\w+ (?:gives?|gave|lists?|returns?|returned|shows?)\b))"
# may follow the name of a tool
_DESCRIBED = r"(?! (?:returns|shows|lists|tells|gives|finds|does|may|can)\b)"
_QUANTITY = re.compile(
    r"\b(?:(?:number|amount|length|letters?) of|(?:is|are|be|has|have|takes) one(?! of))\b"
)
_OPPOSITES = {
    "old": "new",
    "closed": "open",
    "empty": "full",
    "full": "empty",
    "taken": "free",
    "long": "short",
}
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_EXAMPLES = re.compile(r"\(?\b(?:e\.g\.|for example|such as|like)[^.)]*\)?|'[^']*'|\"[^\"]*\"")
_GLOSS = re.compile(r"'[^']+' (?:for|is|means|=) (\w+)")
# other forms of a word end so, or are in the list
_INFLECTED = ("s", "ed", "ing", "ion", "e", "y", "ly")
_CHOICE = re.compile(r"\boptions(?: are)?: ([\w ,]+)", re.IGNORECASE)


class GroundTruthValues:
    """The values of the arguments of every ground truth and check among `tasks`, held-out ones
    included."""

    def __init__(self, tasks: Iterable[AnyTask]) -> None:
        values: dict[Any, str] = {}
        for call in (call for task in tasks for call in task.goal_calls):
            for leaf in values_in(call.arguments):
                if isinstance(leaf, str) and not is_small(leaf) and leaf.casefold() not in ORDINARY:
                    values.setdefault(key_of(leaf), leaf)
        self._values = [
            (value, Counter(map(stem, WORD.findall(value)))) for value in values.values()
        ]

    def leaks(self, text: str, passages: Sequence[str]) -> list[str]:
        """The words of `text` that tell values which none of `shown` tells: whole, in another form,
        or word by word, close together in whatever order and with whatever endings."""
        whole = Text.of(text)
        words = list(WORD.finditer(text))
        leaks = []
        stemmed = [stem(word[0]) for word in words]
        sources = [
            (Text.of(part), [stem(word) for word in WORD.findall(part)]) for part in passages
        ]
        for value, parts in self._values:
            place = _together(parts, stemmed, APART)
            if place is None and not whole.contains_any_form(value):
                continue
            if not any(
                passage.contains_any_form(value) or _together(parts, there, 0)
                for passage, there in sources
            ):
                leaks.append(
                    text[words[place[0]].start() : words[place[1]].end()] if place else "something"
                )
        return leaks


def feedback_faults(
    environment: Environment,
    tool: Tool,
    remedy: Tool | None,
    pattern: str,
    text: str,
    truth: GroundTruthValues,
) -> list[str]:
    """Why `text` may not be shown for refusals of `tool` with this pattern; empty where it may.
    `remedy`: the tool that its remedy names. The reasons tell a writer what to change, and none of
    the values that it must not know."""
    words = WORD.findall(text)
    tools = [tool, *([remedy] if remedy else [])]
    if not SHORTEST <= len(text) <= LONGEST or len(words) > MOST_WORDS:
        allowed = f"it must have {SHORTEST} to {LONGEST}, and at most {MOST_WORDS}"
        return [f"it has {len(text)} characters and {len(words)} words; {allowed}"]
    if not _FORM.fullmatch(text) or _RUNS.search(text):
        return [
            "it holds characters other than letters, single signs (. , ; : ' -) and single blanks"
        ]
    if others := (named := tools_named(environment, text)) - {
        described.name for described in tools
    }:
        return [f"it names {len(others)} tools beside {tool.name} and that of its remedy"]
    refusal = re.sub(r"\{\w+\}|<\w+>", " ", pattern)
    plain = text.rstrip(".")
    for parameter, values in _choices(tools):
        if values and parameter.schema.get("type") != "array":  # of which all may be the value
            plain = re.sub(
                r"(?:, (?:and |or )?| and | or )".join(map(re.escape, values)) + "$", "", plain
            )
    if odd := _odd(_IDIOMS.sub(lambda match: " " * len(match[0]), plain), tools, refusal):
        some = ", ".join(map(repr, odd[:5]))
        return [f"these are neither plain words nor words of the tool's document: {some}"]
    if fault := _singled_out(plain, tools, refusal) or _ordered(text, named):
        return [fault]
    if leaks := truth.leaks(_RULES.sub(" ", text), [*map(_document, tools), refusal]):
        some = " and ".join(map(repr, leaks[:3]))
        return [
            f"it says {some}, which may be a value of an argument and stands in no document: say "
            f"it otherwise"
        ]
    return []


def vocabulary(tools: Sequence[Tool], refusal: str) -> frozenset[str]:
    """The words that a text may be made of, in any form: the plain ones, those of the refusal, and
    those by which documents speak of tools and arguments, but for examples, listed values and what
    booleans switch."""
    parts = [refusal]
    limited = [parameter for parameter, _ in _choices(tools)]
    for tool in tools:
        parts += [tool.name, tool.description, *tool.parameter_names]
        parts += [
            parameter.description for parameter in tool.parameters if parameter not in limited
        ]
    parts += () if limited else word_list("describing_words")
    words = _words(" ".join(_EXAMPLES.sub(" ", part) for part in parts))
    barred = word_list("barred_words").difference(_words(f"{refusal} {tools[0].description}"))
    return (word_list("plain_words") | words) - barred


def _odd(text: str, tools: Sequence[Tool], refusal: str) -> list[str]:
    """The tokens of `text` that are not in the vocabulary, each once."""
    words = vocabulary(tools, refusal)
    stems = set(map(stem, words))
    barred = word_list("barred_words") - words
    names = {name for tool in tools for name in (tool.name, *tool.parameter_names)}
    tokens = set(_TOKEN.findall(" ".join([refusal, *(tool.description for tool in tools)])))

    def admitted(match: re.Match[str]) -> bool:
        token = match[0]
        before = text[: match.start()].rstrip()
        opens = not before or before[-1] in ".:;"
        word = token.casefold()
        if token in names or token in ("a", "s") or (opens and token == "A"):
            return True
        written = token.islower() or token in tokens or (opens and token[1:].islower())
        form = word == (root := stem(word)) or word.endswith(_INFLECTED)
        is_word = word in words or (form and root in stems and word not in barred)
        return len(token) > 1 and token.isalpha() and written and is_word

    return list(dict.fromkeys(match[0] for match in _TOKEN.finditer(text) if not admitted(match)))


def _singled_out(text: str, tools: Sequence[Tool], refusal: str) -> str:
    """What `text` says of one of the values that a document lists; empty where it says nothing of
    any."""
    stems = set(map(stem, WORD.findall(text)))
    allowed = set(
        map(
            stem,
            _words(
                " ".join([tools[0].name, refusal, *_IDIOMS.findall(text.replace("first,", ""))])
            ),
        )
    )
    nouns = {"one", "ones", "value", "values", "option", "options"}
    for parameter, values in _choices(tools):
        about = _words(parameter.name) if values else frozenset()
        nouns |= about
        meant = _words(" ".join([*values, *_GLOSS.findall(parameter.description)]))
        hinted = stems & {stem(word) for one in meant for word in (one, _OPPOSITES.get(one, one))}
        if hinted - allowed or (hinted and stems & set(map(stem, about))):
            return (
                f"it says some of what the document lists for {parameter.name}: say all, as it "
                f"does, or none"
            )
    if re.search(rf"(?<!which )\b(?:{'|'.join(nouns)}) (?:{_BY})\b{_SPEAKS}", text, re.IGNORECASE):
        return "it points at one value among others: say what all of them have in common"
    nouns = nouns.union(*(_words(name) for tool in tools for name in tool.parameter_names))
    if re.search(
        rf"\b(?:{'|'.join(nouns)})s? (?:earlier|longer|more|shorter|before (?!\w+ing\b))",
        text,
        re.IGNORECASE,
    ):
        return "it tells a value by another one"
    counted = _QUANTITY.search(text.casefold())
    if counted and not any(counted[0] in _document(tool).casefold() for tool in tools):
        return f"it tells a number by counting: {counted[0]!r}"
    return ""


def _ordered(text: str, named: Iterable[str]) -> str:
    """What is wrong with how `text` speaks of tools by their names."""
    for name in named:
        if re.search(rf"(?<!\bas )(?<!perhaps )(?<!like )\b{name}\b{_DESCRIBED}", text):
            return f"it orders a call of {name}: say what the tool does, as '{name} may tell'"
    return ""


def _choices(tools: Iterable[Tool]) -> list[tuple[Parameter, list[str]]]:
    """The arguments of which few values may be meant, so that a word or two can tell which: those
    whose documents list values, with these, and booleans."""
    choices = []
    for parameter in (parameter for tool in tools for parameter in tool.parameters):
        listed = _CHOICE.search(parameter.description)
        values = list(map(str, documented(parameter))) or (listed[1].split(", ") if listed else [])
        if values or parameter.schema.get("type") == "boolean":
            choices.append((parameter, values))
    return choices


def failing(verdicts: Mapping[str, bool]) -> tuple[str, ...]:
    """Those of a judge's verdicts that stand against a text."""
    return tuple(name for name, good in VERDICTS.items() if verdicts.get(name, good) is not good)


@cache
def word_list(name: str) -> frozenset[str]:
    """The words of a list of this folder."""
    return frozenset(Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8").split())


def _words(text: str) -> frozenset[str]:
    """The words of a text in small letters, identifiers taken apart."""
    return frozenset(map(str.casefold, WORD.findall(_HUMPS.sub(" ", text))))


def _document(tool: Tool) -> str:
    """All that the document of `tool` says."""
    texts = values_in(tool.schema(), keys=True)
    return "\n".join(str(leaf) for leaf in texts if not isinstance(leaf, bool) and leaf is not None)


def _together(parts: Counter[str], stemmed: Sequence[str], apart: int) -> tuple[int, int] | None:
    """The first and the last of successive words that hold all of `parts` and at most `apart`
    others; None where there are none."""
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
# tasks that are looked through, and failures that are brought about, at most
WORLDS = 40
WITNESSES = 4
TRIES = 40  # calls of another tool, or values of an argument, that are tried
FILLED = 3  # values that are made of one shape


@frozen
class Remedy:
    """What a text advises. `tool`: the other one of `look_up` and `first`; `argument`: of the
    failing tool, for `look_up` and `argument`; `shape`: for `argument`."""

    kind: RemedyKind
    tool: str = ""
    argument: str = ""
    shape: str = ""

    def faults(
        self, environment: Environment, failing: Tool, seen: Iterable[Mapping[str, str]]
    ) -> list[str]:
        """Why it cannot be followed; `seen` are the shapes of arguments that failed."""
        tools = environment.tools()
        wanted = []
        if self.kind in ("look_up", "first") and (
            self.tool not in tools or self.tool == failing.name
        ):
            wanted.append(f"{self.kind} needs another tool of the environment, not {self.tool!r}")
        if self.kind in ("look_up", "argument") and self.argument not in failing.parameter_names:
            wanted.append(f"{self.kind} needs an argument of {failing.name}, not {self.argument!r}")
        elif self.kind == "argument":
            parameter = failing.by_name[self.argument]
            if self.shape == DOCUMENTED and not documented(parameter):
                wanted.append(f"the document of {failing.name} lists no values for {self.argument}")
            elif not self.shape or self.shape in {shapes.get(self.argument) for shapes in seen}:
                wanted.append(
                    "argument needs the shape of values that are accepted, unlike that of those "
                    "which failed"
                )
        return wanted


@frozen
class RefusedCall:
    """A refused call in the world of another task; `known` are values that its conversation speaks
    of, `calls` its ground truth."""

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
    """At most `WITNESSES` refusals of `tool` in these words, each in the world of another one of
    `tasks`. Empty where the environment cannot be forked or gives other results each time."""
    features = environment.features
    if not (features.fork and features.deterministic):
        return []
    calling = [
        task
        for task in tasks
        if isinstance(task, Task) and any(call.name == tool.name for call in task.goal_calls)
    ]
    rng.shuffle(calling)
    tried = (_witness(environment, task, tool, words, shapes, rng) for task in calling[:WORLDS])
    return list(itertools.islice(filter(None, tried), WITNESSES))


def mends(environment: Environment, witness: RefusedCall, remedy: Remedy) -> bool:
    """Whether the refused call goes through once the remedy is followed."""
    followed = _followed(environment, witness, remedy)
    return any(world.fork().call(call).error is None for world, call in followed)


def _followed(
    environment: Environment, witness: RefusedCall, remedy: Remedy
) -> Iterator[tuple[Instance, Call]]:
    """The calls that come of following the remedy, each with the world that it is made in."""
    failing = environment.tools()[witness.call.name]
    if remedy.kind == "argument":
        parameter = failing.by_name[remedy.argument]
        if remedy.shape == DOCUMENTED:
            values = documented(parameter)
        else:
            values = [
                value
                for value in options(parameter, witness.known, TRIES)
                if shape(value) == remedy.shape
            ]
        for value in values:
            yield witness.world, _with(witness.call, remedy.argument, value)
        return
    for world, result in _called(environment, witness, remedy.tool):
        if remedy.kind == "first":
            yield world, witness.call
            continue
        gifts = dict.fromkeys(
            leaf for leaf in values_in(value_of(result), keys=True) if isinstance(leaf, str | int)
        )
        for value in itertools.islice(gifts, TRIES):
            yield world, _with(witness.call, remedy.argument, value)


def _witness(
    environment: Environment,
    task: Task,
    tool: Tool,
    words: str,
    shapes: Sequence[Mapping[str, str]],
    rng: random.Random,
) -> RefusedCall | None:
    calls = task.goal_calls
    values = KnownValues()
    for text in task.script:
        values.add_text(text)
    worlds = [environment.reset(task.state)]
    for call in calls:
        worlds.append(after := worlds[-1].fork())
        values.add_all((*call.arguments.items(), *leaves(after.call(call).value)))
    for place, call in enumerate(calls):
        if call.name != tool.name:
            continue
        spoilt = itertools.chain(
            ((worlds[place], changed) for changed in _reshaped(call, shapes, rng)),
            ((worlds[before], call) for before in range(place - 1, -1, -1)),
            ((worlds[place], changed) for changed in _misplaced(call, values, rng)),
        )
        for world, tried in itertools.islice(spoilt, TRIES):
            result = world.fork().call(tried)
            if result.error == "tool" and pattern(tried, result) == words:
                return RefusedCall(task.id, world, tried, values, calls)
    return None


def _reshaped(
    call: Call, shapes: Sequence[Mapping[str, str]], rng: random.Random
) -> Iterator[Call]:
    """The call with an argument of a shape that was seen to fail."""
    for seen in shapes:
        for name, wanted in seen.items():
            value = call.arguments.get(name)
            if not isinstance(value, str) or wanted == shape(value):
                continue
            for _ in range(FILLED):
                # its own value inside the shape where it has room, else words that mean nothing
                # here
                own = wanted.replace(shape(value), value, 1) if shape(value) in wanted else wanted
                rest = own.replace(value, "\0") if own is not wanted else own
                text = re.sub(
                    "[a9]",
                    lambda gap: rng.choice(WORDS) if gap[0] == "a" else str(rng.randint(1, 99)),
                    rest,
                )
                yield _with(call, name, text.replace("\0", value))


def _misplaced(call: Call, values: KnownValues, rng: random.Random) -> Iterator[Call]:
    """The call with a value in an argument that belongs elsewhere, or nowhere."""
    for name, value in call.arguments.items():
        strange: tuple[Any, ...]  # what nobody has heard of
        if isinstance(value, str):
            strange = (rng.choice(WORDS),)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            strange = (type(value)(99_999), type(value)(7))
        else:
            continue
        known = [
            other for _, other in values.values if type(other) is type(value) and other != value
        ]
        for other in (*strange, *known[:8]):
            yield _with(call, name, other)


def _called(
    environment: Environment, witness: RefusedCall, name: str
) -> Iterator[tuple[Instance, Result]]:
    """The world after each call of the tool `name` that goes through, those of the ground truth
    first."""
    own = [call for call in witness.calls if call.name == name]
    tried = plausible([environment.tools()[name]], witness.known, TRIES)
    for call in itertools.islice(itertools.chain(own, tried), TRIES):
        world = witness.world.fork()
        result = world.call(call)
        if result.error is None:
            yield world, result


def _with(call: Call, argument: str, value: Any) -> Call:
    return Call(call.name, {**call.arguments, argument: value})
