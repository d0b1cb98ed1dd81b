"""Workers as actors of Ray, which end with the daemon that started them. They are given what
they need, the index of held-out tasks once a node; only generated worlds they read, in the run
folder."""

import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rods.config import Config
from rods.daemon.attempt_worker import AttemptWorker
from rods.daemon.compute import LostWorker, WorkItem
from rods.errors import UserError
from rods.gates.similarity import SimilarityIndex
from rods.known_keys import remember_address

try:
    import ray
    from ray.exceptions import RayError
except ImportError:
    raise UserError(
        'compute = "ray" needs the package ray', remedy="pip install '.[ray]' in the clone"
    ) from None

Given = tuple[Path, Config, SimilarityIndex]
AT_ONCE = 4  # items a message, which costs the daemon 1 to 2 ms of CPU time however much is in it
REACHED = 5.0  # seconds for the head to take a connection, and as many to answer
# How a client of gRPC begins; a server answers with its SETTINGS, a frame of this type.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
_SETTINGS = b"\4"


def places(folder: Path, config: Config, held_out: SimilarityIndex) -> Sequence["Actor"]:
    """As many as `operation.compute_places`; 0: one a core of the cluster as it is now. More than
    there are cores wait for an autoscaler. Raises UserError where no cluster answers."""
    operation = config.operation
    address = operation.ray.address or os.environ.get("RAY_ADDRESS") or None
    remember_address(address or "")
    try:
        if address and ":" in address and "://" not in address:
            _reach(address)
        ray.init(
            address,
            log_to_driver=False,
            include_dashboard=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
        )
    except Exception as error:  # it raises all kinds
        raise UserError(
            f"no cluster of Ray at {address or 'this machine'}: {_line(error)}",
            where="operation.ray.address",
            remedy="start its head with `ray start --head`, and name the address that it prints",
        ) from error
    # sent once a node, whose workers share its arrays
    shared = ray.put((folder.absolute(), config, held_out))
    return [
        Actor(shared, operation.compute_memory_bytes)
        for _ in range(operation.compute_places or _cores())
    ]


def _reach(address: str) -> None:
    """Raises OSError or ValueError where no head listens: Ray itself would ask for minutes."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), REACHED) as head:
        if not os.environ.get("RAY_USE_TLS"):
            head.sendall(_PREFACE)
            if head.recv(4)[3:] != _SETTINGS:
                raise OSError("what listens there is something else")


def _cores() -> int:
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(1, int(resources.get("CPU", 1)))


class Actor:
    """A place for one worker (rods.daemon.compute.Place)."""

    at_once = AT_ONCE

    def __init__(self, shared: "ray.ObjectRef[Given]", memory: int) -> None:
        self._shared = shared
        self._memory = memory
        self._actor: Any = None

    async def make(self, items: Sequence[WorkItem]) -> Sequence[Any]:
        try:
            results: Sequence[Any] = await self._actor.make.remote(items)
        except RayError as error:
            raise LostWorker(_line(error)) from error
        return results

    async def renew(self) -> None:
        self.end()
        # at most once here: who lost a worker gives the item to another one
        settings = {
            "num_cpus": 1,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
            "memory": self._memory or None,
        }
        self._actor = ray.remote(_Worker).options(**settings).remote(self._shared)
        try:
            await self._actor.ready.remote()
        except RayError as error:
            raise LostWorker(_line(error)) from error

    def end(self) -> None:
        if self._actor is not None:
            ray.kill(self._actor)
            self._actor = None


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


class _Worker:
    def __init__(self, context: Given) -> None:
        self._worker = AttemptWorker(*context)

    def ready(self) -> None:
        """Returns once it is made."""

    def make(self, items: Sequence[WorkItem]) -> Sequence[Any]:
        return [self._worker.made(item) for item in items]
