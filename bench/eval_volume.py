"""Whole benchmarks against a server that fails, with `rods-eval` killed again and again.

Claim: no item is lost, none is recorded twice, and the scores are those of an evaluation that
nothing disturbed, so that no failure of the machinery counts as one of the policy. Anchor: that
evaluation, of the same items by the same policy. Command: `python -m bench.eval_volume`; `--only
tau2` plays one benchmark.

Each benchmark is played with so many samples an item that it has 1,000 episodes or more. A quarter
of the requests meet a fault of the machinery, calls are given up after two seconds of failed
attempts, and the process is killed (-9) at moments drawn at random, its start included; what is
left out or killed is gone on with by the same command. The policy's every output follows from its
conversation (bench/fixtures/eval_policy.py), so all episodes have to be equal, output by output.
Where a model plays the user or embeds texts, its server fails as often, and so does a search; its
pages lie on the loopback, which no policy can read. ACEBench's items are made ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import orjson

from bench.figures import Figure, run
from bench.fixtures.acebench_items import kept
from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.web_stub import WebStub
from bench.history import RUNS
from rods.errors import EXIT_OK, EXIT_REQUEUE
from rods.family.benchmarks.benchmarks import declared_benchmarks, named
from rods.family.benchmarks.folder import EPISODES
from rods.family.benchmarks.tau2.package import WHEEL
from rods.worlds.bfcl import fetch

POLICY = "bench.fixtures.eval_policy:answer"
BROKEN = ("429", "500", "503", "reset", "reset_midway", "truncated", "cut_json", "html", "garbage")
# a quarter of the requests
FAULTS = {**dict.fromkeys(BROKEN, 0.025), "stall": 0.0125, "stall_midway": 0.0125}
LATENCY = (0.0, 0.2)  # seconds
LEAST = 1_000  # items of each benchmark
KILLS = 12
KEY = "a-key-of-this-bench"
KEY_ENV = "RODS_BENCH_SEARCH_KEY"
STARTED = 6.0  # seconds until a start plays its first items, about
SECONDS = 1_500.0  # that the starts of one benchmark may take together
ENDPOINT = """
[[operation.endpoints]]
model = "{model}"
urls = ["{url}"]
concurrency = 128
read_seconds = {read}
retry_seconds = 2.0
patience_seconds = 30.0
"""


@dataclass(frozen=True)
class Disturbed:
    """What one benchmark went through. `starts` without kills ended by themselves, with episodes
    left out or none."""

    name: str
    items: int
    kills: int
    starts: int
    faults: int
    seconds: float
    lost: int
    twice: int
    different: int  # episodes with other outputs or another end
    table: bool  # whether the report is the same


def play(name: str, folder: Path, kills: int, *options: object, samples: int = 1) -> Disturbed:
    """Plays a benchmark twice in `folder`, once undisturbed. Raises RuntimeError where a start
    fails or all of them take too long."""
    arguments = [
        "--benchmark",
        name,
        "--split",
        "all",
        "--samples",
        samples,
        "--in-flight",
        128,
        *options,
    ]
    script = Script(answer=POLICY, model=name, max_model_len=1_000_000, latency=LATENCY)
    with Stub(script) as stub, Stub(replace(script, embeds=True)) as beside, WebStub(KEY) as web:
        needs = named(name).needs
        if "user" in needs:
            arguments += ["--user-url", beside.url, "--user-model", "customer"]
        if {*needs.get("encoder", ())} & (
            {*options} if "--types" in options else {*named(name).kinds}
        ):
            arguments += ["--encoder-url", beside.url, "--encoder-model", "encoder"]
        if "search" in needs:
            arguments += ["--search-url", f"{web.url}/search", "--search-key-env", KEY_ENV]
        config = folder / f"{name}.toml"
        config.write_text(ENDPOINT.format(model=name, url=stub.url, read=300.0))
        whole = folder / name / "whole"
        disturbed = folder / name / "disturbed"
        begun = time.monotonic()
        if (code := _start(whole, config, arguments).wait(SECONDS)) != EXIT_OK:
            raise RuntimeError(f"an undisturbed evaluation of {name} ended with {code}")
        took = time.monotonic() - begun
        config.write_text(ENDPOINT.format(model=name, url=stub.url, read=1.0))
        stub.use(Script(**{**script.as_json(), "faults": FAULTS}))
        stub.forget()
        beside.use(replace(script, embeds=True, faults=dict.fromkeys(BROKEN, 0.025)))
        web.faults = {0: 0.1, 429: 0.1, 500: 0.1}
        begun = time.monotonic()
        killed, starts = _disturb(disturbed, config, arguments, kills, took, begun + SECONDS)
        seconds = time.monotonic() - begun
        counts = stub.counts()
    first = _episodes(whole)
    second = _episodes(disturbed)
    return Disturbed(
        name,
        items=len(first),
        kills=killed,
        starts=starts,
        faults=sum(counts[fault] for fault in FAULTS),
        seconds=seconds,
        lost=len(first.keys() - second.keys()),
        twice=sum(len(records) - 1 for records in second.values()),
        different=sum(
            second[key][0] != records[0] for key, records in first.items() if key in second
        ),
        table=_report(whole) == _report(disturbed),
    )


def _disturb(
    folder: Path, config: Path, arguments: list[object], kills: int, took: float, deadline: float
) -> tuple[int, int]:
    """Starts the evaluation until it is done and kills it at random moments meanwhile; how often it
    was killed, and how often started. `took` is how long an undisturbed one needs."""
    chance = Random(folder.parent.name)
    killed = 0
    starts = 0
    while time.monotonic() < deadline:
        process = _start(folder, config, arguments)
        starts = starts + 1
        # a first start takes longer than one that nothing disturbs
        soon = min(took, STARTED + took / 4)
        moment = chance.uniform(0.0, soon) if killed < kills else deadline - time.monotonic()
        try:
            code = process.wait(max(0.0, moment))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
            continue
        if code == EXIT_OK:
            return killed, starts
        if code != EXIT_REQUEUE:
            raise RuntimeError(
                f"{folder}: a start ended with {code}; {folder.parent}/said has what it said"
            )
    raise RuntimeError(f"{folder}: not done in {SECONDS:g} s")


def _start(folder: Path, config: Path, arguments: list[object]) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "rods.family.benchmarks",
        "run",
        folder,
        "--config",
        config,
        *arguments,
    ]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "said").open("ab") as said:
        return subprocess.Popen(
            [*map(str, command)], stdout=said, stderr=said, env=os.environ | {KEY_ENV: KEY}
        )


def _episodes(folder: Path) -> dict[tuple[str, int], list[Any]]:
    """Every record of an episode, without what a log adds, by item and sample."""
    found: dict[tuple[str, int], list[Any]] = {}
    for line in (folder / EPISODES).read_bytes().splitlines():
        record = orjson.loads(line)
        if record["kind"] == "episode":
            told = {key: record[key] for key in ("form", "end", "cut", "result")}
            found.setdefault((record["task"], record["sample"]), []).append(told)
    return found


def _report(folder: Path) -> Any:
    """What `rods-eval report` says, without where it lies."""
    command = [sys.executable, "-m", "rods.family.benchmarks", "report", str(folder), "--json"]
    told = orjson.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {key: value for key, value in told.items() if key not in ("folder", "results")}


def measure(quick: bool, only: str = "") -> list[Figure]:
    """Every benchmark, killed a dozen times (quick: 65 single turns, killed twice)."""
    fetch()
    WHEEL.fetch()
    ended = []
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        if quick:
            ended.append(play("bfcl_single", Path(folder), 2, "--tasks-per-type", 5))
        else:
            for name in [only] if only else declared_benchmarks():
                with kept(Path(folder)) if name == "acebench" else nullcontext():
                    ended.append(
                        play(
                            name, Path(folder), KILLS, samples=-(-LEAST // len(named(name).tasks()))
                        )
                    )
                print(ended[-1], file=sys.stderr, flush=True)
    return [figure for one in ended for figure in _figures(one)]


def _figures(one: Disturbed) -> list[Figure]:
    return [
        Figure(f"{one.name}: episodes", one.items, ""),
        Figure(f"{one.name}: kills", one.kills, "", "starts", one.starts),
        Figure(f"{one.name}: faults served", one.faults, ""),
        Figure(f"{one.name}: time", one.seconds, "s"),
        Figure(f"{one.name}: lost", one.lost, "", reach=0, higher=False),
        Figure(f"{one.name}: recorded twice", one.twice, "", reach=0, higher=False),
        Figure(f"{one.name}: with other outputs", one.different, "", reach=0, higher=False),
        Figure(
            f"{one.name}: the same report", one.table, "", "an undisturbed evaluation", 1, reach=1
        ),
    ]


if __name__ == "__main__":
    run(measure, only="one benchmark")
