"""Who writes variants of drawn tasks (001 §2.2.1): the generator that needs no model, or one that is asked as it is.

Either is given the levels of the seed and as many tools of each category, and decides nothing about gates or retries.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Protocol

from daemon.authors.base import in_thread
from daemon.authors.llm.asking import Asker
from rods.canonical import content_id, keyed_random
from rods.composing.records import ComposeError
from rods.environments.base import Environment, reference
from rods.rules.difficulty import Levels
from rods.simulation.generating import PHRASES, draw_like, open_task, others
from rods.simulation.roles import ask_for_task
from rods.simulation.tools import ToolRepository
from rods.simulation.world import as_repository
from rods.tasks import OpenTask

MENDED = 1_000  # characters of what was wrong with the last task that a model is told


@dataclass(frozen=True, slots=True)
class DrawnAssignment:
    """One attempt at one variant. `levels` are the seed's, `same` says that its tools are to stay, `problem` what was
    wrong with the attempt before ("" in blind retry)."""

    environment: Environment
    seed: OpenTask
    levels: Levels
    key: tuple[int, str, int, int]  # the daemon's random seed, pick, variant index, pipeline attempt
    same: bool = False
    problem: str = ""

    @property
    def repository(self) -> ToolRepository:
        return as_repository(self.environment).repository

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same attempt and purpose."""
        random_seed, pick, index, attempt = self.key
        return keyed_random(random_seed, "drawn variant", pick, index, attempt, purpose)


class DrawnAuthor(Protocol):
    """Who writes. `name` is recorded as the model, `hashes` as the hashes of what was said to it."""

    @property
    def name(self) -> str: ...

    @property
    def hashes(self) -> Mapping[str, str]: ...

    async def draw(self, given: DrawnAssignment) -> OpenTask:
        """The variant, its levels in its provenance. Raises ComposeError, and what machinery raises."""
        ...


class ProceduralDrawer:
    """The generator without a model."""

    name = "procedural"

    def __init__(self, threads: Executor) -> None:
        self.threads = threads
        self.hashes: Mapping[str, str] = {"phrases": content_id(PHRASES.read_text(encoding="utf-8"))[:12]}

    async def draw(self, given: DrawnAssignment) -> OpenTask:
        return await in_thread(self.threads, lambda: self._drawn(given))

    def _drawn(self, given: DrawnAssignment) -> OpenTask:
        seed, rng = given.seed, given.rng("draw")
        drawn = draw_like(given.repository, given.levels, seed.tools, len(seed.goal_calls), rng, same=given.same)
        if drawn is None:
            raise ComposeError("func_sample_failed", f"the tools drawn cannot be called {len(seed.goal_calls)} times")
        return open_task(drawn, reference(given.environment))


class ModelDrawer:
    """A language model that is asked for the whole task; tools are drawn for it."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.name, self.hashes = asker.backbone, asker.hashes

    async def draw(self, given: DrawnAssignment) -> OpenTask:
        seed, repository = given.seed, given.repository
        chosen = [repository.tools[name] for name in seed.tools]
        if not given.same:
            chosen = others(repository, seed.tools, given.rng("tools"))
        asked = replace(given.levels, calls=len(seed.goal_calls))
        question = ask_for_task(repository, [one.tool for one in chosen], asked, given.problem[:MENDED])
        drawn = await self.asker.ask(
            given,
            question.role,
            stage=question.role,
            fields=question.fields,
            sections=question.sections,
            form=question.form,
            read=question.read,
            error="conversation_construct_failed",
        )
        return open_task(replace(drawn, levels=given.levels), reference(given.environment))
