"""What a text of feedback may hold: nothing that any ground truth holds and nobody showed, in whatever spelling.

Leaks come in more disguises than can be listed, so it is not disguises that are looked for: a text may be made of
nothing but plain English words without a value among them (plain_words.txt, in any form of the word), the words of the
documents of the failing tool and of the tool that its remedy names, those of the refusal itself, and names of the
environment's tools and parameters. That leaves no room for numbers, dates, identifiers, foreign letters or
abbreviations that were not documented. What is left are values that are words themselves: no text may tell a value of a
ground truth that those documents and the refusal do not tell, neither whole nor with other endings, signs or words
among its own, nor spell one by first or last letters or capitals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rods.analysis.says import WORD, Text, is_small, key_of, leaves, stem
from rods.environments.base import Environment, Tool
from rods.interfaces.approved import tools_named
from rods.tasks import AnyTask

LONGEST, SHORTEST = 300, 20  # characters of a text
NAMED = 2  # tools that a text may name, the failing one included
APART = 3  # so many other words may stand among those of a value, which tell it all the same
INITIALS, CAPITALS = 4, 3  # letters of a value that first or last letters, and that capitals may not spell
# A judge's four verdicts, and what each of them is of a text that may be shown (000 Appendix C.2).
VERDICTS = {"solution_leakage": False, "exploration_constraint": False, "actionability": True, "hint_quality": True}
_FORM = re.compile(r"[A-Za-z0-9 .,;:'\"`?!_/-]*")
_RUNS = re.compile(r"[.,;:'\"?!/-]{2,}|_{2,}|(?<=[\w]) (?=[.,;:?!])")
_TOKEN = re.compile(r"[A-Za-z0-9_]+")
_LETTERS = re.compile(r"[^\W_]")
_ENDS = re.compile(r"[.!?]")


class GroundTruthValues:
    """The values of the arguments of every ground truth and check among `tasks`, held-out ones included."""

    def __init__(self, tasks: Iterable[AnyTask]) -> None:
        found: dict[Any, str] = {}
        for task in tasks:
            for call in task.goal_calls:
                for _, leaf in leaves(dict(call.arguments)):
                    if isinstance(leaf, str) and leaf.strip() and not _ordinary(leaf):
                        found.setdefault(key_of(leaf), leaf)
        self._values = [(value, Counter(map(stem, WORD.findall(value)))) for value in found.values()]
        short = {_compact(value) for value in found.values()}
        self._spelled = {one for one in short if len(one) >= CAPITALS and one.isalpha()}

    def told(self, text: str, shown: Sequence[str]) -> list[str]:
        """The words of `text` that tell values which none of `shown` tells: whole, in another form, or word by word,
        close together in whatever order and with whatever endings."""
        said, words, found = Text.of(text), list(WORD.finditer(text)), []
        stemmed = [stem(word[0]) for word in words]
        known = [(Text.of(part), [stem(word) for word in WORD.findall(part)]) for part in shown]
        for value, parts in self._values:
            place = _together(parts, stemmed, APART)
            if place is None and not said.tells(value):
                continue
            if not any(one.tells(value) or _together(parts, there, 0) for one, there in known):
                found.append(text[words[place[0]].start() : words[place[1]].end()] if place else "something")
        return found

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
    documents = [_document(one) for one in tools]
    shown = [*documents, re.sub(r"\{\w+\}|<\w+>", " ", pattern)]
    names = _names(environment)
    allowed = plain_words() | {stem(word) for part in shown for word in WORD.findall(part)}
    exact = names | {token for part in shown for token in _TOKEN.findall(part)}
    odd = list(dict.fromkeys(token for token in _TOKEN.findall(text) if not _admitted(token, exact, allowed)))
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


def _admitted(token: str, exact: frozenset[str], allowed: frozenset[str] | set[str]) -> bool:
    if token in exact:
        return True
    if not token.isalpha() or (len(token) == 1 and token not in ("a", "A")):
        return False
    return token in ("a", "A") or (token[1:].islower() and stem(token) in allowed)


def _names(environment: Environment) -> frozenset[str]:
    """The names of the environment's tools and of their parameters."""
    tools = environment.tools().values()
    return frozenset(tool.name for tool in tools) | {name for tool in tools for name in tool.parameter_names}


def _document(tool: Tool) -> str:
    """All that the document of `tool` says."""
    schema = tool.schema()
    said = [str(leaf) for _, leaf in leaves(schema, keys=True) if not isinstance(leaf, bool) and leaf is not None]
    return "\n".join(said)


def _ordinary(value: str) -> bool:
    """Whether finding the value proves nothing: it is too short, or a word without which no sentence can be made."""
    return is_small(value) or value.casefold() in ("and", "the", "not", "for", "with")


def _together(parts: Counter[str], stemmed: Sequence[str], apart: int) -> tuple[int, int] | None:
    """The first and the last of successive words that hold all of `parts` and at most `apart` others; None where there
    are none."""
    if not parts or not parts.keys() <= set(stemmed):
        return None
    for first, one in enumerate(stemmed):
        if one in parts:
            for end in range(first + parts.total(), first + parts.total() + apart + 1):
                if parts <= Counter(stemmed[first:end]):
                    return first, min(end, len(stemmed)) - 1
    return None


def _compact(value: str) -> str:
    return "".join(_LETTERS.findall(value)).casefold()
