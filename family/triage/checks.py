"""What is wrong with a task whatever a policy does, found by executing its ground truth: whether it
runs and earns what the task is judged by, and which of its values nobody says and no tool shows.

The gate of grounding holds variants to words from which every value follows. Tasks of people leave
more to a reader: a name for a symbol, a sum, a unit, a sentence of one's own. `unsaid` has all that
the gate does not find, `certain` only what no reader comes to by himself."""

import itertools
import re
from typing import Any

from rods import dialects
from rods.analysis.containment import Text, stems, values_in
from rods.analysis.flows import Output
from rods.analysis.plausible_calls import (
    SHOWN,
    KnownValues,
    attempts,
    plausible,
    tried_after,
    visible,
    world_before,
)
from rods.canonical import Texts, frozen
from rods.environments.base import Environment, Results
from rods.episode.drivers import Job, ground_truth
from rods.episode.engine import MAX_STEPS
from rods.errors import InfrastructureError
from rods.faults import Reason
from rods.gates.ground_truth import replayed, tools
from rods.gates.values import AS_WELL, RELATIVE, grounding, referents
from rods.players import Players
from rods.tasks import Task, asked

# what is derived from what was said or is known anyway: a symbol or a currency, a date or a time, a
# path
CODE = re.compile(r"[A-Z]{2,5}|\W*")
DATE = re.compile(r"\d{1,4}[-/:.]\d{1,2}([-/:.T ].*)?")
SQUEEZED = re.compile(r"[\W_]+")
PARTS = re.compile(r"[A-Za-z]+|\d+")
NAMES = re.compile(r"\b[A-Z]\w+")
# words of a request by which a number is computed from any others, and by which it is what one
# calculation makes of two
ANYHOW = re.compile(
    r"\b(?:mean|median|deviation|average|per ?cent\w*|round\w*|convert\w*|estimat\w*|minim\w*"
    r"|maxim\w*|enough|suffic\w*)\b"
)
COMPUTES = re.compile(
    RELATIVE.pattern + r"|\b(?:full\w*|fill\w*|fuel|top|entire\w*|complete\w*|times|equal\w*"
    r"|multipl\w*|divid\w*|calculat\w*|comput\w*)\b"
)
MOST_NUMBERS = 60


@frozen
class Executed:
    """What the execution of a task's ground truth shows. `results` are there where all of it ran.
    `broken`: why it does not hold; `lost`: that world or players broke, so that nothing is known;
    `unsaid`: the values that neither words nor tools give, of which `certain` follow from nothing;
    `ambiguous`: those beside which another one fits the words as well."""

    results: Results | None
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
            return Executed(None, tuple(map(str, reasons)))
        assert results is not None
        job = players.job(task, dialects.load("hermes"), max_steps=MAX_STEPS)
        if short := _short(job):
            return Executed(results, (short,))
        unsaid = grounding(environment, task, results)
        certain = [reason for reason in unsaid if not _derived(environment, task, results, reason)]
        unsaid = [reason for reason in unsaid if not reason.doubt or reason in certain]
        ambiguous = [
            reason
            for reason in referents(environment, task, results)
            if not reason.doubt and AS_WELL in reason.text
        ]
        return Executed(
            results,
            unsaid=tuple(map(str, unsaid)),
            certain=tuple(map(str, certain)),
            ambiguous=tuple(ambiguous),
        )
    except InfrastructureError as error:
        return Executed(None, lost=str(error))


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
    if trace.binary:
        return ""
    return f"its own ground truth resolves {trace.resolved} of {trace.expected} turns"


def _derived(environment: Environment, task: Task, results: Results, reason: Reason) -> bool:
    """Whether a reader comes by himself to the value that a reason of `grounding` names."""
    turn = reason.turn
    index = reason.call
    assert turn is not None and index is not None
    call = task.calls[turn][index]
    said = task.script[: turn + 1]
    seen = [*itertools.chain(*results[:turn]), *results[turn][:index]]
    heard = Text.of(" | ".join([*said, *(result.text for result in seen)]))
    documents = Text.of(
        " | ".join(
            f"{parameter.description} | {parameter.schema.get('enum', '')}"
            for tool in visible(environment, task, turn)
            for parameter in tool.parameters
        )
    )
    return all(
        heard.covers(leaf)
        or (
            isinstance(leaf, int | float) and _computed(environment, task, turn, index, leaf, heard)
        )
        or (isinstance(leaf, str) and (documents.contains_exact(leaf) or _follows(leaf, heard)))
        or _looked_up(environment, task, turn, index, name, leaf)
        for name, value in call.arguments.items()
        if f" {name}={value!r}," in reason.text
        for leaf in values_in(value)
    )


def _computed(
    environment: Environment, task: Task, turn: int, index: int, value: float, heard: Text
) -> bool:
    """Whether the request has `value` computed, from what was said or shown, what documents say,
    or what tools show."""
    request = asked(task, turn)
    folded = Text.of(request).folded
    if value % 1 != 0 or ANYHOW.search(folded) or heard.converts(value):
        return True
    if not COMPUTES.search(folded):
        return False
    offered = visible(environment, task, turn)
    numbers = set(heard.numbers)
    numbers |= {1.0}.union(*(Text.of(tool.description).numbers for tool in offered))
    for tool in offered:
        numbers.update(*(Text.of(each.description).numbers for each in tool.parameters))
    if environment.features.fork:
        calls = [*itertools.chain(*task.calls[:turn]), *task.calls[turn][:index]]
        said = task.script[: turn + 1]
        for tried in tried_after(environment, task.state, calls, said, offered):
            numbers |= Text.shown(tried.result.text).numbers
    return any(
        abs(made - value) < 1e-6
        for first, second in itertools.permutations(sorted(numbers)[:MOST_NUMBERS], 2)
        for made in (first + second, first - second, first * second, first / (second or 1.0))
    )


def _follows(text: str, heard: Text) -> bool:
    """Whether `text` is a date, a code or a path, a sentence of one's own, or put together from
    what was said."""
    squeezed = SQUEEZED.sub("", text).casefold()
    parts = PARTS.findall(text)
    return (
        CODE.fullmatch(text) is not None
        or DATE.fullmatch(text) is not None
        or " " in text.strip()
        or squeezed in SQUEEZED.sub("", heard.folded)
        or not set(stems(text)).isdisjoint(stems(heard.folded))
        or (len(parts) > 1 and all(map(heard.contains_any_form, parts)))
    )


def _looked_up(
    environment: Environment, task: Task, turn: int, index: int, name: str, leaf: Any
) -> bool:
    """Whether a tool shows `leaf`, asked for a name that the words of the turn have."""
    if not environment.features.fork:
        return False
    world = world_before(environment, task, turn, index)
    for word in dict.fromkeys(NAMES.findall(task.script[turn])):
        pool = KnownValues()
        pool.add_all([("", word)])
        for tried in attempts(world, plausible(visible(environment, task, turn), pool, SHOWN)):
            if Output((turn, index), tried.call, tried.result).has(name, leaf):
                return True
    return False
