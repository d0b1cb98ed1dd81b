"""A real server of the page over real run folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp


class Address(str):
    """Where a page listens, without the slash at the end; `token`: what a reader has to show."""

    token: str

    def opened(self, place: str) -> str:
        """The address that shows `place` of the page to a browser that has no cookie yet."""
        return f"{self}/?token={self.token}#{place}"

    def session(self) -> aiohttp.ClientSession:
        """Of a reader who has shown the token before."""
        cookie = f"rods_token_{self.rpartition(':')[2]}={self.token}"
        return aiohttp.ClientSession(self, headers={"cookie": cookie})


@contextmanager
def served(*arguments: str | Path) -> Iterator[Address]:
    """`rods dash` in a process of its own. Killed in the end, as it keeps nothing."""
    command = [sys.executable, "-m", "rods.console", "dash", *map(str, arguments), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        try:
            printed, _, token = child.stdout.readline().strip().partition("/?token=")
            (address := Address(printed)).token = token
            yield address
        finally:
            child.kill()
