"""An endpoint that fails in every way at once.

Claim: every seed ends once and with a reason, no asyncio task is left over, and memory does not
grow. Anchor: the number of seeds picked; memory in the second quarter of the run. Command: `python
-m bench.llm_faults`.

The stub plays all roles and injects each of ten faults into 5 % of the calls and a dozen more into
1 %, all in one run, so that more calls fail than succeed. A failed request is repeated by the
client; an answer that cannot be used is asked for again by the author; what remains is a rejected
candidate with its reason. Seeds are BFCL's and desk's.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

from bench.figures import Figure, run
from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.llm_stub.script import MACHINERY, MODEL
from bench.fixtures.synthesis import Ended, make_run, seeds, synthesise

NAMED = (
    "429",
    "500",
    "reset",
    "stall",
    "truncated",
    "empty_choices",
    "wrong_tags",
    "prose",
    "surrogates",
    "huge",
)
ODD = ("not_utf8", "no_usage", "chunked", "parts")
OTHERS = tuple(fault for fault in (*MACHINERY, *MODEL, *ODD) if fault not in NAMED)
FAULTS = {**dict.fromkeys(NAMED, 0.05), **dict.fromkeys(OTHERS, 0.01)}  # share of the calls
RUNS = Path(__file__).parent.parent / "runs"


def measure(quick: bool) -> list[Figure]:
    """Seeds that ended, once; tasks left over; memory in the last quarter against the second."""
    count = 60 if quick else 1000
    script = Script(
        answer="bench.fixtures.llm_stub.roles:answer", latency=(0.0, 0.2), faults=FAULTS
    )
    with tempfile.TemporaryDirectory(dir=RUNS) as folder, Stub(script) as stub:
        endpoint = {"model": "stub", "urls": [stub.url], "concurrency": 64, "read_seconds": 1.0}
        ended = asyncio.run(synthesise(make_run(Path(folder) / "run", seeds(count), [endpoint])))
        ended.check(count)
        counts = stub.counts()
        _print(ended, {fault: counts[fault] for fault in FAULTS}, counts["requests"])
        return _figures(ended, count, counts["requests"], counts["good"])


def _figures(ended: Ended, count: int, requests: int, good: int) -> list[Figure]:
    memory = [size for _, size in ended.memory]
    quarter = max(1, len(memory) // 4)
    middle = statistics.median(memory[len(memory) // 4 : len(memory) // 2 + 1])
    end = statistics.median(memory[-quarter:])
    return [
        Figure(
            "faulty endpoint: seeds that ended once, with a reason",
            len(ended.finished),
            "",
            "picked",
            count,
            count,
        ),
        Figure(
            "faulty endpoint: seeds that became a variant", len(ended.variants) / count * 100, "%"
        ),
        Figure(
            "faulty endpoint: requests that met a fault",
            (1 - good / requests) * 100,
            "%",
            "requests",
            requests,
        ),
        Figure(
            "faulty endpoint: asyncio tasks left over", len(ended.left), "", reach=0, higher=False
        ),
        Figure("faulty endpoint: memory at the end", end, "MB", "in the second quarter", middle),
        Figure("faulty endpoint: seconds a seed", ended.seconds / count, "s"),
    ]


def _print(ended: Ended, faults: dict[str, int], requests: int) -> None:
    """The table by fault and by outcome, on standard error."""
    for fault, number in sorted(faults.items(), key=lambda one: -one[1]):
        print(f"  {fault:16} {number:6} of {requests} requests", file=sys.stderr)
    for why, number in ended.whys().most_common():
        print(f"  {why:30} {number:6} seeds", file=sys.stderr)


if __name__ == "__main__":
    run(measure)
