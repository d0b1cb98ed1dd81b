"""Where the values of arguments come from (docs/gates.md).

`grounding`: every argument of a ground-truth call can be found by whoever reads the conversation.
Of a list or an object every leaf has to be found. Listed values are often said in words of one's
own ("a round trip"), so they pass, but not when the text names another one of the list instead.
What a visible tool would show is asked last, because that executes (`plausible_calls`).

`referents`: every argument is determined by its turn: the user says its value there, or the words
refer to it and fit nothing else that was said or shown before. What nobody said or showed is left
to `grounding`."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from rods.analysis.containment import (
    COMMON,
    IDENTIFIER,
    Text,
    akin,
    is_small,
    key_of,
    keys_in,
    leaves,
    stem,
    stems,
    values_in,
)
from rods.analysis.flows import Output, entries
from rods.analysis.plausible_calls import documented, shows, visible
from rods.calls import Call
from rods.canonical import frozen
from rods.composing.lexicon import lexicon
from rods.composing.parse_wording import read
from rods.conversations import Persona, Script
from rods.environments.base import Environment, Parameter, Result, Results, Tools, value_of
from rods.faults import Reason, Reasons
from rods.tasks import Task, asked

LONG = 4  # words from which on a text need not stand there word for word
SHARE = 0.7  # of the words of such a text that must be found


def grounding(environment: Environment, task: Task, results: Results) -> Reasons:
    """The arguments whose values nobody can know; empty when there are none. `results` are those of
    the ground truth. Without forks, what tools would show counts only as far as the calls
    themselves ask. That "feet" says "ft", "three weeks" 21
    and "an hour later" some hour are doubts."""
    tools = environment.tools()
    reasons: Reasons = []
    texts: list[Text] = []
    outputs: list[Output] = []
    earlier: list[Call] = []
    for turn, calls in enumerate(task.calls):
        texts.append(Text.of(task.script[turn]))
        usable = visible(environment, task, turn)
        script = task.script[: turn + 1]
        for index, call in enumerate(calls):
            parameters = tools[call.name].by_name
            for name, value in call.arguments.items():
                parameter = parameters.get(name)
                lost = [
                    leaf
                    for leaf in values_in(value)
                    if not _found(name, leaf, parameter, texts, outputs)
                ]
                if not all(
                    shows(environment, task.state, earlier, script, usable, name, leaf)
                    for leaf in lost
                ):
                    why = f"{call.name}: nobody says {name}={value!r}, and nothing shows it"
                    doubt = all(
                        any(text.says_unit(leaf) or text.converts(leaf) for text in texts)
                        or (type(leaf) in (int, float) and RELATIVE.search(texts[-1].folded))
                        for leaf in lost
                    )
                    reasons.append(Reason(why, turn, index, doubt=doubt))
            outputs.append(Output((turn, index), call, results[turn][index]))
            earlier.append(call)
    return reasons


def _found(
    name: str, value: Any, parameter: Parameter | None, texts: list[Text], outputs: list[Output]
) -> bool:
    if any(text.covers(value) for text in texts) or any(
        output.has(name, value) for output in outputs
    ):
        return True
    if parameter is not None:
        listed = documented(parameter)
        if parameter.default is not None and value == parameter.default:
            return True
        if value in listed:
            return not any(texts[-1].contains_any_form(other) for other in listed if other != value)
        if Text.of(parameter.description).contains_exact(value):
            return True
    # a longer text may be put together from what was said and shown
    if not isinstance(value, str) or len(wanted := list(stems(value))) < LONG:
        return False
    had = {
        word
        for text in (*texts, *(output.text for output in outputs))
        for word in stems(text.folded)
    }
    return sum(word in had for word in wanted) >= SHARE * len(wanted)


def ungrounded(
    tools: Tools, user: Script | Persona, calls: Sequence[Call], seen: Sequence[Result]
) -> Reasons:
    """The arguments of `calls` whose values nobody can know: not said or known by the user, no
    default, and not in the results `seen` of the calls before. That a document lists a value does
    not tell that it is meant."""
    texts = (
        (user.query, *user.further, *user.knows.values())
        if isinstance(user, Persona)
        else user.texts
    )
    heard = Text.of(" | ".join(texts))
    outputs = list[Output]()
    reasons = Reasons()
    for index, call in enumerate(calls):
        defaults = {param.name: param.default for param in tools[call.name].parameters}
        for name, value in call.arguments.items():
            known = all(
                heard.covers(leaf) or any(output.has(name, leaf) for output in outputs)
                for leaf in values_in(value)
            )
            if not known and value != defaults.get(name):
                reasons.append(
                    Reason(
                        f"{call.name}: nobody says or knows {name}={value!r}, and no call "
                        f"before shows it",
                        call=index,
                    )
                )
        outputs += [Output((0, index), call, result) for result in seen[index : index + 1]]
    return reasons


POINTS = frozenset(
    re.findall(r"\w+", "this these those it its them they their there him his her he she same both")
)
# no conjunction or relative pronoun; "does that stock" has neither
THAT = re.compile(
    r"\bwhoever \w+ that\b"
    r"|(?:(?<!s )|(?<=\bis )|(?<=['’]s )|(?<=\bwas )|(?<=\bhas )|(?<=\bdoes ))\bthat\b"
    r"(?! (?:an?|the|i|we|you|is|are|was|were|has|have|\w*[^su]s)\b)"
)
DEFINITE = frozenset(("the", "my", "our", "your", "all"))
INDEFINITE = frozenset(("a", "an", "any", "another", "some"))
POSSESSIVE = ("'s", "’s", "s'", "s’")
# means what was met last, where "the card" and "the same card" may mean any
LATELY = re.compile(
    r"\b(?:that|th[eo]se|this|it|its|the[my]|their|there|him|his|her|s?he|just|la(?:te)?st|new)\b"
)
AMOUNTS = frozenset(re.findall(r"\w+", "amount sum total much mani valu figur"))  # stems
PLACES = {"first": 0, "second": 1, "third": 2, "last": -1}
WORD = re.compile(r"[^\W_]+(?:['’]s?)?")
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# where a sentence ends, and a clause in which something new comes
SENTENCE = re.compile(r"(?<=[.!?]) |,? (?=(?:and|then|and then) \w+ (?:an?|another) )")
IDENTIFIES = frozenset(re.findall(r"\w+", "id ids number no code key ref reference token index"))
NUMBERS = frozenset(map(stem, IDENTIFIES)) - {"no"}
# of arguments that nobody speaks of: whoever has logged in passes them on
CREDENTIALS = frozenset(("token", "session", "credentials"))
# what a description says of its thing: "Name of the file | to copy. No path …"
ABOUT = re.compile(
    r"\b(?:to|from|in|at|for|on|with|by|appeared|where|who|whose|is|are)\b|[^\w\s'’/]"
    r"|(?<=\w) (?:the|an?) (?=\w+ (?:is|are)\b)"  # "the place the trip is from"
)
NAMED = re.compile(r"(?<=\w) (?:name|symbol)s?$")  # people speak of a file, not of its name
THING = re.compile(r"\b(?:of|identifies)\b")
# a number that has to be computed from another
RELATIVE = re.compile(
    r"\b(?:later|earlier|sooner|more|less|fewer|further|longer|shorter|higher|lower|another|half"
    r"|twice|doubled?|triple|rest|remain(?:s|ing|der)|left|all|everything|whatever|total|sum"
    r"|difference|together|average)\b"
)
# which of two is meant, by what only a reader knows of them, or by what was done with one
CHOOSES = re.compile(
    r"\b(?:whoever"
    r"|the (?:\w+ (?:(?:that|which|whom?) )?(?:you|i|we)(?:['’](?:ve|d)| have| had| just)"
    r"|(?!same|other|last|latest)\w+ one|new \w+|\w+er of|(?:most|least) \w+"
    r"|(?:four|fif|six|seven|eigh|nin|ten)th \w+"  # "the seventh picture" of a list
    r"|(?!latest|request|test|guest|interest|forest)\w{2,}est))\b"
)
# what people call a thing: no text of several lines, and not nothing
NAME = re.compile(r"(?!None$).{1,40}")
AS_WELL = "fits the words as well"  # certain where nothing chooses and the other was met before
NEAR = 3  # words after an article among which its noun stands
NAMES = re.compile(r"\b(?:the|that|this|my|our|your) (new )?(\w+)(?! \d)")
NEWLY = re.compile(r"[^.!?]{0,25}\bjust\b")  # behind what has come about: "that I've just made"


@frozen
class Mention:
    """A value that a call had or gave, under the name of its argument or field; as number `place`
    of `count` of this name. `beside`: the leaves of its record, by key_of."""

    turn: int
    name: str
    value: Any
    beside: Mapping[Any, Any]
    place: int = 0
    count: int = 1


def mentions(turn: int, call: Call, result: Result) -> list[Mention]:
    """What a call leaves behind to be referred to."""
    own_leaves = {key_of(leaf): leaf for leaf in values_in(call.arguments)}
    by_name = dict[str, dict[Any, tuple[Any, Mapping[Any, Any]]]]()
    every = list[Mention]()
    lone = dict(own_leaves)
    for name, leaf, beside in entries(value_of(result), "", own_leaves):
        by_name.setdefault(name, {}).setdefault(key_of(leaf), (leaf, beside))
    for name, named in by_name.items():
        every += [
            Mention(turn, name, *entry, place, len(named))
            for place, entry in enumerate(named.values())
        ]
        lone |= {key: leaf for key, (leaf, _) in named.items()} if len(named) == 1 else {}
    return [*every, *(Mention(turn, name, leaf, lone) for name, leaf in leaves(call.arguments))]


def keys_of(value: Any) -> set[Any]:
    """The keys of all objects in a JSON value, numbers as such."""
    if isinstance(value, Mapping):
        own = {int(key) if key.isdecimal() else key for key in value}
        return own.union(*map(keys_of, value.values()))
    return set[Any]().union(*map(keys_of, value if isinstance(value, (list, tuple)) else ()))


def identifies(name: str, value: Any, keys: Set[Any]) -> bool:
    """Whether an argument's value is what a thing goes by, such as one of `keys`, and no property
    or quantity of it."""
    is_key = value in keys or not IDENTIFIES.isdisjoint(
        part.lower() for part in PARTS.findall(name)
    )
    return is_key or (isinstance(value, str) and IDENTIFIER.search(value) is not None)


def is_amount(name: str, value: Any, keys: Set[Any]) -> bool:
    """Whether an argument's value is a quantity."""
    return type(value) in (int, float) and not identifies(name, value, keys)


