"""Holds the kinds of tasks, which name the author of a variant, and what an author on a language
model needs.

With `pipeline.author = "llm"` this holds the client, the budget, and the log of calls. Each variant
has an account and one backbone (endpoint), drawn by weight under a key of its own, so that a
restart draws the same one."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Protocol, Self

from rods.buffers.daemon_log import DaemonLog
from rods.buffers.run.creation import models_write
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.buffers.usage import UsageLog
from rods.canonical import JsonObject, keyed_random
from rods.composing.records import ComposeError
from rods.daemon.authors.base import Asking, StagedAuthor, TaskKind
from rods.daemon.authors.llm import LLMAuthor, prompt_hashes
from rods.daemon.authors.llm.questions import Asker
from rods.daemon.authors.procedural import IN_FLIGHT, by_rules
from rods.daemon.compute import compute_of
from rods.daemon.pipeline import TasksWithCalls
from rods.environments.base import Environment
from rods.errors import RodsError
from rods.extension import Door
from rods.gates.similarity import SimilarityIndex
from rods.llm import Budget, Client
from rods.logs import log
from rods.tasks import AnyTask, OpenTask

REST = 30.0  # seconds until work beside picks is asked again after a job of it failed
KINDS: Door[Callable[[], TaskKind[OpenTask]]] = Door("kinds")  # (003)


class DaemonWork:
    """Jobs that a daemon does beside picks, those of a feature one at a time; they take no
    worker."""

    # the earliest step at which something became due that is not done yet; infinite where all is,
    # or nothing waits for it
    open_at = math.inf
    _rest_until = 0.0  # by the monotonic clock

    @property
    def written(self) -> int:
        """Records on its logs: a number that grows whenever work gets done."""
        return 0

    def due(self, state: RunState) -> Sequence[Callable[[], Awaitable[None]]]:
        """The jobs due by `state` and not handed out yet; called in a thread. An error of ours ends
        a job without harm: it is due again."""
        raise NotImplementedError

    def asked(self, state: RunState) -> Sequence[Callable[[], Awaitable[None]]]:
        """`due`; nothing for `REST` seconds after a job has failed."""
        return () if time.monotonic() < self._rest_until else self.due(state)

    async def do(self, job: Callable[[], Awaitable[None]]) -> None:
        """Does a job that was due."""
        try:
            await job()
        except RodsError as error:
            self._rest_until = time.monotonic() + REST
            log.warning("work beside picks rests", why=str(error))

    def close(self) -> None:
        """Closes its logs."""


class Beside(Protocol):
    """The daemon, as work beside picks sees it."""

    run: Run
    writers: "Writers"
    threads: Executor
    log: DaemonLog
    held_out: SimilarityIndex

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight, and nothing waits."""

    @property
    def stalled(self) -> bool:
        """Whether what would be written now has to wait: staging is full, or a budget is spent."""

    def tasks(self) -> Sequence[AnyTask]:
        """All that are given or in the pool."""

    async def variant(self, pick: str, seed: AnyTask) -> AnyTask | str:
        """A variant of `seed`, which no step picked, or why there is none; it is not put on record,
        but what fails is, under `pick`."""


# what a daemon does beside picks; None: nothing (000)
DAEMON_WORK: Door[Callable[[Beside], DaemonWork | None]] = Door("daemon_work")


def kinds_of() -> tuple[TaskKind[Any], ...]:
    """The kinds of tasks that the daemon writes variants of, for its life: those with ground-truth
    calls, and what features bring. Of those that match a task the first one has it."""
    return (TasksWithCalls(), *(kind() for kind in KINDS))


