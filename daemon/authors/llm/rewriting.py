"""Stage III: a model words all turns at once, from the plan's narrative (004 §3.3, Appendix C.3); and the refinement of
stage IV, in which it words one turn anew (C.6).

A text is taken only when it says what only the user can know, does not say what calls find out, and names no function.
What is wrong is told to the model, which then tries again; a text that never gets its values right ends as
`query_verify_failed`, one that cannot be read or leaks as `query_gen_failed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from daemon.authors.base import Assignment, Defect, Texts
from daemon.authors.llm import showing, spoken
from daemon.authors.llm.answers import Form, Unreadable
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.querying import voices
from rods.composing.records import Draft
from rods.config import PipelineSettings


class Rewriter:
    """`executor` writes the turns one by one before, in the paper's per-turn form; the rewrite then starts from these
    texts."""

    def __init__(self, asker: Asker, settings: PipelineSettings, executor: Any) -> None:
        self.asker, self.settings, self.executor = asker, settings, executor

    async def rewrite(self, given: Assignment, draft: Draft) -> Texts:
        wordings = await self.executor.queries(given, draft) if self.settings.calls == "per_turn" else ()
        count = len(draft.turns)
        form = Form({"queries": {"type": "array", "items": spoken.TEXT, "minItems": count, "maxItems": count}})

        def read(answer: dict[str, Any]) -> Texts:
            texts = tuple(text.strip() for text in answer["queries"])
            _check(given, draft, texts, range(count))
            return texts

        return await self.asker.ask(
            given,
            "rewrite_turns",
            stage="rewrite",
            fields={
                "narrative": showing.narrative(draft.plan.narrative),
                "count": str(count),
                "functions": functions(given, draft),
                "voices": self._voices(given, draft),
                "turns": _turns(given, draft, wordings),
                "longest": str(spoken.LONGEST),
            },
            form=form,
            read=read,
            error="query_gen_failed",
            max_tokens=512 + 256 * count,
        )

    async def reword(self, given: Assignment, draft: Draft, texts: Texts, fault: Defect) -> Texts:
        turn = fault.turn or 0

        def read(answer: dict[str, Any]) -> Texts:
            mended = (*texts[:turn], answer["query"].strip(), *texts[turn + 1 :])
            _check(given, draft, mended, [turn])
            return mended

        return await self.asker.ask(
            given,
            "refine_rewrite",
            stage="refine",
            fields={
                "conversation": showing.turns(draft, texts),
                "turn": str(turn + 1),
                "query": texts[turn],
                "issue": fault.reason,
                "functions": functions(given, draft),
                "voices": self._voices(given, replace(draft, turns=(draft.turns[turn],))),
                "calls": spoken.with_values(given.environment.tools(), draft.turns[turn]),
                "longest": str(spoken.LONGEST),
            },
            form=Form({"query": spoken.TEXT}),
            read=read,
            error="query_gen_failed",
            turn=turn,
        )

    def _voices(self, given: Assignment, draft: Draft) -> str:
        calls = [bound for turn in draft.turns for bound in turn]
        return voices(self.asker, given.environment, calls, fallback=self.settings.fallback_prompt)


def functions(given: Assignment, draft: Draft) -> str:
    """The signatures of the functions that a draft uses."""
    tools = given.environment.tools()
    used = {bound.call.name for calls in draft.turns for bound in calls}
    return showing.signatures(tool for name, tool in tools.items() if name in used)


def _check(given: Assignment, draft: Draft, texts: Texts, turns: Iterable[int]) -> None:
    """Raises Unreadable, with all that the model should put right in these turns."""
    tools = given.environment.tools()
    amiss, values = [], []
    for turn in turns:
        reasons = spoken.amiss(given.environment, draft.turns[turn], texts[turn])
        amiss += [f"turn {turn + 1}: {reason}" for reason in reasons]
        values += spoken.unsaid(tools, draft, texts, turn) + spoken.given_away(tools, draft, texts, turn)
    if amiss or values:
        raise Unreadable("; ".join(amiss + values), error=None if amiss else "query_verify_failed")


def _turns(given: Assignment, draft: Draft, wordings: Texts) -> str:
    tools = given.environment.tools()
    parts = []
    for turn, calls in enumerate(draft.turns):
        before = f"\nworded for itself: {wordings[turn]}" if wordings else ""
        parts.append(f"Turn {turn + 1}:\n{spoken.with_values(tools, calls)}{before}")
    return "\n\n".join(parts)
