"""A key is sent to the endpoint and written nowhere, whatever goes wrong."""

from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from string import ascii_letters, digits

import pytest
import structlog
from aiohttp import web
from hypothesis import given, strategies as st

from bench.fixtures.llm_stub import Script, Stub
from rods import logs
from rods.buffers.usage import UsageLog
from rods.config import Endpoint, read_config
from rods.console.main import run
from rods.errors import RodsError, UserError
from rods.llm import Client, EndpointError, wire
from rods.llm.connections import MOST_COMPLAINT, Key, read_key, reason
from rods.llm.records import Completion
from tests.rods.llm.conftest import ask, endpoint
from tests.rods.llm.leaking import KEY

FOLDERS = ("urls", "keys")


@asynccontextmanager
async def serving(bodies: Sequence[tuple[str, bytes]]) -> AsyncIterator[str]:
    """The address of a server that answers with these types and bodies, in turn, and then with the
    last one."""
    left = list(bodies)

    async def answer(request: web.Request) -> web.Response:
        kind, body = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(body=body, headers={"Content-Type": kind})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "fault", ["", "401", "500", "reset", "html", "400", "redirect", "truncated"]
)
async def test_a_planted_key_is_found_nowhere(
    stub: Stub,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    stub.use(
        Script(key=KEY, faults={fault: 1.0} if fault else {}, answer="tests.rods.llm.leaking:tell")
    )
    settings = endpoint(stub, key_env="PLANTED_KEY", retry_seconds=2.0, patience_seconds=1.0)
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
    config.write_text(
        f'[[operation.endpoints]]\nmodel = "stub"\nurls = ["{stub.url}"]\nkey_file = "{file}"\n'
    )
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
    assert (
        key.heard(f"Incorrect API key provided: {KEY}.", 300) == "Incorrect API key provided: ***."
    )


SENT = Completion("", "other", "asked-for", "main")


def quoted(text: str, escaped: bool) -> str:
    """A JSON string, each of its characters as an escape if wanted."""
    return '"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"' if escaped else json.dumps(text)


@given(
    st.text(ascii_letters + digits + "-_+/\"'\\<&", min_size=20, max_size=40).map(
        lambda text: "K" + text
    ),
    st.integers(0, 5_000) | st.integers(0, 400),
    st.integers(0, 50),
    st.booleans(),
)
def test_no_part_of_a_key_is_left_wherever_a_text_is_cut(
    word: str, before: int, after: int, escaped: bool
) -> None:
    """Of what a server may say, in every place from which something is kept or shown."""
    key = Key(word)
    said = quoted("~" * before + word + "~" * after, escaped)
    call = f'{{"function": {{"name": {said}, "arguments": {said}}}}}'
    message = f'{{"content": {said}, "tool_calls": [{call}, {call}]}}'
    choice = f'{{"message": {message}, "finish_reason": {said}}}'
    whole = f'{{"model": {said}, "choices": [{choice}], "usage": {{"prompt_tokens": {said}}}}}'
    kept = [repr(wire.decode(whole.encode(), SENT, 0.1, key))]
    text = json.loads(said)
    complaints = [
        f'{{"error": {{"message": {said}}}}}',
        f'{{"what": {said}}}',
        f"[{said}]",
        text,
        repr(text),
    ]
    for body in complaints:
        told = wire.complaint(body.encode(), key)
        assert len(told) <= MOST_COMPLAINT
        kept.append(told)
        with pytest.raises(wire.NotAnAnswer) as caught:
            wire.decode(body.encode(), SENT, 0.1, key)
        kept.append(str(caught.value))
        with pytest.raises(wire.NotAnAnswer) as caught:
            wire.decode_embeddings(body.encode(), SENT, 1, 0.1, key)
        kept.append(str(caught.value))
    kept += [
        reason(ValueError(text), key),
        reason(ValueError(text[: before + 10]), key),
        key.complaint(text),
    ]
    for told in kept:
        assert (
            word[:7] not in told
            and json.dumps(word)[1:-1] not in told
            and repr(word)[1:-1] not in told
        )


@pytest.mark.usefixtures("quick")
async def test_neither_calls_nor_headers_repeat_a_key_and_what_is_recorded_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    call = {"function": {"name": KEY, "arguments": json.dumps({"at": KEY})}}
    choice = {"message": {"content": KEY, "tool_calls": [call]}, "finish_reason": "stop"}
    bodies = [
        (f"text/{KEY}", json.dumps({"model": "m" * (1 << 20), "choices": [choice]}).encode()),
        (f"text/{'t' * 285}{KEY}", b"no JSON " + KEY.encode()),
    ]
    async with serving(bodies) as url, UsageLog(tmp_path, "daemon") as used:
        settings = Endpoint(model="m", urls=(url,), key_env="PLANTED_KEY", retry_seconds=2.0)
        async with Client([settings], sink=used) as client:
            answer = await client.complete(ask())
            with pytest.raises(EndpointError) as caught:
                await client.complete(ask())
    assert [(given.name, given.arguments) for given in answer.tool_calls] == [
        ("***", '{"at": "***"}')
    ]
    assert len(answer.model) == wire.MOST_NAME
    assert KEY[:8] not in str(caught.value)
    assert (tmp_path / "usage.daemon.jsonl").stat().st_size < 2_000


def test_an_answer_without_an_end_was_cut() -> None:
    text = "x" * (wire.MOST_TEXT + 1)
    cut = wire.decode(
        json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}).encode(), SENT, 0.1
    )
    assert (cut.finish, len(cut.text)) == ("length", wire.MOST_TEXT)
    calls = [{"function": {"name": "a", "arguments": "x" * (1 << 20)}}] * 9
    reply = {"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
    cut = wire.decode(json.dumps(reply).encode(), SENT, 0.1)
    assert (cut.finish, sum(len(call.arguments) for call in cut.tool_calls)) == (
        "length",
        wire.MOST_TEXT,
    )


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
