"""The rewards of an episode: progress, binary accuracy, and two format rewards.

- progress: resolved turns ÷ expected turns (000 §3.4). The denominator counts the turns that the task *has*, so an
  episode that was cut after one good turn does not score 1.
- format (000 §3.2, eq. 1–2), range 0–2: 1[a call was made] · ((N − malformed)/N + correct/(correct + wrong)), where N
  counts replies, `correct` calls a visible tool with legal arguments, `wrong` one with illegal arguments. The second
  term is 0 when there was neither.
- format_codes (004 Appendix H; its formula was lost, this one follows its description), range 0–2: every reply gets
  the worst code that applies: malformed text, a schema error (invalid JSON inside a call, an unknown tool, illegal
  arguments), a failed execution, or valid. The reward is 1[a call was tried] · ((N − malformed)/N + valid/(replies that
  try a call)).
"""

from __future__ import annotations

from rods.episode.engine import StepTrace, Trace
from rods.faults import BREAKS_DOCUMENT, WRONG_ARGUMENTS
from rods.observations import RewardKind, Rollout

RANGES: dict[RewardKind, tuple[float, float]] = {
    "progress": (0.0, 1.0),
    "binary": (0.0, 1.0),
    "format": (0.0, 2.0),
    "format_codes": (0.0, 2.0),
}


def score(trace: Trace, kind: RewardKind) -> Rollout:
    """The record of an episode; `kind` chooses what is trained on. None is the reward of an infrastructure failure."""
    form = format_codes(trace) if kind == "format_codes" else format_reward(trace)
    reward: float | None
    if trace.end == "infrastructure":
        reward = None
    elif kind == "progress":
        reward = trace.resolved / trace.expected
    elif kind == "binary":
        reward = float(trace.binary)
    else:
        reward = form
    return Rollout(trace.resolved, trace.expected, trace.binary, form, reward, trace.end)


def format_reward(trace: Trace) -> float:
    """000 eq. 1–2, in [0, 2]."""
    steps = _steps(trace)
    results = [result for step in steps for result in step.results]
    if not results:
        return 0.0
    malformed = sum(step.error is not None for step in steps)
    wrong = sum(result.error in WRONG_ARGUMENTS for result in results)
    correct = sum(result.error not in BREAKS_DOCUMENT for result in results)
    tools = correct / (correct + wrong) if correct + wrong else 0.0
    return (len(steps) - malformed) / len(steps) + tools


def format_codes(trace: Trace) -> float:
    """004 Appendix H, in [0, 2]."""
    steps = _steps(trace)
    calling = [step for step in steps if step.results or step.in_call]
    if not calling:
        return 0.0
    malformed = sum(step.error is not None and not step.in_call for step in steps)
    valid = sum(not step.in_call and all(result.error is None for result in step.results) for step in calling)
    return (len(steps) - malformed) / len(steps) + valid / len(calling)


def _steps(trace: Trace) -> list[StepTrace]:
    return [step for turn in trace.turns for step in turn.steps]