def is_credential(name: str) -> bool:
    """Whether an argument, by its name, is one that nobody speaks of."""
    return not CREDENTIALS.isdisjoint(map(str.lower, PARTS.findall(name)))


def nouns_of(names: Iterable[str]) -> set[str]:
    return {stem(part) for name in names for part in PARTS.findall(name)} - IDENTIFIES


def noun_of(parameter: Parameter | None) -> str:
    """What a parameter's description calls its value: "stock" for "Symbol of the stock to trade";
    "" where it does not say so in three words."""
    description = "" if parameter is None else parameter.description.strip().lower()
    # "name of the file of current directory" is a file's
    words = PARTS.findall(THING.split(ABOUT.split(description)[0], 2)[:2][-1])
    nouns = [word for word in words if len(word) > 1 and word not in COMMON | IDENTIFIES]
    return " ".join(nouns) if len(nouns) < NEAR + 1 else ""


@frozen
class Referent:
    """A value that a turn's words may refer to. `name`: of its argument, unless it was met under
    quite another (a passenger may be a `member`, never a date); `nouns`: the argument's own, with
    that of its description; `noun`: the last of these, "" for none; `own`: where it was met,
    `latest` the last turn of it or its like; `rival`: a value that "that one" would mean as well,
    or rather, `former`: one that "the same one" would; `telling`: what only its own records
    have."""

    name: str
    nouns: Set[str]
    noun: str
    identifies: bool
    amount: bool
    own: Sequence[Mention]
    rival: Any
    former: Any
    telling: Mapping[Any, Any]
    latest: int

    @property
    def kind(self) -> str:
        """What people call such a thing."""
        parts = [part.lower() for part in PARTS.findall(self.name)]
        described = NAMED.sub("", self.noun)
        noun = described or " ".join(part for part in parts if part not in IDENTIFIES) or "one"
        met = nouns_of([self.name, *(mention.name for mention in self.own)])
        if apt := [word for word in described.split() if word in met]:
            noun = " ".join(apt)  # met as a file, of "file or directory"
        if not self.noun and any(map(ABOUT.fullmatch, parts)):
            noun = "one"  # `travel_from` names no thing
        if noun.endswith("s") and not self.amount and not noun.endswith(("ss", "us", "is")):
            noun = noun.removesuffix("s")  # a list's name, of one of it
        return noun

    @property
    def words(self) -> str:
        """How a user may refer to it; "" where no words would tell it from others."""
        names = [
            leaf
            for leaf in self.telling.values()
            if isinstance(leaf, str) and leaf != leaf.lower() and NAME.fullmatch(leaf)
        ]
        # no "station with 248" or "open"
        by_length = sorted(names, key=lambda text: (not text.isalpha(), len(text), text))
        if self.rival is None:
            return f"that {self.kind}"
        return f"the {self.kind} with {by_length[0]}" if by_length else ""

    def picked(self, text: Text) -> bool:
        """Whether words tell it from all others."""
        places = [number for word, number in PLACES.items() if text.contains_exact(word)]
        placed = any(
            met.count > 1 and met.place == place % met.count for met in self.own for place in places
        )
        return placed or any(text.contains_any_form(leaf) for leaf in self.telling.values())

    def fault(
        self,
        text: Text,
        turn: int,
        named: Set[str],
        beside: Sequence[Any],
        elsewhere: Sequence[Any],
        understood: bool,
    ) -> str:
        """Why the words `text` of `turn` do not determine it; "" where they do. `named` are nouns
        of whatever was met, `beside` the values that the call has beside it: "the flight 537" is no
        other flight. Of other calls of the turn are the values `elsewhere`: "a new file named b" is
        theirs. What the phrase book explains (`understood`) refers by itself, though not to one of
        two that were named last."""
        picked = self.picked(text)
        nouns = nouns_of([self.name, *(mention.name for mention in self.own)])
        rival = (
            self.former
            if self.own[-1].turn < turn and not LATELY.search(text.folded)
            else self.rival
        )
        if rival is not None and not picked:
            return f"{rival!r} {AS_WELL}"
        if understood or is_credential(self.name):
            return ""
        if self.amount:
            return "" if _refers(text, nouns | AMOUNTS, None) else "nobody says how much"
        refers: bool | None = None
        wide = nouns | self.nouns
        others = set(named - wide)  # "a flight to Oslo" is a definite one
        others |= set() if self.identifies else NUMBERS  # "its number" is none of a stand
        apart = text.folded
        for value in filter(text.contains_exact, beside):
            apart = re.sub(rf"\bthe \w+ {re.escape(str(value).casefold())}(?!\w)", "", apart)
        for sentence in map(Text.of, SENTENCE.split(apart)):
            now = _refers(sentence, wide, others)
            if now is False:  # "a mail" is no new one of what a description calls a mail box
                now = _refers(sentence, nouns, others)
            if now is False and refers and any(map(sentence.contains_exact, elsewhere)):
                continue
            refers = refers if now is None else now or (self.identifies and self.picked(sentence))
        looked_up = refers is None and self.identifies and (picked or self.latest == turn)
        return "" if refers or looked_up else "the words do not refer to it"


