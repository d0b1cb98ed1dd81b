"""No text of a user names a function or a parameter, or holds artefacts of generation: JSON, tags,
a pipeline's words.

Names of tools that are plain words ("sort") may be said, but not as a name ("use sort"): those that
an environment's catalogue lists as `ordinary`; without a catalogue, those of letters alone. Of
parameters only those count that no user would type (`order_id`). What a call has as a value may be
said whatever it looks like."""

import re
from collections.abc import Iterator, Set

from rods.composing.lexicon import lexicon
from rods.conversations import Persona
from rods.environments.base import Environment
from rods.gates.records import Reason
from rods.tasks import RETURN_SENTENCE, AnyTask, OpenTask

ARTEFACTS = re.compile(
    r"thought process|construct query|step \d+:|ground truth|tool call|function call|api "
    r"call|<\w+>|```|[{}\[\]\\|<>]",
    re.IGNORECASE,
)


def leaks(environment: Environment, task: AnyTask) -> list[Reason]:
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
