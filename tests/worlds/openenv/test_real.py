"""Against OpenEnv's own package: `make openenv` fetches it and runs this. Importing it
takes a while."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.console.main import run
from rods.environments.base import Environment, Result, reference
from rods.environments.loading import Environments
from rods.tasks import Task, task_lines

pytestmark = pytest.mark.skipif(
    not os.environ.get("RODS_OPENENV"), reason="needs OpenEnv's package: make openenv"
)
REAL = "tests.worlds.openenv.real"
MOVES = [Call("step", {"by": by}) for by in (1, -3, 2, 9, 3, 1)]
NOTES = [
    *(Call("write", {"text": text}) for text in ("tea", "", "milk")),
    *(Call("read"), Call("read", {"number": 2}), Call("read", {"number": "x"}), Call("erase", {})),
]
CALLS = {"Moves": MOVES, "Notes": NOTES}


@contextmanager
def theirs(made: str) -> Iterator[str]:
    """The address of OpenEnv's own server, which takes one session, as it does by default."""
    import uvicorn
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

    from tests.worlds.openenv import real

    kinds: dict[str, Any] = {
        "Moves": (real.MoveAction, real.MoveObservation),
        "Notes": (CallToolAction, CallToolObservation),
    }
    app = create_fastapi_app(getattr(real, made), *kinds[made])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def answers(environment: Environment, calls: list[Call]) -> list[Result]:
    world = environment.reset(None)
    return [world.call(call) for call in calls]


@pytest.mark.parametrize("made", CALLS)
def test_in_process_and_behind_its_own_server_it_is_the_same(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["env", "add", "near", "--kind", "openenv", "--", f"{REAL}:{made}"]) == 0
    near = Environments().load("near.openenv.json")
    with theirs(made) as address:
        assert run(["env", "add", "far", "--kind", "openenv", "--url", address]) == 0
        far = Environments().load("far.openenv.json")
        assert [each.schema() for each in near.tools().values()] == [
            each.schema() for each in far.tools().values()
        ]
        here = answers(near, CALLS[made])
        there = answers(far, CALLS[made])
        print(*here, *there, sep="\n")
        assert [(each.text, each.error) for each in here] == [
            (each.text, each.error) for each in there
        ]
        worlds = [far.reset(None) for _ in range(4)]
        for call in CALLS[made][:3]:
            assert len({world.call(call).text for world in worlds}) == 1, (
                "one session serves them all"
            )
        assert worlds[0].same_state(worlds[3]) and worlds[0].fork().same_state(worlds[1])
        good = tuple(
            call for call, result in zip(CALLS[made], here, strict=True) if result.error is None
        )
        for name, environment in (("near", near), ("far", far)):
            task = Task(
                reference(environment), "base", ("Go.",), (good[:2],), tuple(environment.tools())
            )
            Path("tasks.jsonl").write_bytes(task_lines([task]))
            assert run(["env", "check", f"{name}.openenv.json", "--tasks", "tasks.jsonl"]) == 0
