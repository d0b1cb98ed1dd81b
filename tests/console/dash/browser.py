"""Drives the system's Chromium over its debugging protocol: opens pages, asks them, collects what
they complain of."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.missing import missing

CHROMIUM = shutil.which("chromium")
PATIENCE = 60.0  # seconds for the browser to start, and for what a page is waited for
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)


class Page:
    """One page. `complaints`: errors and warnings of its console, and exceptions that nobody
    caught."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Takes answers and complaints until the browser is gone."""
        async for message in self._socket:
            found = message.json()
            if "id" in found:
                self._answers.pop(found["id"]).set_result(found)
            elif found["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(found["params"]["exceptionDetails"]))
            elif found["method"] == "Log.entryAdded" and found["params"]["entry"]["level"] in (
                "error",
                "warning",
            ):
                self.complaints.append(str(found["params"]["entry"]))
            elif found["method"] == "Runtime.consoleAPICalled" and found["params"]["type"] in (
                "error",
                "warning",
            ):
                self.complaints.append(str(found["params"]["args"]))

    async def send(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        found = await asyncio.wait_for(self._answers[number], PATIENCE)
        assert "error" not in found, found
        return found["result"]

    async def open(self, address: str) -> None:
        await self.send("Page.navigate", url=address)

    async def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        found = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Waits until the expression is true; its value."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if value := await self.ask(expression):
                return value
            text = (
                await self.ask("document.body.innerText.slice(0, 2000)")
                if time.monotonic() > deadline
                else ""
            )
            assert time.monotonic() < deadline, (expression, self.complaints, text)
            await asyncio.sleep(0.1)

    async def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """Sets the size in pixels, and whether the reader prefers dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, *, whole: bool = False) -> bytes:
        """What is seen, as a PNG; the `whole` page, also what does not fit on the screen."""
        found = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])


@asynccontextmanager
async def browser() -> AsyncIterator[Page]:
    """A page of a browser that ends with the context. Without Chromium the test is skipped, in CI
    failed."""
    if CHROMIUM is None:
        missing("there is no chromium → apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        child = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            port = await _port(Path(profile), child)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                    targets = await response.json(content_type=None)
                address = next(
                    one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page"
                )
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    page = Page(socket)
                    listening = asyncio.create_task(page.listen())
                    for domain in ("Page", "Runtime", "Log"):
                        await page.send(f"{domain}.enable")
                    yield page
                    listening.cancel()
        finally:
            child.kill()
            await child.wait()


async def _port(profile: Path, child: asyncio.subprocess.Process) -> str:
    file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text().count("\n")):
        assert child.returncode is None and time.monotonic() < deadline, (
            "the browser does not start"
        )
        await asyncio.sleep(0.1)
    return file.read_text().split("\n")[0]
