"""Which values no reader of a conversation comes to by himself.

The gate of grounding holds variants to words from which every value follows. Tasks of people leave
more to a reader: a name for a symbol, a sum, a unit, a sentence of one's own. Of what that gate
does not find, `unknowable` keeps what follows from nothing."""

import itertools
import re

from rods.analysis.containment import Text, key_of, keys_in, stems, values_in
from rods.analysis.plausible_calls import shows, visible
from rods.environments.base import Environment, Results
from rods.faults import Reason, Reasons
from rods.tasks import Task, asked

# a symbol or a currency, what has no letter, a date or a time
KNOWN = re.compile(r"[A-Z]{2,5}|\W*|\d{1,4}[-/:.]\d{1,2}(?:[-/:.T ].*)?")
GROUPED = re.compile(r"(?<=\d)[.,'’ ](?=\d{3}(?!\d))")  # thousands, in any language
PUNCTUATION = re.compile(r"[\W_]+")
PARTS = re.compile(r"[^\W\d_]+|\d+")
NAMES = re.compile(r"\b[A-Z]\w+")
# a number is computed, or is all that there is
COMPUTES = re.compile(
    r"\b(?:mean|median|deviation|average|per ?cent\w*|round\w*|convert\w*|estimat\w*|enough"
    r"|min\w*|max\w*|suffic\w*|full\w*|fill\w*|fuel|entire\w*|times|equal\w*|half|multipl\w*"
    r"|divid\w*|calculat\w*|comput\w*|later|earlier|sooner|fewer|longer|shorter|high(?:er|est)"
    r"|low(?:er|est)|twice|doubled?|triple|remain\w*|difference|(?:more|less|further) than"
    r"|all (?:of|the|my)|quarters?|thirds?|an hour|a (?:day|week|month|year)|(?:sum|total) of"
    r"|(?:al|all )together|as (?:many|much)|how many)\b"
)
# a text is made from another, or in another language
COMPOSED = re.compile(
    r"\b(?:translat\w*|initials?|acronym|abbreviat\w*|rhym\w*|revers\w*|backwards?"
    r"|in (?:english|french|german|spanish|italian|portuguese|dutch|polish|russian|ukrainian"
    r"|turkish|arabic|hindi|chinese|mandarin|japanese|korean|latin))\b"
)


def unknowable(environment: Environment, task: Task, results: Results, unsaid: Reasons) -> Reasons:
    """Those of `unsaid`, the reasons of `grounding`, whose values no reader comes to by himself.
    None where worlds cannot be forked and read: what their tools would show is not known."""
    features = environment.features
    if not (features.fork and features.snapshot):
        return []
    return [reason for reason in unsaid if not _derived(environment, task, results, reason)]


def _derived(environment: Environment, task: Task, results: Results, reason: Reason) -> bool:
    """Whether a reader comes by himself to the value that a reason of `grounding` names: a number
    by a sum, a difference, a product, a part or a percentage of one that is asked with."""
    turn = reason.turn or 0
    index = reason.call or 0
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
    request = Text.of(f"{task.system} {asked(task, turn)}")

    def follows(name: str, leaf: object) -> bool:
        if isinstance(leaf, int | float):
            return any(
                (
                    COMPUTES.search(request.folded),
                    leaf % 1,
                    heard.covers(leaf),
                    heard.converts(leaf),
                    re.search(rf"\b{leaf}\b", GROUPED.sub("", heard.folded), re.ASCII),
                    *(
                        leaf in (a + b, a - b, b - a, a * b, a * b / 100) or leaf * a == b != 0
                        for a, b in itertools.product(request.numbers, heard.numbers)
                    ),
                )
            )
        text = str(leaf)
        return any(
            (
                KNOWN.fullmatch(text),
                COMPOSED.search(request.folded),
                documents.contains_exact(text),
                PUNCTUATION.sub("", text).casefold() in PUNCTUATION.sub("", heard.folded),
                not set(stems(text)).isdisjoint(stems(heard.folded)),
                all(map(heard.contains_any_form, PARTS.findall(text))),
                # of what the world began with a tool may show, or have shown, more than was tried
                key_of(leaf) in keys_in(environment.reset(task.state).snapshot(), keys=True),
            )
        ) or shows(
            environment,
            task.state,
            before,
            (),
            offered,
            name,
            leaf,
            (("", word) for word in NAMES.findall(task.script[turn])),
        )

    return all(
        follows(name, leaf)
        for name, value in task.calls[turn][index].arguments.items()
        if f" {name}={value!r}," in reason.text
        for leaf in values_in(value)
    )
