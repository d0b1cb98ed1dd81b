"""Which words of a text ask for which tool."""

import math
import re
from collections import Counter
from collections.abc import Iterable

from rods.analysis.containment import WORDS, stems
from rods.composing.catalogue import known_catalogue
from rods.environments.base import Environment, kept

# what stands between clauses
CLAUSE = re.compile(r"[.;:?!,]|\b(?:and|then|afterwards|before|after)\b")
# how much a word counts by where it comes from
NAME = 3.0
DOCUMENT = 1.0
PHRASES = 3.0
# words that leave a choice to whoever serves a request; what is quoted asks for nothing
DELEGATING = re.compile("|".join(WORDS["delegating"]["patterns"]), re.IGNORECASE)
QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|“[^”]*”")
SEEKING = re.compile(r"\b(?:check|find|go|look|open|search|switch)\b", re.IGNORECASE)
# of a lexicon's weight, and of what the clause gives to the tool that it means most
SOUGHT = 0.5
SHARE = 0.4


def runs_on(entry: object) -> bool:
    """Whether nothing shows where an entry of a list ends among others in a sentence: it has
    several words, and is no name."""
    return re.search(r"\S\s+[a-z]|^[a-z]\S*\s", str(entry)) is not None


class Lexicon:
    """Which words ask for which tool: those of its name, of its document, and of the phrases whose
    recipes call it. A word that many tools share says little. `weight[tool][stem]`: how strongly
    the word asks for the tool; 0 where it stands nowhere. `catalogue`: the environment's own, with
    the phrase book, if it has one."""

    def __init__(self, environment: Environment) -> None:
        self.catalogue = known_catalogue(environment)
        tools = environment.tools()
        strength: dict[str, dict[str, float]] = {name: {} for name in tools}

        def strengthen(name: str, word: str, amount: float) -> None:
            strength[name][word] = max(amount, strength[name].get(word, 0.0))

        for name, tool in tools.items():
            for word in stems(
                " ".join(
                    [tool.description, *(parameter.description for parameter in tool.parameters)]
                )
            ):
                strengthen(name, word, DOCUMENT)
            for word in stems(name):
                strengthen(name, word, NAME)
        for recipe in self.catalogue.recipes.values() if self.catalogue is not None else ():
            # by the share of the recipe's phrases that hold the word
            counts = Counter(
                word
                for phrase in recipe.phrases
                for word in set(stems(re.sub(r"\{\w*\}", " ", phrase)))
            )
            for name in tools.keys() & set(recipe.tools):
                for word, count in counts.items():
                    strengthen(
                        name, word, PHRASES * (count / len(recipe.phrases) / len(set(recipe.tools)))
                    )
        owners = Counter(word for words in strength.values() for word in words)
        rarity = {
            word: math.log(len(tools) / count) / math.log(max(2, len(tools)))
            for word, count in owners.items()
        }
        self.weight: dict[str, dict[str, float]] = {
            name: {word: amount * rarity[word] for word, amount in words.items()}
            for name, words in strength.items()
        }

    def asks(self, words: Iterable[str], called: Iterable[str]) -> dict[str, float]:
        """How strongly `words` ask for each of the `called` tools; a word counts for those that it
        means most."""
        names = list(dict.fromkeys(called))
        score = dict.fromkeys(names, 0.0)
        for word in set(words):
            amounts = [self.weight[name].get(word, 0.0) for name in names]
            best = max(amounts, default=0.0)
            for name, amount in zip(names, amounts, strict=True):
                if best and amount >= 0.6 * best:
                    score[name] += amount
        return score


lexicon = kept(Lexicon)  # of an environment


def sought(environment: Environment, text: str, called: Iterable[str]) -> frozenset[str]:
    """Those of the `called` tools by which `text` tells to look, or to go somewhere, in a clause of
    its own that means them: "look it up first", "go to the drafts folder"."""
    names = [*called]
    book = lexicon(environment)
    scores = (
        book.asks(stems(clause), names) for clause in CLAUSE.split(text) if SEEKING.search(clause)
    )
    return frozenset(
        name for by in scores for name in names if by[name] >= max(SOUGHT, SHARE * max(by.values()))
    )


def delegates(text: str) -> bool:
    """Whether a request leaves a choice to whoever serves it: "call it something suitable"."""
    return DELEGATING.search(QUOTED.sub(" ", text)) is not None
