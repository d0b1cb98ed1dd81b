"""Connections over TLS: who is not the one that the address names gets neither request nor key; the
run waits, as for any server that is down, and says why in a line."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from rods.config import Endpoint
from rods.llm import Client, EndpointError
from tests.rods.llm.conftest import ask
from tests.rods.llm.test_circuit import begin, until_down

pytestmark = [
    pytest.mark.usefixtures("quick"),
    pytest.mark.skipif(
        not which("openssl"), reason="needs the program `openssl`, which makes certificates"
    ),
]

KEY = "sk-0123456789abcdef"
SAID = {
    "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
    "usage": {},
    "model": "stub",
}
AUTHORITY = """
[ca]
default_ca = own
[own]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
x509_extensions = names
[any]
CN = optional
[names]
subjectAltName = {name}
"""


def certificate(folder: Path, name: str = "IP:127.0.0.1", until: str = "21000101000000Z") -> Path:
    """A file with a certificate that signs itself, for `name`, and its key."""
    folder = folder / str(len(list(folder.iterdir())))
    folder.mkdir()
    (folder / "index").touch()
    (folder / "settings").write_text(AUTHORITY.format(folder=folder, name=name))
    key = folder / "key.pem"
    made = folder / "made.pem"
    both = folder / "both.pem"
    for command in (
        f"req -new -newkey rsa:2048 -nodes -subj /CN=test -keyout {key} -out {folder}/asked",
        f"ca -batch -selfsign -notext -rand_serial -config {folder}/settings -in {folder}/asked "
        f"-keyfile {key} "
        f"-startdate 20200101000000Z -enddate {until} -out {made}",
    ):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + made.read_bytes())
    return both


class Server:
    """Answers every request, and keeps the bytes that it was sent."""

    def __init__(self) -> None:
        self.heard = b""
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = json.dumps(SAID).encode()
        try:
            # a greeting of TLS, where none is spoken
            if (begun := await reader.read(1)) == b"\x16":
                writer.write(
                    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                return
            while head := begun + await reader.readuntil(b"\r\n\r\n"):
                begun = b""
                length = next(
                    int(line[15:])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                self.heard += head + await reader.readexactly(length)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError) as error:
            self.heard += getattr(error, "partial", b"")
        finally:
            writer.close()

    async def cut(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Says nothing, and ends the connection in the handshake."""
        self.heard += await reader.read(64)
        writer.close()


@asynccontextmanager
async def serving(pem: Path | None, port: int = 0, *, cut: bool = False) -> AsyncIterator[Server]:
    server = Server()
    context = None
    if pem is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
    how: Any = server.cut if cut else server.serve
    listening = await asyncio.start_server(how, "127.0.0.1", port, ssl=context)
    server.url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()


def trusting(monkeypatch: pytest.MonkeyPatch, pem: Path) -> None:
    """What a user does who has an authority of one's own: SSL_CERT_FILE, read when a context is
    made."""
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context())


def endpoint(url: str, **settings: object) -> Endpoint:
    return Endpoint.model_validate(
        {
            "model": "stub",
            "urls": (url,),
            "key_env": "RODS_TEST_KEY",
            "read_seconds": 2.0,
            "connect_seconds": 2.0,
        }
        | settings
    )


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RODS_TEST_KEY", KEY)


SPOILT: dict[str, tuple[str, dict[str, Any]]] = {
    "self-signed": ("self-signed certificate", {}),
    "expired": ("certificate has expired", {"until": "20200201000000Z"}),
    "another's name": ("IP address mismatch", {"name": "DNS:elsewhere.example"}),
    "no TLS": ("wrong version number|record layer failure", {}),
    "cut": ("connection was closed|ConnectionResetError|EOF", {}),
}


@pytest.mark.parametrize("spoilt", SPOILT)
async def test_a_server_that_cannot_prove_who_it_is_gets_nothing_and_is_waited_for(
    spoilt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why, how = SPOILT[spoilt]
    bad = certificate(tmp_path, **how)
    if spoilt != "self-signed":
        trusting(monkeypatch, bad)
    pem = None if spoilt in ("no TLS", "cut") else bad
    async with (
        serving(pem, cut=spoilt == "cut") as server,
        Client([endpoint(server.url)]) as client,
    ):
        waiting = begin(client, 5)
        said = await until_down(client)
        await asyncio.sleep(0.3)
        assert not any(task.done() for task in waiting), "calls wait for a server that is down"
    assert KEY.encode() not in server.heard and b"POST" not in server.heard
    assert re.search(why, said) and "\n" not in said and KEY not in said, said


async def test_one_whose_certificate_is_mended_goes_on_with_the_same_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = certificate(tmp_path)
    other = certificate(tmp_path)
    trusting(monkeypatch, good)
    async with serving(other) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
    async with Client([endpoint(server.url)]) as client:
        async with serving(other, port):
            waiting = begin(client, 5)
            assert "certificate" in await until_down(client)
        async with serving(good, port) as server:
            found = await asyncio.wait_for(asyncio.gather(*waiting), 60)
            assert [one.text for one in found] == ["yes"] * 5
            assert server.heard.count(KEY.encode()) == 5


async def test_a_call_that_may_wait_no_longer_ends_as_a_failure_of_the_machinery(
    tmp_path: Path,
) -> None:
    async with (
        serving(certificate(tmp_path)) as server,
        Client([endpoint(server.url, retry_seconds=0.3)]) as client,
    ):
        with pytest.raises(EndpointError, match="self-signed certificate"):
            await asyncio.wait_for(client.complete(ask()), 30)
