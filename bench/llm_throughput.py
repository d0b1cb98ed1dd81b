"""How full the client keeps an endpoint: calls a second, stub and client on a core each, answers of
1 KB.

Claim: 97 % of Little's law with 64 calls in flight at 0.5 s, 90 % with 1,024 at 5 s, 80 % with
1,024 at 1 s. Anchor: bare aiohttp in the same run, and the plain `openai` client in an environment
of its own. Command: `python -m bench.llm_throughput`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from bench.fixtures.llm_stub import Script, Stub

ROOT = Path(__file__).parent.parent
CLIENTS = Path(__file__).parent / "llm_clients"


def measure(quick: bool) -> list[Figure]:
    """Share of the calls a second that latency and calls in flight allow, and CPU time a call."""
    openai = _openai(may_install=not quick)
    figures = _load(64, 0.5, 8 if quick else 20, "ramp included", 0.97, openai)
    if quick:
        print("not measured with --quick: 1,024 in flight at 5 s", file=sys.stderr)
    else:
        figures += _load(1024, 5.0, 4, "steady state", 0.90, openai)
    return figures + _load(1024, 1.0, 6 if quick else 10, "ramp included", 0.80, openai)


def _load(
    in_flight: int, latency: float, rounds: int, which: str, reach: float, openai: Path | None
) -> list[Figure]:
    name = f"{in_flight:,} in flight at {latency:g} s"
    steady = "steady_" if which == "steady state" else ""

    def share(found: dict[str, float]) -> float:
        return found[f"{steady}calls"] / found[f"{steady}seconds"] * latency / in_flight

    def cpu(found: dict[str, float]) -> float:
        return found["cpu_seconds"] / found["calls"] * 1000

    with Stub(Script(latency=latency), cpu=_cores()[1]) as stub:
        bare = _client(Path(sys.executable), "bare", stub, in_flight, rounds)
        ours = _client(Path(sys.executable), "ours", stub, in_flight, rounds)
        plain = _client(openai, "plain_openai", stub, in_flight, min(rounds, 4)) if openai else None
    figures = [
        Figure(
            f"{name}, {which}", share(ours), "of Little's law", "bare aiohttp", share(bare), reach
        ),
        Figure(f"{name}: CPU a call", cpu(ours), "ms", "bare aiohttp", cpu(bare)),
    ]
    if plain:
        figures += [
            Figure(
                f"{name}, {which}",
                share(ours),
                "of Little's law",
                "plain openai client",
                share(plain),
            ),
            Figure(f"{name}: CPU a call", cpu(ours), "ms", "plain openai client", cpu(plain)),
        ]
    return figures


def _client(python: Path, name: str, stub: Stub, in_flight: int, rounds: int) -> dict[str, float]:
    done = subprocess.run(
        [str(python), str(CLIENTS / f"{name}.py"), stub.url, str(in_flight), str(rounds)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: os.sched_setaffinity(0, {_cores()[0]}),
        stdout=subprocess.PIPE,
        check=True,
    )
    found: Any = json.loads(done.stdout)
    return dict(found)


def _cores() -> tuple[int, int]:
    """Two cores, the same one twice where there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


def _openai(*, may_install: bool) -> Path | None:
    """A Python that has the `openai` client, in the cache folder; None, said aloud, where there is
    none."""
    folder = Path(os.environ.get("RODS_CACHE", Path.home() / ".cache" / "rods")) / "bench-openai"
    python = folder / "bin" / "python"
    if not python.exists() and may_install:
        print(f"installing the openai client into {folder} (about 30 MB, once)", file=sys.stderr)
        venv.create(folder, with_pip=True)
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "openai",
        ]
        subprocess.run(command, check=False)
    if (
        python.exists()
        and not subprocess.run([str(python), "-c", "import openai"], capture_output=True).returncode
    ):
        return python
    print(
        "not measured: the plain openai client (it is not installed; without --quick this bench "
        "installs it)",
        file=sys.stderr,
    )
    return None


if __name__ == "__main__":
    run(measure)
