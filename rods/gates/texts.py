"""What a task's texts may say, and what they have to ask for.

`leaks`: no text of a user names a function or a parameter, or holds artefacts of generation: JSON,
tags, a pipeline's words. Names of tools that are plain words ("sort") may be said, but not as a
name ("use sort"): those that an environment's catalogue lists as `ordinary`; without a catalogue,
those of letters alone. Of parameters only those count that no user would type (`order_id`). What a
call has as a value may be said whatever it looks like.

`requests`: every call is asked for (`unasked`), everything asked for is done, and where an entry of
a list ends is said (`undone`). docs/gates.md says how they are found. A call counts as asked for
when the words of its turn ask for its tool, or when a later call of the turn cannot do without it.
A turn whose calls the environment's phrase book explains (`parse_wording`) needs no such evidence.
A request that no call of its own turn serves is read together with the turn that serves it.

`style` is no gate: it judges for an author that asks nobody."""

import re
from collections.abc import Iterator, Sequence, Set
from itertools import chain, permutations
from typing import Any

from rods.analysis.containment import (
    Text,
    is_small,
    key_of,
    keys_in,
    leaves,
    stems,
    things,
    values_in,
)
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import world_before
from rods.calls import Call
from rods.composing.lexicon import lexicon, runs_on
from rods.composing.parse_wording import read
from rods.conversations import Persona
from rods.environments.base import Environment, Results
from rods.faults import Defect, Reason, Reasons
from rods.tasks import RETURN_SENTENCE, AnyTask, OpenTask, Task, asked

ARTEFACTS = re.compile(
    r"thought process|construct query|step \d+:|ground truth|tool call|function call|api "
    r"call|<\w+>|```|[{}\[\]\\|<>]",
    re.IGNORECASE,
)


def leaks(environment: Environment, task: AnyTask) -> Reasons:
    """Names and artefacts in the texts, each with its turn, and in what a played user may say."""
    tools = environment.tools()
    catalogue = lexicon(environment).catalogue
    if catalogue is not None:
        plain = catalogue.ordinary & tools.keys()
    else:
        plain = frozenset(name for name in tools if name.isalpha() and name.islower())
    hidden = tools.keys() - plain
    hidden |= {
        name
        for tool in tools.values()
        for name in tool.parameter_names
        if "_" in name or not name.islower()
    }
    values = "\n".join(str(value) for call in task.goal_calls for value in call.arguments.values())
    texts: list[tuple[int | None, str]] = [
        item for item in enumerate(task.texts) if item[1] != RETURN_SENTENCE
    ]
    if isinstance(task, OpenTask) and isinstance(task.user, Persona):
        texts += [(None, text) for text in (*task.user.further, *task.user.knows.values())]
    return [
        Reason(why, turn) for turn, text in texts for why in _leaks(text, hidden, plain, values)
    ]


def _leaks(text: str, hidden: Set[str], plain: Set[str], values: str) -> Iterator[str]:
    """The names of tools and parameters in a text, and its first artefact."""
    words = set(re.findall(r"\w+", text))
    for name in sorted(hidden & words):
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", values):
            yield f"the text names {name!r}"
    for name in sorted(plain & words):
        word = re.escape(name)
        as_name = (
            rf"\b(?:use|using|call|run|invoke)\s+(?:the\s+)?['\"]?{word}\b"
            rf"|\b{word}['\"]?\s*(?:\(|function|tool\b|command\b)"
        )
        if re.search(as_name, text, re.IGNORECASE):
            yield f"the text names the tool {name!r}"
    if artefact := ARTEFACTS.search(text):
        yield f"holds the artefact {artefact[0]!r}"


_CLOSING = "\"'”’»"  # what a quotation at the end of a sentence ends with
DOUBLED = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)
# "the another", but not "the The Great Gatsby": the second in small letters
ARTICLES = re.compile(r"\b(?i:the|an?) (?:the|an?|another|some|this|that|one of)\b")
# of a lexicon's weight: about one telling word of a document, or a share of the phrases
ENOUGH = 0.8
# where the request also says a value of the call, or it takes up what was shown: any word at all
LITTLE = 0.05


# what a question is about: "When is the seminar?" asks for its hour
ASKS = re.compile(
    r"\b(when|where|who)(?=['’]s\b| (?:is|are|was|were|does|do|will)\b)", re.IGNORECASE
)
MEANT = {"when": "date hour time", "where": "place location folder room", "who": "name person"}


def requests(environment: Environment, task: Task, results: Results) -> Reasons:
    """Calls that nobody asks for, requests that no call serves, and lists that may be read in two
    ways. `results` are those of the ground truth."""
    return unasked(environment, task, results) + undone(task, results)


