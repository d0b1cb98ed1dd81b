"""Which words ask for which tool, from an environment's tools and phrase book.

A tool is asked for with the words of its name, of its document, and, where the environment has a phrase book
(`Environment.catalogue`), with those of the phrases whose recipes call it. A word that many tools share says little.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from rods.analysis.says import stems
from rods.composing.catalogue import Catalogue
from rods.environments.base import Environment, kept

NAME, DOCUMENT, PHRASES = 3.0, 1.0, 3.0  # how much a word counts by where it comes from


class Lexicon:
    """`weight[tool][stem]`: how strongly the word asks for the tool; 0 where it stands nowhere. `catalogue`: the
    environment's own, with the phrase book, if it has one."""

    def __init__(self, environment: Environment) -> None:
        supply = getattr(environment, "catalogue", None)
        found = supply() if callable(supply) else None
        self.catalogue = found if isinstance(found, Catalogue) else None
        tools = environment.tools()
        strength: dict[str, dict[str, float]] = {name: {} for name in tools}
        for name, tool in tools.items():
            document = f"{tool.description} {' '.join(each.description for each in tool.parameters)}"
            for source, amount in ((document, DOCUMENT), (name, NAME)):
                for word in stems(source):
                    strength[name][word] = max(amount, strength[name].get(word, 0.0))
        for name, words in _phrases(self.catalogue).items():
            if name in strength:
                for word, share in words.items():
                    strength[name][word] = max(PHRASES * share, strength[name].get(word, 0.0))
        owners = Counter(word for words in strength.values() for word in words)
        rarity = {word: math.log(len(tools) / count) / math.log(max(2, len(tools))) for word, count in owners.items()}
        self.weight: dict[str, dict[str, float]] = {
            name: {word: amount * rarity[word] for word, amount in words.items()} for name, words in strength.items()
        }

    def asks(self, words: Iterable[str], called: Iterable[str]) -> dict[str, float]:
        """How strongly `words` ask for each of the `called` tools, when each word counts for whichever of them it
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


def _phrases(catalogue: Catalogue | None) -> dict[str, dict[str, float]]:
    """For each tool, the words of the phrases that lead to it, by the share of the recipe's phrases that hold them."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for recipe in catalogue.recipes.values() if catalogue is not None else ():
        counts = Counter(word for phrase in recipe.phrases for word in set(stems(re.sub(r"\{\w*\}", " ", phrase))))
        for tool in set(recipe.tools):
            for word, count in counts.items():
                share = count / len(recipe.phrases) / len(set(recipe.tools))
                found[tool][word] = max(share, found[tool].get(word, 0.0))
    return found


lexicon = kept(Lexicon)  # of an environment
