"""Makes attempts, and runs gates, in a process beside a daemon, or on another machine
(rods.daemon.compute)."""

import asyncio
import resource
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from rods.config import Config
from rods.daemon.authors.procedural import by_rules
from rods.daemon.compute import GateCheck, WorkItem
from rods.daemon.pipeline import Pipeline
from rods.environments.loading import Environments
from rods.errors import InfrastructureError
from rods.functions import named_function
from rods.gates import check
from rods.gates.similarity import SimilarityIndex
from rods.tasks import Task

T = TypeVar("T")
P = ParamSpec("P")


class Inline(Executor):
    """Computes where it is asked."""

    def submit(
        self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs
    ) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - whoever awaits it has it raised
            done.set_exception(error)
        return done


class AttemptWorker:
    """Makes what the daemon of a run orders, in a process of its own, one at a time."""

    def __init__(self, path: Path, config: Config, held_out: SimilarityIndex) -> None:
        """`path`: of the run's folder, where generated worlds are."""
        if most := config.operation.compute_memory_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        self._environments = Environments(config.operation.sandbox, path)
        self._held_out = held_out
        self._loop = asyncio.new_event_loop()
        threads = Inline()
        self._asking = by_rules(threads)
        self._pipeline = Pipeline(config, held_out, threads)

    def made(self, item: WorkItem) -> Any:
        """What comes of an attempt: whatever goes wrong in it is a Rejection, as in the daemon
        itself. Of gates, or another judge: what they say, or which world broke."""
        if isinstance(item, GateCheck):
            try:
                environment = self._environments.load(item.task.environment.name)
                if item.judge:
                    return named_function(item.judge, where=str(item))(
                        environment, item, self._pipeline
                    )
                assert isinstance(item.task, Task)
                return check(environment, item.task, item.profile, item.gates, self._held_out)
            except InfrastructureError as error:
                return error
        environment = self._environments.load(item.seed.environment.name)
        return self._loop.run_until_complete(
            self._pipeline.attempt(item, self._asking, environment)
        )

    def close(self) -> None:
        self._environments.close()
