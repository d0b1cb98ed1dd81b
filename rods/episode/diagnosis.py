"""What became of each turn of an episode, or why it failed: one label a turn (Ψ; 002 §3.2, Appendix
C.2).

A pure function of the trace (texts, calls, results, verdicts, messages), the task and the documents
of its tools: no model, no chance, no world. docs/diagnosis.md has each rule with its place in 002:
evidence is looked for in the order of Table 5, and a turn has the label of what it failed by. Calls
are *due* when the ground truth has them in the turn (or had them before, while the state is wrong
for it), and *lacking* when they were not made."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import chain, repeat
from typing import Any

from rods.analysis.containment import WORD, Text, key_of, keys_in, values_in
from rods.analysis.flows import Output
from rods.analysis.schemas import Checker, limits, options
from rods.calls import Call
from rods.environments.base import Environment, Result, kept
from rods.episode.asked import judged
from rods.episode.engine import Trace, TurnTrace
from rods.faults import WRONG_ARGUMENTS, Label
from rods.tasks import Task

NOT_THERE = frozenset({"unknown_tool", "hidden_tool"})
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


def diagnose(trace: Trace, task: Task, environment: Environment) -> tuple[Label, ...]:
    """One label for each turn that the policy finished, in order: those with a verdict, and the one
    that ran into the limit of steps. A turn that was cut by length, broken by the machinery or
    never reached says nothing about it."""
    targets = _Targets(task, environment)
    evidence = _Shown(trace)
    turns: list[_Played] = []
    for number, turn in enumerate(trace.turns):
        if turn.verdict is None and trace.end != "step_limit":
            break
        turns.append(
            _Played(turn, task.calls[number], targets, evidence, turns[-1] if turns else None)
        )
    return tuple(turn.label(turns[number:]) for number, turn in enumerate(turns, start=1))


class _Played:
    """One turn, the next of those that `evidence` is asked about, and what it says. `last`: the
    turn before."""

    def __init__(
        self,
        turn: TurnTrace,
        expected: Sequence[Call],
        targets: "_Targets",
        evidence: "_Shown",
        last: "_Played | None",
    ) -> None:
        self.turn = turn
        self.expected = expected
        self.targets = targets
        self.evidence = evidence
        self.last = last
        self.calls = turn.pairs
        # for each call, how much had been shown before its reply
        self.before = [
            count
            for step, count in zip(turn.steps, evidence.before, strict=False)
            for _ in step.calls
        ]
        self.wrong = turn.verdict is not None and not turn.verdict.state
        # whether the state was as expected before the turn
        self.right = last is None or not last.spoilt
        # the verdict of a turn without calls compares no state
        self.spoilt: bool = self.wrong if turn.verdict is not None and expected else not self.right
        self.ran = [place for place in range(len(self.calls)) if not self._failed(place)]
        # what was due and not made; and before the turn, while the state is wrong
        self.lacking = list(expected)
        self.owed: list[Call] = (
            [*last.owed, *last.lacking] if last is not None and last.spoilt else []
        )
        self.extra: list[int] = []  # calls that ran and were not due
        for place in self.ran:
            due = next(
                (calls for calls in (self.lacking, self.owed) if self.calls[place][0] in calls),
                None,
            )
            if due is None:
                self.extra.append(place)
            else:
                due.remove(self.calls[place][0])
        if turn.verdict is not None and turn.verdict.response and targets.ways:
            # what was asked for was shown: a look-up that was not made is a way not taken
            self.lacking = [call for call in self.lacking if not targets.reads(call)]

    def label(self, later: "Sequence[_Played]") -> Label:
        """The turn's label; `later`: the turns after it."""
        verdict = self.turn.verdict
        places = range(len(self.calls))
        if self.expected and verdict is not None and verdict.resolved:
            return "pass"
        if any(not self.expected or not put_right for put_right in self._not_executed()):
            return "invalid_tool_call"
        if not self.calls:
            return "empty_turn_model_response" if self.expected else "correct_abstention"
        if any(map(self._mismatched, places)):
            return "argument_mismatch"
        if not self.expected:
            return "spurious_tool_call"
        may = [place for place in self.extra if not self.targets.reads(self.calls[place][0])]
        if self.wrong and may:
            return "instance_mismatch" if self._misses() else "state_mismatch"
        if any(self._given_up(place, later) for place in places):
            return "recovery_failure"
        spare = Counter(self.calls[place][0].name for place in self.extra)
        if any(
            count > spare[name]
            for name, count in Counter(call.name for call in self.lacking).items()
        ):
            return "missing_tool_call"
        if self.wrong and not self.lacking:
            return "state_mismatch" if self.right else "pass"
        return "instance_mismatch" if self._misses() else "response_mismatch"

    def _failed(self, place: int) -> bool:
        """Whether the call met an error that the ground truth, followed up to there, would not have
        met."""
        call, result = self.calls[place]
        if result.error is None:
            return False
        if not self.right or call not in self.expected:
            return True
        before = [earlier for earlier, _ in self.calls[:place]]
        return any(earlier not in before for earlier in self.expected[: self.expected.index(call)])

    def _not_executed(self) -> Iterator[bool]:
        """For each reply that could not be parsed, and each call of a tool that is not there,
        whether a later call of the turn did what was meant: the tool that the text names, or one
        with the same values; or nothing is lacking. What a lacking call fits as well has not been
        done."""
        place = 0
        for step in self.turn.steps:
            if step.error is not None:
                yield self._done(place, partial(_named, step.text))
            for call, result in zip(step.calls, step.results, strict=True):
                if result.error in NOT_THERE:
                    yield self._done(place, partial(_alike, keys_in(call.arguments)))
                place += 1

    def _done(self, place: int, meant: Callable[[Call], bool]) -> bool:
        after = (self.calls[at][0] for at in self.ran if at >= place)
        return not self.lacking or (not any(map(meant, self.lacking)) and any(map(meant, after)))

    def _mismatched(self, place: int) -> bool:
        """Whether the arguments break the tool's document, as the environment says or its schema,
        and the turn failed by this call: it was not made good in the turn, and not all was done
        that was due."""
        call, result = self.calls[place]
        if call in self.expected or (
            result.error not in WRONG_ARGUMENTS and self.targets.fits(call)
        ):
            return False
        done = self.expected and not self.lacking
        return not done and not self._made_good(place, self.calls[place + 1 :])

    def _made_good(self, place: int, after: Iterable[tuple[Call, Result]]) -> bool:
        """Whether one of the calls `after` it succeeded in its place: of the same tool, and what
        was due, or aimed at the same targets as it or as what is lacking; another target is no
        recovery (002 E.3)."""
        call = self.calls[place][0]
        same = [
            other for other, result in after if other.name == call.name and result.error is None
        ]
        lacking = [other for other in self.lacking if other.name == call.name]
        if not lacking and any(other in self.expected for other in same):
            return True
        aims = [self._aims(other) for other in (call, *lacking)] if same else []
        return any(
            other in lacking or (other not in self.expected and self._aims(other) in aims)
            for other in same
        )

    def _given_up(self, place: int, later: "Sequence[_Played]") -> bool:
        """Whether the call was refused in place of a lacking one (of its tool, or with a value of
        it), for good."""
        (call, result) = self.calls[place]
        values = keys_in(call.arguments)
        due = any(
            other.name == call.name or values & keys_in(other.arguments) for other in self.lacking
        )
        if not due or place in self.ran or result.error in NOT_THERE:
            return False
        # what is due in a later turn, and is not lacking here, makes nothing good
        more = [(turn, pair) for turn in later for pair in turn.calls]
        own = [
            pair for turn, pair in more if pair[0] in self.lacking or pair[0] not in turn.expected
        ]
        return not self._made_good(place, self.calls[place + 1 :] + own)

    def _misses(self) -> bool:
        """Whether a call that ran and was not due aims at a target that neither the user nor a
        result had named."""
        truths = {value for call in self.expected for value in self._aims(call)}
        aimed = (
            (self.before[at], value)
            for at in self.extra
            for value in self._aims(self.calls[at][0]) - truths
        )
        return any(before and not self.evidence.contains(value, before) for before, value in aimed)

    def _aims(self, call: Call) -> frozenset[str | int]:
        return self.targets.of(call, self._outputs)

    @cached_property
    def _outputs(self) -> list[Output]:
        """What the calls had brought by the end of the turn."""
        own = [Output((0, place), *self.calls[place]) for place in self.ran]
        return own if self.last is None else [*self.last._outputs, *own]


