"""Stage V: the draft in the form of its type (004 §3.3, Appendix P).

- base, long_context: rules alone (padding a world needs no model).
- miss_func: a model chooses the function that is taken away in a turn in which no call is right; in the next turn the
  fixed sentence says that it is back.
- miss_param: a model chooses a value, leaves it vague, and writes the sentence that supplies it in the next turn.

Rules decide what may be chosen, so that a weak model cannot choose badly: a function that nothing earlier needs and no
others replace, a value that the request says and nothing earlier tells or shows. In the paper's form
(`pipeline.calls = "per_turn"`) a choice is verified by a question that does not show the calls: can it be done, is it
known? A choice that fails leads to one other, where there is one. In the joint form the judge looks at that, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from daemon.authors.base import Assignment, Texts
from daemon.authors.llm import showing, spoken
from daemon.authors.llm.answers import Form, Unreadable
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.computing import Compute
from rods.composing import forms
from rods.composing.catalogue import Catalogue
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.config.identity import Pipeline
from rods.flows import is_small
from rods.gates import missing
from rods.tasks import RETURN_SENTENCE, Task, TaskType

CHOICES = 2  # so many are tried in a turn


@dataclass(frozen=True, slots=True)
class Gap:
    """What a turn without calls lacks: the text that asks in vain, the text of the turn after, the tool that is held
    out between them ("" for a value), and what the provenance says of it."""

    request: str
    supply: str
    missing: dict[str, Any]
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """One turn without calls, at work: what was said so far (`script`, the request still in `turn` + 1), the tools that
    the task shows, and the gaps that earlier turns have already."""

    given: Assignment
    draft: Draft
    type: TaskType
    script: Texts
    turn: int
    shown: tuple[str, ...]
    gaps: tuple[Gap, ...]

    @property
    def request(self) -> str:
        return self.script[self.turn + 1]

    @property
    def calls(self) -> tuple[BoundCall, ...]:
        return self.draft.turns[self.turn + 1]

    def with_gap(self, gap: Gap) -> Scene:
        script = (*self.script[: self.turn], gap.request, gap.supply, *self.script[self.turn + 2 :])
        return replace(self, script=script, gaps=(*self.gaps, gap))

    def before(self) -> str:
        so_far = replace(self.draft, turns=self.draft.turns[: self.turn])
        return showing.turns(so_far, self.script) or "(nothing yet)"

    def tools(self, without: str = "") -> str:
        tools = self.given.environment.tools()
        return showing.signatures(tools[name] for name in self.shown if name != without)


class Former:
    """`compute` runs what takes a moment in a thread."""

    def __init__(self, catalogue: Catalogue, asker: Asker, settings: Pipeline, compute: Compute) -> None:
        self.catalogue, self.asker, self.settings, self.compute = catalogue, asker, settings, compute

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        """The task shows no more tools than its seed, so that the choice among them is as hard."""
        blanks = forms.blanks(draft, texts, type)
        task = await self.compute(lambda: self._finished(given, draft, texts, type))
        scene = Scene(given, draft, type, texts, 0, task.tools, ())
        for turn in blanks:
            scene = replace(scene, turn=turn)
            gap = await (self._without_function(scene) if type == "miss_func" else self._without_value(scene))
            scene = scene.with_gap(gap)
        return await self.compute(lambda: self._task(scene)) if blanks else task

    async def fits(self, given: Assignment, draft: Draft) -> None:
        """Raises ComposeError("no_pattern") for a draft of which the form of the seed's type can hardly be made, before
        anybody words it: what will be said is taken to be what must be said."""
        type, tools = given.seed.type, given.environment.tools()
        if type not in ("miss_func", "miss_param"):
            return
        words = tuple(
            ", ".join(str(one.slot.text) for one in spoken.said(tools, calls)) + "." if calls else ""
            for calls in draft.turns
        )
        blanks = forms.blanks(draft, words, type)
        shown = (await self.compute(lambda: self._finished(given, draft, words, type))).tools
        for turn in blanks:
            scene = Scene(given, draft, type, words, turn, shown, ())
            await (self._functions(scene) if type == "miss_func" else self._open_values(scene))

    def _task(self, scene: Scene) -> Task:
        return self._finished(scene.given, scene.draft, scene.script, scene.type, scene.gaps)

    def _finished(
        self, given: Assignment, draft: Draft, script: Texts, type: TaskType, gaps: Sequence[Gap] = ()
    ) -> Task:
        return forms.finished(
            replace(self.catalogue, shown=min(self.catalogue.shown, len(given.seed.tools))),
            given.environment,
            draft,
            script,
            type,
            given.rng(f"form {type}"),  # made anew, so that the same tools are shown each time
            held_out={gap.missing["turn"] + 1: (gap.tool,) for gap in gaps if gap.tool},
            missing=[gap.missing for gap in gaps],
        )

    async def _lacking(self, scene: Scene, gaps: Sequence[Gap]) -> list[int]:
        """Which of `gaps` really are ones by rule: nothing at hand does or shows what is missing (gate `missing`)."""
        results = [[bound.result for bound in calls] for calls in scene.draft.turns]

        def lacks(gap: Gap) -> bool:
            task = self._task(scene.with_gap(gap))
            blamed = missing(scene.given.environment, task, results)
            return not any(reason.startswith(f"turn {scene.turn + 1}:") for reason in blamed)

        return [number for number, gap in enumerate(gaps) if await self.compute(partial(lacks, gap))]

    async def _without_function(self, scene: Scene) -> Gap:
        choices = await self._functions(scene)
        for _ in range(CHOICES):
            if not choices:
                break
            tool = next(iter(choices)) if len(choices) == 1 else await self._function(scene, list(choices))
            gap = choices.pop(tool)
            if await self._verified(scene, "miss_func_verify", "served", scene.request, without=tool):
                return gap
        raise ComposeError("query_verify_failed", "the request can be served without what is missing", turn=scene.turn)

    async def _functions(self, scene: Scene) -> dict[str, Gap]:
        """The functions that may be taken away, by name. Raises ComposeError("no_pattern") when there is none."""
        tools = forms.missable(self.catalogue, scene.draft, scene.turn + 1)
        gaps = [Gap(scene.request, RETURN_SENTENCE, {"turn": scene.turn, "tool": tool}, tool) for tool in tools]
        found = {tools[number]: gaps[number] for number in await self._lacking(scene, gaps)}
        if not found:
            detail = f"turn {scene.turn + 2} can be done without {' and '.join(tools)}: choose others there"
            raise ComposeError("no_pattern", detail, turn=scene.turn + 1)
        return found

    async def _function(self, scene: Scene, choices: Sequence[str]) -> str:
        return await self.asker.ask(
            scene.given,
            "miss_func",
            stage="adversarial",
            fields={
                "before": scene.before(),
                "turn": str(scene.turn + 1),
                "query": scene.request,
                "calls": showing.turn_lines(scene.calls),
                "tools": scene.tools(),
                "choices": ", ".join(choices),
            },
            form=Form({"function": {"type": "string", "enum": list(choices)}}),
            read=lambda answer: str(answer["function"]),
            error="no_pattern",
            turn=scene.turn,
        )

    async def _without_value(self, scene: Scene) -> Gap:
        choices = await self._open_values(scene)
        for _ in range(CHOICES):
            if not choices:
                break
            number, request, supply = await self._value(scene, choices)
            chosen = choices.pop(number)
            if await self._verified(scene, "miss_param_verify", "known", request):
                return self._value_gap(scene, chosen, request, supply)
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
            fields={
                "before": scene.before(),
                "turn": str(scene.turn + 1),
                "query": scene.request,
                "calls": showing.turn_lines(scene.calls),
                "tools": scene.tools(),
                "choices": "\n".join(lines),
            },
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

    async def _open_values(self, scene: Scene) -> list[spoken.Said]:
        """The values that may be left open: needed, said in the request, in no earlier turn or result, and shown by no
        function at hand; rather not an option that the tool lists, and of the first request where the catalogue wants
        that. Raises ComposeError("no_pattern") when there is none."""
        earlier = [*scene.script[: scene.turn]]
        earlier += [bound.result.text for calls in scene.draft.turns[: scene.turn] for bound in calls]
        every = spoken.said(scene.given.environment.tools(), scene.calls)
        own = [one for one in every if one.needed and not (one.free and is_small(one.value))]
        own = [one for one in own if one.by([scene.request]) and not one.by(earlier)]
        gaps = [self._value_gap(scene, one, _cut(scene.request, one.slot.text), one.slot.text) for one in own]
        found = [own[number] for number in await self._lacking(scene, gaps)]
        if not found:
            detail = f"turn {scene.turn + 2} needs nothing that only its user can know: choose functions there that do"
            raise ComposeError("no_pattern", detail, turn=scene.turn + 1)
        found = [one for one in found if not one.free] or found
        first = [one for one in found if one.bound.recipe == scene.calls[0].recipe]
        return first if first and self.catalogue.missing_first else found

    def _value_gap(self, scene: Scene, one: spoken.Said, request: str, supply: str) -> Gap:
        domain = self.catalogue.family(one.slot.domain)
        missing = {"turn": scene.turn, "argument": one.argument, "value": one.value, "domain": domain}
        return Gap(request, supply, missing)

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


def _cut(request: str, words: str) -> str:
    """The request without a value, as rules see it before a model has found other words."""
    return re.sub(re.escape(words), "", request, flags=re.IGNORECASE)
