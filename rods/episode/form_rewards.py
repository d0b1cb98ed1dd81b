"""Rewards of the form of replies and of their calls; `rods.episode.rewards` has them by name.

- format (000 §3.2, eq. 1–2), range 0–2: 1[a call was made] · ((N − malformed)/N + correct/(correct
  + wrong)), where N counts replies (one that was cut by length is malformed, here and below),
  `correct` calls a visible tool with legal arguments, `wrong` one with illegal arguments. The
  second term is 0 when there was neither.
- format_codes (004 Appendix H; its formula was lost, this one follows its description), range 0–2:
  every reply gets the worst code that applies: malformed text, a schema error (invalid JSON inside
  a call, an unknown tool, illegal arguments), a failed execution, or valid. The reward is 1[a call
  was tried] · ((N − malformed)/N + valid/(replies that try a call)).
- toolrl (ToolRL, arXiv 2504.13958, the baseline of 000 §4.1), range −3–4: R_format + R_correct. 000
  says no more than that and that R_correct measures the correctness of tool calls: its formula was
  lost there, and this one is ToolRL's, which judges one reply by its calls. R_format is 1 where no
  reply was malformed, else 0. R_correct = 6 · R/S − 3; R pairs the calls of a turn with its ground
  truth: shared names over all names, plus for each pair of one tool shared over all names of
  arguments and the number of equal arguments; S = 1 + calls + arguments of the ground truth. What
  episodes of several turns need is ours: R and S are summed over turns, a turn that was never
  reached has R = 0, and one where no call is right has S = 1, and R = 1 if none was made.
- exact_calls (Tool-N1, arXiv 2505.00024, a baseline of 001 §3.3), 0 or 1: 1 where no reply was
  malformed and the calls of every turn are those of its ground truth, in whatever order, with equal
  arguments and none besides. The source judges one reply; all turns of an episode are ours. Calls
  are compared as they were written: one that was refused and repeated makes a turn wrong."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from rods.calls import Call
from rods.episode.engine import StepTrace, Trace, TurnTrace
from rods.faults import BREAKS_DOCUMENT, CUT_ENDS, WRONG_ARGUMENTS

Truth = Sequence[Sequence[Call]]  # the ground truth of the turns that the policy was to play
Terms = tuple[float, float]  # what replies and what calls have earned by their form, in [0, 1] each


def well_formed(trace: Trace) -> float:
    """The share of replies that keep the dialect's form (000 eq. 1), in [0, 1]; 0 where there was
    none."""
    steps = _steps(trace)
    return sum(step.error is None for step in steps) / len(steps) if steps else 0.0


def format_reward(trace: Trace) -> Terms:
    """000 eq. 1–2."""
    steps = _steps(trace)
    results = [result for step in steps for result in step.results]
    if not results:
        return 0.0, 0.0
    malformed = sum(step.error is not None for step in steps)
    wrong = sum(result.error in WRONG_ARGUMENTS for result in results)
    correct = sum(result.error not in BREAKS_DOCUMENT for result in results)
    tools = correct / (correct + wrong) if correct + wrong else 0.0
    return (len(steps) - malformed) / len(steps), tools


def format_codes(trace: Trace) -> Terms:
    """004 Appendix H."""
    steps = _steps(trace)
    calling = [step for step in steps if step.results or step.in_call]
    if not calling:
        return 0.0, 0.0
    malformed = sum(step.error is not None and not step.in_call for step in steps)
    valid = sum(
        not step.in_call and all(result.error is None for result in step.results)
        for step in calling
    )
    return (len(steps) - malformed) / len(steps), valid / len(calling)


def _steps(trace: Trace) -> list[StepTrace]:
    """All replies. The one by whose length the episode was cut lacks its end: it counts as
    malformed text."""
    steps = [step for turn in trace.turns for step in turn.steps]
    if steps and trace.end in CUT_ENDS:
        steps[-1] = replace(steps[-1], error=trace.end)
    return steps


def toolrl(trace: Trace, truth: Truth) -> float:
    """ToolRL's reward, in [−3, 4]."""
    _check(trace, truth, "toolrl")
    matched = most = 0.0
    for turn, expected in zip_longest(trace.turns, truth):
        if turn is not None:
            matched += _matched(_calls(turn), expected)
        most += 1 + len(expected) + sum(len(call.arguments) for call in expected)
    form = float(well_formed(trace) == 1.0)
    return form + 6 * matched / most - 3


def exact_calls(trace: Trace, truth: Truth) -> float:
    """Tool-N1's reward, 0 or 1."""
    _check(trace, truth, "exact_calls")
    reached = len(trace.turns) == len(truth) and well_formed(trace) == 1.0
    return float(reached and all(map(_equal, map(_calls, trace.turns), truth)))


def _equal(calls: Sequence[Call], expected: Sequence[Call]) -> bool:
    """Whether both hold the same calls, in whatever order."""
    left = list(calls)
    for call in expected:
        if call not in left:
            return False
        left.remove(call)
    return not left


def _check(trace: Trace, truth: Truth, kind: str) -> None:
    if len(truth) != trace.expected:
        raise ValueError(
            f"the reward {kind} needs the ground truth of {trace.expected} turns, not of "
            f"{len(truth)}"
        )


def _calls(turn: TurnTrace) -> list[Call]:
    return [call for step in turn.steps for call in step.calls]


def _matched(calls: Sequence[Call], expected: Sequence[Call]) -> float:
    """R of one turn. Each expected call takes, in order, the best of the calls of its tool that are
    left."""
    named = Counter(call.name for call in calls)
    wanted = Counter(call.name for call in expected)
    either = (named | wanted).total()
    total = (named & wanted).total() / either if either else 1.0
    left = list(calls)
    for call in expected:
        rivals = [other for other in left if other.name == call.name]
        if rivals:
            best = max(rivals, key=lambda other: _likeness(call, other))
            left.remove(best)
            total += _likeness(call, best)
    return total


def _likeness(call: Call, other: Call) -> float:
    """Shared over all names of arguments, plus how many arguments are equal."""
    either = call.arguments.keys() | other.arguments.keys()
    shared = call.arguments.keys() & other.arguments.keys()
    names = len(shared) / len(either) if either else 1.0
    equal: int = sum(call.arguments[name] == other.arguments[name] for name in shared)
    return names + equal
