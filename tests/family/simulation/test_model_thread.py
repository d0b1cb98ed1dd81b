"""The line to the models that play."""

from __future__ import annotations

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.config import Endpoint
from rods.episode.model_thread import ModelThread
from rods.episode.watchdog import Lanes
from rods.errors import InfrastructureError
from rods.llm import Client, Request


def test_who_waits_for_a_model_does_not_hang() -> None:
    """The client has deadlines of its own; a queue before the server may be longer than any
    computation."""
    with Stub(Script(latency=1.0)) as stub, Lanes(1, patience=0.5) as lanes:
        endpoint = Endpoint(model="stub", urls=(stub.url,), retry_seconds=0.5).giving_up
        with ModelThread(lambda: Client([endpoint])) as line:
            request = Request("user", [{"role": "user", "content": "?"}])
            assert (
                lanes.submit(line.ask, lambda client: client.complete(request)).result(60).finish
                == "stop"
            )
            stub.stop()
            with pytest.raises(InfrastructureError, match="stub"):
                lanes.submit(line.ask, lambda client: client.complete(request)).result(60)
    assert lanes.lost == 0
