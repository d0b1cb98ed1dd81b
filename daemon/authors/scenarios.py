"""Who writes variants of scenarios in generated worlds (003 §4): a new state and a new task in the seed's own world,
drawn by chance until one has the seed's profile and passes all controls.

The world's skeleton is drawn again from what the seed's provenance says, and assembled: the text has to be that of the
world, by its address. No model is asked, whoever writes the other variants of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from daemon.authors.base import in_thread
from rods.canonical import content_id
from rods.composing.records import ComposeError
from rods.conversations import Persona
from rods.environments import addressed
from rods.environments.base import Environment
from rods.tasks import OpenTask
from worlds.checking.scenarios import scenario_of
from worlds.generated.assembly import assembled
from worlds.generated.scenarios import Mode, draw_like, task
from worlds.generated.skeletons import TOPICS, Skeleton, draw_skeleton, topic_names

ORIGIN = ("random_seed", "world", "topics", "small")  # what a world was drawn from, in a task's provenance


@dataclass(frozen=True, slots=True)
class ScenarioAssignment:
    """One attempt at one variant. `same` says that it changes things by the tools that its seed does."""

    environment: Environment
    seed: OpenTask
    key: tuple[int, str, int, int]  # the daemon's random seed, pick, variant index, pipeline attempt
    same: bool = False


class ScenarioAuthor(Protocol):
    """Who writes. `name` is recorded as the model, `hashes` as the hashes of what it was given to write from."""

    @property
    def name(self) -> str: ...

    @property
    def hashes(self) -> Mapping[str, str]: ...

    async def draw(self, given: ScenarioAssignment) -> OpenTask:
        """The variant, its witness in its provenance. Raises ComposeError, and what machinery raises."""
        ...


class ProceduralScenarios:
    """The author without a model."""

    name = "procedural"

    def __init__(self, threads: Executor) -> None:
        self.threads = threads
        self.hashes: Mapping[str, str] = {"topics": content_id(TOPICS.read_text(encoding="utf-8"))[:12]}

    async def draw(self, given: ScenarioAssignment) -> OpenTask:
        return await in_thread(self.threads, lambda: self._drawn(given))

    def _drawn(self, given: ScenarioAssignment) -> OpenTask:
        seed, skeleton = given.seed, skeleton_of(given.seed)
        scenario = scenario_of(seed)
        if skeleton is None or scenario is None:
            raise ComposeError("no_prompts", "its world was not drawn by chance, so nobody draws a scenario in it")
        mode: Mode = "asked" if isinstance(seed.user, Persona) else "told"
        random_seed, pick, index, attempt = given.key
        try:
            found, controlled = draw_like(
                skeleton, given.environment, scenario, mode, random_seed, pick, index, attempt, same=given.same
            )
        except LookupError as error:
            raise ComposeError("no_pattern", str(error)) from error
        origin = {name: seed.provenance[name] for name in ORIGIN if name in seed.provenance}
        return task(skeleton, given.environment, found, controlled, mode, origin=origin)


def skeleton_of(seed: OpenTask) -> Skeleton | None:
    """The skeleton of the world that a task lives in; None where that was not drawn by chance."""
    random_seed, number = (seed.provenance.get(name) for name in ("random_seed", "world"))
    if type(random_seed) is not int or type(number) is not int:
        return None
    topics, small = seed.provenance.get("topics", []), seed.provenance.get("small", False)
    if not set(topics) <= set(topic_names()):
        return None
    skeleton = draw_skeleton(random_seed, number, topics, small)
    return skeleton if addressed.address_of(seed.environment.name) == content_id(assembled(skeleton)) else None
