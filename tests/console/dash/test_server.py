"""The server itself, over HTTP: positions, errors, who may ask."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rods.buffers.run.runfolder import OBSERVATIONS
from rods.family.page.server import MODULES, STATIC
from tests.console.conftest import rods
from tests.console.dash.conftest import served
from tests.console.test_verbs import said_json
from tests.daemon.runs import epochs, until
from tests.test_loop import Pair
from tests.trainer.runs import write_config

# dist/ of the package uplot 1.6.32 on npm (MIT): uPlot.iife.min.js and uPlot.min.css
VENDORED = {
    "uPlot.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
LARGEST = 150_000  # bytes of all scripts that are shipped
LONGEST = 300  # lines of one


async def test_positions_are_numbers_that_say_when_something_moves(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = said_json(capsys, "status", run_copy)
    with served(run_copy) as address:
        async with address.session() as session:
            found = await answer(session, "status")
            assert [found[name] for name in ("step", "reward", "zones")] == [
                status[name] for name in ("step", "reward", "zones")
            ]
            first = await answer(session, "positions")
            assert first["attempt"] == 1
            assert all(isinstance(value, int) for value in first.values())
            done = await asyncio.to_thread(rods, "trainer", "observe", run_copy, "--from-step", "9")
            assert done.returncode == 0, done.stderr
            async with asyncio.timeout(60):
                while (moved := await answer(session, "positions")) == first:
                    pass
            assert (moved["attempt"], moved["observations"]) == (2, first["observations"] + 1)


@pytest.mark.slow
async def test_after_a_kill_of_everything_the_same_cursors_bring_the_same_rows(
    tmp_path: Path,
) -> None:
    """Trainer, daemon and page are killed while all of them work; then other pages answer."""
    run = tmp_path / "run"
    config = write_config(
        tmp_path / "run.toml", {"training.steps": 100_000, "operation.steps_per_second": 20.0}
    )
    pair = Pair(run, config)
    try:
        pair.start("trainer")
        await asyncio.to_thread(until, (run / OBSERVATIONS).exists)
        pair.start("daemon")
        with served(run) as address:
            await asyncio.to_thread(
                until, lambda: any(one["counts"]["injected"] for one in epochs(run))
            )
            async with address.session() as session:
                known = await answer(session, "steps")
            for name in pair.processes:
                pair.kill(name)
    finally:
        for process in pair.processes.values():
            process.kill()
    found = []
    for _ in range(2):
        with served(run) as address:
            async with address.session() as session:
                whole = {
                    view: await answer(session, view)
                    for view in ("steps", "boundary", "pool", "funnel")
                }
                rest = await answer(session, "steps", after=known["cursor"])
                status = await answer(session, "status")
        assert status["condition"] == "crashed"
        assert not rest["reset"] and known["columns"]["step"]
        for name, rows in known["columns"].items():
            assert rows + rest["columns"][name] == whole["steps"]["columns"][name], name
        found.append((whole, rest, status))
    assert found[0] == found[1]


async def answer(session: aiohttp.ClientSession, view: str, **query: object) -> dict[str, Any]:
    parameters = {name: str(value) for name, value in query.items()}
    async with session.get(f"/api/latest/{view}", params=parameters) as response:
        found: dict[str, Any] = await response.json()
        assert response.status == 200, found
        return found


async def test_what_cannot_be_answered_says_why(finished_run: Path) -> None:
    with served(finished_run) as address:
        async with address.session() as session:
            for asked in (
                "/api/latest/nothing",
                "/api/other/status",
                "/api/latest/task?task=zz",
                "/api/latest/steps?after=x",
                f"/api/latest/steps?after=1.{'9' * 5_000}",
            ):
                async with session.get(asked) as response:
                    assert response.status == 400
                    assert (await response.json())["error"]
            async with session.get("/static/%00") as response:
                assert response.status == 404
            async with session.get("/static/..%2Fserver.py") as response:
                assert response.status == 404
            async with session.get("/", headers={"host": "elsewhere.example"}) as response:
                assert response.status == 400  # another site's name that points here
            async with session.post("/api/latest/status") as response:
                assert response.status == 405


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_nothing_is_answered_without_the_token(finished_run: Path, host: str) -> None:
    with served(finished_run, "--host", host) as address:
        assert len(address.token) >= 32 and address.startswith(f"http://{host}:")
        near = address.replace("0.0.0.0", "127.0.0.1")
        async with aiohttp.ClientSession(near) as session:
            for asked in ("/", "/api/runs", "/static/main.js", "/?token=wrong"):
                async with session.get(asked) as response:
                    assert response.status == 401, asked
        jar = aiohttp.CookieJar(unsafe=True)  # which takes cookies of bare addresses
        async with aiohttp.ClientSession(near, cookie_jar=jar) as session:
            async with session.get("/", params={"token": address.token}) as response:
                assert response.status == 200
                assert "token" not in str(response.url)
            async with session.get("/api/runs") as response:
                assert response.status == 200
            with served(finished_run) as other:  # whose cookie does not take the place of this one
                async with session.get(f"{other}/", params={"token": other.token}) as response:
                    assert response.status == 200
                for one in (near, other):
                    async with session.get(f"{one}/api/runs") as response:
                        assert response.status == 200


def test_scripts_stay_small_and_are_all_known() -> None:
    scripts = {
        Path(str(file)).stem: file.read_text()
        for file in STATIC.iterdir()
        if file.name.endswith(".js")
    }
    assert {*scripts} == {*MODULES, "uPlot.min"}
    assert sum(len(text.encode()) for text in scripts.values()) <= LARGEST
    assert max(len(text.splitlines()) for text in scripts.values()) <= LONGEST


def test_what_others_wrote_is_as_they_published_it() -> None:
    for name, digest in VENDORED.items():
        assert hashlib.sha256(STATIC.joinpath(name).read_bytes()).hexdigest() == digest
    assert "MIT License" in STATIC.joinpath("uPlot.LICENSE").read_text()
