"""How fast replies of model families are read, beside vLLM's own parsers.

Claim: five times as fast as the packaged parser of the same family on the same text. Anchor: that
parser, in the environment of bench/fixtures/llm_server, where everything that it needs before a
reply is there (parser, request, token ids) is made beforehand and the arguments stay JSON text.
Command: `python -m bench.native_readers`.

The texts are those of tests/rods/dialects/replies.jsonl in which both read what was meant, whole
replies with their thinking. CPU time of all of them once, the median of rounds in turns.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from bench.figures import Figure, run
from bench.fixtures.llm_server.server import PYTHON, missing
from bench.fixtures.native_replies import ORACLES, TABLE, TOOLS, asked_of, same
from rods.dialects.families import named
from rods.dialects.native import Native
from rods.environments.base import Parameter, Tool

ROUNDS = 7
TIMES = 20  # readings of each reply in a round
QUICK = 1


def measure(quick: bool) -> list[Figure]:
    """Microseconds a reply of each family, of vLLM's parser over ours."""
    if reason := missing():
        raise SystemExit(reason)
    lines = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    asked = [asked_of(line["family"], line["text"], bool(line["calls"])) for line in lines]
    tools = {each["function"]["name"]: _tool(each["function"]) for each in TOOLS}
    readers = [partial(Native(named(line["family"])).parse, line["text"], tools) for line in lines]
    families: dict[str, list[int]] = {}
    figures = []
    with _others() as ask:
        theirs = ask({"tools": TOOLS, "replies": asked})
        for place, line in enumerate(lines):
            mine = [[call.name, call.arguments] for call in readers[place]().calls]
            reads = [mine, *theirs[place].values()]
            if len(reads) > 1 and all(same(calls, line["calls"]) for calls in reads):
                families.setdefault(line["family"], []).append(place)
        for family, places in sorted(families.items()):
            rounds = [
                (
                    sum(seconds(readers[place]) for place in places) / len(places),
                    sum(ask([TIMES, places])) / len(places),
                )
                for _ in range(QUICK if quick else ROUNDS)
            ]
            figures.append(
                Figure(
                    f"{family}: {len(places)} replies read, "
                    f"{1e6 * median(own for own, _ in rounds):.1f} µs each",
                    median(other / own for own, other in rounds),
                    "×",
                    f"vLLM's {asked[places[0]]['vllm'][0][0]}, µs",
                    1e6 * median(other for _, other in rounds),
                    reach=5,
                )
            )
    return figures


def seconds(read: Callable[[], object]) -> float:
    """CPU time of one call."""
    began = time.process_time()
    for _ in range(TIMES):
        read()
    return (time.process_time() - began) / TIMES


@contextmanager
def _others() -> Iterator[Callable[[Any], Any]]:
    """What asks a process with vLLM's parsers, a line of JSON for a line of JSON."""
    with subprocess.Popen(
        [str(PYTHON), str(ORACLES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        sink = process.stdin
        source = process.stdout
        assert sink is not None and source is not None

        def ask(question: Any) -> Any:
            sink.write(f"{json.dumps(question)}\n")
            sink.flush()
            return json.loads(source.readline())

        yield ask
        sink.close()


def _tool(function: Any) -> Tool:
    schema = function["parameters"]
    parameters = (
        Parameter(name, kind, required=name in schema.get("required", ()))
        for name, kind in schema["properties"].items()
    )
    return Tool(function["name"], "replies", function["description"], tuple(parameters))


if __name__ == "__main__":
    run(measure)
