"""Chooses and equips the author of a variant: the procedural one of its environment, or one on a language model.

With `pipeline.author = "llm"` this holds the client, the budget, and the log of calls. Each variant has an account and
one backbone (endpoint), drawn by weight under a key of its own, so that a restart draws the same one.
"""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Literal, Self

from buffers.control import UNLIMITED, Setter, Value
from buffers.run.run import Run
from buffers.usage import UsageLog
from daemon.authors.base import Author
from daemon.authors.drawn import ModelDrawer, ProceduralDrawer
from daemon.authors.llm import LLMAuthor, prompt_hashes
from daemon.authors.llm.asking import Asker
from daemon.authors.procedural import IN_FLIGHT, ProceduralAuthor
from daemon.authors.scenarios import ProceduralScenarios, ScenarioAuthor
from daemon.authors.written import Drafts, WrittenScenarios
from daemon.candidates import AnyAuthor
from rods.asking import Questioner
from rods.canonical import keyed_random
from rods.composing.records import ComposeError
from rods.environments import addressed
from rods.environments.base import Environment
from rods.errors import UserError
from rods.llm import Budget, Client
from rods.logs import log
from rods.rules.curriculum import writes
from rods.tasks import AnyTask, OpenTask
from worlds.checking.scenarios import scenario_of


