"""The roles of the author of variants (004), played by rule, for any environment.

Plans and values are drawn from what the request offers, words come from what it says of its tools;
verdicts are good, but for a few. Nothing of the author is shared but the templates and the way in
which it shows calls."""

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

from rods.analysis.containment import Text, leaves, values_in
from rods.analysis.sampling import WORDS, Sampler
from rods.canonical import JsonObject
from rods.daemon.authors.state_shapes import Path, leaves as state_leaves, nested
from rods.daemon.stand_ins.roles import PURPOSE, Answer, Asked, Role

# share of samples that the judge rejects, so that the refinement has something to do
OBJECTS = 0.06
FIXABLE = 0.7  # of these, whose fault lies in the words
CRITERIA = ("alignment", "consistency", "coherence", "naturalness", "structure")
# share of turns of several calls that are taken as one function, where a plan may write such
COMPOSES = 0.5
DRAWS = 100  # of a plan
STORY = "Somebody puts things in order before a short journey and wants nothing to be forgotten."

PLACES = re.compile(r"^turn (\d+): (\[\[.*\]\])$", re.MULTILINE)
FEEDS = re.compile(
    r"place (\d+) of turn (\d+) from place (\d+) of turn (\d+)(?: \(such as ([^)]*)\))?"
)
REFUSED = re.compile(r"^(\w+): everything", re.MULTILINE)
ARGUMENTS = re.compile(r'^\{"name":"(\w+)",.*?"arguments":(\{.*\})\}$', re.MULTILINE)
VALUE = re.compile(r"^(\S+) \((\S+) of \S+\): (\{.*\})$", re.MULTILINE)
CHOICE = re.compile(r"^(\d+)\. \S+ of \S+: (.*)$", re.MULTILINE)
TURN = re.compile(r"^Turn (\d+):\n?", re.MULTILINE)
LISTS = re.compile(
    r"^(must say|say again, or refer to|never say|refer to|in words of your own): (?!\()(.*)$",
    re.MULTILINE,
)
SENTENCES = re.compile(r"(?<=[.!?]) (?=Please |What matters here )")
LISTING = "What matters here is "

Shown = JsonObject  # {"call", "arguments", "result"} as prompts show a call


# Stages I and II: functions for the places of a pattern, values for arguments, worlds and their
# repairs.


