"""The stub as a child process: start, ask, change, stop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.llm_stub.script import Script

ROOT = Path(__file__).parent.parent.parent


class Stub:
    """A running stub; a context manager. `cpu` pins it to a core. It ends with this process, whatever happens."""

    def __init__(self, script: Script | None = None, *, port: int = 0, cpu: int = -1) -> None:
        self.script = script or Script()
        command = [sys.executable, "-m", "tests.llm_stub.server", json.dumps(self.script.as_json())]
        self._process = subprocess.Popen(
            [*command, "--port", str(port), "--cpu", str(cpu)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the stub did not start (exit {self._process.wait()})")
        self.port = int(line)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def counts(self) -> dict[str, int]:
        """What it saw: requests, connections, hung_up, most_in_flight, good, and each fault by name; 0 if absent."""
        found: dict[str, int] = json.loads(self._ask("/stub/counts"))
        return _Zero(found)

    def use(self, script: Script) -> None:
        """From now on the stub follows this script."""
        self.script = script
        self._ask("/stub/script", json.dumps(script.as_json()).encode())

    def forget(self) -> None:
        """Counts from zero."""
        self._ask("/stub/forget")

    def stop(self) -> None:
        """Ends it at once, connections and all."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _ask(self, path: str, body: bytes | None = None) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}{path}", data=body, timeout=10) as reply:
            content: bytes = reply.read()
            return content


class _Zero(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 0