def unasked(environment: Environment, task: Task, results: Results) -> Reasons:
    """Calls that nobody asks for; empty when each has a reason."""
    book = lexicon(environment)
    named = {} if book.catalogue is None else book.catalogue.named
    doubtful = []
    open_to_two: Reasons = []
    outputs: list[Output] = []
    for turn, calls in enumerate(task.calls):
        text = asked(task, turn)
        asking = " ".join(MEANT[word.casefold()] for word in ASKS.findall(text))
        said = stems(f"{text} {asking}")
        scores = book.asks(said, [call.name for call in calls])
        request = Text.of(text)
        for index, call in enumerate(calls):
            words = named.get(call.name, ("",))
            if not any(word in text.casefold() for word in words):
                open_to_two.append(
                    Reason(f"another tool does it too, and nobody says {words[0]!r}", turn, index)
                )
            enough = LITTLE if _about(call, request, outputs) else ENOUGH
            if scores[call.name] < enough and not _needed(environment, task, results, turn, index):
                doubtful.append((turn, index))
            outputs.append(Output((turn, index), call, results[turn][index]))
    if not doubtful:
        return open_to_two
    readings = None if book.catalogue is None else read(book.catalogue, environment, task, results)
    unread = [place for place in doubtful if readings is None or not readings[place[0]]]
    return open_to_two + [
        Reason(f"nobody asks for {task.calls[turn][index]}", turn, index, doubt=True)
        for turn, index in unread
    ]


def _about(call: Call, request: Text, outputs: Sequence[Output]) -> bool:
    """Whether the request says one of the call's values, or what was shown before gives all of
    them."""
    values = [(name, value) for name, value in leaves(call.arguments) if not is_small(value)]
    brought = [any(output.brought(name, value) for output in outputs) for name, value in values]
    return any(request.contains_any_form(value) for _, value in values) or (
        bool(values) and all(brought)
    )


def _needed(environment: Environment, task: Task, results: Results, turn: int, index: int) -> bool:
    """Whether a later call of the turn takes something from the result of this one, or fails
    without it."""
    calls = task.calls[turn]
    if index + 1 == len(calls):
        return False
    output = Output((turn, index), calls[index], results[turn][index])
    if any(output.has(*leaf) for later in calls[index + 1 :] for leaf in leaves(later.arguments)):
        return True
    world = world_before(environment, task, turn, index)
    without = [world.call(call) for call in calls[index + 1 :]]
    pairs = zip(without, results[turn][index + 1 :], strict=True)
    return any(now.error is not None and before.error is None for now, before in pairs)


def undone(task: Task, results: Results) -> Reasons:
    """What is asked about and no call uses, and entries of a list that run into each other, so that
    "tires checked and oil low" may be one or two; empty when all of it is used."""
    reasons = []
    result_texts: list[Text] = []
    world = keys_in(task.state or {}, keys=True)
    for turn, calls in enumerate(task.calls):
        if not calls:
            served = turn + 1 < len(task.calls) and task.calls[turn + 1]
            if task.type not in ("miss_func", "miss_param") or not served:
                reasons.append(Reason("no call does what it asks for", turn))
            continue
        used = [leaf for call in calls for leaf in values_in(call.arguments, keys=True)]
        values = [value for call in calls for value in call.arguments.values()]
        for pair in chain.from_iterable(
            permutations(map(str, value), 2) for value in values if isinstance(value, list)
        ):
            joint = "(?:,|,? and) ".join(map(re.escape, pair))
            if any(map(runs_on, pair)) and re.search(joint, asked(task, turn), re.IGNORECASE):
                reasons.append(Reason(f"where {pair[0]!r} ends is not said", turn))
        result_texts += [Text.shown(result.text) for result in results[turn]]
        unserved = turn and not task.calls[turn - 1]
        texts_before = [Text.of(text) for text in task.script[: turn - 1 if unserved else turn]]
        # "4 pm" is 16, or 4 where the half of the day is an argument of its own
        hours = {hour for hour, _ in Text.of(asked(task, turn)).clocks}
        for thing in things(asked(task, turn)):
            if (
                isinstance(thing, str)
                and thing.isupper()
                and thing.isalpha()
                and key_of(thing) not in world
            ):
                continue  # "PSI" is a word, "AAPL" a name of this world
            explained = any(text.contains_exact(thing) for text in (*texts_before, *result_texts))
            meant = [thing, thing - 12] if thing in hours and thing > 12 else [thing]
            if not explained and not any(_same(one, value) for one in meant for value in used):
                reasons.append(Reason(f"{thing!r} is asked about and no call uses it", turn))
    return reasons


def _same(thing: Any, value: Any) -> bool:
    if isinstance(thing, float):
        return Text.of(str(value)).contains_exact(thing)
    own = key_of(thing).strip(".,!?")
    other = key_of(str(value))
    return own in other or (not is_small(value) and other in own)


def style(task: Task, longest: int) -> list[Defect]:
    """The texts that no user would type, in more than `longest` words among them (004 Appendix G,
    gate 4, as far as rules can judge)."""
    return [
        Defect("query_fixable", issue, turn if task.calls[turn] else turn + 1)
        for turn, text in enumerate(task.script)
        if text != RETURN_SENTENCE
        for issue in unnatural(text, longest)
    ]


def unnatural(text: str, longest: int) -> list[str]:
    """Why no user would type `text`, which may have `longest` words."""
    reasons = []
    if (
        not text
        or text != text.strip()
        or "  " in text
        or text.rstrip(_CLOSING)[-1:] not in tuple(".!?")
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
