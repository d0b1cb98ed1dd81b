"""What a suite would cost, from its prompts and from what is on record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.family.benchmarks.main import run
from rods.worlds.bfcl.world import Bfcl
from tests.buffers.world import make_run
from tests.family.benchmarks.bfcl.runs import evaluate

PART = ("--benchmarks", "bfcl_single", "--tasks-per-type", 2)
RATES = """
"small.prompt_tokens_per_second" = 10_000.0
"small.generated_tokens_per_second" = 100.0
"large.prompt_tokens_per_second" = 5_000.0
"large.generated_tokens_per_second" = 50.0
"large.gpus" = 4
"""


@pytest.fixture(scope="module")
def stub(bfcl: Bfcl) -> Iterator[Stub]:
    with Stub(Script(answer="tests.family.benchmarks.suite_player:knows")) as made:
        yield made


def test_prompts_are_counted_and_hours_follow_from_rates(
    bfcl: Bfcl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rates.toml"
    file.write_text(RATES)
    told = evaluate("cost", *PART, "--rates", file, "--reply-tokens", 500)
    cost = told["benchmarks"]["bfcl_single"]
    assert (cost["items"], cost["calls"], cost["reply_tokens"]) == (26, 26, 26 * 500)
    assert cost["prompt_tokens"] / 26 < cost["longest"] < cost["prompt_tokens"]
    hours = 2 * (cost["prompt_tokens"] / 10_000 + cost["reply_tokens"] / 100) / 3600
    assert told["models"]["small"] == {
        "hours": pytest.approx(hours),
        "gpus": 1,
        "gpu_hours": pytest.approx(hours),
    }
    assert told["models"]["large"]["gpu_hours"] == pytest.approx(2 * 4 * hours)
    assert (
        evaluate("cost", *PART)["benchmarks"]["bfcl_single"]["reply_tokens"]
        < cost["reply_tokens"] / 10
    )
    assert run(["cost", *map(str, PART), "--rates", str(file)]) == 0
    assert "both policies, large: " in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_on_record_is_scaled_to_all_items(stub: Stub, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run").path
    evaluate("suite", folder, "--start-url", stub.url, "--end-url", stub.url, "--model", "m", *PART)
    counted = evaluate("cost", *PART)
    seen = evaluate("cost", folder, *PART)
    ours, theirs = (told["benchmarks"]["bfcl_single"] for told in (counted, seen))
    assert theirs["source"] == "from 52 episodes on record" and (
        theirs["items"],
        theirs["calls"],
    ) == (26, 26)
    # the stub counts all of a request's JSON as its prompt, four characters a token
    assert theirs["prompt_tokens"] == pytest.approx(ours["prompt_tokens"], rel=0.15)
    whole = evaluate("cost", folder, "--benchmarks", "bfcl_single")["benchmarks"]["bfcl_single"]
    assert (whole["items"], whole["calls"]) == (3641, 3641)
    one = evaluate("cost", folder / "eval/suite/bfcl_single/start", *PART)["benchmarks"][
        "bfcl_single"
    ]
    assert one["source"] == "from 26 episodes on record"


def test_what_cannot_be_played_so_is_named(bfcl: Bfcl) -> None:
    told = evaluate("cost", "--tasks-per-type", 1, "--calls", "native")
    assert "native" in told["left_out"]["bfcl_formats"]
    assert told["benchmarks"]["bfcl_memory"]["items"] > 2, "the conversations before its questions"
    assert told["benchmarks"]["bfcl"]["calls"] > 4 * told["benchmarks"]["bfcl"]["items"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no rate of a model"),
        ('"m.prompt_tokens_per_second" = 5.0', "above 0 of m"),
        (
            '"m.prompt_tokens_per_second" = nan\n"m.generated_tokens_per_second" = 1.0',
            "above 0 of m",
        ),
        ("=", "not TOML"),
    ],
)
def test_rates_that_are_none_are_refused(
    bfcl: Bfcl, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "rates.toml"
    file.write_text(content)
    assert said in evaluate("cost", *PART, "--rates", file, code=2)


def test_a_folder_without_evaluations_is_refused(bfcl: Bfcl, tmp_path: Path) -> None:
    assert "has no suite" in evaluate("cost", tmp_path, code=2)
