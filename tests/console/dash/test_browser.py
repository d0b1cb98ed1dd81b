"""The page in the system's Chromium: numbers of `rods status` that move, slider, text that
cannot act."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from rods.buffers.log.writer import LogWriter
from rods.buffers.run.runfolder import MANIFEST, REJECTED, usage
from rods.family.page.page_file import export_page
from rods.family.page.server import Registry
from rods.rules.zones import ZONES
from tests.console.conftest import rods
from tests.console.dash.browser import browser
from tests.console.dash.conftest import served
from tests.console.test_verbs import said_json
from tests.daemon.runs import until
from tests.records import filled
from tests.rods.test_open_tasks import DRAWN
from tests.trainer.runs import write_config

HOSTILE = "<script>alert(1)</script><img src=x onerror='document.title=1'>\u202e\x1b[31m"
COUNTS = (
    "step",
    "originals",
    "generated",
    "staged",
    "injected",
    "retired",
    "revived",
    "refused",
    "picked",
    "accepted",
)
GROWING = ("step", "injected", "retired", "revived", "refused", "picked", "accepted", "rejected")
DRAWN_VIEW = ":is(table, circle, .turn, canvas)"
IN_THE_MENU = "document.querySelector('#views [aria-current]')?.textContent"
FIGURES = """Object.fromEntries([...document.querySelectorAll('.figure')].map(
    (one) => [one.dataset.name, one.querySelector('b').textContent]))"""


async def test_the_page_shows_the_numbers_of_status_and_moves_with_them(
    run_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(run_copy) as address:
        async with browser() as page:
            await page.open(address.opened("/copy/run"))
            for steps in ("14", "9"):
                await page.until(
                    f"document.querySelector('[data-name=step] b')?.textContent === '{steps}'"
                )
                status = said_json(capsys, "status", run_copy)
                figures = await page.ask(FIGURES)
                assert {name: figures[name] for name in COUNTS} == {
                    name: f"{status[name]:,}" for name in COUNTS
                }
                assert {zone: figures[zone] for zone in ZONES} == {
                    zone: str(status["zones"][zone]) for zone in ZONES
                }
                assert figures["reward"] == f"{status['reward']:.3f}"
                assert figures["trainer"] == status["processes"]["trainer"]["life"]
                if steps == "14":
                    done = await asyncio.to_thread(
                        rods, "trainer", "observe", run_copy, "--from-step", "9"
                    )
                    assert done.returncode == 0, done.stderr
            await page.until("document.querySelectorAll('canvas').length >= 3")
            seen = [
                name
                for name in figures
                if await page.ask(f"document.querySelector('[data-name={name}]').checkVisibility()")
            ]
            assert seen == [
                "condition",
                "step",
                "reward",
                "held_out",
                "at_the_boundary",
                "accepted",
            ]
            values = "[...document.querySelectorAll('.u-value')].map((one) => one.textContent)"
            assert "–" not in (await page.ask(values))[:2], "a legend without a value"
            await page.ask("document.querySelector('.groups summary').click()")
            await page.until(
                "document.querySelector('[data-name=trainer]').checkVisibility()"
            )  # and it stays unfolded while figures are made anew
            sources = "[...document.querySelectorAll('.figure, .chart')].every((one) => one.title)"
            assert await page.ask(sources), "a number without its source"
            # nothing is wider than a phone but what scrolls by itself
            await page.screen(390, 800, dark=True)
            for view in ("run", "boundary", "pool", "funnel", "compare", "logs", "report"):
                await page.ask(f"location.hash = '#/copy/{view}'")
                drawn = ".wide td" if view == "pool" else ":is(table, circle, canvas, .bar)"
                # the menu says which view is there: until it does, the one before is
                await page.until(
                    f"{IN_THE_MENU} === '{view}' && "
                    f"document.querySelector('#view {drawn}') !== null"
                )
                # charts follow the width as soon as the browser tells it them
                await page.until("document.documentElement.scrollWidth <= 390")
                cells = "[...document.querySelectorAll('.wide td')]"
                ends = await page.ask(f"{cells}.map((one) => one.getBoundingClientRect().right)")
                assert max(ends, default=0) <= 390, "a table with what only scrolling shows"
            assert page.complaints == []


@pytest.mark.slow
async def test_a_live_run_moves_on_the_page_as_it_does_on_the_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both processes write while the browser looks: what it shows lies between what `rods status`
    says before and after."""
    run = tmp_path / "run"
    changes = {
        "training.steps": 100_000,
        "operation.steps_per_second": 5.0,
        "operation.poll_seconds": 0.1,
    }
    config = write_config(tmp_path / "run.toml", changes)
    command = [sys.executable, "-m", "rods.console", "up", str(run), "--config", str(config)]
    up = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        await asyncio.to_thread(until, (run / MANIFEST).exists)
        with served(run) as address:
            async with browser() as page:
                await page.open(address.opened("/run/run"))
                for _ in range(2):
                    before = said_json(capsys, "status", run)
                    # who knows a later step has read all of `before`
                    later = said_json(capsys, "status", run)["step"]
                    await page.until(f"{shown('step')} > {later} && {shown('accepted')} >= 0")
                    figures = await page.ask(FIGURES)
                    after = said_json(capsys, "status", run)
                    for name in GROWING:
                        assert before[name] <= int(figures[name].replace(",", "")) <= after[name], (
                            name
                        )
                    assert (figures["condition"], figures["trainer"]) == (
                        "being written",
                        "running",
                    )
                await page.until(f"{shown('picked')} > 0")
                up.terminate()
                await page.until(
                    "document.querySelector('[data-name=condition] b').textContent === 'stopped'"
                )
                assert page.complaints == []
    finally:
        if up.returncode is None:
            up.terminate()
        await up.wait()


