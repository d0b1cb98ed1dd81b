"""`rods doctor` tells what is wrong with an endpoint, and what to do about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.config import Endpoint, parse_config
from rods.console.main import run
from rods.family.trials import doctor
from rods.family.trials.doctor import _answers, check_endpoint
from tests.rods.llm.conftest import endpoint
from tests.rods.llm.test_deviations import Body, message, served as answering
from tests.trainer.nano_parts import engine
from tests.trainer.served_stub import served

COLOURED = {"reason": "so", "colour": "red", "count": 3}


async def verdicts(stub: Stub, **settings: object) -> dict[str, bool | None]:
    return {
        finding.name: finding.ok for finding in await check_endpoint(endpoint(stub, **settings))
    }


async def test_a_good_endpoint_passes_every_question(stub: Stub) -> None:
    assert await verdicts(stub) == dict.fromkeys(
        ("reachable", "model", "context", "answer", "structured output"), True
    )


async def test_a_short_context_is_noted(stub: Stub) -> None:
    stub.use(Script(max_model_len=4096))
    assert (await verdicts(stub))["context"] is None


async def test_a_wrong_model_names_those_that_are_served(stub: Stub) -> None:
    found = await check_endpoint(endpoint(stub, model="Qwen/Qwen3-32B"))
    assert "served: stub" in str(found[-1])
    assert found[-1].ok is False


async def test_nobody_there(stub: Stub) -> None:
    gone = Stub()
    gone.stop()
    assert await verdicts(gone) == {"reachable": False}


async def test_an_address_file_that_is_empty(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "address").write_text("# not yet\n")
    assert await verdicts(stub, urls=(), url_file=str(tmp_path / "address")) == {"address": False}


async def test_schemas_that_are_refused_or_ignored(stub: Stub) -> None:
    stub.use(Script(refuse_schema=True))
    assert (await verdicts(stub))["structured output"] is False
    stub.use(Script(faults={"prose": 1.0}))
    assert (await verdicts(stub))["structured output"] is None, "what is fenced can be read"


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        (message(json.dumps(COLOURED)), True),
        (message(f"```json\n{json.dumps(COLOURED)}\n```"), None),
        (message(None, reasoning_content=json.dumps(COLOURED)), None),
        (message(json.dumps({"answer": [{**COLOURED, "count": "3"}]}), None), None),
        (message("Sure! Red, and three."), False),
        (message(json.dumps({**COLOURED, "count": 30})), False),
    ],
)
async def test_an_answer_is_read_as_the_daemon_reads_it(said: Body, ok: bool | None) -> None:
    async with answering(lambda body: said) as client:
        found = {finding.name: finding.ok async for finding in _answers(client)}
    assert found == {"answer": True, "structured output": ok}


async def test_an_answer_is_awaited_as_long_as_the_configuration_says(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.use(Script(latency=0.5))
    monkeypatch.setattr(doctor, "LONGEST", 0.1)
    asked = endpoint(stub, read_seconds=60.0)
    assert (await check_endpoint(asked))[-1].ok
    usual = Endpoint(model=asked.model, urls=asked.urls)
    assert (await check_endpoint(usual))[-1].ok is False, "a person waits"


async def test_an_endpoint_that_breaks_over_an_answer(stub: Stub) -> None:
    stub.use(Script(faults={"500": 1.0}))
    found = (await check_endpoint(endpoint(stub)))[-1]
    assert (found.name, found.ok) == ("answer", False)
    assert "engine fell over" in found.text


@pytest.mark.needs("sandbox")
def test_the_verb_prints_findings_and_exits_1_when_something_is_wrong(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        f'[[operation.endpoints]]\nname = "main"\nmodel = "stub"\nurls = ["{stub.url}"]\n'
    )
    assert run(["doctor", "--config", str(config)]) == 0
    assert "ok   structured output" in capsys.readouterr().out
    stub.use(Script(model="other"))
    assert run(["doctor", "--config", str(config), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["ok"] for one in found["endpoint main"]] == [True, False]
    assert {one["name"] for one in found["installation"]} == {
        "python",
        "package",
        "training",
        "open files",
        "sandbox",
    }


def test_rollout_servers_are_asked_for_tokens_and_whether_they_take_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.toml"
    with served(engine().model.eval()) as state:
        config.write_text(
            "[rollouts]\nmax_context_tokens = 4096\n[[operation.rollout_servers]]\n"
            f'model = "nano"\nurls = ["{state.url}"]\n'
        )
        assert run(["doctor", "--config", str(config), "--json"]) == 0
        found = {
            one["name"]: one["ok"]
            for one in json.loads(capsys.readouterr().out)["rollout server nano"]
        }
        assert (
            found.items()
            >= {"model": True, "context": True, "tokens": True, "weights": True}.items()
        )
        assert not state.loaded  # nothing was changed by asking
        state.room = 2048
        assert run(["doctor", "--config", str(config)]) == 1
        assert (
            "rollouts.max_context_tokens → serve with --max-model-len 4096"
            in capsys.readouterr().out
        )


async def test_a_server_that_gives_no_tokens_cannot_roll_out(stub: Stub) -> None:
    found = await check_endpoint(
        endpoint(stub), parse_config({"rollouts": {"max_context_tokens": 4096}}, where="test")
    )
    told = {finding.name: str(finding) for finding in found}
    assert "FAIL tokens" in told["tokens"]
    assert "VLLM_SERVER_DEV_MODE=1" in told["weights"]
