"""Stage V: the draft in the form of its type (004 §3.3, Appendix P).

- base, long_context: rules alone (padding a world needs no model).
- miss_func: a model chooses the function that is taken away in a turn in which no call is right; in the next turn the
  fixed sentence says that it is back.
- miss_param: a model chooses a value, leaves it vague, and writes the sentence that supplies it in the next turn.

Rules decide what may be chosen (`gaps`), so that a weak model cannot choose badly. In the paper's form
(`pipeline.calls = "per_turn"`) a choice is verified by a question that does not show the calls: can it be done, is it
known? A choice that fails leads to one other, where there is one. In the joint form the judge looks at that, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from daemon.authors.base import Assignment, Texts
from daemon.authors.llm import gaps, showing, spoken
from daemon.authors.llm.answers import Form, Unreadable
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.gaps import Gap, Scene
from rods.composing import task_types
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError, Draft
from rods.config import PipelineSettings
from rods.tasks import Task, TaskType

CHOICES = 2  # so many are tried in a turn


class Former:
    """`compute` runs what takes a moment in a thread."""

    def __init__(self, catalogue: Catalogue, asker: Asker, settings: PipelineSettings, compute: Compute) -> None:
        self.catalogue, self.asker, self.settings, self.compute = catalogue, asker, settings, compute

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        blanks = task_types.blanks(draft, texts, type)
        scene = Scene(self.catalogue, given, draft, type, texts)
        task = await self.compute(scene.task)
        for turn in blanks:
            scene = replace(scene, turn=turn, shown=task.tools)
            gap = await (self._without_function(scene) if type == "miss_func" else self._without_value(scene))
            scene = scene.with_gap(gap)
        return await self.compute(scene.task) if blanks else task

    async def fits(self, given: Assignment, draft: Draft) -> None:
        """Raises ComposeError("no_pattern") for a draft of which the form of the seed's type cannot be made, before
        anybody words it: what will be said is taken to be what must be said."""
        type, tools = given.seed.type, given.environment.tools()
        if type not in ("miss_func", "miss_param"):
            return
        texts = tuple(
            ", ".join(one.slot.text for one in spoken.said(tools, calls)) + "." if calls else ""
            for calls in draft.turns
        )
        scene = Scene(self.catalogue, given, draft, type, texts)
        shown = (await self.compute(scene.task)).tools
        for turn in task_types.blanks(draft, texts, type):
            at = replace(scene, turn=turn, shown=shown)
            await self.compute(partial(gaps.functions if type == "miss_func" else gaps.values, at))

    async def _without_function(self, scene: Scene) -> Gap:
        choices = await self.compute(lambda: gaps.functions(scene))
        for _ in range(CHOICES):
            if not choices:
                break
            tool = next(iter(choices)) if len(choices) == 1 else await self._function(scene, list(choices))
            gap = choices.pop(tool)
            if await self._verified(scene, "miss_func_verify", "served", scene.request, without=tool):
                return gap
        raise ComposeError("query_verify_failed", "the request can be served without what is missing", turn=scene.turn)

    async def _function(self, scene: Scene, choices: Sequence[str]) -> str:
        return await self.asker.ask(
            scene.given,
            "miss_func",
            stage="adversarial",
            fields=scene.question(", ".join(choices)),
            form=Form({"function": {"type": "string", "enum": list(choices)}}),
            read=lambda answer: str(answer["function"]),
            error="no_pattern",
            turn=scene.turn,
        )

    async def _without_value(self, scene: Scene) -> Gap:
        choices = await self.compute(lambda: gaps.values(scene))
        for _ in range(CHOICES):
            if not choices:
                break
            number, request, supply = await self._value(scene, choices)
            chosen = choices.pop(number)
            if await self._verified(scene, "miss_param_verify", "known", request):
                return gaps.value_gap(scene, chosen, request, supply)
        raise ComposeError("query_verify_failed", "what is missing is known, or can be found out", turn=scene.turn)

    async def _value(self, scene: Scene, choices: Sequence[spoken.Said]) -> tuple[int, str, str]:
        """Which of the choices, the vague request, and the sentence that supplies the value."""
        lines = [
            f"{number}. {one.argument} of {one.bound.call.name}: {showing.compact(one.slot.text)}"
            for number, one in enumerate(choices, start=1)
        ]
        every = spoken.said(scene.given.environment.tools(), scene.calls)

        def read(answer: dict[str, Any]) -> tuple[int, str, str]:
            chosen = choices[answer["choice"] - 1]
            request, supply = answer["request"].strip(), answer["supply"].strip()
            for name, text in (("request", request), ("supply", supply)):
                if reasons := spoken.amiss(scene.given.environment, scene.calls, text):
                    raise Unreadable(f"{name}: {'; '.join(reasons)}")
            told = showing.compact(chosen.slot.text)
            if chosen.by([request]) or not chosen.by([supply]):
                raise Unreadable(
                    f"request must not say {told}, and supply must say it word for word", error="query_verify_failed"
                )
            lost = [one for one in every if one.value != chosen.value and one.by([scene.request]) > one.by([request])]
            if lost:
                raise Unreadable(
                    f"request must still say {', '.join(showing.compact(one.slot.text) for one in lost)}",
                    error="query_verify_failed",
                )
            return answer["choice"] - 1, request, supply

        return await self.asker.ask(
            scene.given,
            "miss_param",
            stage="adversarial",
            fields=scene.question("\n".join(lines)),
            form=Form(
                {
                    "choice": {"type": "integer", "minimum": 1, "maximum": len(choices)},
                    "request": spoken.TEXT,
                    "supply": spoken.TEXT,
                }
            ),
            read=read,
            error="query_gen_failed",
            turn=scene.turn,
        )

    async def _verified(self, scene: Scene, template: str, field: str, query: str, without: str = "") -> bool:
        """Whether the turn really cannot be served. Asked in the paper's form alone."""
        if self.settings.calls == "batched":
            return True
        answer: str = await self.asker.ask(
            scene.given,
            template,
            stage="adversarial_verification",
            fields={"before": scene.before(), "query": query, "tools": scene.tools(without)},
            form=Form({field: {"type": "string", "enum": ["yes", "no"]}}),
            read=lambda found: found[field],
            error="query_verify_no_tag",
            turn=scene.turn,
        )
        return answer == "no"
