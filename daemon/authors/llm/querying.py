"""Stage II's queries: what the user says in each turn, and whether it says what the calls do (004 Appendix D).

Batched, all turns are written in one call and verified in another; in the paper's form each turn is written and
verified for itself. Texts that are rejected are written again, with what is wrong with them, a few times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from daemon.authors.base import Assignment, Texts
from daemon.authors.llm import showing, spoken
from daemon.authors.llm.answers import Form, Unreadable
from daemon.authors.llm.asking import Asker
from prompts import load
from rods.canonical import content_id
from rods.composing.catalogue import Catalogue
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.config import PipelineSettings
from rods.environments.base import Environment

AGAIN = 1  # times that rejected texts are written anew
VERDICT = {"type": "string", "enum": ["aligned", "misaligned"]}
GENERAL = "query_class_any"


class Querying:
    """Raises ComposeError: `query_gen_failed` for texts that never have the form or leave out a value,
    `query_verify_failed` for texts that do not say what the calls do, `query_verify_no_tag` for a verification that
    cannot be read, `no_prompts` for an API class without a query template."""

    def __init__(self, catalogue: Catalogue, asker: Asker, settings: PipelineSettings) -> None:
        self.catalogue, self.asker, self.settings = catalogue, asker, settings

    def check(self, given: Assignment) -> None:
        """Raises ComposeError("no_prompts") when a class of the root has no template and the general one is off."""
        for group in given.profile.classes:
            voice(given.environment, group, fallback=self.settings.fallback_prompt)

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        """One text a turn; "" where no call is right."""
        turns = [turn for turn, calls in enumerate(draft.turns) if calls]
        texts = [""] * len(draft.turns)
        groups = [turns] if self.settings.calls == "batched" else [[turn] for turn in turns]
        for group in groups:
            for turn, text in zip(group, await self._verified(given, draft, group, texts), strict=True):
                texts[turn] = text
        return tuple(texts)

    async def _verified(
        self, given: Assignment, draft: Draft, turns: Sequence[int], before: Sequence[str]
    ) -> list[str]:
        problem = ""
        for number in range(AGAIN + 1):
            texts = await self._written(given, draft, turns, before, problem)
            verdicts, problem = await self._verdicts(given, draft, turns, texts)
            wrong = [turn for turn, verdict in zip(turns, verdicts, strict=True) if verdict == "misaligned"]
            if not wrong:
                return texts
            if number == AGAIN:
                name = draft.turns[wrong[0]][0].recipe
                detail = f"{texts[turns.index(wrong[0])]!r} does not say what its calls do: {problem}"
                raise ComposeError("query_verify_failed", detail, function=name, turn=wrong[0])
        raise AssertionError("unreachable")

    async def _written(
        self, given: Assignment, draft: Draft, turns: Sequence[int], before: Sequence[str], problem: str
    ) -> list[str]:
        tools = given.environment.tools()
        used = [bound for turn in turns for bound in draft.turns[turn]]

        def read(answer: dict[str, Any]) -> list[str]:
            texts = [text.strip() for text in answer["query"]]
            said = list(before)
            for turn, text in zip(turns, texts, strict=True):
                said[turn] = text
                faults = spoken.amiss(given.environment, draft.turns[turn], text)
                faults += spoken.unsaid(tools, draft, said, turn) + spoken.given_away(tools, draft, said, turn)
                if faults:
                    raise Unreadable("; ".join(faults))
            return texts

        earlier = [f"turn {number + 1}: {text}" for number, text in enumerate(before) if text]
        return await self.asker.ask(
            given,
            "query",
            stage="query",
            fields={
                "story": showing.narrative(draft.plan.narrative),
                "voices": voices(self.asker, given.environment, used, fallback=self.settings.fallback_prompt),
                "earlier": "\n".join(earlier) or "(nothing)",
                "turns": "\n\n".join(
                    f"Turn {turn + 1}:\n{spoken.with_values(tools, draft.turns[turn])}" for turn in turns
                ),
                "count": str(len(turns)),
                "problem": problem,
            },
            sections=["mend"] if problem else [],
            form=Form({"query": _list_of(spoken.TEXT, len(turns))}),
            read=read,
            error="query_gen_failed",
            turn=turns[0],
            function=draft.turns[turns[0]][0].recipe,
            max_tokens=256 + 200 * len(turns),
        )

    async def _verdicts(
        self, given: Assignment, draft: Draft, turns: Sequence[int], texts: Sequence[str]
    ) -> tuple[list[str], str]:
        shown = [
            f"Turn {turn + 1}\nuser: {text}\n{showing.turn_lines(draft.turns[turn])}"
            for turn, text in zip(turns, texts, strict=True)
        ]
        return await self.asker.ask(
            given,
            "query_verification",
            stage="verification",
            fields={"turns": "\n\n".join(shown), "count": str(len(turns))},
            form=Form({"verdict": _list_of(VERDICT, len(turns)), "problem": {"type": "string", "maxLength": 300}},
                      optional=frozenset({"problem"})),
            read=lambda answer: (answer["verdict"], answer.get("problem", "") or answer["reason"]),
            error="query_verify_no_tag",
            turn=turns[0],
            function=draft.turns[turns[0]][0].recipe,
        )  # fmt: skip


def voices(asker: Asker, environment: Environment, calls: Iterable[BoundCall], *, fallback: bool) -> str:
    """The query templates of the API classes of `calls`, one a line; `asker` remembers them. Raises
    ComposeError("no_prompts")."""
    tools = environment.tools()
    found = [
        voice(environment, group, fallback=fallback) for group in sorted({tools[one.call.name].group for one in calls})
    ]
    asker.hashes.update((name, hash) for name, _, hash in found)
    return "\n".join(f"- {text}" for text in dict.fromkeys(text for _, text, _ in found))


def voice(environment: Environment, group: str, *, fallback: bool) -> tuple[str, str, str]:
    """Name, text and hash of the query template of an API class: the environment's own (`query_templates`, a mapping
    from classes to texts), the project's, or the general one. Raises ComposeError("no_prompts")."""
    own = getattr(environment, "query_templates", {})
    if group in own:
        return f"{environment.name} {group}", own[group], content_id(own[group])[:12]
    for name in (f"query_class_{group}", *([GENERAL] if fallback else [])):
        try:
            template = load(name)
        except (FileNotFoundError, ValueError, OSError):
            continue
        return name, template.text, template.hash
    raise ComposeError("no_prompts", f"no query template for the API class {group!r}, and the general one is off")


def _list_of(schema: Any, count: int) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": count, "maxItems": count}
