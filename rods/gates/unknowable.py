"""Which values no reader of a conversation comes to by himself.

The gate of grounding holds variants to words from which every value follows. Tasks of people leave
more to a reader: a name for a symbol, a sum, a unit, a sentence of one's own. Of what that gate
does not find, `unknowable` keeps what follows from nothing."""

import itertools
import re

from rods.analysis.containment import Text, key_of, keys_in, stems, values_in
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import tried_after, visible, world_before
from rods.environments.base import Environment, Results
from rods.faults import Reason, Reasons
from rods.tasks import Task, asked

# a symbol or a currency, what has no letter, a date or a time
KNOWN = re.compile(r"[A-Z]{2,5}|\W*|\d{1,4}[-/:.]\d{1,2}(?:[-/:.T ].*)?")
PUNCTUATION = re.compile(r"[\W_]+")
PARTS = re.compile(r"[A-Za-z]+|\d+")
NAMES = re.compile(r"\b[A-Z]\w+")
# a number is computed, or is all that there is
COMPUTES = re.compile(
    r"\b(?:mean|median|deviation|average|per ?cent\w*|round\w*|convert\w*|estimat\w*|enough"
    r"|min\w*|max\w*|suffic\w*|full\w*|fill\w*|fuel|entire\w*|times|equal\w*|half|multipl\w*"
    r"|divid\w*|calculat\w*|comput\w*|later|earlier|sooner|fewer|longer|shorter|high(?:er|est)"
    r"|low(?:er|est)|twice|doubled?|triple|remain\w*|difference|(?:more|less|further) than"
    r"|all (?:of|the|my))\b"
)


def unknowable(environment: Environment, task: Task, results: Results, unsaid: Reasons) -> Reasons:
    """Those of `unsaid`, the reasons of `grounding`, whose values no reader comes to by himself.
    None where worlds cannot be forked and read: what their tools would show is not known."""
    features = environment.features
    if not (features.fork and features.snapshot):
        return []
    return [reason for reason in unsaid if not _derived(environment, task, results, reason)]


def _derived(environment: Environment, task: Task, results: Results, reason: Reason) -> bool:
    """Whether a reader comes by himself to the value that a reason of `grounding` names."""
    turn = reason.turn
    index = reason.call
    assert turn is not None and index is not None
    call = task.calls[turn][index]
    before = [*itertools.chain(*task.calls[:turn]), *task.calls[turn][:index]]
    seen = [*itertools.chain(*results[:turn]), *results[turn][:index]]
    heard = Text.of(
        " | ".join([task.system, *task.script[: turn + 1], *(result.text for result in seen)])
    )
    offered = visible(environment, task, turn)
    documents = Text.of(
        " | ".join(
            f"{parameter.description} {parameter.schema.get('enum')}"
            for tool in offered
            for parameter in tool.parameters
        )
    )
    computed = COMPUTES.search(Text.of(f"{task.system} {asked(task, turn)}").folded)
    # of what the world began with a tool may show, or have shown, more than was tried
    held = keys_in(world_before(environment, task, 0).snapshot(), keys=True)
    names = [("", word) for word in NAMES.findall(task.script[turn])]

    def follows(name: str, leaf: object) -> bool:
        if isinstance(leaf, int | float):
            return bool(computed) or leaf % 1 != 0 or heard.covers(leaf) or heard.converts(leaf)
        return (
            _told(str(leaf), heard, documents)
            or key_of(leaf) in held
            or any(
                Output((turn, index), tried.call, tried.result).has(name, leaf)
                for tried in tried_after(environment, task.state, before, (), offered, names)
            )
        )

    return all(
        follows(name, leaf)
        for name, value in call.arguments.items()
        if f" {name}={value!r}," in reason.text
        for leaf in values_in(value)
    )


def _told(text: str, heard: Text, documents: Text) -> bool:
    """Whether `text` is known anyway, is listed, has a word of what was said or shown, or is put
    together from it."""
    parts = PARTS.findall(text)
    return (
        KNOWN.fullmatch(text) is not None
        or documents.contains_exact(text)
        or PUNCTUATION.sub("", text).casefold() in PUNCTUATION.sub("", heard.folded)
        or not set(stems(text)).isdisjoint(stems(heard.folded))
        or (len(parts) > 1 and all(map(heard.contains_any_form, parts)))
    )
