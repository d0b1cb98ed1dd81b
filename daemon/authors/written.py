"""Variants of scenarios in worlds that models wrote (003 §4): models write a new state, task and checks in the seed's
own world, and an agent finds the witness (worlds/written/scenarios.py).

Checks are functions of the world's file, so a variant has a file of its own: the seed's without the checks of others.
It lies in a scratch folder until the variant is to be staged; then it is brought into the run, and admitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from buffers.admission import admit
from buffers.run.run import Run
from buffers.run.world_files import bring
from daemon.authors.base import T
from daemon.authors.scenarios import ScenarioAssignment
from prompts import load
from rods.answers import AnswerForm
from rods.asking import Questioner
from rods.canonical import content_id, keyed_random
from rods.composing.records import ComposeError
from rods.config import Operation
from rods.conversations import Persona
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, RefusedError
from rods.tasks import OpenTask
from worlds.checking.scenarios import changed_by, profile, scenario_of
from worlds.written.programs import Dropped, program_of
from worlds.written.scenarios import TEMPLATES, Likeness, as_task, find_witness, write_scenario
from worlds.written.writing import with_checks

NUMBERS = 1_000_000  # of states that are asked for: no two variants of a world have the same


class Drafts:
    """The worlds of variants that are in the making, in files below a scratch folder; a context manager."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._open, self._one = ExitStack(), asyncio.Lock()

    def __enter__(self) -> Self:
        self.folder = Path(self._open.enter_context(TemporaryDirectory(prefix="rods-drafts-")))
        self.environments = self._open.enter_context(Environments(self.run.config.operation.sandbox, self.folder))
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    async def world(self, source: str) -> Environment:
        """The environment of a world's source."""
        async with self._one:
            return await asyncio.to_thread(self.environments.load, addressed.keep(source, self.folder))

    async def settle(self, name: str) -> None:
        """Has the world called `name` on record in the run, its file before. Raises InfrastructureError while somebody
        else admits one."""
        async with self._one:
            if name in await asyncio.to_thread(self.run.named):
                return  # by a daemon that was killed before it staged the variant
            await asyncio.to_thread(bring, [name], [self.folder], self.run.path)
            try:
                await asyncio.to_thread(admit, self.run, name, by="rods-daemon", why="the checks of a variant")
            except RefusedError as error:
                raise InfrastructureError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Questions:
    """Those about one attempt at a variant."""

    questioner: Questioner
    settings: Operation
    key: tuple[int, str, int, int]  # the daemon's random seed, pick, variant index, pipeline attempt

    async def put(
        self,
        template: str,
        about: str,
        fields: Mapping[str, str],
        form: AnswerForm,
        read: Callable[[dict[str, Any]], T],
        *,
        check: Callable[[T], Awaitable[None]] | None = None,
        sections: Sequence[str] = (),
        number: int = 0,
    ) -> T:
        """As `Asking.put`."""
        random_seed, pick, index, attempt = self.key
        key = (pick, index, attempt, template, content_id(dict(fields)), number)
        return await self.questioner.put(
            template,
            stage=template,
            fields=fields,
            sections=sections,
            form=form,
            read=read,
            check=check,
            random_seed=lambda at: keyed_random(random_seed, "scenario", *key, at).getrandbits(31),
        )


class WrittenScenarios:
    """The author of one variant, on a language model."""

    def __init__(self, drafts: Drafts, questioner: Questioner) -> None:
        self.drafts, self.questioner = drafts, questioner
        self.name = questioner.backbone
        self.hashes: Mapping[str, str] = {name: load(name).hash for name in TEMPLATES}

    async def draw(self, given: ScenarioAssignment) -> OpenTask:
        """As `ScenarioAuthor.draw`."""
        seed, run, scenario = given.seed, self.drafts.run, scenario_of(given.seed)
        assert scenario is not None, "a seed without a witness has another author"
        asked = isinstance(seed.user, Persona)
        tools = given.environment.tools()
        changing = changed_by(tools, scenario.witness)
        task = seed.user.intent if isinstance(seed.user, Persona) else "\n".join(scenario.requests)
        kept = profile(tools, scenario, asked=asked)
        like = Likeness(task, kept, changing if given.same else (), given.problem)
        questions = _Questions(self.questioner, run.config.operation, given.key)
        number = keyed_random(given.key[0], "scenario", *given.key[1:]).randrange(NUMBERS)
        name = seed.environment.name
        try:
            program = program_of(addressed.source_of(name, run.environments.folders), seed.system)
        except (ValueError, SyntaxError) as error:
            raise ComposeError("no_prompts", f"no scenario can be added to its world: {error}") from error
        try:
            written = await write_scenario(questions, program, run.environments, name, number, like)
            program = with_checks(program, [written])
            world = await self.drafts.world(program.source())
            done = await find_witness(questions, program, world, written)
        except Dropped as dropped:
            detail = "; ".join([str(dropped), *dropped.details])
            raise ComposeError("conversation_construct_failed", detail) from dropped
        if given.same and (found := changed_by(tools, done.witness)) != changing:
            told = f"its witness changes things by {', '.join(found)}, not by {', '.join(changing)}"
            raise ComposeError("no_pattern", told)
        return as_task(program, world, done, "asked" if asked else "told", seed.split, [self.name])

    def world(self, given: ScenarioAssignment, task: OpenTask) -> Environment:
        """As `ScenarioAuthor.world`."""
        return self.drafts.environments.load(task.environment.name)

    async def settle(self, task: OpenTask) -> None:
        """As `ScenarioAuthor.settle`."""
        await self.drafts.settle(task.environment.name)
