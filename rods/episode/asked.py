"""What the user of a turn asks to know, and whether it was shown: the goal of a task that is judged
by `asked` or `state` (`Features.reads_judged`; docs/decisions/goals.md).

A look-up of the ground truth that feeds a later call of its turn is a way, unless the words ask to
know what it shows; any other one is asked for. What is asked for was shown where its text is among
the results of the episode, as BFCL's scorer wants it, or where the values that answer it stand in
results of the turn beside what they are about, whichever tool gave them. A value that the ground
truth looks up is guessed where a call takes it before anything showed it: such a turn is not
resolved."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

from rods.analysis.containment import Text, akin, is_small, key_of, leaves, stems
from rods.analysis.flows import Output, entries, infer, value_of
from rods.analysis.plausible_calls import documented
from rods.calls import Call
from rods.composing.lexicon import CLAUSE, SHARE, SOUGHT, lexicon
from rods.environments.base import Environment, Instance, Result, Results
from rods.episode.engine import NeedVerdict, Verdict
from rods.errors import InfrastructureError
from rods.faults import NOT_EXECUTED
from rods.tasks import ReadsJudged, Task, asked

Position = tuple[int, int]  # turn and call, both from 0
Made = Sequence[tuple[Call, Result]]
Entry = tuple[str, Any, Mapping[Any, Any]]  # as of `rods.analysis.flows.entries`
Says = Callable[[Any], bool]  # whether a value is there
DUMP = 50  # words of a text: what is said in a longer one answers nothing
IDENTIFYING = 2  # so many values that are not small tell a record from others
SENTENCE = re.compile(r"(?<=[.!?])\s+")
# Words that ask to know, unless they are nouns ("the list"); and how a clause begins that asks, in
# a sentence that does.
TELLING = re.compile(
    r"(?<!\bthe )(?<!['’]s )(?<!\bmy )(?<!\ba )\b(?:show|tell|list|give (?:me|us)|what|whether"
    r"|how (?:much|many|long|often)|check|report|read|see|know|look|display|print|find out)\b",
    re.IGNORECASE,
)
OPENING = re.compile(
    r"\W*(?:(?:so|also|in|on|at|for|to|from|by|of)\s+)*(?:which|when|where|who|whom|whose|how|why"
    r"|is|are|was|were|do|does|did|has|have)\b",
    re.IGNORECASE,
)
# whoever says one of these wants more than the fields that are named
WHOLE = re.compile(
    r"\b(?:all|every|everything|details?|full|complete|whole|else|anything|info\w*)\b",
    re.IGNORECASE,
)


def judged(environment: Environment, task: Task) -> ReadsJudged:
    """What the turns of `task` are judged by beside the state: its own word, else the
    environment's."""
    if isinstance(task.reads, str):
        return task.reads
    return environment.features.reads_judged if task.reads is None else "asked"


def asked_places(
    environment: Environment, task: Task, results: Results, changed: Set[Position]
) -> set[Position]:
    """The ground-truth calls whose results the user asks to know. `results` are theirs; `changed`
    those that changed the state, which says all that they do."""
    if task.places is not None:
        return set(task.places)
    takers: dict[Position, list[str]] = {}
    for turn, flows in enumerate(infer(environment.tools(), task, results)):
        for call, sources in zip(task.calls[turn], flows, strict=True):
            for flow in sources.values():
                if flow.origin is not None and flow.origin[0] == turn:
                    takers.setdefault(flow.origin, []).append(call.name)
    return {
        (turn, index)
        for turn, calls in enumerate(task.calls)
        for index, call in enumerate(calls)
        if (turn, index) not in changed
        and (
            (turn, index) not in takers
            or _meant(environment, task, turn, call, takers[turn, index])
        )
    }


