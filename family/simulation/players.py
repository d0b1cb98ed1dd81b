"""Who plays simulated conversations (001 §2.2): procedures, or models behind a line of their own. A
process whose models play writes usage.<process>.jsonl; the budget (`operation.player_budgets`)
begins at what all such processes have spent by now."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any

from rods.buffers.log.tail import read
from rods.buffers.run.heartbeat import Heartbeat
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import usage
from rods.buffers.usage import UsageLog, players
from rods.config import Budgets
from rods.conversations import Persona, Rubric
from rods.environments.loading import Environments
from rods.episode.drivers import Parts
from rods.episode.model_thread import ModelThread
from rods.errors import UserError
from rods.family.simulation.models import Models, ModelUser, ModelVerifier, ModelWorld
from rods.family.simulation.verifying import ByRule, unjudged
from rods.family.simulation.world import as_repository
from rods.llm import Budget, Client
from rods.players import Players
from rods.tasks import AnyTask, OpenTask


class SimulationPlayer(Models):
    """The `rods.players.Player` of one run, or of one evaluation. `environments` are its worlds,
    `[simulation]` says who plays. Models are asked through `line`, which is there while
    `opened`."""

    def __init__(self, environments: Environments, config: Any = None) -> None:
        super().__init__(config)
        self.environments = environments

    @property
    def outside(self) -> tuple[str, ...]:
        """The parts that a model plays."""
        return self.settings.by_model

    def parts(self, task: AnyTask) -> Parts:
        if not isinstance(task, OpenTask):
            return {}
        environment = self.environments.load(task.environment.name)
        parts: Parts = {}
        if isinstance(task.goal, Rubric) and self.settings.verifier == "procedural":
            if why := unjudged(task.goal):
                raise UserError(
                    f"its rubric cannot be judged without a model: {why}",
                    where=f"task {task.id}",
                    remedy='let a model judge it ([simulation] verifier = "model")',
                )
            parts["goal"] = ByRule(task, as_repository(environment).repository.tools)
        if modelled := self.modelled(task):
            tools = [environment.tools()[name] for name in task.tools]
            if "verifier" in modelled:
                parts["goal"] = ModelVerifier(self, task, tools)
            if "user" in modelled:
                parts["user"] = ModelUser(self, task, tools)
            if "tools" in modelled:
                parts["world"] = partial(ModelWorld, self, task, as_repository(environment))
            parts["waits"] = True
        return parts

    @contextmanager
    def opened(self, run: Run, process: str, heartbeat: Heartbeat | None) -> Iterator[None]:
        """While this is open, the models can be asked, where any play. `process` names the log of
        their calls; endpoints and budget are noted in `heartbeat`. Raises UserError for endpoints
        whose key is missing."""
        if not self.outside:
            yield
            return
        with ModelThread(lambda: client(run, process, heartbeat)) as line:
            self.line = line
            try:
                yield
            finally:
                self.line = None

    def modelled(self, task: AnyTask) -> frozenset[str]:
        """The parts of `task` that a model plays: tools, user, verifier."""
        if not isinstance(task, OpenTask):
            return frozenset()
        possible = ["user"] if isinstance(task.user, Persona) else []
        possible += ["tools", "verifier"] if isinstance(task.goal, Rubric) else []
        return frozenset(possible).intersection(self.settings.by_model)


def simulation_of(players: Players) -> SimulationPlayer:
    """The one among the players of a run or an evaluation."""
    (simulation,) = (player for player in players.others if isinstance(player, SimulationPlayer))
    return simulation


def playing(run: Run, process: str, heartbeat: Heartbeat | None) -> AbstractContextManager[None]:
    """As the door has it, for a run."""
    return simulation_of(run.players).opened(run, process, heartbeat)


TOLD_SECONDS = 1.0  # between two notes in the heartbeat


@asynccontextmanager
async def client(run: Run, process: str, heartbeat: Heartbeat | None) -> AsyncIterator[Client]:
    """The client of the models that play `run` in `process`. Raises UserError for endpoints whose
    key is missing."""
    operation = run.config.operation
    async with UsageLog(run.path, process, part_bytes=operation.log_part_bytes) as log:
        calls = [call for name in players(run.path) for call in read(run.path / usage(name))]
        budget = Budget(
            Budgets(**operation.player_budgets.model_dump()),
            tokens=sum(call["tokens_in"] + call["tokens_out"] for call in calls),
            requests=sum(call["requests"] for call in calls),
        )
        endpoints = [endpoint.giving_up for endpoint in operation.players or operation.endpoints]
        asked = Client(endpoints, budget=budget, sink=log)
        async with asked, _noted(asked, heartbeat):
            yield asked


@asynccontextmanager
async def _noted(client: Client, heartbeat: Heartbeat | None) -> AsyncIterator[None]:
    """Notes how endpoints and budget stand, as the daemon does, now and then and in the end."""
    budget = client.budget

    def note() -> None:
        if heartbeat is not None:
            heartbeat.note(budget.requests, endpoints=client.status(), budget=budget.status())

    async def noting() -> None:
        while True:
            note()
            await asyncio.sleep(TOLD_SECONDS)

    task = asyncio.create_task(noting())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        note()
