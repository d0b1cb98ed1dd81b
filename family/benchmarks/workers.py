"""Processes of their own for the code of packages."""

from typing import Any

from rods.environments.workers.worker import Worker, WorkerSpec

_SECONDS = 20.0  # of computing for a request: milliseconds as a rule
_MEMORY = 2 << 30
_REPLY_BYTES = 16 << 20


def worker(target: str, opening: Any = None, reply_bytes: int = _REPLY_BYTES) -> Worker:
    """A process in which the function `target` answers, after the request `opening`."""
    spec = WorkerSpec(target, _SECONDS, _MEMORY, reply_bytes, opening=opening, cpu=True)
    return Worker(spec)
