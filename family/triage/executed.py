"""What is wrong with a task whatever a policy does, found by executing its ground truth: whether it
runs and earns what the task is judged by, and which of its values nobody says and no tool shows.

The gate of grounding holds variants to words from which every value follows. Tasks of people leave
more to a reader: a name for a symbol, a sum, a unit, a sentence of one's own. `unsaid` has all that
the gate is sure not to find, `certain` only what no reader comes to by himself."""

import itertools
import re

from rods import dialects
from rods.analysis.containment import Text, stems, values_in
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import tried_after, visible
from rods.canonical import Texts, frozen
from rods.environments.base import Environment, Results
from rods.episode.drivers import Job, ground_truth
from rods.episode.engine import MAX_STEPS
from rods.errors import InfrastructureError
from rods.faults import Reason
from rods.gates.ground_truth import replayed, tools
from rods.gates.values import AS_WELL, grounding, referents
from rods.players import Players
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
    r"|divid\w*|calculat\w*|comput\w*|later|earlier|sooner|fewer|longer|shorter|higher|lower"
    r"|twice|doubled?|triple|remain\w*|difference|(?:more|less|further) than|all (?:of|the|my))\b"
)


@frozen
class Executed:
    """What the execution of a task's ground truth shows. `results` are there where all of it ran.
    `broken`: why it does not hold; `lost`: that world or players broke, so that nothing is known;
    `unsaid`: the values that neither words nor tools give, of which `certain` follow from nothing;
    `ambiguous`: those beside which another one fits the words as well."""

    results: Results | None = None
    broken: Texts = ()
    lost: str = ""
    unsaid: Texts = ()
    certain: Texts = ()
    ambiguous: tuple[Reason, ...] = ()


def execute(players: Players, task: Task) -> Executed:
    """Executes the ground truth of `task`, alone and as an episode. Raises UserError where nobody
    plays it."""
    environment = players.environments.load(task.environment.name)
    try:
        results, reasons = replayed(environment, task)
        if reasons := [*tools(environment, task), *reasons]:
            return Executed(broken=tuple(map(str, reasons)))
        assert results is not None
        job = players.job(task, dialects.load("hermes"), max_steps=MAX_STEPS)
        if short := _short(job):
            return Executed(results, (short,))
    except InfrastructureError as error:
        return Executed(lost=str(error))
    unsaid = grounding(environment, task, results)
    certain = [reason for reason in unsaid if not _derived(environment, task, results, reason)]
    ambiguous = (
        reason
        for reason in referents(environment, task, results)
        if not reason.doubt and AS_WELL in reason.text
    )
    return Executed(
        results,
        unsaid=tuple(str(reason) for reason in unsaid if not reason.doubt or reason in certain),
        certain=tuple(map(str, certain)),
        ambiguous=tuple(ambiguous),
    )


def _short(job: Job) -> str:
    """What the ground truth's own episode lacks; empty where it earns everything. Raises
    InfrastructureError."""
    episode = ground_truth(job)
    try:
        while True:
            next(episode)
    except StopIteration as stop:
        trace = stop.value
    if trace.end == "infrastructure":
        raise InfrastructureError("the world broke while the ground truth was played")
    return (
        ""
        if trace.binary
        else f"its own ground truth resolves {trace.resolved} of {trace.expected} turns"
    )


def _derived(environment: Environment, task: Task, results: Results, reason: Reason) -> bool:
    """Whether a reader comes by himself to the value that a reason of `grounding` names."""
    turn = reason.turn
    index = reason.call
    assert turn is not None and index is not None
    call = task.calls[turn][index]
    before = [*itertools.chain(*task.calls[:turn]), *task.calls[turn][:index]]
    said = task.script[: turn + 1]
    seen = [*itertools.chain(*results[:turn]), *results[turn][:index]]
    heard = Text.of(" | ".join([*said, *(result.text for result in seen)]))
    offered = visible(environment, task, turn)
    documents = Text.of(
        " | ".join(
            f"{parameter.description} {parameter.schema.get('enum')}"
            for tool in offered
            for parameter in tool.parameters
        )
    )
    computed = COMPUTES.search(Text.of(asked(task, turn)).folded)
    names = [("", word) for word in NAMES.findall(task.script[turn])]

    def follows(name: str, leaf: object) -> bool:
        if isinstance(leaf, int | float):
            return bool(computed) or leaf % 1 != 0 or heard.covers(leaf) or heard.converts(leaf)
        return _told(str(leaf), heard, documents) or (
            environment.features.fork
            and any(
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
