"""`python -m tests.daemon.taken_signals RUN`: the daemon, with a library that, when it is started
in the daemon's thread, gives SIGTERM its own meaning behind Python's back."""

from __future__ import annotations

import ctypes
import signal
from typing import Any

from rods.daemon import main

service_of = main.service_of  # type: ignore[attr-defined]


def taking(*given: Any) -> Any:
    service = service_of(*given)
    ctypes.CDLL(None).signal(signal.SIGTERM, int(signal.SIG_DFL))
    return service


if __name__ == "__main__":
    main.service_of = taking  # type: ignore[assignment, attr-defined]
    main.main()
