"""What became of each turn of an episode, or why it failed: one label a turn (Ψ; 002 §3.2, Appendix C.2).

A pure function of the trace (texts, calls, results, verdicts, messages), the task and the documents of its tools: no
model, no chance, no world. docs/diagnosis.md has the table of labels with their evidence, their places in 002 and the
errors of BFCL's checker that they agree with. The order of looking, for a turn that failed:

1. No call was right: `spurious_tool_call`, whatever was wrong with the call.
2. Malformed text, or a tool that is not there: `invalid_tool_call`. What was meant is unknown, so nothing mends it.
3. No call at all: `empty_turn_model_response`.
4. Arguments that break the tool's document: `argument_mismatch`.
5. A target that nothing shown so far contains, nor the turn's ground truth: `instance_mismatch`.
6. What was asked of the world was done, and its state went wrong in this turn: `state_mismatch`.
7. An error, of this turn or of an earlier one that failed, was never made good: `recovery_failure`.
8. An expected call has no counterpart: `missing_tool_call`.
9. What is left: the state is still wrong from before (`state_mismatch`), or results are lacking (`response_mismatch`).

2, 4 and 6 to 9 keep the order of Table 5; the others stand where their evidence is. An error is made good by a later
call of the same tool that succeeds, and all are by a turn that is resolved.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, repeat

from rods.analysis.containment import WORD, Text, leaves
from rods.analysis.schemas import Checker, limits
from rods.calls import Call
from rods.environments.base import Environment, kept
from rods.episode.engine import Trace, TurnTrace
from rods.faults import WRONG_ARGUMENTS, Label
from rods.tasks import Task

NOT_THERE = frozenset({"unknown_tool", "hidden_tool"})
MALFORMED = ""  # stands for the tool that malformed text meant
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")


def diagnose(trace: Trace, task: Task, environment: Environment) -> tuple[Label, ...]:
    """One label for each turn that the policy finished, in order: those with a verdict, and the one that ran into the
    limit of steps. Turns of a head start are not the policy's; a turn that was cut by length or broken by the machinery
    says nothing about it, and nor do the turns that were never reached."""
    labels: list[Label] = []
    shown = _Shown(trace)
    erred: frozenset[str] = frozenset()  # tools whose errors, in turns that failed, were never made good
    right = True  # whether the state was as expected before the turn
    for number, turn in enumerate(trace.turns):
        if turn.verdict is None and trace.end != "step_limit":
            break
        played = _Played(turn, task.calls[trace.head + number], environment, shown, right)
        erred -= {call.name for call, result in played.calls if result.error is None}
        labels.append(played.label(erred))
        if labels[-1] == "pass":
            erred = frozenset()
        elif played.expected:
            erred |= {call.name for call, _ in played.unmended} | ({MALFORMED} if played.malformed else set())
        if turn.verdict is not None and played.expected:  # the verdict of a turn without calls compares no state
            right = turn.verdict.state
    return tuple(labels)


class _Played:
    """One turn, the next of those that `shown` is asked about, and what its evidence says. `right`: the state was as
    expected."""

    def __init__(
        self, turn: TurnTrace, expected: Sequence[Call], environment: Environment, shown: _Shown, right: bool
    ) -> None:
        self.turn, self.expected, self.shown, self.right = turn, expected, shown, right
        self.documents = _documents(environment)
        self.malformed = any(step.error is not None for step in turn.steps)
        self.calls = [pair for step in turn.steps for pair in zip(step.calls, step.results, strict=True)]
        # for each call: what had been shown before its reply, and that with the results that the reply had by then
        replies = zip(turn.steps, shown.before, strict=False)
        self.before = [(known, known + place) for step, known in replies for place in range(len(step.calls))]
        places = range(len(self.calls))
        self.unmended = [self.calls[at] for at in places if self._failed(at) and not self._mended(at)]

    def label(self, erred: Collection[str]) -> Label:
        """The turn's label; `erred`: tools whose errors of earlier turns were never made good."""
        verdict, calls = self.turn.verdict, self.calls
        if verdict is not None and verdict.resolved:
            return "pass" if self.expected else "correct_abstention"
        if not self.expected and calls:
            return "spurious_tool_call"
        if self.malformed or any(result.error in NOT_THERE for _, result in calls):
            return "invalid_tool_call"
        if not calls:
            return "empty_turn_model_response"
        if any(self._breaks_document(place) for place in range(len(calls))):
            return "argument_mismatch"
        if any(self._misses(place) for place in range(len(calls))):
            return "instance_mismatch"
        if verdict is not None and not verdict.state and self.right and not self.unmended:
            return "state_mismatch"
        if self.unmended or erred:
            return "recovery_failure"
        if self._lacks_a_call():
            return "missing_tool_call"
        return "state_mismatch" if verdict is not None and not verdict.state else "response_mismatch"

    def _failed(self, place: int) -> bool:
        """Whether the call was answered with an error that the ground truth would not have met: it makes the call, and
        was followed up to there."""
        call, result = self.calls[place]
        if result.error is None:
            return False
        if not self.right or call not in self.expected:
            return True
        made = [earlier for earlier, _ in self.calls[:place]]
        return any(earlier not in made for earlier in self.expected[: self.expected.index(call)])

    def _mended(self, place: int) -> bool:
        """Whether a later call of the same tool succeeded."""
        name = self.calls[place][0].name
        return any(call.name == name and result.error is None for call, result in self.calls[place + 1 :])

    def _breaks_document(self, place: int) -> bool:
        """Whether the arguments break the tool's document (by environment or schema), and no later call was better."""
        call, result = self.calls[place]
        if call in self.expected:
            return False
        wrong = result.error in WRONG_ARGUMENTS or not self._fits(call)
        later = (other for other, answer in self.calls[place + 1 :] if other.name == call.name and answer.error is None)
        return wrong and not any(map(self._fits, later))

    def _fits(self, call: Call) -> bool:
        """Whether the call keeps to the document of its tool, if that has one."""
        if call.name not in self.documents:
            return True
        required, checkers = self.documents[call.name]
        fitting = (checkers[name].fits(value) for name, value in call.arguments.items())
        return required <= call.arguments.keys() <= checkers.keys() and all(fitting)

    def _misses(self, place: int) -> bool:
        """Whether the call aims at a target that nothing shown before it contains: it was refused, and the target is a
        single word or stands in the refusal; or it was made in place of one that is expected, whose target was shown or
        was on its way, in a result of the same reply. Targets are texts, and numbers of arguments called ids."""
        (call, result), (before, by_then) = self.calls[place], self.before[place]
        if call in self.expected or not before:
            return False
        truths = {value for other in self.expected for _, value in _targets(other)}
        unseen = [
            (name, value)
            for name, value in _targets(call)
            if value not in truths and not self.shown.contains(value, before)
        ]
        if not unseen:
            return False
        if (call, result) in self.unmended:
            answer = Text.shown(result.text)
            return any(len(str(value).split()) == 1 or answer.contains_exact(value) for _, value in unseen)
        if result.error is not None:
            return False
        made = [other for other, _ in self.calls]
        unmet = [other for other in self.expected if other.name == call.name and other not in made]
        known = {name for other in unmet for name, value in _targets(other) if self.shown.contains(value, by_then)}
        return any(name in known and len(str(value).split()) == 1 for name, value in unseen)

    def _lacks_a_call(self) -> bool:
        """Whether an expected call was not made, nor another of its tool that could stand for it."""
        made = [call for call, _ in self.calls]
        unmet = Counter(call.name for call in self.expected if call not in made)
        spare = Counter(call.name for call in made if call not in self.expected)
        return any(count > spare[name] for name, count in unmet.items())


