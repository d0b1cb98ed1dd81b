"""The author whose stages are language models behind an endpoint (004 §3.3, Appendices C–G; docs/agents.md).

It works with an environment's recipes where there are any (`environment.catalogue()`), and with its tools and their
schemas alone elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor as Threads

from daemon.authors.catalogue_free.plain import is_plain, library
from daemon.authors.llm.asking import Asker
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.executing import Executor
from daemon.authors.llm.forming import Former
from daemon.authors.llm.judging import Judge
from daemon.authors.llm.patching import Critic
from daemon.authors.llm.planning import Planner
from daemon.authors.llm.querying import Querying
from daemon.authors.llm.rewriting import Rewriter
from daemon.authors.llm.worlds import Worlds
from prompts import FOLDER, load
from rods.canonical import content_id
from rods.config import PipelineSettings
from rods.environments.base import Environment


class LLMAuthor:
    """The author of one variant; everything is asked through `asker`. `hashes` fills up as templates are used.
    `duplicates`: whether the gate of this name is on."""

    def __init__(
        self,
        environment: Environment,
        asker: Asker,
        settings: PipelineSettings,
        threads: Threads,
        *,
        duplicates: bool = True,
    ) -> None:
        catalogue, compute = library(environment), Compute(threads)
        generated = not all(is_plain(recipe) for recipe in catalogue.recipes.values())
        worlds = Worlds(catalogue, asker, compute, generated=generated, duplicates=duplicates)
        querying = Querying(catalogue, asker, settings)
        former = Former(catalogue, asker, settings, compute)
        executor = Executor(catalogue, asker, settings, compute, worlds, querying, former.fits)
        rewriter = Rewriter(asker, settings, self)
        self.name, self.hashes = asker.backbone, asker.hashes
        self.plan = Planner(catalogue, asker, compute, querying.check).plan
        self.initial_state, self.execute, self.queries = executor.state, executor.realise, executor.queries
        self.patch = Critic(catalogue, asker, compute, worlds).mend
        self.rewrite, self.reword = rewriter.rewrite, rewriter.reword
        self.form, self.fits = former.form, former.fits
        self.judge = Judge(asker, settings, compute).judge


def prompt_hashes(environment: Environment) -> Mapping[str, str]:
    """The hash of every template that agents may be asked with about this environment."""
    names = sorted(path.stem for path in FOLDER.glob("*.txt") if not path.stem.startswith("policy_"))
    own = getattr(environment, "query_templates", {})
    return {
        **{name: load(name).hash for name in names},
        **{group: content_id(text)[:12] for group, text in own.items()},
    }
