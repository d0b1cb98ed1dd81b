"""The author whose stages are language models behind an endpoint (004 §3.3, Appendices C to G;
docs/agents.md).

It works with an environment's recipes where there are any (`environment.catalogue()`), and with its
tools and their schemas alone elsewhere, or with `pipeline.recipes = false`
(`rods.daemon.authors.catalogue_free`)."""

from collections.abc import Mapping
from concurrent.futures import Executor

from rods.canonical import Texts, content_id
from rods.composing.records import Draft
from rods.config import PipelineSettings
from rods.daemon.authors.base import StagedAssignment
from rods.daemon.authors.catalogue_free import catalogue_with_tools, single_tools
from rods.daemon.authors.llm import executing, forming, initial_states, judging, planning, wording
from rods.daemon.authors.llm.questions import Asker, Context
from rods.environments.base import Environment
from rods.prompts import FOLDER, load


class LLMAuthor(Context):
    """The author of one variant; everything is asked through `asker`. `hashes` fills up as
    templates are used."""

    def __init__(
        self, environment: Environment, asker: Asker, settings: PipelineSettings, threads: Executor
    ) -> None:
        self.name = asker.backbone
        self.hashes = asker.hashes
        catalogue = (
            catalogue_with_tools(environment) if settings.recipes else single_tools(environment)
        )
        super().__init__(environment, catalogue, asker, settings, threads)

    plan = planning.plan
    initial_state = initial_states.initial_state
    execute = executing.execute
    patch = initial_states.patch
    queries = wording.queries
    reword = wording.reword
    form = forming.form
    judge = judging.judge

    async def rewrite(self, assignment: StagedAssignment, draft: Draft) -> Texts:
        worded = await self.queries(assignment, draft) if self.settings.calls == "per_turn" else ()
        return await wording.rewrite(self, assignment, draft, worded)


def prompt_hashes(environment: Environment) -> Mapping[str, str]:
    """The hash of every template that agents may be asked with about this environment."""
    names = sorted(
        path.stem for path in FOLDER.glob("*.txt") if not path.stem.startswith("policy_")
    )
    own = getattr(environment, "query_templates", {})
    hashes = {name: load(name).hash for name in names}
    return hashes | {group: content_id(text)[:12] for group, text in own.items()}
