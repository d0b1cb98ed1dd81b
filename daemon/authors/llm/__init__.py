"""The author whose stages are language models behind an endpoint (004 §3.3, Appendices C–G; docs/agents.md).

It works with an environment's recipes where there are any (`environment.catalogue()`), and with its tools and their
schemas alone elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor as Threads

from daemon.authors.base import Author
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
from rods.config.identity import Pipeline
from rods.environments.base import Environment


def llm_author(
    environment: Environment, asker: Asker, settings: Pipeline, threads: Threads, *, duplicates: bool = True
) -> Author:
    """The author of one variant; everything is asked through `asker`. `hashes` fills up as templates are used.
    `duplicates`: whether the gate of this name is on."""
    catalogue, compute = library(environment), Compute(threads)
    generated = not all(is_plain(recipe) for recipe in catalogue.recipes.values())
    worlds = Worlds(catalogue, asker, compute, generated=generated, duplicates=duplicates)
    querying = Querying(catalogue, asker, settings)
    former = Former(catalogue, asker, settings, compute)
    executor = Executor(catalogue, asker, settings, compute, worlds, querying, former.fits)
    return Author(
        name=asker.backbone,
        hashes=asker.hashes,
        planner=Planner(catalogue, asker, compute, querying.check),
        executor=executor,
        critic=Critic(catalogue, asker, compute, worlds),
        rewriter=Rewriter(asker, settings, executor),
        former=former,
        judge=Judge(asker, settings, compute),
    )


def prompt_hashes(environment: Environment) -> Mapping[str, str]:
    """The hash of every template that agents may be asked with about this environment."""
    names = sorted(path.stem for path in FOLDER.glob("*.txt") if not path.stem.startswith("policy_"))
    own = getattr(environment, "query_templates", {})
    return {
        **{name: load(name).hash for name in names},
        **{group: content_id(text)[:12] for group, text in own.items()},
    }
