"""Calls that would run away where arguments are not bounded: enormous numbers, texts and lists,
deep nesting.

They are made in a process of their own, which prints what it is about to do and what came of it,
and which an alarm kills when a call does not end: no promise of the environment is relied upon.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rods.analysis.sampling import Sampler
from rods.analysis.schemas import limits
from rods.calls import Call
from rods.canonical import keyed_random
from rods.deadlines import RUNAWAY_CALL, SLOW_CALL
from rods.environments.base import Tools
from rods.environments.loading import Environments

MEMORY = 4 << 30  # bytes of address space
LONGEST = 1_000_000  # characters of a result
HUGE: Mapping[str, tuple[Any, ...]] = {
    "integer": (10**9, -(10**9), 10**18, 10**4000),
    "number": (10**9, 1e308, 10**18, 10**4000),
    "string": ("x" * 200_000, "(" * 5_000),
    "array": ([7] * 100_000, ["x" * 10_000] * 100),
    "object": ({str(key): key for key in range(50_000)},),
}


def attempts(tools: Tools) -> Iterator[tuple[str, Call]]:
    """(what is huge, call) for every argument of every tool, and for all the numbers of a tool
    together."""
    sampler = Sampler(keyed_random(0, "runaway"))
    nested: Any = 7
    for _ in range(500):
        nested = [nested]
    for tool in tools.values():
        legal = {
            parameter.name: sampler.value(parameter.name, limits(parameter))
            for parameter in tool.parameters
        }
        kinds = {
            parameter.name: str(parameter.schema.get("type", "string"))
            for parameter in tool.parameters
        }
        for name, kind in kinds.items():
            for value in (*HUGE.get(kind, ()), nested):
                yield name, Call(tool.name, {**legal, name: value})
        numbers = [name for name, kind in kinds.items() if kind in ("integer", "number")]
        if len(numbers) > 1:
            yield " and ".join(numbers), Call(tool.name, {**legal, **dict.fromkeys(numbers, 10**9)})


def run_python(
    code: str, *arguments: str, seconds: float | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a process of its own, which finds the modules that this one does. Raises
    TimeoutExpired."""
    path = os.pathsep.join(entry or "." for entry in sys.path)
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


def runaways(name: str) -> Iterator[tuple[str, str, str]]:
    """(tool, argument, what happened) for every argument with a call that did not end in time,
    raised, or gave an enormous result; the first such call of each."""
    seen: set[tuple[str, str]] = set()
    start = 0
    while True:
        code = (
            "import sys; from rods.worlds.checking.runaway import attempt; attempt(sys.argv[1], "
            "int(sys.argv[2]))"
        )
        done = run_python(code, name, str(start))
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        died = (
            "did not end"
            if done.returncode == -signal.SIGALRM
            else f"killed the process (exit {done.returncode})"
        )
        if fatal := done.returncode and lines and lines[-1].get("begins") is not None:
            start = lines[-1]["begins"] + 1
            lines[-1]["what"] = f"with an enormous value {died}"
        for line in lines:
            if "what" in line and (place := (line["tool"], line["argument"])) not in seen:
                seen.add(place)
                yield *place, line["what"]
        if not fatal:
            if done.returncode:
                yield (
                    name,
                    "",
                    f"broke the probe (exit {done.returncode}): {done.stderr.strip()[-200:]}",
                )
            return


def attempt(name: str, start: int) -> None:
    """Makes the attempts from number `start` on, in this process. Prints one JSON line before each
    call, and one after a call that misbehaved."""
    with contextlib.suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    environment = Environments().load(name)
    instance = environment.reset(None)
    for number, (argument, call) in enumerate(attempts(environment.tools())):
        if number < start:
            continue
        place = {"tool": call.name, "argument": argument}
        print(json.dumps({**place, "begins": number}), flush=True)
        # the default action of SIGALRM ends the process
        signal.setitimer(signal.ITIMER_REAL, RUNAWAY_CALL)
        began = time.perf_counter()
        try:
            result = instance.call(call)
        except Exception as error:  # noqa: BLE001
            # the code under probe may raise anything; it is reported
            what = f"with an enormous value raised {type(error).__name__}: {str(error)[:120]}"
        else:
            size = len(result.text)
            what = (
                f"with an enormous value gave a result of {size} characters"
                if size > LONGEST
                else ""
            )
        if (seconds := time.perf_counter() - began) > SLOW_CALL and not what:
            what = f"with an enormous value took {seconds:.1f} s"
        if what:
            print(json.dumps({**place, "what": what}), flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
