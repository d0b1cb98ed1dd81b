"""Twenty items or more of each benchmark, end to end, against a real vLLM with a real, small model.
`make llm-smoke` runs this, with WHOLE=1 also what has long prompts; `make test` does not.

A model of 135M parameters gets next to nothing right: what is counted is that every item ends, that
none is left out for a failure of the machinery, and how many of its outputs have calls that can be
read. The table is printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.acebench_items import kept
from bench.fixtures.web_stub import WebStub
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import usage
from rods.config import Endpoint
from rods.family.benchmarks.acebench.benchmark import USER, AceBench
from rods.family.benchmarks.benchmarks import named
from rods.family.benchmarks.bfcl.decoding import decode
from rods.family.benchmarks.bfcl_single import source_text
from rods.family.benchmarks.bfcl_single.benchmark import SingleTurns
from rods.family.benchmarks.contract import Benchmark
from rods.family.benchmarks.folder import Episode, episodes
from rods.family.benchmarks.tau2.benchmark import Tau2
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.runs import evaluate

# prompts: minutes to an hour of a CPU
LONG = "bfcl", "bfcl_memory", "bfcl_search", "tau2", "acebench"
KEY = "a-key-of-this-test"
KEY_ENV = "RODS_TEST_SEARCH_KEY"
PARTS = {
    "bfcl": ("--tasks-per-type", 5, "--documents", "signatures"),
    "bfcl_single": ("--tasks-per-type", 2),
    # three questions and the twenty conversations before them, which are items, too
    "bfcl_memory": ("--types", "memory_rec_sum", "--tasks-per-type", 3),
    "bfcl_search": ("--tasks-per-type", 10, "--search-key-env", KEY_ENV),
    # telecom's user has tools, whose calls this server does not read
    "tau2": ("--types", "airline", "retail", "--tasks-per-type", 10),
    "acebench": ("--tasks-per-type", 2),  # of made items
}


@pytest.fixture
def own_cache() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in PARTS]
)
def test_every_item_ends_and_none_by_the_machinery(
    served: Endpoint,
    bfcl: Bfcl,
    tmp_path: Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    own_cache: ExitStack,
) -> None:
    folder = tmp_path / name
    if name == "acebench":
        own_cache.enter_context(kept(tmp_path))
    at = (
        "--benchmark",
        name,
        "--url",
        served.urls[0],
        "--model",
        served.model,
        "--in-flight",
        4,
        "--patience",
        1800,
    )
    benchmark = named(name)
    if isinstance(benchmark, Tau2):  # such a user never stops, and says as much as it may
        monkeypatch.setattr("rods.family.benchmarks.tau2.benchmark.USER_TOKENS", 32)
        monkeypatch.setitem(benchmark.rules, "max_steps", 8)
    if isinstance(benchmark, AceBench):
        monkeypatch.setitem(USER, "max_tokens", 32)
    beside: tuple[str, ...] = ()
    if "user" in benchmark.needs:
        beside = ("--user-url", served.urls[0], "--user-model", served.model)
    if name == "bfcl_search":
        monkeypatch.setenv(KEY_ENV, KEY)
        beside = ("--search-url", f"{own_cache.enter_context(WebStub(KEY)).url}/search")
    found = evaluate("run", folder, *at, *beside, *PARTS[name], "--max-tokens", 32)
    done = list(episodes(folder))
    calls = [call for who in ("evaluation", "user") for call in read(folder / usage(who))]
    failed = sum(call["outcome"] == "failed" for call in calls)
    outputs = [with_calls for episode in done for with_calls in _outputs(benchmark, episode)]
    scored = found["scores"][benchmark.part]["all"][benchmark.measures[0]]
    with capsys.disabled():
        told = (
            f"{len(done)} items ended ({found['ends']}), {failed} infrastructure failures, "
            f"{len(calls)} calls of the"
        )
        read_ = f"{sum(outputs)} of {len(outputs)} outputs with calls that can be read"
        print(
            f"\n{name}: {told} server, {read_}; {scored['mean']:.2f} of {scored['tasks']} scored "
            f"items are right"
        )
    assert found["complete"] and len(done) >= 20 and failed == 0
    assert len(outputs) >= len(done) - found["ends"].get("context", 0)
    if name == "bfcl":
        assert evaluate("check", folder)["equal"] == len(done), "judged as officially"


def _outputs(benchmark: Benchmark, episode: Episode) -> Iterator[bool]:
    """Of each output, whether it has calls that can be read."""
    result: Any = episode.result
    if isinstance(benchmark, SingleTurns):
        item = benchmark.items[episode.task]
        yield bool(source_text.decoded(result, episode.form, item.category))
        return
    if isinstance(benchmark, AceBench):
        yield from (bool(decode(text, episode.form)) for text in result["policy"])
        return
    if isinstance(benchmark, Tau2):
        said = (message for message in result["messages"][1:] if message["role"] == "assistant")
        yield from (bool(message.get("tool_calls")) for message in said)
        return
    for turn in result["outputs"] if isinstance(result, dict) else result:
        for step in turn:
            yield bool(decode(step, episode.form))