def _targets(call: Call) -> Iterator[tuple[str, str | int]]:
    """The values of a call that may name something: (argument, text or id)."""
    for argument, given in call.arguments.items():
        for _, value in leaves(given):
            named = type(value) is int and "id" in WORD.findall(_HUMPS.sub(" ", argument).casefold())
            if named or (isinstance(value, str) and value.strip()):
                yield argument, value


class _Shown:
    """What the policy was shown, in order: system prompt, user's texts, observations, and the results themselves; after
    a head start the calls that were played for it, too. Texts are read when somebody asks for them: most turns pass."""

    def __init__(self, trace: Trace) -> None:
        self._texts: list[Callable[[], Text]] = []
        self._read = cache(operator.call)  # each text once
        before: list[int] = []
        steps = [step for turn in trace.turns for step in turn.steps]
        written = [place for place, message in enumerate(trace.messages) if message.role == "assistant"]
        own = written[len(written) - len(steps) :] if len(written) >= len(steps) else []
        at = 0
        for step, place in zip(steps, own, strict=False):
            self._texts += [partial(Text.of, message.content) for message in trace.messages[at:place]]
            before.append(len(self._texts))
            self._texts += [partial(Text.shown, result.text) for result in step.results]
            at = place + 1
        # so many of them came before each reply of the policy, one after the other; none where that is unknown
        self.before = chain(before, repeat(0))

    def contains(self, value: str | int, before: int) -> bool:
        """Whether one of the first `before` texts says the value, in whatever form; a path, whether its parts are."""
        parts = [part for part in value.split("/") if part not in ("", ".", "..")] if isinstance(value, str) else []

        def told(value: str | int) -> bool:
            return any(self._read(text).contains_any_form(value) for text in self._texts[:before])

        return told(value) or (bool(parts) and all(map(told, parts)))


@kept
def _documents(environment: Environment) -> Mapping[str, tuple[frozenset[str], Mapping[str, Checker]]]:
    """What the documents of an environment's tools ask of calls, by name: required arguments, and a checker of each."""
    return {
        name: (
            frozenset(parameter.name for parameter in tool.parameters if parameter.required),
            {parameter.name: Checker(limits(parameter)) for parameter in tool.parameters},
        )
        for name, tool in environment.tools().items()
    }
