"""One table for a run's start and end: paired, with cards, and the same after a kill."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.environments.registry import declared
from rods.family.benchmarks.bfcl.harness import taken
from rods.family.benchmarks.folder import EPISODES, episodes
from rods.family.benchmarks.main import run
from rods.family.benchmarks.suite import totals
from rods.worlds.bfcl.world import Bfcl
from tests.buffers.world import make_run
from tests.daemon.runs import until
from tests.family.benchmarks.bfcl.runs import ROOT, command, evaluate

KNOWS = "tests.family.benchmarks.suite_player:knows"
PART = ("--benchmarks", "bfcl_single", "bfcl_memory", "--tasks-per-type", 2, "--model", "m")


@pytest.fixture(scope="module")
def stub(bfcl: Bfcl) -> Iterator[Stub]:
    with Stub(Script(answer=KNOWS)) as made:
        yield made


@pytest.fixture(scope="module")
def silent(bfcl: Bfcl) -> Iterator[Stub]:
    with Stub(Script(answer="tests.family.benchmarks.suite_player:declines")) as made:
        yield made


def at(silent: Stub, stub: Stub) -> tuple[str, ...]:
    return "--start-url", silent.url, "--end-url", stub.url


@pytest.mark.slow
def test_start_and_end_are_one_table(
    stub: Stub, silent: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "run").path
    told = evaluate("suite", folder, *at(silent, stub), *PART)
    single = told["rows"]["bfcl_single"]["kinds"]
    assert list(told["rows"]) == ["bfcl_single", "bfcl_memory"] and not told["incomplete"]
    assert (
        single["simple_python"]["before"]["mean"],
        single["simple_python"]["after"]["mean"],
    ) == (0, 1)
    assert single["simple_python"]["difference"]["tasks"] == 2
    assert (
        single["irrelevance"]["before"]["mean"] == 1
        and single["all"]["difference"]["interval"][0] > 0
    )
    assert list(told["rows"]["bfcl_memory"]["kinds"]) == ["memory_kv", "memory_rec_sum", "all"]
    assert all(spent["calls"] == 26 for spent in told["rows"]["bfcl_single"]["usage"])
    assert {"base", "web_search_base", "memory_vector"} <= {*told["totals"]["BFCL V4"]["lacks"]} - {
        "memory_kv"
    }
    assert run(["suite", str(folder), *at(silent, stub), *map(str, PART)]) == 0
    text = capsys.readouterr().out
    for part in (
        "end less start",
        "card: data",
        "no total of BFCL V4: ",
        "  cost: 52 calls",
        "memory_rec_sum",
    ):
        assert part in text
    assert "NOT ALIKE" not in text


@pytest.mark.sweep
def test_a_killed_suite_ends_with_the_same_table(stub: Stub, silent: Stub, tmp_path: Path) -> None:
    whole_run = make_run(tmp_path / "whole").path
    whole = evaluate("suite", whole_run, *at(silent, stub), *PART)
    folder = make_run(tmp_path / "run").path
    stub.use(Script(answer=KNOWS, latency=0.02))
    silent.use(Script(answer="tests.family.benchmarks.suite_player:declines", latency=0.02))
    told = ("suite", folder, *at(silent, stub), *PART, "--in-flight", 2)
    journals = [
        folder / "eval/suite" / name / EPISODES for name in ("bfcl_single/start", "bfcl_single/end")
    ]
    for journal in (*journals, folder / "eval/suite/bfcl_memory/end" / EPISODES):
        process = subprocess.Popen(
            command(*told), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(partial(grown, journal, 5))
        process.kill()
        process.wait()
    ended = evaluate(*told)
    for name, row in ended["rows"].items():
        assert row["kinds"] == whole["rows"][name]["kinds"] and row["cards_differ"] == []
        assert [*map(episodes_in, folders(folder, name))] == [
            *map(episodes_in, folders(whole_run, name))
        ]


@pytest.mark.slow
def test_an_endpoint_that_fails_leaves_the_suite_incomplete(
    stub: Stub, silent: Stub, tmp_path: Path
) -> None:
    folder = make_run(tmp_path / "run").path
    silent.use(Script(answer="tests.family.benchmarks.suite_player:declines", faults={"400": 1.0}))
    told = evaluate("suite", folder, *at(silent, stub), *PART, code=5)
    assert told["incomplete"] == ["bfcl_single"] and told["rows"] == {}
    silent.use(Script(answer="tests.family.benchmarks.suite_player:declines"))
    assert len(evaluate("suite", folder, *at(silent, stub), *PART)["rows"]) == 2


@pytest.mark.slow
def test_what_cannot_be_played_so_is_left_out_and_named(
    stub: Stub, silent: Stub, tmp_path: Path
) -> None:
    folder = make_run(tmp_path / "run").path
    told = evaluate("suite", folder, *at(silent, stub), *PART[3:], "--tasks-per-type", 1)
    assert "plays the user" in told["left_out"]["tau2"] and "bfcl_single" in told["rows"]
    alone = ("--benchmarks", "tau2", "--model", "m", "--tasks-per-type", 1)
    assert "plays the user" in evaluate("suite", folder, *at(silent, stub), *alone, code=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--start-url", "http://127.0.0.1:9/v1", "--model", "m"), "give both"),
        (("--url", "http://127.0.0.1:9/v1", "--model", "m"), "--url is not for a suite"),
        (
            (
                "--benchmarks",
                "none",
                "--start-url",
                "http://a/v1",
                "--end-url",
                "http://b/v1",
                "--model",
                "m",
            ),
            "'none'",
        ),
        ((), "no checkpoint"),
    ],
)
def test_mistakes_are_one_line(
    bfcl: Bfcl, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    folder = make_run(tmp_path / "run").path
    message = evaluate("suite", folder, *arguments, code=2)
    assert said in message and message.count("\n") == 1


def test_the_total_is_the_package_s_and_is_made_of_everything_or_not_at_all(bfcl: Bfcl) -> None:
    rng = Random(0)
    parts = declared("rods.family.benchmarks", "benchmark.toml")["bfcl"]["total"]["parts"]
    names = sorted(
        {name for name in re_names(json.dumps(parts)) if name not in ("weight", "mean", "pooled")}
    )
    kinds = {
        name: {
            place: {"mean": rng.random(), "tasks": rng.randrange(10, 90)}
            for place in ("before", "after")
        }
        for name in names
    }
    assert len(kinds) == 21
    for row in kinds.values():
        row["before"]["tasks"] = row["after"]["tasks"]  # paired
    items = {name: row["after"]["tasks"] for name, row in kinds.items()}
    total = totals({"all": {"kinds": kinds, "items": items}})["BFCL V4"]
    for place in ("before", "after"):
        assert total[place] == pytest.approx(
            official_total(bfcl, {name: kinds[name][place] for name in kinds})
        )
    items["base"] += 1  # of which one was not played
    del kinds["web_search_base"]
    assert totals({"all": {"kinds": kinds, "items": items}})["BFCL V4"] == {
        "lacks": ["base", "web_search_base"]
    }


def folders(run: Path, name: str) -> list[Path]:
    return [run / "eval/suite" / name / place for place in ("start", "end")]


def episodes_in(folder: Path) -> dict[tuple[str, int], Any]:
    """What was played, each once."""
    played = list(episodes(folder))
    assert len({episode.key for episode in played}) == len(played)
    return {episode.key: episode.result for episode in played}


def grown(journal: Path, lines: int) -> bool:
    return journal.exists() and journal.read_bytes().count(b"\n") > lines


def re_names(text: str) -> list[str]:
    return text.split('"')[1::2]


def official_total(bfcl: Bfcl, scores: dict[str, Any]) -> float:
    """By the package's own functions."""
    names = [
        f"calculate_{how}_accuracy" for how in ("unweighted", "weighted", "percentage_weighted")
    ]
    own = taken(bfcl.file, "eval_checker/eval_runner_helper.py", names, {})
    unweighted, weighted, percent = (own[name] for name in names)
    of = {
        name: {
            "accuracy": row["mean"],
            "total_count": row["tasks"],
            "display_accuracy": row["mean"],
        }
        for name, row in scores.items()
    }

    def each(text: str) -> list[Any]:
        return [of[name] for name in text.split()]

    simple = unweighted(each("simple_python simple_java simple_javascript"))
    return float(
        percent(
            [
                unweighted([simple, *each("multiple parallel parallel_multiple")]),
                weighted(each("live_simple live_multiple live_parallel live_parallel_multiple")),
                unweighted(each("irrelevance live_irrelevance")),
                unweighted(each("base miss_func miss_param long_context")),
                unweighted(
                    [
                        unweighted(each("web_search_base web_search_no_snippet")),
                        unweighted(each("memory_kv memory_vector memory_rec_sum")),
                    ]
                ),
            ],
            [10, 10, 10, 30, 40],
        )["accuracy"]
    )