def referent(
    name: str, value: Any, wanted: Set[Any], met: Sequence[Mention], keys: Set[Any], noun: str = ""
) -> Referent | None:
    """`value`, one of the `wanted` of its argument, as something that was `met`; None when it was
    not. `noun`: what the argument's description calls it (`noun_of`)."""
    own = [mention for mention in met if key_of(mention.value) == key_of(value)]
    kin = [mention for mention in own if akin(mention.name, name)]
    own = kin or ([] if is_small(value) else own)
    if not own:
        return None
    names = {mention.name for mention in own}
    alike = [mention for mention in met if mention.name in names]
    rivals = [mention for mention in alike if key_of(mention.value) not in wanted]
    latest = max(mention.turn for mention in alike)
    top = [mention for mention in alike if mention.turn == latest]
    top = [mention for mention in top if mention.count == 1] or top
    rival = next((mention.value for mention in top if mention in rivals), None)
    former = next((mention.value for mention in rivals if mention.count == 1), rival)
    since = (mention for mention in met if mention.name == name and mention.turn > own[-1].turn)
    rival = next((one.value for one in since if key_of(one.value) not in wanted), rival)
    others = {key_of(value)}.union(
        *({key_of(mention.value), *mention.beside} for mention in rivals)
    )
    beside = {key: leaf for mention in own for key, leaf in mention.beside.items()}
    telling = {
        key: leaf for key, leaf in beside.items() if key not in others and not is_small(leaf)
    }
    called = name if kin else own[-1].name
    is_key = identifies(name, value, keys) or any(
        identifies(mention.name, value, keys) for mention in own
    )
    return Referent(
        called,
        nouns_of([name, noun]),
        noun,
        is_key,
        not is_key and is_amount(name, value, keys),
        own,
        rival,
        former,
        telling,
        latest,
    )


