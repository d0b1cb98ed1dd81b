"""What failed calls have in common: the tool, and the words of its refusal without the values in
them (000 Appendix C).

A *pattern* is a refusal's text in which every value is a placeholder: an argument of the call,
wherever it stands, is `{argument}`, and so are three words of it in a row, in whatever case and
between whatever signs, since a policy chooses them and agents read patterns; then quotations are
`<text>`, numbers `<number>`, what is no word of a language (paths, addresses, identifiers with
digits, capitals) or a capitalised word inside a sentence `<name>`. Equal patterns of one tool are
one kind of failure. A *shape* is what an argument looked like, no value of it: words, also joined
by `_`, are `a`, runs of digits `9`, signs stay ("letters/plan_2.txt" is "a/a_9.a"); other types are
their JSON names.

Only refusals of tools count: what breaks a tool's document is answered from that document.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from rods.analysis.containment import WORD, is_small, values_in
from rods.buffers.log.shapes import fault_of
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject
from rods.config import Config
from rods.environments.base import Result
from rods.episode.engine import Trace
from rods.family.feedback.settings import Feedback, by_agents, mines
from rods.rules.step_folds import StepFold

# What a rollout's record holds of its failed calls: kinds, characters of a pattern, arguments,
# characters of a shape.
MOST_FAILED = 4
PATTERN_LENGTH = 160
MOST_SHAPES = 8
SHAPE_LENGTH = 24
READ = 1_000  # characters of a refusal that are looked at
ROW = 3  # words of an argument in a row that no pattern has
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|“[^”]*”|`[^`]*`|\[[^\]]*\]")
_NAME = re.compile(
    r"(?<!\S)\S*[^\W\d_][./@#:\\][^\s.,;:!?]\S*|(?<!\S)[./@#\\]\S+"
    r"|\b[^\W\d]*+\d++[^\W\d]\w*|\b[^\W\d]++\d\w*|\b[A-Z]{2,}\b"
)
_NUMBER = re.compile(r"[-+]?[$€£]?\d[\d,.:/-]*%?")
_CAPITALS = re.compile(r"(?<=[\w,] )[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)*")
_LETTERS = re.compile(r"[^\W\d_]+(?:_[^\W\d_]+)*")
_DIGITS = re.compile(r"\d+")
JSON_SHAPES = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


@dataclass(slots=True)
class FailedCall:
    """Calls of a rollout that a tool refused alike."""

    tool: str  #: which one
    pattern: str  #: the refusal without values, at most 160 characters
    count: int = 1  #: how many calls
    #: what the arguments of the first looked like, by name
    shapes: Mapping[str, str] = field(default_factory=dict)


_fault = fault_of(
    [{"tool": "text", "pattern": "text", "count?": "positive", "shapes?": {"*": "text"}}]
)


def check_failures(failures: Any) -> None:
    """Raises ValueError where `failures` of a rollout's record is none."""
    if what := _fault(failures):
        raise ValueError(f"failures{what}: {failures!r:.200}")
    if len(failures) > MOST_FAILED or not all(failed["tool"] for failed in failures):
        raise ValueError(
            f"failures has {len(failures)} failed calls; allowed are {MOST_FAILED}, each of a tool"
        )
    if (
        longest := max((len(failed["pattern"]) for failed in failures), default=0)
    ) > PATTERN_LENGTH:
        raise ValueError(
            f"the pattern of a failed call has {longest} characters, at most {PATTERN_LENGTH}"
        )


def refusal_text(result: Result) -> str:
    """What the tool said when it refused: the text of `error` where the result is an object."""
    value = result.value
    return str(value["error"]) if isinstance(value, dict) and "error" in value else result.text


def pattern(call: Call, result: Result) -> str:
    """The refusal of `call` without values, at most `PATTERN_LENGTH` characters."""
    text = " ".join(refusal_text(result)[:READ].split())
    values = {
        name: value
        for name, value in call.arguments.items()
        if not isinstance(value, bool | list | dict | None)
    }
    for name, value in sorted(values.items(), key=lambda pair: (-len(str(pair[1])), pair[0])):
        if not is_small(value) and len(str(value)) <= READ:
            written = re.escape(" ".join(str(value).split()))
            text = re.sub(rf"(?<!\w)['\"]?{written}['\"]?(?!\w)", f"{{{name}}}", text)[:READ]
    for name, value in sorted(call.arguments.items()):
        texts = [leaf for leaf in values_in(value, keys=True) if isinstance(leaf, str)]
        rows = {row for part in texts for row in _rows(WORD.findall(part))}
        text = _between_placeholders(text, partial(_without_rows, rows, f"{{{name}}}"))
    for regex, placeholder in (
        (_QUOTED, "<text>"),
        (_NAME, "<name>"),
        (_NUMBER, "<number>"),
        (_CAPITALS, "<name>"),
    ):
        text = _between_placeholders(text, partial(regex.sub, placeholder))
    return text[:PATTERN_LENGTH]


