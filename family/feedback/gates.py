"""What a text of feedback may add to documents and refusal: no value, no choice among few, no order
of calls, and nothing that is known of the world outside. The rules, and what they leave open, stand
in docs/feedback.md; plain_words.txt has the words of rules, general_words.txt those of English that
name no thing of their own, barred_words.txt numbers and ranks."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from rods.analysis.containment import (
    COMMON,
    WORD,
    Text,
    is_number,
    is_small,
    key_of,
    leaves,
    stem,
    values_in,
)
from rods.analysis.plausible_calls import KnownValues, documented, options, plausible
from rods.analysis.sampling import WORDS
from rods.calls import Call
from rods.canonical import frozen
from rods.environments.base import Environment, Instance, Parameter, Result, Tool, value_of
from rods.family.feedback.failures import JSON_SHAPES, pattern, shape
from rods.family.feedback.hints import tools_named
from rods.tasks import AnyTask, Task

# characters of a text
LONGEST = 300
SHORTEST = 20
APART = 3  # so many other words may stand among those of a value, which tell it all the same
# A judge's four verdicts, and what each of them is of a text that may be shown (000 Appendix C.2).
VERDICTS = {
    "solution_leakage": False,
    "exploration_constraint": False,
    "actionability": True,
    "hint_quality": True,
}
_FORM = re.compile(r"(?:[A-Za-z0-9_ .,;:()-]|(?<=n)'t\b|(?<=[a-z])'(?:s|re|ll|ve)\b|(?<=s)'(?= ))*")
_RUNS = re.compile(r"[.,;:-]{2,}|_{2,}|(?<=\w) (?=[.,;:])|[.,;:](?=\w)|-(?!\w)|(?<!\w)-")
_ENDINGS = re.compile(r"'\w*|(?<=\d)-|-(?=\d)")  # of words, which no list of words has
_TOKEN = re.compile(r"[A-Za-z0-9_]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# single out, behind those, unless a document or a result speaks
_BY = "that|which|who|whose|where(?! (?:it|they|you)\\b)|with"
_SPEAKS = (
    r"(?! (?:are (?:documented|listed|supported|accepted)|(?:the )?(?:document\b"
    r"|\w+ (?:gives?|gave|lists?|returns?|returned|shows?)\b)))"
)
# Commands a call, or says which comes before which.
_ORDER = (
    r"\b(?:call|calling|use|run|invoke|execute|try|do) (?:the )?{name}\b"
    r"|\b(?:before|after|then|first) (?:calling |you call )?{name}\b"
    r"|\b{name}\b(?:\(|,? (?:and )?then\b|, and\b| (?:first|before|after|in this)\b)"
)
# A clause that commands: a verb, and what follows one. So many of them are all the steps in order.
_COMMAND = re.compile(
    r"(?i)(?:^|[.;:,]| and| then| before)(?: (?:and|then|only|so|please|next|once))* ?"
    r"(?!(?:it|they|there|this|that|these|those|but|or|if|as|when|where|which|who|nothing|nobody"
    r"|none|not|and|then|only|so|once|after|with|at|in|on|by|for|to|from|\w+(?:ing|ed|[^s]s)) )"
    r"[a-z]{2,} (?:the|its?|them|that|this|an?|all|any|in|out|up|off|on|for|to|by|with|again|only"
    r"|from|what|who|whether|how|your(?:self)?)\b"
)
STEPS = 3
# Words that refer to what was said, and those that exclude: of many things that leaves many.
_REFERS = frozenset(
    ["it", "they", "them", "this", "these", "nothing", "you", "your", "not", "no", "cannot"]
)
# Nouns for one of few values where no document lists any.
FEW = frozenset(
    ["class", "kind", "level", "mode", "option", "priority", "sector", "status", "type", "unit"]
)
# Clauses that say something of such a noun, or say it of something.
_SAYS = (
    r"\b(?:{nouns})s? (?:is|are|was|has|have|had|means?|says?|must|should|shall|will|would|needs?"
    r"|wants?|starts?|begins?|ends?|holds?|of|for|in which|in question|with|where|whose|that)\b"
    r"|\b(?:is|are|be|means?|makes?|as|which|what) (?:[a-z]+ ){{0,2}}(?:{nouns})\b"
    r"|\b(?:its|right|proper|correct|other|better) (?:{nouns})\b"
)
# A clause that ends so leaves out what it says of its subject: "two dots are".
_ELLIPSIS = re.compile(
    r"(?i)(?:^|[.;,] )"
    r"(?!(?:[^.;,]* )?(?:what|where|which|whether|how|if|than|there|as|who|it|nobody) )"
    r"[^.;,]* (?:is|are|does|would)(?=[.;,]|$)"
)
# Points at one value among others, says which it is, or compares it.
_TOLD = (
    rf"(?i)(?<!which )(?<!to the )\b(?:{{few}}) (?:{_BY})\b{_SPEAKS}"
    r"|\b(?:is|are) (?:the|its) (?:{every})(?=[.,;]|$)"
    r"|\b(?:{every})s? (?:earlier|longer|more|shorter|before (?!\w+ing\b))"
)
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_EXAMPLES = re.compile(r"\(?\b(?:e\.g\.|for example|such as|like)[^.)]*\)?|'[^']*'|\"[^\"]*\"")
_GLOSS = re.compile(r"'[^']+' (?:for|is|means|=) (\w+)")


def _phrases(name: str, more: str = "") -> re.Pattern[str]:
    """Any of the expressions of a list of this folder, as whole words, and what follows it."""
    lines = Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return re.compile(rf"(?i)\b(?:{'|'.join(lines)})\b{more}")


_IDIOMS = _phrases("idioms")  # with words of ranks and numbers that are none there
_POINTING = _phrases("pointing", _SPEAKS)  # say what a value is, or means, outside of the tools
_CHOICE = re.compile(r"\boptions(?: are)?: ([\w ,]+)", re.IGNORECASE)


class GroundTruthValues:
    """The values of the arguments of every ground truth and check among `tasks`, held-out ones
    included."""

    def __init__(self, tasks: Iterable[AnyTask]) -> None:
        values: dict[Any, str] = {}
        for call in (call for task in tasks for call in task.goal_calls):
            for leaf in values_in(call.arguments):
                if isinstance(leaf, str) and not is_small(leaf):
                    values.setdefault(key_of(leaf), leaf)
        self._values = [
            (value, Counter(map(stem, WORD.findall(value)))) for value in values.values()
        ]

    def leaks(self, text: str, passages: Sequence[str]) -> list[str]:
        """The words of `text` that tell values which none of `passages` tells: whole, in another
        form, or word by word, close together in whatever order and with whatever endings. A value
        that is one plain word is told by no sentence that happens to need it, nor is one that is a
        barred word: where it is more than an idiom, it is refused as such."""
        whole = Text.of(text)
        clauses = [WORD.findall(clause) for clause in re.split(r"[.;:,]", text.casefold())]
        starts = "".join(words[0][0] for words in clauses if words)
        ends = {"".join(word[at] for word in words) for words in clauses for at in (0, -1)}
        ordinary = set(map(stem, word_list("plain_words") | word_list("barred_words")))
        words = list(WORD.finditer(text))
        leaks = []
        stemmed = [stem(word[0]) for word in words]
        sources = [
            (Text.of(part), [stem(word) for word in WORD.findall(part)]) for part in passages
        ]
        for value, parts in self._values:
            key = value.casefold()
            if parts.total() == 1 and parts.keys() <= ordinary:
                continue
            if len(key) > 2 and (key in starts or not ends.isdisjoint((key, key[::-1]))):
                leaks.append("something with the first or the last letters of its words")
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
    doubts: bool = False,
) -> list[str]:
    """Why `text` may not be shown for refusals of `tool` with this pattern; empty where it may.
    `remedy`: the tool that its remedy names; `doubts`: whether a doubt is enough. The reasons tell
    a writer what to change, and none of the values that it must not know."""
    tools = [tool, *([remedy] if remedy else [])]
    if not SHORTEST <= len(text) <= LONGEST:
        return [f"it has {len(text)} characters; it must have {SHORTEST} to {LONGEST}"]
    if not _FORM.fullmatch(text) or _RUNS.search(text):
        return ["it holds other characters than letters, single signs (. , ; : ' - ( )) and blanks"]
    if others := tools_named(environment, text) - {described.name for described in tools}:
        return [f"it names {len(others)} tools beside {tool.name} and that of its remedy"]
    for name in (described.name for described in tools):
        if re.search(_ORDER.format(name=name), text, re.IGNORECASE):
            return [f"it orders a call of {name}: say what the tool does, as '{name} may tell'"]
    if len(_COMMAND.findall(text)) >= STEPS:
        return [
            "it gives the steps one after the other: say what is missing, and leave the way open"
        ]
    shown = [*map(_document, tools), _bare(pattern)]
    documented_numbers = set(map(float, _NUMBER.findall(" ".join(shown))))
    if numbers := [one for one in _NUMBER.findall(text) if float(one) not in documented_numbers]:
        return [f"it has a number that no document has: {', '.join(numbers[:3])}"]
    if fault := _some_of_those_listed(_free(text, tools), tools, _bare(pattern)):
        return [fault]
    if leaks := truth.leaks(text, shown):
        some = " and ".join(map(repr, leaks[:3]))
        return [
            f"it says {some}, which may be a value of an argument and stands in no document: say "
            f"it otherwise"
        ]
    return feedback_doubts(environment, tool, remedy, pattern, text) if doubts else []


def feedback_doubts(
    environment: Environment, tool: Tool, remedy: Tool | None, pattern: str, text: str
) -> list[str]:
    """Where `text` might tell a value or a choice in other words, which a judge has to settle: the
    rules know few words."""
    tools = [tool, *([remedy] if remedy else [])]
    refusal = _bare(pattern)
    free = _free(text, tools)
    odd = _odd(free, _of_choices(free, tools, refusal), tools, refusal)
    doubts = [f"{', '.join(map(repr, odd[:5]))}: not needed for a rule"] if odd else []
    doubts += filter(None, [_apart(free, tools, refusal, environment.tools().values())])
    return doubts + [f"{words!r} may say which" for words in _told(free, tools)]


def _bare(pattern: str) -> str:
    """The words of a refusal, without the places of values."""
    return re.sub(r"\{\w+\}|<\w+>", " ", pattern)


def _free(text: str, tools: Sequence[Tool]) -> str:
    """`text` without endings, idioms, and lists of all the values that a document has."""
    plain = _ENDINGS.sub("", text).rstrip(".")
    for parameter, values in _choices(tools):
        if values and parameter.schema.get("type") != "array":  # of which all may be the value
            plain = re.sub(
                r"(?:,? (?:and |or )|, )(?:an? |the )?".join(map(re.escape, values)) + r"\b",
                "",
                plain,
            )
    return _IDIOMS.sub(lambda match: " " * len(match[0]), plain)


def _nouns(tools: Sequence[Tool]) -> frozenset[str]:
    """What arguments are called of which few values may be meant."""
    last = (_HUMPS.split(parameter.name)[-1].casefold() for parameter, _ in _choices(tools))
    return FEW.union(noun for noun in last if len(noun) > 2)


def _of_choices(text: str, tools: Sequence[Tool], refusal: str) -> str:
    """What of `text` may tell which of few values is meant, since a bit or two are enough for it:
    all where the refusal is about such an argument, else the clauses that say something of one."""
    if set(map(stem, _nouns(tools[:1]))) & set(map(stem, WORD.findall(refusal))):
        return text
    said = re.compile(_SAYS.format(nouns="|".join(sorted(_nouns(tools)))), re.IGNORECASE)
    return " . ".join(clause for clause in re.split(r"[.;:,]", text) if said.search(clause))


def _odd(text: str, narrow: str, tools: Sequence[Tool], refusal: str) -> list[str]:
    """The tokens of `text` that are barred or no words, and those of `narrow` that are neither
    plain words nor words of the documents of `tools`, but for examples, listed values and what
    booleans switch; each once."""
    spoken = _words(f"{refusal} {tools[0].description}")
    barred = word_list("barred_words") - spoken
    limited = [parameter for parameter, _ in _choices(tools)]
    parts = [tool.description for tool in tools]
    for parameter in (parameter for tool in tools for parameter in tool.parameters):
        parts += [parameter.name, "" if parameter in limited else parameter.description]
    words = word_list("plain_words") | spoken
    words |= _words(" ".join(_EXAMPLES.sub(" ", part) for part in parts))
    stems = set(map(stem, words - barred))
    names = {name for tool in tools for name in (tool.name, *tool.parameter_names)}
    tokens = set(_TOKEN.findall(" ".join([refusal, *(tool.description for tool in tools)])))

    def written(token: str, before: str) -> bool:
        opens = not before or before[-1] in ".:;("
        if token in names or token.casefold() == "a":
            return True
        word = token.islower() or token in tokens or (opens and token[1:].islower())
        return word and token.isalpha() and len(token) > 1 and token.casefold() not in barred

    odd = [
        match[0]
        for match in _TOKEN.finditer(text)
        if not written(match[0], text[: match.start()].rstrip())
    ]
    odd += [
        token
        for token in _TOKEN.findall(narrow)
        if len(token) > 1 and token not in names and stem(token) not in stems
    ]
    return list(dict.fromkeys(odd))


def _apart(text: str, tools: Sequence[Tool], refusal: str, world: Iterable[Tool]) -> str:
    """What `text` names that is neither a word of rules, nor general, nor in a document of the
    `world` or in the refusal: the fewer texts need a word, the more it tells. And what a sentence
    with general words speaks of that shares none with the documents of `tools` or the refusal."""
    names = [(each.name, each.description, each.parameter_names) for each in tools]
    own = _words(f"{refusal} {names}")
    every = _words(" ".join(map(_document, world)))
    spoken = set(map(stem, own - COMMON))
    plain = set(map(stem, word_list("plain_words") | COMMON | own))
    general = set(map(stem, word_list("general_words") | every))
    for sentence in re.split(r"[.;:]", text):
        said = _words(sentence)
        strange = [word for word in said if len(word) > 2 and stem(word) not in plain]
        if foreign := min((word for word in strange if stem(word) not in general), default=""):
            return f"{foreign!r}, which no document names"
        if strange and said.isdisjoint(_REFERS) and spoken.isdisjoint(map(stem, said)):
            return f"{min(strange)!r}, in a sentence without a word of tool or refusal"
    return ""


def _some_of_those_listed(text: str, tools: Sequence[Tool], refusal: str) -> str:
    """That `text` tells some of the values that a document lists, or one by its first letters;
    empty where it does not."""
    initials = "".join(word[0] for word in WORD.findall(text)).casefold()
    stems = set(map(stem, _words(text)))
    allowed = set(map(stem, _words(f"{tools[0].name} {refusal}")))
    for parameter, values in _choices(tools):
        about = _words(parameter.name) if values else frozenset()
        hinted = stems & set(
            map(stem, _words(" ".join([*values, *_GLOSS.findall(parameter.description)])))
        )
        own = parameter in tools[0].parameters
        exact = any(
            re.search(rf"\b{re.escape(one)}\b", text) for one in values if one != one.lower()
        )
        if exact or hinted - allowed or (hinted and own and stems & set(map(stem, about))):
            return (
                f"it says some of what the document lists for {parameter.name}: say all, as it "
                f"does, or none"
            )
        if any(len(value) > 2 and value.casefold() in initials for value in values):
            return "the first letters of its words tell a value that a document lists"
    return ""


def _told(text: str, tools: Sequence[Tool]) -> list[str]:
    """The words of `text` that may tell a value by another one, by its letters or by what it means
    elsewhere."""
    few = {"one", "ones", "value", "values", "option", "options"}
    few = few.union(*(_words(parameter.name) for parameter, values in _choices(tools) if values))
    every = few.union(*(_words(name) for tool in tools for name in tool.parameter_names))
    told = re.compile(_TOLD.format(few="|".join(few), every="|".join(every)))
    matches = (pattern.search(text) for pattern in (told, _POINTING, _ELLIPSIS))
    return [match[0].strip() for match in matches if match]


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
    worlds = [task for task in tasks if isinstance(task, Task)]
    rng.shuffle(worlds)
    worlds.sort(key=lambda task: all(call.name != tool.name for call in task.goal_calls))
    tried = (_witness(environment, task, tool, words, shapes, rng) for task in worlds[:WORLDS])
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
    own = [(place, call) for place, call in enumerate(calls) if call.name == tool.name]
    others = ((len(calls), call) for call in plausible([tool], values, FILLED))
    for place, call in own or others:
        spoilt = itertools.chain(
            ((worlds[place], changed) for changed in _reshaped(call, shapes, rng)),
            ((worlds[before], call) for before in range(place, -1, -1)),
            ((worlds[place], changed) for changed in _misplaced(call, values, rng)),
        )
        for world, tried in itertools.islice(spoilt, TRIES):
            result = world.fork().call(tried)
            if result.error == "tool" and pattern(tried, result) == words:
                values.add_all(tried.arguments.items())  # a title that stood for an id is looked up
                return RefusedCall(world, tried, values, calls)
    return None


def _reshaped(
    call: Call, shapes: Sequence[Mapping[str, str]], rng: random.Random
) -> Iterator[Call]:
    """The call with an argument of a shape that was seen to fail."""
    for seen in shapes:
        for name, wanted in seen.items():
            value = call.arguments.get(name)
            if value is None or wanted in (shape(value), *JSON_SHAPES.values()):
                continue
            value = str(value)
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
        elif is_number(value):
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