def shown(name: str) -> str:
    """JavaScript for a figure of the page; NaN while there is none."""
    return (
        f"Number(document.querySelector('[data-name={name}] b')?.textContent.replaceAll(',', ''))"
    )


@pytest.mark.slow
async def test_slider_and_the_choice_of_runs(finished_run: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_run, tmp_path / "second")
    registry = Registry([finished_run])
    with served(finished_run, tmp_path / "second") as address:
        async with browser() as page:
            await page.open(address.opened("/run/boundary"))
            await page.until("document.querySelectorAll('circle').length > 0")
            for step in (3, 9):
                slide = f"range.value = {step}; range.dispatchEvent(new Event('input'))"
                await page.ask(
                    f"{{const range = document.querySelector('input[type=range]'); {slide}}}"
                )
                dots = registry.answer("run", "boundary", {"step": str(step)})["dots"]
                told = ", ".join(
                    f"{sum(dot[3] == zone for dot in dots)} {zone.replace('_', ' ')}"
                    for zone in ZONES
                )
                await page.until(
                    f"document.getElementById('boundary-step').textContent === '{step}'"
                )
                facts = await page.ask("document.getElementById('boundary-facts').textContent")
                assert facts.startswith(f"{len(dots)} tasks with a group: {told}")
                assert await page.ask("document.querySelectorAll('circle').length") == len(dots)
                assert (await page.ask("location.hash")).endswith(f"/boundary/{step}")
            drawn = json.dumps(DRAWN.as_json())
            told = await page.ask(
                f"import('conversation').then((one) => one.conversation({drawn}).innerText)"
            )
            for said in (
                "user who is played",
                "Falcon's.",
                "And owl's?",
                "The bill is paid.",
                'pay_bill(bill="i13")',
            ):
                assert said in told
            for key, view, there in (
                ("4", "funnel", ".bar"),
                ("2", "boundary", "svg.boundary a circle"),
            ):
                await page.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
                await page.until(
                    f"location.hash === '#/run/{view}' && document.querySelector('{there}') !== "
                    f"null"
                )
            await page.ask("location.hash = '#/run/report'")
            said = json.dumps(registry.answer("run", "report", {})["findings"])
            await page.until(
                f"{said}.every((line) => document.getElementById('view').innerText.includes(line))"
            )
            await page.until("document.body.innerText.includes('Where variants land')")
            await page.ask("location.hash = '#/run/boundary'")
            await page.until("document.querySelector('svg.boundary a circle') !== null")
            for key, told in ((",", "13"), (",", "12"), (".", "13"), (".", "14")):
                await page.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
                await page.until(
                    f"document.getElementById('boundary-step').textContent === '{told}'"
                )
            await page.send("Input.dispatchKeyEvent", type="keyDown", key="?", text="?")
            await page.until("document.querySelector('dialog').open")
            await page.ask("document.querySelector('dialog').close()")
            focused = "document.activeElement === document.querySelectorAll('#view button')[%d]"
            for key, at in (("j", 0), ("j", 1), ("k", 0)):
                await page.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
                assert await page.ask(focused % at), key
            await page.ask("document.querySelector('svg.boundary a').focus()")
            await page.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
            await page.until("location.hash.startsWith('#/run/task/')")
            variant = registry.answer("run", "pool", {})["variants"][0]
            await page.open(address.opened("/run/pool"))
            link = f"document.querySelector('tbody a[href$=\"{variant['task']}\"]')"
            # not a table of the view before
            await page.until(f"location.hash === '#/run/pool' && {link} !== null")
            await page.ask(f"{link}.click()")
            await page.until("document.querySelectorAll('.two section').length === 2")
            assert await page.ask("document.querySelectorAll('mark').length") > 0
            # a call
            assert "(" in await page.ask("document.querySelector('.two .mono').textContent")
            await page.ask(f"location.hash = '#/run/task/{variant['task']}'")
            await page.until("document.querySelectorAll('.controls a').length > 0")
            await page.ask(
                f"document.querySelector('.controls a[href$=\"{variant['seed']}\"]').click()"
            )
            await page.until(
                f"document.querySelector('h2 code')?.textContent === '{variant['seed']}'"
            )
            change = "choice.value = 'second'; choice.dispatchEvent(new Event('change'))"
            await page.ask(f"{{const choice = document.getElementById('runs'); {change}}}")
            await page.until("document.title === 'second · RODS'")
            # compare: both runs, unasked
            for view, rows in (("logs", 1), ("funnel", 1), ("compare", 2)):
                await page.open(address.opened(f"/second/{view}"))
                await page.until(f"document.querySelectorAll('tbody tr').length >= {rows}")
            assert page.complaints == []


