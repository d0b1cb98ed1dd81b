"""`rods doctor --rate` measures a server and writes what `rods plan` reads."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.console.main import run
from rods.errors import EXIT_FAILED, EXIT_OK, EXIT_USER
from rods.family.trials import doctor
from tests.trainer.runs import write_config

CALLS = 8
LATENCY = 0.05
ANSWER = 256


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "RATED", 0.5)


@pytest.fixture
def slow(stub: Stub) -> Stub:
    """It counts a quarter of the characters as tokens, and writes as many as it is asked for."""
    stub.use(Script(latency=LATENCY, cuts=True, answer="tests.family.trials.test_rate:endless"))
    return stub


def endless(body: dict[str, Any]) -> str:
    return "word " * 1000


def test_calls_in_flight_are_as_many_as_asked_for_and_their_tokens_all_count(
    slow: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--rate", slow.url, "stub", str(CALLS)]) == EXIT_OK
    found = tomllib.loads(capsys.readouterr().out)
    assert (
        slow.counts()["most_in_flight"] == found["stub.concurrency"] == CALLS
        and found["stub.gpus"] == 1
    )
    calls = CALLS / LATENCY  # a second, at most
    assert calls * ANSWER / 4 < found["stub.generated_tokens_per_second"] <= calls * ANSWER
    assert 1000 * calls / 4 < found["stub.prompt_tokens_per_second"] < 2000 * calls


def test_a_plan_reads_it_and_the_key_is_that_of_the_configuration(
    slow: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow.use(Script(key="secret"))
    monkeypatch.setenv("RATED_KEY", "secret")
    file = tmp_path / "rates.toml"
    servers = [{"model": "stub", "urls": [slow.url], "key_env": "RATED_KEY"}]
    config = write_config(
        tmp_path / "c.toml", {"policy.kind": "nano", "operation.rollout_servers": servers}
    )
    assert run(["doctor", "--rate", slow.url, "stub", "3", "--config", str(config)]) == EXIT_OK
    file.write_text(capsys.readouterr().out)
    assert run(["plan", str(config), "--rates", str(file), "--json"]) == EXIT_OK
    figures = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)["figures"]}
    rolling = figures["seconds of rollouts a step"]
    assert rolling["value"] > 0 and str(file) in rolling["source"]


@pytest.mark.parametrize("fault", ["500", "stall", "no_room"])
def test_a_server_that_does_not_answer_has_no_rate(
    fault: str, stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.use(Script(faults={fault: 1.0}))
    assert run(["doctor", "--rate", stub.url, "stub", "2"]) == EXIT_FAILED
    said = capsys.readouterr()
    assert "stub" in said.err and not said.out


def test_what_is_no_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--rate", "node7", "model", "2"]) == EXIT_USER
    assert "--rate: not an address" in capsys.readouterr().err
