"""The kinds of fault, on one page, and how one vocabulary is told in another.

- `CallError`, of one tool call: `Result.error`. In a draft it makes the ComposeError
  `vm_exec_failed`; in an episode it is part of the trace, but `infrastructure` ends the episode and
  raises InfrastructureError while a draft is written.
- `ErrorType`, of one step of writing a variant (004 Appendix E): `ComposeError.type`. The next plan
  avoids what it names; those in `PATCHABLE` may first be mended in the state.
- `Gate`, of a finished variant (004 Appendix G). `verdict_of_gate` says whether other words may
  mend it, and `ERROR_OF_VERDICT` which ErrorType the next attempt is told; so does a judge's
  verdict.
- `Reason`, why a gate refuses (`GateRejection`), and `Defect`, what a judge objects to.
- `Failure`, of a candidate, whatever it was: `error` in rejected.jsonl.
- `Finish`, of one answer of a language model. Where the model is the policy, `length` and `context`
  are the episode's `End` too, and those in `NO_ANSWER`, which no model gave, end it as
  `infrastructure`; in the pipeline all of them are asked again.
- `End`, of one episode: zone statistics leave out `INVALID_ENDS`.
- `Label`, of one turn of an episode: what became of it, or why it failed (rods/episode/diagnosis.py
  gives them).

What a policy or an author did wrong is data, and counted. What the machinery broke
(`infrastructure`, or an InfrastructureError) is nobody's failure, and counted nowhere."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from rods.canonical import JsonObject, frozen

# A call. unknown_tool, hidden_tool: no such tool, or not now. bad_arguments: missing, extra or
# wrongly typed. bounds: over a declared bound. tool: the tool itself refused. timeout, too_large:
# it took, or gave, more than is allowed. infrastructure: the machinery broke.
CallError = Literal[
    "unknown_tool",
    "hidden_tool",
    "bad_arguments",
    "bounds",
    "tool",
    "timeout",
    "too_large",
    "infrastructure",
]
CALL_ERRORS: tuple[CallError, ...] = get_args(CallError)
WRONG_ARGUMENTS: frozenset[str] = frozenset({"bad_arguments", "bounds"})
# without being executed
BREAKS_DOCUMENT: frozenset[str] = WRONG_ARGUMENTS | {"unknown_tool", "hidden_tool"}
OVER_LIMIT: frozenset[str] = frozenset({"timeout", "too_large"})
# says nothing of calls that have worked before
NOT_EXECUTED: frozenset[str] = frozenset({"infrastructure", "timeout"})

# Failures in the environment, which a patch of the initial state may mend; the others lead to
# replanning (Appendix E).
Patchable = Literal["param_gen_failed", "decompose_failed", "func_sample_failed", "vm_exec_failed"]
PATCHABLE: frozenset[str] = frozenset(get_args(Patchable))
# The twelve error types of 004 Appendix E, under the names they have there, and that of a plan
# which cannot be read.
ErrorType = Literal[
    Patchable,
    "duplicate_func",
    "query_gen_failed",
    "query_verify_failed",
    "query_verify_no_tag",
    "conversation_construct_failed",
    "no_prompts",
    "no_pattern",
    "pipeline_exception",
    "plan_unreadable",
]

# Gates whose objections lie in the words of a turn, which others may mend; the other gates blame
# calls or neighbours.
WordGate = Literal["leaks", "grounding", "requests", "referents"]
Gate = Literal[
    "replay",
    "tools",
    "arguments",
    WordGate,
    "missing",
    "repeats",
    "profile",
    "duplicates",
    "contamination",
    "room",
    "witness",
]
# A fault of a finished variant lies in the words of a turn, or in the calls (004 Appendix G).
Verdict = Literal["query_fixable", "gt_unfixable"]
ERROR_OF_VERDICT: Mapping[Verdict, ErrorType] = {
    "query_fixable": "query_verify_failed",
    "gt_unfixable": "conversation_construct_failed",
}


# A user's words are at fault, and no function.
OF_WORDS: frozenset[str] = frozenset(
    {"query_gen_failed", "query_verify_failed", "query_verify_no_tag"}
)


def verdict_of_gate(gate: Gate) -> Verdict:
    """Where a fault lies that `gate` finds."""
    return "query_fixable" if gate in get_args(WordGate) else "gt_unfixable"


# What a candidate can fail of besides: the judge, broken machinery, or a limit on what may be
# spent.
Failure = ErrorType | Gate | Literal["judge_rejected", "infrastructure", "budget_spent"]
# What no further attempt can mend: an environment without a catalogue, a limit on calls.
FINAL: frozenset[str] = frozenset({"no_prompts", "budget_spent"})

# A model's answer. stop: it ended by itself; its text may be "", a model may be silent. tools: with
# native tool calls. length: cut at max_tokens. context: the prompt does not fit, nothing was
# generated. aborted: the server gave up on it, or broke. filtered: somebody withheld it, or a part.
# empty: no choice, or neither text nor calls in it. other: no known word says how it ended.
Finish = Literal["stop", "tools", "length", "context", "aborted", "filtered", "empty", "other"]
NO_ANSWER: frozenset[Finish] = frozenset({"aborted", "filtered", "empty", "other"})

# An episode. finished: every turn was answered. step_limit: a turn took too many replies. length,
# context: a reply was cut, or had no room left. infrastructure: engine or world broke.
End = Literal["finished", "step_limit", "length", "context", "infrastructure"]
ENDS: tuple[End, ...] = get_args(End)
# truncated: left out of zone statistics, may mark a task `truncated`
CUT_ENDS = frozenset({"length", "context"})
INVALID_ENDS = CUT_ENDS | {"infrastructure"}

# A turn. The first six are the evidence of 002 Table 5, in its order; the others, with
# state_mismatch and response_mismatch, are those that carry weights in Table 6. docs/diagnosis.md
# says when each is given.
Label = Literal[
    "invalid_tool_call",
    "argument_mismatch",
    "state_mismatch",
    "recovery_failure",
    "missing_tool_call",
    "response_mismatch",
    "spurious_tool_call",
    "correct_abstention",
    "empty_turn_model_response",
    "instance_mismatch",
    "pass",
]
LABELS: tuple[Label, ...] = get_args(Label)
SUCCESSES: frozenset[Label] = frozenset({"pass", "correct_abstention"})


@frozen
class Reason:
    """What a gate objects to. `turn` and `call` (from 0) say where; None: the whole task, or the
    whole turn. `doubt`: what rules know of words does not settle it, and a judge may. `pair`: a
    value of the call, and another one that the words mean as well."""

    text: str
    turn: int | None = None
    call: int | None = None
    doubt: bool = False
    pair: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.turn is None:
            return self.text
        return f"turn {self.turn}{'' if self.call is None else f', call {self.call}'}: {self.text}"


Reasons = list[Reason]


@frozen
class Defect:
    """What a judge holds against a candidate: in the words of `turn` (from 0) when `query_fixable`,
    in the calls, or in how the task is built, when `gt_unfixable` (004 Appendix G). A request made
    in vain counts to the next turn, in which it is served."""

    verdict: Verdict
    reason: str
    turn: int | None = None


@frozen
class GateRejection:
    """A gate that refuses a task, and why."""

    gate: Gate
    reasons: tuple[Reason, ...]

    def as_json(self) -> JsonObject:
        return {"gate": self.gate, "reasons": [str(reason) for reason in self.reasons]}
