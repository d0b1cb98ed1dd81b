"""The author whose stages are language models behind an endpoint (004 §3.3, Appendices C to G; docs/agents.md).

It works with an environment's recipes where there are any (`environment.catalogue()`), and with its tools and their
schemas alone elsewhere, or with `pipeline.recipes = false` (`daemon.authors.catalogue_free`).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, Literal

from daemon.authors.base import Assignment, Defect, Judgement, Texts
from daemon.authors.catalogue_free import catalogue_with_tools, single_tools
from daemon.authors.llm import executing, forming, judging, planning, wording
from daemon.authors.llm.asking import Asker, Context
from daemon.authors.llm.worlds import Worlds
from prompts import FOLDER, load
from rods.canonical import content_id
from rods.composing.records import ComposeError, Draft, Plan
from rods.config import PipelineSettings
from rods.environments.base import Environment, Results
from rods.tasks import Task, TaskType


class LLMAuthor:
    """The author of one variant; everything is asked through `asker`. `hashes` fills up as templates are used.
    `duplicates`: whether the gate of this name is on."""

    def __init__(
        self,
        environment: Environment,
        asker: Asker,
        settings: PipelineSettings,
        threads: Executor,
        *,
        duplicates: bool = True,
    ) -> None:
        self.name, self.hashes = asker.backbone, asker.hashes
        catalogue = catalogue_with_tools(environment) if settings.recipes else single_tools(environment)
        self.context = Context(catalogue, asker, settings, threads)
        self.worlds = Worlds(self.context, duplicates=duplicates)

    async def plan(self, given: Assignment, *, narrative: bool, functions: Literal["other", "same"]) -> Plan:
        wording.check_query_templates(self.context, given)
        return await planning.plan(self.context, given, narrative=narrative, functions=functions)

    async def initial_state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        return await self.worlds.initial_state(given, plan)

    async def execute(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft:
        draft = await executing.execute(self.context, given, plan, state)
        await forming.check_form(self.context, given, draft)
        return draft

    async def patch(
        self, given: Assignment, plan: Plan | None, state: Mapping[str, Any], error: ComposeError
    ) -> dict[str, Any] | None:
        return await self.worlds.patch(given, plan, state, error)

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        return await wording.queries(self.context, given, draft)

    async def rewrite(self, given: Assignment, draft: Draft) -> Texts:
        worded = await self.queries(given, draft) if self.context.settings.calls == "per_turn" else ()
        return await wording.rewrite(self.context, given, draft, worded)

    async def reword(self, given: Assignment, draft: Draft, texts: Texts, defect: Defect) -> Texts:
        return await wording.reword(self.context, given, draft, texts, defect)

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        return await forming.form(self.context, given, draft, texts, type)

    async def judge(self, given: Assignment, draft: Draft, task: Task, results: Results | None = None) -> Judgement:
        return await judging.judge(self.context, given, draft, task)


def prompt_hashes(environment: Environment) -> Mapping[str, str]:
    """The hash of every template that agents may be asked with about this environment."""
    names = sorted(path.stem for path in FOLDER.glob("*.txt") if not path.stem.startswith("policy_"))
    own = getattr(environment, "query_templates", {})
    return {
        **{name: load(name).hash for name in names},
        **{group: content_id(text)[:12] for group, text in own.items()},
    }