def _wishes(
    environment: Environment, task: Task, turn: int
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """The clauses of a turn's words that ask to know something, each with its sentence, and how
    strongly it means each tool of the turn."""
    names = [call.name for call in task.calls[turn]]
    for sentence in SENTENCE.split(asked(task, turn)):
        asks = sentence.endswith("?") or TELLING.search(sentence)
        for clause in CLAUSE.split(sentence):
            if TELLING.search(clause) or (asks and OPENING.match(clause)):
                yield clause, sentence, lexicon(environment).asks(stems(clause), names)


def _meant(
    environment: Environment, task: Task, turn: int, call: Call, takers: Sequence[str]
) -> bool:
    """Whether the words ask to know what `call` shows, and mean the tools that take its values no
    more. A clause that means no tool means the call whose value it says."""
    for clause, _, strength in _wishes(environment, task, turn):
        best = max(strength.values())
        least = max(SOUGHT, SHARE * best, *(strength[taker] for taker in takers))
        said = map(Text.of(clause).contains_any_form, call.arguments.values())
        if any(said) if best < SOUGHT else strength[call.name] >= least:
            return True
    return False


def _named(environment: Environment, task: Task, turn: int, call: Call, result: Result) -> set[str]:
    """The fields of a result (stems of their names) that alone are asked about; empty where all of
    it is."""
    names = " ".join(name for name, _ in leaves(value_of(result)))
    fields = {*stems(names)} - {*stems(call.name)}
    named: set[str] = set()
    for clause, sentence, strength in _wishes(environment, task, turn):
        if strength[call.name] == max(strength.values()):
            if WHOLE.search(sentence) or fields.isdisjoint(stems(clause)):
                return set()
            named |= fields.intersection(stems(sentence))
    return named


def shown(
    wanted: tuple[Call, Result],
    outputs: Made,
    named: Set[str] = frozenset(),
    about: Callable[[Says], bool] | None = None,
) -> bool:
    """Whether `outputs` (calls and what they gave) show what the call `wanted` did, or those of its
    fields that are `named` (stems): as the same text, or each value beside the values that identify
    it, or beside those that the result is `about` (its arguments). An error shows its text
    alone."""
    call, result = wanted
    if any(output.text == result.text for _, output in outputs):
        return True
    given = [leaf for _, leaf in leaves(dict(call.arguments))]
    own = {*map(key_of, given)}
    heard = [entry for pair in outputs if pair[1].error is None for entry in _entries(*pair)]

    def answered(part: Entry) -> bool:
        name, leaf, beside = part
        telling = {key for key, leaf in beside.items() if not is_small(leaf)} - own
        for entry in heard:
            says = partial(_says, entry)
            there = key_of(leaf) == key_of(entry[1]) or _contains(entry[1], leaf)
            if (
                there
                and (not is_small(leaf) or akin(f"{entry[0]} {entry[1]}", name))
                and (
                    (len(telling) >= IDENTIFYING and telling <= entry[2].keys())
                    or (all(map(says, given)) if about is None else about(says))
                )
            ):
                return True
        return False

    parts = [
        entry
        for entry in _entries(*wanted)
        if key_of(entry[1]) not in own and (not named or not named.isdisjoint(stems(entry[0])))
    ]
    return bool(parts) and all(map(answered, parts))


def _entries(call: Call, result: Result) -> Iterator[Entry]:
    """The values of a result, each beside the arguments of the call; of a text its lines."""
    value = value_of(result)
    own = {key_of(leaf): leaf for _, leaf in leaves(dict(call.arguments))}
    return entries(value.splitlines() if isinstance(value, str) else value, call.name, own)


def _says(entry: Entry, value: Any) -> bool:
    """Whether a value stands there or beside it."""
    name, leaf, beside = entry
    there = {*beside, key_of(leaf), key_of(name)}
    return not there.isdisjoint((key_of(value), key_of(str(value)))) or _contains(leaf, value)


def _contains(leaf: Any, value: Any) -> bool:
    return (
        isinstance(leaf, str) and len(leaf.split()) <= DUMP and Text.of(leaf).contains_exact(value)
    )


class Asked:
    """As `rods.episode.goals.GroundTruth`, and raises the same; but of the results only what was
    asked for has to be shown, or under the word `state` none."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self.calls = task.calls
        self.results: list[list[Result]] = []
        self._worlds: list[Instance] = []
        self._texts = [Text.of(text) for text in task.script]
        self._state_alone = judged(environment, task) == "state"
        changed = self._ran(environment, task)
        tools = environment.tools()
        self._flows = infer(tools, task, self.results)
        # of each turn, what its ground truth looks up, by key_of, and the argument that takes it
        self._taken: list[dict[Any, str]] = [
            {
                key_of(leaf): name
                for call, flows in zip(calls, sources, strict=True)
                for name, flow in flows.items()
                if flow.origin is not None and flow.origin not in changed
                for _, leaf in leaves(call.arguments[name])
                if not isinstance(leaf, bool)
                and leaf
                not in [
                    option
                    for parameter in tools[call.name].parameters
                    if parameter.name == name
                    for option in documented(parameter)
                ]
            }
            for calls, sources in zip(task.calls, self._flows, strict=True)
        ]
        # what is asked for, and by which of its fields
        self._wanted = {
            (turn, index): _named(
                environment, task, turn, task.calls[turn][index], self.results[turn][index]
            )
            for turn, index in asked_places(environment, task, self.results, changed)
        }

    def _ran(self, environment: Environment, task: Task) -> set[Position]:
        """Runs the ground truth. Returns which of its calls changed the state."""
        reads = environment.features.reads | {
            name for name, tool in environment.tools().items() if tool.reads
        }
        instance = environment.reset(task.state)
        changed = set()
        for turn, calls in enumerate(task.calls):
            self.results.append([])
            for index, call in enumerate(calls):
                before = None if call.name in reads else instance.fork()
                result = instance.call(call)
                if result.error in NOT_EXECUTED:
                    raise InfrastructureError(
                        f"the ground truth of task {task.id} could not be run: {result.text}"
                    )
                if before is not None and not instance.same_state(before):
                    changed.add((turn, index))
                self.results[turn].append(result)
            self._worlds.append(instance.fork())
        return changed

    def verdict(self, instance: Instance, need: NeedVerdict) -> Verdict:
        """As `rods.episode.goals.Goal`."""
        if not self.calls[need.turn]:
            return Verdict(True, need.attempted == 0)
        state = instance.same_state(self._worlds[need.turn])
        return Verdict(state, need.attempted > 0 and self._response(need))

    def _response(self, need: NeedVerdict) -> bool:
        """Whether everything was shown that the ground truth shows, or what is asked for, with
        nothing guessed."""
        texts = Counter(result.text for result in self.results[need.turn])
        if self._state_alone or all(need.results.count(text) >= texts[text] for text in texts):
            return True
        made = need.made[need.begun :]
        return not self._guessed(need) and all(
            self.results[turn][index].text in need.results
            or shown(
                (self.calls[turn][index], self.results[turn][index]),
                made,
                named,
                partial(self._about, (turn, index)),
            )
            for (turn, index), named in self._wanted.items()
            if turn == need.turn
        )

    def _guessed(self, need: NeedVerdict) -> bool:
        """Whether a call of the turn takes what has to be looked up, and nobody said or showed it
        before."""
        taken = self._taken[need.turn]
        outputs: list[Output] = []
        for place, (call, result) in enumerate(need.made):
            for name, leaf in leaves(dict(call.arguments)):
                if (
                    place >= need.begun
                    and result.error is None
                    and akin(name, taken.get(key_of(leaf), ""))
                    and not any(output.has(name, leaf) for output in outputs)
                    and not any(
                        text.contains_any_form(leaf) for text in self._texts[: need.turn + 1]
                    )
                ):
                    return True
            outputs.append(Output((need.turn, place), call, result))
        return False

    def _about(self, place: Position, says: Says) -> bool:
        """Whether all is said that the call at `place` is given, or what that was looked up by."""
        turn, index = place
        return all(
            says(leaf) or (flow.origin is not None and self._about(flow.origin, says))
            for name, flow in self._flows[turn][index].items()
            for _, leaf in leaves(self.calls[turn][index].arguments[name])
        )
