"""What an evaluation has to hold against a stub: it goes on behind kills, and a broken endpoint or
a worker that lies is nobody's failure."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.episode.drivers import Job, run_episode
from rods.episode.engine import NeedText, Reply
from rods.family.benchmarks.folder import EPISODES, episodes
from rods.family.benchmarks.main import run
from tests import dying
from tests.family.benchmarks.bfcl.runs import ROOT, evaluate
from tests.family.benchmarks.lying_worker import OVERRUN


def killed_at(least: int, *told: object) -> int:
    """An evaluation that is killed as soon as so many episodes are there, the card before them. Its
    exit code."""
    arguments = (*told, *dying.at("rods.family.benchmarks", EPISODES, least + 1))
    return subprocess.run(
        [sys.executable, "-m", dying.MODULE, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode


def goes_on_behind_kills(
    stub: Stub, player: str, folder: Path, told: Sequence[object], moments: Sequence[int]
) -> int:
    """Killed as soon as so many episodes are there, it ends with those of an undisturbed one, each
    once. Returns how many there were at the last start, from which on the stub counts anew."""
    stub.use(Script(answer=player))
    whole = evaluate("run", folder / "whole", *told)
    killed = ("run", folder / "e", *told, "--in-flight", 2)
    for least in moments:
        assert killed_at(least, *killed) == -signal.SIGKILL
    before = [episode.key for episode in episodes(folder / "e")]
    assert 0 < len(before) < whole["episodes"]
    stub.forget()
    ended = evaluate(*killed)
    after = [episode.key for episode in episodes(folder / "e")]
    assert (
        ended["scores"] == whole["scores"]
        and after[: len(before)] == before
        and len({*after}) == len(after)
    )
    results: Any = [
        {one.key: one.result for one in episodes(folder / place)} for place in ("e", "whole")
    ]
    assert results[0] == results[1]
    return len(before)


def leaves_out_what_an_endpoint_breaks(
    stub: Stub,
    script: Script,
    folder: Path,
    told: Sequence[object],
    said: str,
    count: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """While the stub answers by `script` all `count` episodes are left out, for a reason with
    `said` in it; then they are played."""
    stub.use(script)
    given = ("run", folder, *told)
    assert run([*map(str, given)]) == 5
    assert f"{count} episodes left out" in (shown := capsys.readouterr().err) and said in shown
    assert evaluate("report", folder)["episodes"] == 0
    stub.use(Script(answer=script.answer))
    assert evaluate(*given)["complete"]


def ends_as_its_worker_lies(job: Job, said: str, how: str) -> None:
    """The episode of a policy that keeps saying `said`. Nonsense, and what the machine refuses, are
    nobody's failure; what a text or a call overruns is the policy's."""

    async def reply(need: NeedText) -> Reply:
        return Reply(said)

    trace = asyncio.run(run_episode(job, reply))
    assert trace.end == ("step_limit" if how in OVERRUN else "infrastructure")