def outlives(value: Any, rival: Any, met: Sequence[Mention]) -> bool:
    """Whether `value` was met in a later turn than `rival`, under whatever name."""
    last = {key_of(mention.value): mention.turn for mention in met}
    return not is_small(value) and last[key_of(value)] > last.get(key_of(rival), -1)


def singled(
    text: str, value: Any, wanted: Set[Any], argument: str, met: Sequence[Mention], known: Set[Any]
) -> bool:
    """Whether `text` names `value` by a kind of which the conversation has no other one: "the copy
    of the script", where only one call made a copy, whatever the argument is called; and "my new
    card" or "the card I've just registered", where the others are `known` from the start."""
    own = {one.name for one in met if key_of(one.value) in wanted}
    for phrase in NAMES.finditer(text):
        noun = stem(phrase[2])
        if names := {name for name in own if noun in nouns_of([name])}:
            alike = {key_of(one.value) for one in met if one.name in names} - wanted
            lone = not alike and noun not in nouns_of([argument])
            newly = phrase[1] or NEWLY.match(text, phrase.end())
            if lone or (newly and alike <= known and key_of(value) not in known):
                return True
    return False


def referents(environment: Environment, task: Task, results: Results) -> Reasons:
    """The arguments that their turn does not determine; empty when there are none. `results`: of
    the ground truth."""
    tools = environment.tools()
    catalogue = lexicon(environment).catalogue
    readings = None if catalogue is None else read(catalogue, environment, task, results)
    reasons = Reasons()
    met = list[Mention]()
    keys = keys_of(task.state)
    known = keys_in(task.state or {}, keys=True)
    named = set[str]()
    for turn, calls in enumerate(task.calls):
        request = Text.of(asked(task, turn))
        understood = readings is not None and readings[turn]
        words = set(stems(request.folded))
        for index, call in enumerate(calls):
            parameters = tools[call.name].by_name
            named |= nouns_of(call.arguments)
            for name, argument in call.arguments.items():
                parameter = parameters.get(name)
                if parameter is not None and (
                    parameter.default == argument or argument in documented(parameter)
                ):
                    continue
                wanted = keys_in(argument)
                beside = [leaf for leaf in values_in(call.arguments) if key_of(leaf) not in wanted]
                elsewhere = [
                    leaf
                    for other in calls
                    if other is not call
                    for leaf in values_in(other.arguments)
                    if not is_small(leaf)
                ]
                for value in values_in(argument):
                    if request.covers(value) or (
                        isinstance(value, str) and len(list(stems(value))) >= LONG
                    ):
                        continue
                    # rules know the words of rules
                    if not understood and singled(request.folded, value, wanted, name, met, known):
                        continue
                    meant = referent(name, value, wanted, met, keys, noun_of(parameter))
                    if meant is not None and (
                        why := meant.fault(request, turn, named, beside, elsewhere, understood)
                    ):
                        text = f"{call.name}: {name}={value!r}: {why}"
                        if meant.words and not meant.amount:
                            text += f' ("{meant.words}" would)'
                        pairs = [
                            (value, one.value)
                            for one in met
                            if one.turn < turn
                            and why == f"{one.value!r} {AS_WELL}"
                            and not outlives(value, one.value, met)
                            and not words & {*stems(str(value))} - {*stems(str(one.value))}
                        ]
                        doubt = not pairs or bool(CHOOSES.search(request.folded))
                        reasons.append(Reason(text, turn, index, doubt, *pairs[:1]))
            met += mentions(turn, call, results[turn][index])
            named |= nouns_of(mention.name for mention in met)
            keys |= keys_of(value_of(results[turn][index]))
    return reasons


def _refers(text: Text, nouns: Set[str], others: Set[str] | None) -> bool | None:
    """Whether the last phrase with one of `nouns` is definite ("the flight", "all her points") or
    not ("a flight"); None where there is none. A pronoun refers too, unless a noun of `others`
    stands behind it without an article, or before it as something new ("a bike and its
    …"), or they are None."""
    words = WORD.findall(THAT.sub("those", text.folded))
    refers = None
    new = False
    for place, word in enumerate(words):
        points = word in POINTS
        behind = set(map(stem, words[place + 1 : place + 1 + NEAR]))
        if points and not {"the", *INDEFINITE}.isdisjoint(words[place + 1 : place + 2]):
            behind = set[str]()  # "send them the bill"
        named = not behind.isdisjoint(nouns)
        definite = named and (word in DEFINITE or word.endswith(POSSESSIVE))
        new |= (
            others is not None
            and word in INDEFINITE
            and not named
            and not behind.isdisjoint(others)
        )
        if definite or (
            points and (named or (others is not None and not new and behind.isdisjoint(others)))
        ):
            refers = True
        elif named and word in INDEFINITE:
            refers = False
    return refers
