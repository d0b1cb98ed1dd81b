"""Processes of their own for the code of packages."""

import re
from typing import Any

from rods.canonical import JsonMapping
from rods.environments.workers.worker import Overrun, Worker, WorkerSpec
from rods.errors import InfrastructureError

_SECONDS = 20.0  # of computing for a request: milliseconds as a rule
_MEMORY = 2 << 30
_REPLY_BYTES = 16 << 20


def worker(target: str, opening: Any = None, reply_bytes: int = _REPLY_BYTES) -> Worker:
    """A process in which the function `target` answers, after the request `opening`."""
    spec = WorkerSpec(target, _SECONDS, _MEMORY, reply_bytes, opening=opening, cpu=True)
    return Worker(spec)


def asked(own: Worker, request: JsonMapping) -> Any:
    """What the package's code answers to a `request` about what a policy has done. Raises
    RuntimeError where that is at fault: reading it exceeds a bound, or the code raises;
    InfrastructureError where the machine is: it refuses the code a file, say."""
    try:
        return own.call(request)
    except Overrun as error:
        raise RuntimeError(str(error)) from error
    except RuntimeError as error:
        if re.match(r"\w+: \[Errno ", str(error)):
            raise InfrastructureError(f"the code of a benchmark's package: {error}") from error
        raise
