"""One stub for a whole module, told anew what to do by each test; and waits short enough for
tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.config import Endpoint
from rods.llm import Request


@pytest.fixture(scope="module")
def server() -> Iterator[Stub]:
    with Stub() as stub:
        yield stub


@pytest.fixture
def stub(server: Stub) -> Stub:
    server.use(Script())
    server.forget()
    return server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts and pauses of the circuit take hundredths of a second."""
    monkeypatch.setattr("rods.llm.client.FIRST_WAIT", 0.01)
    monkeypatch.setattr("rods.llm.client.LONGEST_WAIT", 0.05)
    monkeypatch.setattr("rods.llm.client.WATCH_SECONDS", 0.05)
    monkeypatch.setattr("rods.llm.pacing.FIRST_PAUSE", 0.05)
    monkeypatch.setattr("rods.llm.pacing.LONGEST_PAUSE", 0.1)


def endpoint(stub: Stub, **settings: Any) -> Endpoint:
    return Endpoint(
        **{
            "model": "stub",
            "urls": (stub.url,),
            "read_seconds": 5.0,
            "retry_seconds": 60.0,
            **settings,
        }
    )


def ask(text: str = "hello", **fields: Any) -> Request:
    return Request(**{"stage": "test", "messages": [{"role": "user", "content": text}], **fields})