class Writers:
    """An async context manager over client and log. Raises UserError where a model is to write
    without an endpoint."""

    def __init__(self, run: Run, held_out: SimilarityIndex, threads: Executor) -> None:
        self.run = run
        self._threads = threads
        self.config = run.config
        self.by_model = models_write(run.config)
        self.able = self.by_model  # there is somebody to ask; work beside picks may want it, too
        self._open = AsyncExitStack()
        self._usage: UsageLog | None = None
        self._client: Client | None = None
        self.trying: dict[str, str] = {}  # what is tried in worlds, by variant
        self._tried = 0
        self.places = compute_of(run.path, run.config, held_out)
        if self.places is not None:
            self._open.callback(self.places.close)
        self.asking = (
            Asking(threads, self._staged, prompt_hashes) if self.by_model else by_rules(threads)
        )
        self.kinds = kinds_of()
        for kind in self.kinds:
            self._open.callback(kind.close)

    async def __aenter__(self) -> Self:
        if self.able:
            operation = self.config.operation
            self._usage = await self._open.enter_async_context(
                UsageLog(self.run.path, "daemon", part_bytes=operation.log_part_bytes)
            )
            client = Client(
                operation.endpoints,
                budget=Budget(
                    operation.budgets, tokens=self._usage.tokens, requests=self._usage.requests
                ),
                sink=self._usage,
            )
            self._client = await self._open.enter_async_context(client)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    @property
    def workers(self) -> int:
        """How many seeds may be in flight: as many as `operation.workers`, and there is work for.
        Models that write are waited for, the procedural author only computes, here or elsewhere."""
        most = self.config.operation.workers
        if self.by_model:
            return most
        return min(most, IN_FLIGHT * (1 if self.places is None else self.places.at_once))

    @property
    def spent(self) -> bool:
        """Whether a limit on the run's calls is reached."""
        return self._client is not None and self._client.budget.spent

    @property
    def calls(self) -> int:
        """Requests on record so far, and what was tried between them: a sign that things go on."""
        return self._tried + (0 if self._usage is None else self._usage.requests)

    @property
    def cut_off(self) -> bool:
        """Whether all endpoints are known to be down: calls wait."""
        return self._client is not None and all(
            endpoint["why"] for endpoint in self._client.status()
        )

    def _staged(self, environment: Environment, pick: str, index: int) -> StagedAuthor:
        settings = self.config.pipeline
        asker = self.asker(pick, index, account=f"{pick}#{index}", tries=settings.answer_tries)
        return LLMAuthor(environment, asker, settings, self._threads)

    def _note_trial(self, variant: str, line: str) -> None:
        """Keeps what is done for a variant while no model is asked, and logs it now and then."""
        self.trying.pop(variant, None)
        if line:
            self.trying[variant] = line
            if self._tried % 8 == 0:  # each takes a world's start, or many
                log.info("before a model is asked", variant=variant, doing=line)
            self._tried += 1

    def asker(self, *key: str | int, account: str = "", tries: int = 1) -> Asker:
        """Who asks questions under `account`, by default one question beside variants with an
        account of its own, of which an answer that cannot be read is not asked for again. `key`
        draws the endpoint."""
        assert self._client is not None, "endpoints are configured"
        backbone = self._client.draw(
            keyed_random(self.config.random_seeds.daemon, "backbone", *key)
        )
        feedback = self.config.pipeline.feedback
        roles = self.config.roles
        paying = self._client.account(account or " ".join(map(str, key)))
        return Asker(
            self._client,
            backbone,
            paying,
            tries,
            feedback=feedback,
            roles=roles,
            tell=partial(self._note_trial, account),
        )

    def known(self) -> JsonObject:
        """For the log of starts: the synthesis model, and the prompt hashes of all environments
        that it writes for."""
        hashes = {}
        for name in self.run.manifest["environments"]:
            tasks = self.run.tasks.of_environment(name)
            load = partial(self.run.environments.load, name)
            try:
                used = dict[str, str]()
                for kind in self.kinds:
                    some = tasks.where("open", not isinstance(kind, TasksWithCalls))
                    if (seed := next(filter(kind.matches, some), None)) is not None:
                        used |= kind.hashes(self.asking, load, seed)
                hashes[name] = used
            # nothing to write with: its seeds will be finished as no_prompts
            except ComposeError as error:
                log.warning("no variants of this environment", environment=name, why=error.detail)
        names = [endpoint.name or endpoint.model for endpoint in self.config.operation.endpoints]
        return {
            "synthesis_model": names if self.by_model else self.config.pipeline.author,
            "prompts": hashes,
        }

    def status(self) -> JsonObject:
        """Fields of the heartbeat. Raises what stopped the log of calls (a full disk, for
        instance)."""
        places = {} if self.places is None else self.places.status()
        if self._client is None or self._usage is None:
            return places
        self._usage.check()
        trying = [f"variant {variant} {line}" for variant, line in list(self.trying.items())]
        return places | {
            "endpoints": self._client.status(),
            "budget": self._client.budget.status(),
            "trying": trying,
        }