def _between_placeholders(text: str, change: Callable[[str], str]) -> str:
    """`text` with what is no placeholder yet changed."""
    parts = re.split(r"(\{\w+\}|<\w+>)", text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def _rows(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (
        tuple(word.casefold() for word in words[at : at + ROW])
        for at in range(len(words) - ROW + 1)
    )


def _without_rows(rows: Set[tuple[str, ...]], placeholder: str, text: str) -> str:
    """`text` with `placeholder` for every stretch of words whose rows were all `said`."""
    words = list(WORD.finditer(text)) if rows else []
    inside = {
        at + more
        for at, row in enumerate(_rows([word[0] for word in words]))
        if row in rows
        for more in range(ROW)
    }
    for at in sorted(inside, reverse=True):
        start = words[at].start()
        end = words[at].end()
        if at + 1 in inside:  # what follows it has just become the placeholder
            end = words[at + 1].start() + len(placeholder)
        text = f"{text[:start]}{placeholder}{text[end:]}"
    return text


def shape(value: Any) -> str:
    """What `value` looks like, at most `SHAPE_LENGTH` characters."""
    if isinstance(value, str):
        return _DIGITS.sub("9", _LETTERS.sub("a", " ".join(value[:READ].split())))[:SHAPE_LENGTH]
    return JSON_SHAPES.get(type(value), "null")


def failed_calls(pairs: Iterable[tuple[Call, Result]]) -> list[JsonObject]:
    """The failures among the calls of a rollout, for its record: the first `MOST_FAILED` kinds, as
    `FailedCall`."""
    kinds: dict[tuple[str, str], FailedCall] = {}
    for call, result in pairs:
        if result.error != "tool":
            continue
        key = call.name, pattern(call, result)
        if key in kinds:
            kinds[key].count += 1
        elif len(kinds) < MOST_FAILED:
            kinds[key] = FailedCall(
                *key,
                shapes={
                    name: shape(value) for name, value in list(call.arguments.items())[:MOST_SHAPES]
                },
            )
    return [asdict(failed) for failed in kinds.values()]


KEPT = 4_096  # kinds of failure that are counted; what is met first after so many is not
EXAMPLES = 3  # shapes of arguments, and tasks beyond those that are needed


@dataclass(slots=True)
class MinedFailure:
    """Calls of `tool` that were refused in words of one `pattern`: in how many rollouts, how many
    calls, in which tasks (the first few), with arguments of which shapes (the first few). `due`:
    the step that made it due; 0: not yet."""

    tool: str
    pattern: str
    rollouts: int = 0
    calls: int = 0
    last: int = 0  # the latest step with one
    due: int = 0
    tasks: list[str] = field(default_factory=list)
    shapes: list[dict[str, str]] = field(default_factory=list)


def fold(config: Config) -> "Mining | None":
    """What a run folds."""
    return Mining(config.feedback) if by_agents(config) else None


def episode_fields(trace: Trace, config: Config, stage: int) -> JsonMapping:
    """What the record of an episode has of its failed calls."""
    if not mines(config, stage):
        return {}
    failures = failed_calls(pair for turn in trace.turns for pair in turn.pairs)
    return {"failures": failures} if failures else {}


class Mining(StepFold):
    """Counts failures; `apply` takes the groups of live steps in their order."""

    def __init__(self, rules: Feedback) -> None:
        self._rules = rules
        self.key = rules.model_dump()
        self._found: dict[tuple[str, str], MinedFailure] = {}

    def apply(self, step: int, groups: Iterable[JsonMapping]) -> None:
        """The group records of a closed step."""
        for group in groups:
            for rollout in group.get("rollouts", ()):
                for failed in rollout.get("failures", ()):
                    self._count(step, group["task"], failed)

    def due(self) -> list[MinedFailure]:
        """What is worth asking about, in order; at most `feedback.texts` kinds."""
        due = [kind for kind in self._found.values() if kind.due]
        return sorted(due, key=lambda kind: (kind.due, kind.tool, kind.pattern))[
            : self._rules.texts
        ]

    def state(self) -> Any:
        """What a snapshot keeps, as JSON can say it."""
        return [asdict(kind) for kind in self._found.values()]

    def load(self, state: Any) -> None:
        self._found = {
            (record["tool"], record["pattern"]): MinedFailure(**record) for record in state
        }

    def _count(self, step: int, task: str, failed: JsonMapping) -> None:
        key = failed["tool"], failed["pattern"]
        kind = self._found.get(key)
        if kind is None:
            if len(self._found) >= KEPT:
                return
            kind = self._found[key] = MinedFailure(*key)
        kind.rollouts += 1
        kind.calls += failed.get("count", 1)
        kind.last = step
        if task not in kind.tasks and len(kind.tasks) < self._rules.tasks + EXAMPLES:
            kind.tasks.append(task)
        shapes = failed.get("shapes")
        if shapes and shapes not in kind.shapes and len(kind.shapes) < EXAMPLES:
            kind.shapes.append(dict(shapes))
        if (
            not kind.due
            and kind.rollouts >= self._rules.rollouts
            and len(kind.tasks) >= self._rules.tasks
        ):
            kind.due = step
