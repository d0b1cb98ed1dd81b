"""Who plays a persona's user: a function of the persona and of what was said so far.

The procedural user needs no model. It answers what it is asked, one text for all topics of a
question; asked nothing, it makes its next request, and ends the conversation when it has no more:
it is satisfied with any answer. What its intent hides it never says unasked."""

from collections.abc import Callable

from rods.analysis.containment import stems
from rods.conversations import Persona
from rods.episode.engine import Exchange

# The persona and what was said so far → the user's next text; empty where it ends the conversation.
# May raise InfrastructureError, which ends the episode and never counts as the policy's failure.
User = Callable[[Persona, Exchange], str]
NOTHING_TO_ADD = "I have nothing to add to that."  # to a question about nothing that it knows
SAID_ALREADY = "As I said:"


def procedural_user(persona: Persona, exchange: Exchange) -> str:
    """What a user without a model says next. A topic is named by a text that has all words of it,
    in whatever form."""
    answer = exchange[-1][1]
    if "?" not in answer:
        earlier = {text for text, _ in exchange}
        return next((text for text in persona.further if text not in earlier), "")
    if not (topics := named(persona, answer)):
        return NOTHING_TO_ADD
    texts = " ".join(persona.knows[topic] for topic in topics)
    return f"{SAID_ALREADY} {texts}" if any(texts in text for text, _ in exchange) else texts


def named(persona: Persona, text: str) -> list[str]:
    """The topics that the user knows about and `text` names."""
    heard = frozenset(stems(text))
    return [
        topic for topic in persona.knows if (words := frozenset(stems(topic))) and words <= heard
    ]
