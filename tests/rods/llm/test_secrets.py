"""A key is sent to the endpoint and written nowhere, whatever goes wrong."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
import structlog

from bench.fixtures.llm_stub import Script, Stub
from rods import logs
from rods.buffers.usage import UsageLog
from rods.config import Endpoint, read_config
from rods.console.main import run
from rods.errors import RodsError, UserError
from rods.llm import Client, EndpointError
from rods.llm.connections import Key, read_key
from tests.rods.llm.conftest import ask, endpoint

KEY = "sk-planted-5e1f0c77a9"
FOLDERS = ("urls", "keys")


def tell(request: dict[str, Any]) -> str:
    """A model that repeats the key, as if it had leaked into its prompt."""
    return f"my instructions mention {KEY}!"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("fault", ["", "401", "500", "reset", "html", "400", "redirect", "truncated"])
async def test_a_planted_key_is_found_nowhere(
    stub: Stub, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    stub.use(Script(key=KEY, faults={fault: 1.0} if fault else {}, answer="tests.rods.llm.test_secrets:tell"))
    settings = endpoint(stub, key_env="PLANTED_KEY", retry_seconds=0.3, patience_seconds=0.2)
    folder = tmp_path / "run"
    folder.mkdir()
    logs.configure("daemon", "debug", folder=folder / "logs")
    said = ""
    async with UsageLog(folder, "daemon") as used, Client([settings], sink=used) as client:
        try:
            said = repr(await client.complete(ask()))
        except EndpointError as error:
            said = "".join(traceback.format_exception(error)) + repr(error)
            structlog.get_logger().exception("given up")
        said += repr(client.status()) + repr(vars(client))
        assert client.status()[0]["why"] or not fault or fault == "400"
    assert KEY not in said
    output = capsys.readouterr()
    assert KEY not in output.out + output.err
    written = [file for file in folder.rglob("*") if file.is_file()]
    assert {file.name for file in written} == {"usage.daemon.jsonl", "daemon.jsonl"}
    assert all(KEY.encode() not in file.read_bytes() for file in written)
    assert stub.counts()["requests"] > 0


def test_the_doctor_keeps_it_to_itself(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rods.family.trials")
    file = tmp_path / "key"
    file.write_text("sk-another-0123456789\n")
    stub.use(Script(key=KEY))
    config = tmp_path / "run.toml"
    config.write_text(f'[[operation.endpoints]]\nmodel = "stub"\nurls = ["{stub.url}"]\nkey_file = "{file}"\n')
    assert run(["doctor", "--config", str(config)]) == 1
    assert run(["doctor", "--config", str(config), "--json"]) == 1
    output = capsys.readouterr()
    assert "refuses it (HTTP 401)" in output.out
    assert "sk-another" not in output.out + output.err
    file.write_text(KEY)
    assert run(["doctor", "--config", str(config)]) == 0
    assert KEY not in capsys.readouterr().out


def test_a_key_has_no_text_form() -> None:
    key = Key(KEY)
    assert KEY not in f"{key} {key!r} {[key]}"
    with pytest.raises(TypeError):
        pickle.dumps(key)
    assert key.scrub(f"Incorrect API key provided: {KEY}.") == "Incorrect API key provided: ***."


async def test_a_missing_key_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="environment variable NO_SUCH_KEY: holds no API key"):
        await read_key(Endpoint(model="m", urls=("http://a",), key_env="NO_SUCH_KEY"))
    with pytest.raises(UserError, match="No such file"):
        await read_key(Endpoint(model="m", urls=("http://a",), key_file=str(tmp_path / "none")))


@pytest.mark.parametrize(
    "line",
    [
        f'key_env = "{KEY}"',
        f'key = "{KEY}"',
        f'urls = ["http://user:{KEY}@host:8000/v1"]',
        f'urls = ["http://host:8000/v1?api_key={KEY}"]',
    ],
)
def test_a_key_in_the_configuration_is_refused_and_not_repeated(line: str, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    urls = "" if line.startswith("urls") else 'urls = ["http://host:8000/v1"]\n'
    config.write_text(f'[[operation.endpoints]]\nmodel = "m"\n{urls}{line}\n')
    with pytest.raises(RodsError) as caught:
        read_config(config)
    assert KEY not in "".join(traceback.format_exception(caught.value, chain=False))
