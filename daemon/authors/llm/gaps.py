"""What may be missing from a turn in which no call is right, decided by rules (004 §3.3 stage V, Appendix P).

A function may go that nothing earlier needs and that no others replace; a value may stay open that the request says and
that nothing earlier tells or shows. The gate `missing` is asked about each before any model is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from daemon.authors.base import Assignment, Texts
from daemon.authors.llm import showing, spoken
from rods.analysis.says import is_small
from rods.composing import task_types
from rods.composing.catalogue import Catalogue
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.gates import missing
from rods.tasks import RETURN_SENTENCE, Task, TaskType


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
    """A draft on its way to the form `type`: the script so far, the gaps that it has already, and the turn without
    calls at which it is; that turn's request still stands in the turn after. `shown` are the tools that the task
    shows."""

    catalogue: Catalogue
    given: Assignment
    draft: Draft
    type: TaskType
    script: Texts
    turn: int = 0
    shown: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def request(self) -> str:
        return self.script[self.turn + 1]

    @property
    def calls(self) -> tuple[BoundCall, ...]:
        return self.draft.turns[self.turn + 1]

    def before(self) -> str:
        """The conversation before the turn, as prompts show it."""
        so_far = replace(self.draft, turns=self.draft.turns[: self.turn])
        return showing.turns(so_far, self.script) or "(nothing yet)"

    def tools(self, without: str = "") -> str:
        tools = self.given.environment.tools()
        return showing.signatures(tools[name] for name in self.shown if name != without)

    def question(self, choices: str) -> dict[str, str]:
        """The fields of a prompt that asks what to take away."""
        return {
            "before": self.before(),
            "turn": str(self.turn + 1),
            "query": self.request,
            "calls": showing.turn_lines(self.calls),
            "tools": self.tools(),
            "choices": choices,
        }

    def with_gap(self, gap: Gap) -> Scene:
        script = (*self.script[: self.turn], gap.request, gap.supply, *self.script[self.turn + 2 :])
        return replace(self, script=script, gaps=(*self.gaps, gap))

    def task(self) -> Task:
        """The task as far as it is. It shows no more tools than its seed, so that the choice among them is as hard, and
        the same ones each time."""
        return task_types.finished(
            replace(self.catalogue, shown=min(self.catalogue.shown, len(self.given.seed.tools))),
            self.given.environment,
            self.draft,
            self.script,
            self.type,
            self.given.rng(f"form {self.type}"),
            held_out={gap.missing["turn"] + 1: (gap.tool,) for gap in self.gaps if gap.tool},
            missing=[gap.missing for gap in self.gaps],
        )

    def lacks(self, gap: Gap) -> bool:
        """Whether nothing at hand in the turn does or shows what `gap` takes away."""
        results = [[bound.result for bound in calls] for calls in self.draft.turns]
        blamed = missing(self.given.environment, self.with_gap(gap).task(), results)
        return not any(reason.turn == self.turn + 1 for reason in blamed)


def functions(scene: Scene) -> dict[str, Gap]:
    """The functions that may be taken away, by name. Raises ComposeError("no_pattern") when there is none."""
    tools = task_types.missable(scene.catalogue, scene.draft, scene.turn + 1)
    every = {tool: Gap(scene.request, RETURN_SENTENCE, {"turn": scene.turn, "tool": tool}, tool) for tool in tools}
    found = {tool: gap for tool, gap in every.items() if scene.lacks(gap)}
    if not found:
        detail = f"turn {scene.turn + 2} can be done without {' and '.join(tools)}: choose others there"
        raise ComposeError("no_pattern", detail, turn=scene.turn + 1)
    return found


def values(scene: Scene) -> list[spoken.Said]:
    """The values that may be left open; rather not an option that the tool lists, and of the first request where the
    catalogue wants that. Raises ComposeError("no_pattern") when there is none."""
    earlier = [*scene.script[: scene.turn]]
    earlier += [bound.result.text for calls in scene.draft.turns[: scene.turn] for bound in calls]
    every = spoken.said(scene.given.environment.tools(), scene.calls)
    own = [one for one in every if one.needed and not (one.free and is_small(one.value))]
    own = [one for one in own if one.by([scene.request]) and not one.by(earlier)]
    found = [one for one in own if scene.lacks(value_gap(scene, one, _without(scene.request, one), one.slot.text))]
    if not found:
        detail = f"turn {scene.turn + 2} needs nothing that only its user can know: choose functions there that do"
        raise ComposeError("no_pattern", detail, turn=scene.turn + 1)
    found = [one for one in found if not one.free] or found
    first = [one for one in found if one.bound.recipe == scene.calls[0].recipe]
    return first if first and scene.catalogue.missing_first else found


def value_gap(scene: Scene, one: spoken.Said, request: str, supply: str) -> Gap:
    domain = scene.catalogue.family(one.slot.domain)
    return Gap(request, supply, {"turn": scene.turn, "argument": one.argument, "value": one.value, "domain": domain})


def _without(request: str, one: spoken.Said) -> str:
    """The request without a value, as rules see it before a model has found other words."""
    return re.sub(re.escape(one.slot.text), "", request, flags=re.IGNORECASE)
