"""Whether the trainer is alive, judged by this process's own clock: its heartbeat's counter moves, or its steps do (a
foreign trainer need not beat)."""

from __future__ import annotations

import time
from pathlib import Path

import aiofiles
import orjson

from buffers.run.heartbeat import heartbeat_path


class TrainerLife:
    """Remembers when a sign of life was last seen; at the start it gives the trainer the benefit of the doubt."""

    def __init__(self, folder: Path) -> None:
        self._path = heartbeat_path(folder, "trainer")
        self._sign: object = None
        self._seen = time.monotonic()

    async def gone_for(self, newest_step: int) -> float:
        """Seconds since the last sign of life. Looks at the disk, so ask no more often than the logs are polled."""
        sign = (await self._beat(), newest_step)
        if sign != self._sign:
            self._sign, self._seen = sign, time.monotonic()
        return time.monotonic() - self._seen

    async def _beat(self) -> object:
        try:
            async with aiofiles.open(self._path, "rb") as file:  # the folder may be on a network: never block the loop
                beat = orjson.loads(await file.read())
        except (OSError, ValueError):
            return None
        return None if beat.get("state") == "stopped" else (beat.get("pid"), beat.get("counter"))
