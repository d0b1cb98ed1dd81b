"""Who plays a persona's user: a function of the persona and of what was said so far.

The procedural user needs no model. It answers what it is asked, one text for all topics of a question; asked nothing,
it makes its next request, and ends the conversation when it has no more: it is satisfied with any answer. What its
intent hides it never says unasked.
"""

from __future__ import annotations

from collections.abc import Callable

from rods.analysis.containment import Text, stems
from rods.conversations import Persona, UserText
from rods.episode.engine import Exchange

# The persona and what was said so far → the user's next text; empty where it ends the conversation. May raise
# InfrastructureError, which ends the episode and never counts as the policy's failure.
User = Callable[[Persona, Exchange], UserText | str]
NOTHING_TO_ADD = "I have nothing to add to that."  # to a question about nothing that it knows
SAID_ALREADY = "As I said:"
SHORT = 4  # characters below which a text is no sign that something was told: a number, yes, no


def procedural_user(persona: Persona, said: Exchange) -> str:
    """What a user without a model says next. A topic is named by a text that has all words of it, in whatever form."""
    answer = said[-1][1]
    if "?" not in answer:
        made = {text for text, _ in said}
        return next((text for text in persona.further if text not in made), "")
    if not (topics := named(persona, answer)):
        return NOTHING_TO_ADD
    texts = " ".join(persona.knows[topic] for topic in topics)
    return f"{SAID_ALREADY} {texts}" if any(texts in text for text, _ in said) else texts


def named(persona: Persona, text: str) -> list[str]:
    """The topics that the user knows about and `text` names."""
    heard = frozenset(stems(text))
    return [topic for topic in persona.knows if (words := frozenset(stems(topic))) and words <= heard]


def told_unasked(persona: Persona, said: Exchange, text: str) -> list[str]:
    """The topics whose words `text` tells although they were left out so far and nobody asks for them; what belongs to
    a further request is not left out. A question that names no topic, in whatever words it is put, may be about any."""
    answer, told = said[-1][1], Text.of(text)
    asked = named(persona, answer)
    if "?" in answer and not asked:
        return []
    known = Text.of(" | ".join([*(text for text, _ in said), *persona.further]))
    return [
        topic
        for topic, words in persona.knows.items()
        if len(words) >= SHORT
        and told.contains_any_form(words)
        and not known.contains_any_form(words)
        and not ("?" in answer and topic in asked)
    ]