def plan(asked: Asked) -> Answer:
    """Any of the functions that may stand in a place, rather one that its world takes now and none
    twice, if others than the seed's are left then. What another place feeds takes what that one's
    name speaks of, if some draw of many has it so. Calls of a turn may be taken together."""
    answer = _told(asked, "narrative")
    takes = {
        name: set(json.loads(arguments))
        for name, arguments in ARGUMENTS.findall(asked.fields["schemas"])
    }
    refused = set(REFUSED.findall(asked.fields["refused"]))
    for draw in range(DRAWS):
        drawn: dict[str, list[str]] = {}
        for number, places in PLACES.findall(asked.fields["pattern"]):
            drawn[number] = names = []
            for options in json.loads(places):
                before = [name for chosen in drawn.values() for name in chosen]
                taken = [name for name in options if name not in refused] or options
                fresh = [name for name in taken if name not in before] or [
                    name for name in taken if name not in names
                ]
                names.append(asked.chance.choice((draw < DRAWS // 2 and fresh) or options))
        fed: dict[tuple[str, str], bool] = {}
        for place, turn, giver, feeding, pairs in FEEDS.findall(asked.fields["pattern"]):
            first = drawn[feeding][int(giver) - 1]
            second = drawn[turn][int(place) - 1]
            akin = bool({*first.split("_")} & takes.get(second, set()))
            apt = f"{first} to {second}" in pairs.split(", ") if pairs else akin
            fed[turn, place] = fed.get((turn, place), False) or apt
        used = {name for names in drawn.values() for name in names}
        if all(fed.values()) and used != set(asked.fields["tools"].split(", ")):
            break
    for number, names in drawn.items() if asked.fields["composing"] else ():
        if len(names) > 1 and (
            "one function" in asked.fields["composing"] or asked.chance.random() < COMPOSES
        ):
            answer.setdefault("functions", []).append({"name": f"see_to_{number}", "calls": names})
            drawn[number] = [f"see_to_{number}"]
    constrained = asked.schema is not None
    turns = {
        f"turn_{number}": names if constrained else json.dumps(names)
        for number, names in drawn.items()
    }
    return answer | turns


def _told(asked: Asked, name: str) -> Answer:
    """The story, where the answer has room for it."""
    wanted = asked.schema is None or name in asked.schema["properties"]
    return {name: STORY} if wanted else {}


def values(asked: Asked) -> Answer:
    """Any of the values that a line offers, or one that its schema allows."""
    chosen = {}
    for key, argument, text in VALUE.findall(asked.fields["values"]):
        may = json.loads(text)
        offered = may.get("one of") or may.get("found by an earlier call") or may.get("such as")
        if not offered and "may be left out" in may:
            continue
        chosen[key] = (
            asked.chance.choice(offered)
            if offered
            else Sampler(asked.chance).value(argument, may["any"])
        )
    return {**_told(asked, "story"), "values": chosen}


def world(asked: Asked) -> Answer:
    """The same world with another end of its longest text of several words that stands there once;
    with another number where there is none, or where that was refused."""
    counts = Counter(values_in(asked.state, keys=True))
    texts = [
        (path, leaf)
        for path, leaf in state_leaves(asked.state)
        if isinstance(leaf, str) and " " in leaf and counts[leaf] == 1
    ]
    if not texts or asked.again:
        return {"state": _other_number(asked.state, asked.chance)}
    path, text = max(texts, key=lambda leaf: len(leaf[1]))
    return {"state": nested(path, f"{text} {asked.chance.choice(WORDS)}")}


def patch(asked: Asked) -> Answer:
    """One of the usual remedies: a switch that is off, something closed, an amount that is low."""
    changes = [nested(path, value) for path, value in _remedies(asked.state)]
    return {"patch": asked.chance.choice(changes or [{"nothing": 0}])}


# Stage III: words.


def _requests(asked: Asked) -> list[str]:
    return [_request(asked, part) for part in TURN.split(asked.fields["turns"])[2::2]]


def _request(asked: Asked, part: str) -> str:
    """One turn's text: a sentence for each of the calls in `part`, and whatever of the values under
    "must say" is still unsaid."""
    calls: list[Shown] = [
        json.loads(line) for line in part.splitlines() if line.startswith('{"call"')
    ]
    lists = defaultdict[str, list[Any]](list)
    for name, text in LISTS.findall(part):
        lists[name] = json.loads(f"[{text}]")
    values = lists["must say"] + lists["say again, or refer to"]
    hidden = lists["never say"]
    free = lists["in words of your own"]
    pointed = lists["refer to"] + [words for words in free if str(words).startswith("the ")]
    does = dict(PURPOSE.findall(asked.question))
    sentences = list[str]()
    for call in calls:
        names_by_value = {str(value): name for name, value in call["arguments"].items()}
        clause = _imperative(does.get(call["call"], ""))
        for value in [value for value in values if str(value) in names_by_value]:
            name = names_by_value[str(value)].removesuffix("_id").replace("_", " ")
            clause = _saying(clause, name, value)
        taken = [name for name, value in call["arguments"].items() if sentences and value in hidden]
        for name in taken:
            clause = _pointing(clause, f"that {name.removesuffix('_id').removesuffix('_name')}")
        sentences.append(f"Please {clause[0].lower()}{clause[1:]}.")
    for words in pointed:
        noun = rf"\b(?:an?|the|another|that|by)(?: \w+)?? {_noun(words)}\b"
        at = max(
            (number for number, sentence in enumerate(sentences) if re.search(noun, sentence)),
            default=-1,
        )
        sentences[at] = _pointing(sentences[at], words)
    text = " ".join(sentences)
    unsaid = [_words(value) for value in values if not Text.of(text).contains_exact(value)]
    return text if not unsaid else f"{text} {LISTING}{'; and '.join(unsaid)}."


# Stage IV: verification, judge, diagnosis.


def judge(asked: Asked) -> Answer:
    verdicts: Answer = dict.fromkeys(CRITERIA, "pass")
    objects = asked.chance.random() < OBJECTS
    if objects:
        verdicts[asked.chance.choice(CRITERIA)] = "fail"
    verdicts["issue"] = "The second half reads as if it were in a hurry." if objects else ""
    if asked.fields["diagnosis"]:
        verdicts |= classify(asked) if objects else {"fault": "none", "turn": 0}
    return verdicts


def classify(asked: Asked) -> Answer:
    return {
        "fault": "query_fixable" if asked.chance.random() < FIXABLE else "gt_unfixable",
        "turn": 1,
    }


# Stage V: which function or value goes missing, and whether its turn is really out of reach.


def leave_open(asked: Asked) -> Answer:
    """The first value that can be cut out of its sentences without a trace; the other sentences,
    and values of a list, follow the supply."""
    sentences = [part for each in SENTENCES.split(asked.fields["query"]) for part in _apart(each)]
    choices = [
        (int(number), json.loads(value))
        for number, value in CHOICE.findall(asked.fields["choices"])
    ]
    for number, value in choices:
        words = _words(value)
        own = [sentence for sentence in sentences if Text.of(sentence).contains_exact(words)]
        rest = [sentence for sentence in sentences if sentence not in own]
        request = _left_open(" ".join(own), words)
        if own and not Text.of(request).contains_exact(value):
            return {
                "choice": number,
                "request": request,
                "supply": " ".join((f"I mean {words}, of course.", *rest)),
            }
    number, value = choices[0]
    return {
        "choice": number,
        "request": "Please do what I have in mind.",
        "supply": f"I mean {value}, of course.",
    }


def _left_open(text: str, words: str) -> str:
    """`text` as a person says it who leaves a value out: without ", with the day monday", else with
    "the right one"."""
    value = rf"'?{re.escape(words)}'?(?!\w)"
    text = re.sub(rf"(?:,| and) with the (?:[a-z]+ )+{value}", "", text)
    text = re.sub("^([^,]*) and with ", r"\1, with ", text)
    return re.sub(rf"(?:\b(?:the|an?) )?{value}", "the right one", text, flags=re.IGNORECASE)


def _apart(sentence: str) -> list[str]:
    """A sentence that lists values as one for each of them, any other as it is."""
    listing = sentence.startswith(LISTING)
    return (
        [f"{LISTING}{value}." for value in sentence[len(LISTING) : -1].split("; and ")]
        if listing
        else [sentence]
    )


def _changes(old: JsonObject, new: JsonObject) -> JsonObject:
    """The parts of `new` that differ."""
    other = {key: value for key, value in new.items() if value != old[key]}
    return {
        key: _changes(old[key], value) if isinstance(value, dict) else value
        for key, value in other.items()
    }


def _other_number(state: JsonObject, chance: random.Random) -> JsonObject:
    """The change of one number, if there is one, to one near it: a state of calls often holds
    nothing else."""
    places = [number for number, (_, leaf) in enumerate(leaves(state)) if type(leaf) is int]
    place = chance.choice(places or [-1])
    at = count()

    def other(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: other(value) for key, value in part.items()}
        if isinstance(part, list):
            return [other(item) for item in part]
        if next(at) != place:
            return part
        return chance.choice(
            [near for near in range(part - 2, part + 4) if near > 0 and near != part] or [part]
        )

    return _changes(state, other(state))


def _remedies(state: JsonObject) -> Iterator[tuple[Path, Any]]:
    for path, value in state_leaves(state):
        if value is False:
            yield path, True
        elif value == "Closed":
            yield path, "Open"
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 50:
            yield path, value * 10 + 100


def _saying(clause: str, name: str, value: Any) -> str:
    """`clause` with a value behind it, under its name."""
    return f"{clause}{' and' if ', with ' in clause else ','} with the {name} {_words(value)}"


def _imperative(summary: str) -> str:
    """What a tool's document says that it does, as one asks for it, and not what it answers: "Finds
    a book: its number" is "find a book", "Adds a book and gives its number" "add a book"."""
    verb, _, rest = (
        re.split(r"[:;.(]|, so that\b|,? and (?:gives|returns|shows)\b", summary)[0]
        .strip()
        .partition(" ")
    )
    verb = re.sub("(?<=ss|ch|sh)es$|(?<!s)s$", "", re.sub("ies$", "y", verb))
    return f"{verb} {rest}".strip() or "see to the next thing"


def _pointing(text: str, words: str) -> str:
    """`text` with `words`, such as "that flight", in place of "a flight", or behind it."""
    if words in text:
        return text
    noun = _noun(words)
    text, count = re.subn(
        rf"\b(?:an?|the|another|that)(?: \w+)?? {noun}\b(?! number)", lambda _: words, text, count=1
    )
    return (
        text if count else f"{text.rstrip('.')}, I mean {words}{'.' if text.endswith('.') else ''}"
    )


def _noun(words: str) -> str:
    """ "flight" of "that flight" and of "the flight with Oslo"."""
    return words.split(" with ")[0].split(" ", 1)[1]


def _words(value: Any) -> str:
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)


ROLES: dict[str, Role] = {
    "planner": plan,
    "parameters": values,
    "initial_state": world,
    "config_patch": patch,
    "rewrite_turns": lambda asked: {"queries": _requests(asked)},
    "query": lambda asked: {"query": _requests(asked)},
    "refine_rewrite": lambda asked: {"query": _request(asked, asked.fields["calls"])},
    "query_verification": lambda asked: {
        "verdict": ["aligned"] * int(asked.fields["count"]),
        "problem": "",
    },
    "judge_quality": judge,
    "refine_classify": classify,
    "miss_func": lambda asked: {
        "function": asked.chance.choice(asked.fields["choices"].split(", "))
    },
    "miss_func_verify": lambda asked: {"served": "no"},
    "miss_param": leave_open,
    "miss_param_verify": lambda asked: {"known": "no"},
}