@pytest.mark.slow
async def test_text_is_shown_and_cannot_act(finished_run: Path, tmp_path: Path) -> None:
    """Names of runs, events and traces that want to be markup, steer a terminal or are a megabyte
    long."""
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(finished_run, folder)
    registry = Registry([folder])
    dots = registry.answer("latest", "boundary", {})["dots"]
    task = next(dot[0] for dot in reversed(dots) if dot[-1] == 14)  # of the step of the trace below
    call = {"name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}
    reply = {
        "text": HOSTILE,
        "calls": [call],
        "results": [{"text": HOSTILE, "error": None}],
        "error": HOSTILE,
    }
    turn = {"verdict": {HOSTILE: False}, "steps": [reply, {**reply, "text": "x" * 2**20}]}
    facts = {
        "slot": 0,
        "rollout": HOSTILE,
        "task": task,
        "end": HOSTILE,
        "expected": 1,
        "resolved": 0,
    }
    trace = {**facts, "turns": [turn], "messages": [{"role": HOSTILE, "content": HOSTILE}]}
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    with closing(LogWriter(folder / REJECTED)) as log:
        said = {
            "stage": "judge",
            "error": "leaks",
            "evidence": HOSTILE,
            "raw": HOSTILE + "x" * 2**20,
        }
        log.append([filled("rejected", pick=f"1-{task}", index=9, attempt=9, time=1.0, **said)])
    with closing(LogWriter(folder / usage("daemon"))) as log:
        cost = {
            "tokens_in": 1,
            "tokens_out": 1,
            "seconds": 1.0,
            "outcome": "stop",
            "account": "",
            "time": 1.0,
        }
        log.append(
            [filled("call", process="daemon", number=1, backbone=HOSTILE, stage=HOSTILE, **cost)]
        )
    (traces / "step_00000014.a1.jsonl.gz").write_bytes(
        gzip.compress(json.dumps(trace).encode() + b"\n")
    )
    with (folder / "logs" / "trainer.jsonl").open("a") as events:
        events.write(
            json.dumps(
                dict.fromkeys(("event", "process", "timestamp", HOSTILE), HOSTILE)
                | {"level": "error"}
            )
            + "\n"
        )
    export_page(registry, tmp_path / "page")
    name = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    views = (
        "run",
        "boundary",
        "pool",
        "funnel",
        "models",
        f"task/{task}",
        "compare",
        "logs",
        "report",
    )
    with served(folder) as address:
        async with browser() as page:
            for start in (address.opened(""), f"{(tmp_path / 'page' / 'index.html').as_uri()}#"):
                for view in views:
                    await page.open("about:blank")
                    await page.open(f"{start}/{name}/{view}")
                    await page.until(
                        "document.querySelector('#view :is(table, circle, .turn, canvas, .bar, "
                        "p)') !== null"
                    )
                    assert (
                        await page.ask("document.querySelectorAll('main script, main img').length")
                        == 0
                    )
                    assert "[object" not in await page.ask(
                        "document.getElementById('view').innerText"
                    )
                    if "task" in view:
                        await page.until("document.querySelector('details .odd') !== null")
                        assert "<script>alert(1)" in await page.ask(
                            "document.querySelector('details').textContent"
                        )
                        folded = "document.querySelector('#view').textContent.length"
                        assert await page.ask(folded) < 2**19
            assert page.complaints == []