class _Targets:
    """What the documents of tools say of calls, and which of their values name something in the
    world: numbers that are called ids, and texts (but for one of a list) that are keys of the
    initial state, or stand where the ground truth gives keys of the state or words that a result
    brought. A tool that only reads may look up any value of the state.
    """

    def __init__(self, task: Task, environment: Environment) -> None:
        self._task = task
        self._tools = environment.tools()
        self._checkers = _checkers(environment)
        # whether there may be other ways to a result than the ground truth's
        self.ways = judged(environment, task) != "all"

    def of(self, call: Call, outputs: Sequence[Output]) -> frozenset[str | int]:
        there = self._values if self.reads(call) else self._keys

        def named(argument: str, value: Any) -> bool:
            if type(value) is int:
                return "id" in WORD.findall(_HUMPS.sub(" ", argument).casefold())
            truths = [one for one in self._truths[call.name, argument] if one.strip()]
            words = [one for one in truths if len(one.split()) == 1]
            return isinstance(value, str) and (
                any(key_of(one) in there for one in (value, *truths) if one.strip())
                or any(output.brought(argument, one) for one in words for output in outputs)
            )

        listed = {
            name for name, one in self._checkers.get(call.name, {}).items() if options(one.schema)
        }
        pairs = [(name, value) for name, value in call.arguments.items() if name not in listed]
        return frozenset(
            value for name, whole in pairs for value in values_in(whole) if named(name, value)
        )

    def fits(self, call: Call) -> bool:
        """Whether the call keeps to the document of its tool, if that has one."""
        if call.name not in self._tools:
            return True
        checkers = self._checkers[call.name]
        required = {
            parameter.name for parameter in self._tools[call.name].parameters if parameter.required
        }
        complete = required <= call.arguments.keys() <= checkers.keys()
        return complete and all(
            checkers[name].fits(value) for name, value in call.arguments.items()
        )

    def reads(self, call: Call) -> bool:
        """Whether the document of its tool says that no call changes the state."""
        return call.name in self._tools and self._tools[call.name].reads is True

    @cached_property
    def _truths(self) -> Mapping[tuple[str, str], set[str]]:
        """The texts that the ground truth gives to each argument of each tool."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for call in chain(*self._task.calls):
            for argument, whole in call.arguments.items():
                found[call.name, argument] |= {
                    value for value in values_in(whole) if isinstance(value, str)
                }
        return found

    @cached_property
    def _values(self) -> Counter[Any]:
        return Counter(map(key_of, values_in(self._task.state or {}, keys=True)))

    @cached_property
    def _keys(self) -> Counter[Any]:
        return self._values - Counter(map(key_of, values_in(self._task.state or {})))


class _Shown:
    """What the policy was shown, in order: user's texts, observations, and the results themselves.
    Texts are read when somebody asks for them: most turns pass."""

    def __init__(self, trace: Trace) -> None:
        self._texts: list[Callable[[], Text]] = []
        before: list[int] = []
        steps = [step for turn in trace.turns for step in turn.steps]
        written = [
            place for place, message in enumerate(trace.messages) if message.role == "assistant"
        ]
        own = written[len(written) - len(steps) :] if len(written) >= len(steps) else []
        at = 0
        for step, place in zip(steps, own, strict=False):
            contents = (
                message.content for message in trace.messages[at:place] if message.role != "system"
            )
            self._texts += [cache(partial(Text.of, content)) for content in contents]
            before.append(len(self._texts))
            self._texts += [cache(partial(Text.shown, result.text)) for result in step.results]
            at = place + 1
        # so many of them came before each reply of the policy, one after the other; none where that
        # is unknown
        self.before = chain(before, repeat(0))

    def contains(self, value: str | int, before: int) -> bool:
        """Whether one of the first `before` texts says the value, in whatever form; a path, whether
        its parts are."""
        parts = (
            [part for part in value.split("/") if part not in ("", ".", "..")]
            if isinstance(value, str)
            else []
        )

        def told(value: str | int) -> bool:
            return any(text().contains_any_form(value) for text in self._texts[:before])

        return told(value) or (bool(parts) and all(map(told, parts)))


@kept
def _checkers(environment: Environment) -> Mapping[str, Mapping[str, Checker]]:
    """What the documents of an environment's tools ask of each argument."""
    tools = environment.tools().items()
    return {
        name: {parameter.name: Checker(limits(parameter)) for parameter in tool.parameters}
        for name, tool in tools
    }


def _alike(values: set[Any], call: Call) -> bool:
    return bool(values) and values == keys_in(call.arguments)


def _named(text: str, call: Call) -> bool:
    return re.search(rf"\b{re.escape(call.name)}\b", text) is not None