class Writers:
    """An async context manager: opens and closes client and log. Raises UserError when a language model is to write and
    no endpoint is configured."""

    def __init__(self, run: Run, threads: Executor) -> None:
        self.run, self.config, self.threads = run, run.config, threads
        self.by_model = run.config.pipeline.author == "llm" and writes(run.config)
        if self.by_model and not run.config.operation.endpoints:
            raise UserError(
                'pipeline.author is "llm", and no endpoint is configured',
                where=str(run.path),
                remedy="name one under [[operation.endpoints]] in the file after --config (docs/endpoints.md)",
            )
        self.asks_feedback = run.config.by_agents and bool(run.config.operation.endpoints)
        if run.config.by_agents and not self.asks_feedback:
            log.warning("no endpoint is configured: failures are answered by rule alone", key="operation.endpoints")
        self._open = AsyncExitStack()
        self._usage: UsageLog | None = None
        self._client: Client | None = None
        self._procedural: dict[str, Author] = {}
        self._drafts = Drafts(run)

    async def __aenter__(self) -> Self:
        if self.by_model or self.asks_feedback:
            operation = self.config.operation
            self._usage = await self._open.enter_async_context(
                UsageLog(self.run.path, "daemon", part_bytes=self.run.config.operation.log_part_bytes)
            )
            budget = Budget(operation.budgets, tokens=self._usage.tokens, requests=self._usage.requests)
            client = Client(operation.endpoints, budget=budget, sink=self._usage)
            self._client = await self._open.enter_async_context(client)
            self._open.enter_context(self._drafts)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._open.aclose()

    @property
    def workers(self) -> int:
        """Seeds in flight: models that write or play are waited for, the procedural author only computes."""
        return self.employed(self.config.operation.workers)

    def employed(self, workers: int) -> int:
        """How many of so many workers there is work for."""
        return workers if self.by_model or self.config.simulation.by_model else min(workers, IN_FLIGHT)

    def setters(self) -> dict[str, Setter]:
        """How calls of models are limited otherwise while they work."""
        return {"concurrency": self._bound, "requests": self._limit("requests"), "tokens": self._limit("tokens")}

    def _bound(self, value: Value, endpoint: str) -> None:
        if self._client is not None:
            self._client.rebound(endpoint, int(value))

    def _limit(self, kind: Literal["requests", "tokens"]) -> Setter:
        def limit(value: Value, endpoint: str) -> None:
            if self._client is not None:
                self._client.budget.limit(kind, None if value == UNLIMITED else int(value))

        return limit

    @property
    def spent(self) -> bool:
        """Whether a limit on the run's calls is reached."""
        return self._client is not None and self._client.budget.spent

    @property
    def calls(self) -> int:
        """Requests on record so far: a sign that things go on."""
        return 0 if self._usage is None else self._usage.requests

    @property
    def cut_off(self) -> bool:
        """Whether all endpoints are known to be down: calls wait."""
        return self._client is not None and all(one["why"] for one in self._client.status())

    def author_of(self, seed: AnyTask, environment: Environment, pick: str, index: int) -> AnyAuthor:
        """Who writes variant `index` of `pick`. Raises ComposeError("no_prompts") where the procedural author is to
        write for an environment without a catalogue."""
        if isinstance(seed, OpenTask):
            if scenario_of(seed) is not None:
                return self._scenarios(seed, pick, index)
            return ModelDrawer(self._writing(pick, index)) if self.by_model else ProceduralDrawer(self.threads)
        if self.by_model:
            settings, duplicates = self.config.pipeline, self.config.gates.duplicates
            return LLMAuthor(environment, self._writing(pick, index), settings, self.threads, duplicates=duplicates)
        if environment.name not in self._procedural:
            self._procedural[environment.name] = ProceduralAuthor.of(environment, self.threads)
        return self._procedural[environment.name]

    def _scenarios(self, seed: OpenTask, pick: str, index: int) -> ScenarioAuthor:
        """In a world that was drawn by chance scenarios are drawn, whoever writes the other variants."""
        if not self.by_model or "world" in seed.provenance:
            return ProceduralScenarios(self.threads)
        asker = self._writing(pick, index)
        told = (asker.client, asker.backbone, asker.account, asker.tries, asker.feedback)
        return WrittenScenarios(self._drafts, Questioner(*told, roles=self.config.operation.writers))

    def _writing(self, pick: str, index: int) -> Asker:
        return self._asker(f"{pick}#{index}", self.config.pipeline.answer_tries, pick, index)

    def asker(self, failure: str) -> Asker:
        """Who asks about one text of feedback. An answer that cannot be read is not asked for again."""
        return self._asker(f"feedback {failure}", 1, "feedback", failure)

    def _asker(self, account: str, tries: int, *key: str | int) -> Asker:
        assert self._client is not None, "endpoints are configured"
        backbone = self._client.draw(keyed_random(self.config.random_seeds.daemon, "backbone", *key))
        paying = self._client.account(account)
        feedback = self.config.pipeline.feedback
        return Asker(self._client, backbone, paying, tries, feedback=feedback, roles=self.config.roles)

    def known(self) -> dict[str, Any]:
        """What the log of starts records: the synthesis model, and the prompt hashes of every environment that can be
        written for."""
        hashes = {}
        for name in self.run.named():
            try:
                hashes[name] = self._hashes(name)
            except ComposeError as error:  # nothing to write with: its seeds will be finished as no_prompts
                log.warning("no variants of this environment", environment=name, why=error.detail)
        names = [endpoint.name or endpoint.model for endpoint in self.config.operation.endpoints]
        return {"synthesis_model": names if self.by_model else self.config.pipeline.author, "prompts": hashes}

    def _hashes(self, name: str) -> dict[str, str]:
        """Raises ComposeError where tasks of this environment cannot be composed."""
        tasks = [task for task in self.run.tasks if task.environment.name == name]
        if not tasks and addressed.address_of(name) is not None:
            return {}  # admitted for a variant: what wrote that stands with it
        scenarios = [task for task in tasks if isinstance(task, OpenTask) and scenario_of(task) is not None]
        if tasks and len(scenarios) == len(tasks):  # worlds may be many: none is started for this
            return dict(self._scenarios(scenarios[0], "", 0).hashes)
        environment = self.run.environments.load(name)
        if self.by_model:
            return dict(prompt_hashes(environment))
        kinds = {(type(task), scenario_of(task) is None): task for task in tasks}
        authors = [self.author_of(task, environment, "", 0) for task in kinds.values()]
        return {name: hash for author in authors for name, hash in author.hashes.items()}

    def status(self) -> dict[str, Any]:
        """Fields of the heartbeat. Raises what stopped the log of calls (a full disk, for instance)."""
        if self._client is None or self._usage is None:
            return {}
        self._usage.check()
        return {"endpoints": self._client.status(), "budget": self._client.budget.status()}
