"""The side door of a vLLM server (`VLLM_SERVER_DEV_MODE=1`): which weights it serves, and how it gets others.

A server that was restarted serves the weights it started from and answers as if nothing had happened. So whoever gives
it weights also leaves a mark with them, which does not survive a restart; rollouts made under another mark than the one
left for their step are not the policy's. vLLM keeps such a mark since 0.32; with older ones a restart goes unnoticed.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from rods.errors import InfrastructureError

LOAD_SECONDS = 900.0  # for a server to load weights
LOOK_SECONDS = 10.0  # for anything else
WAIT_SECONDS = 1.0  # between attempts


class VllmServers:
    """The servers at `urls`, replicas of one policy. One that is gone is waited for during `patience` seconds."""

    def __init__(self, urls: Sequence[str], patience: float) -> None:
        self.bases = [url.removesuffix("/").removesuffix("/v1") for url in urls]
        self.patience = patience

    def load(self, folder: Path) -> str:
        """Has every server load the weights in `folder` in place and forget its cached prefixes; the mark left with
        them. Raises InfrastructureError."""
        return asyncio.run(self._each(lambda session, base, mark: self._load(session, base, folder, mark)))

    def mark(self) -> str:
        """Leaves a mark with the weights that were given in another way. Raises InfrastructureError."""
        return asyncio.run(self._each(_mark))

    async def kept(self, session: aiohttp.ClientSession, mark: str) -> bool:
        """Whether every server that answers still has `mark`, or none was left."""
        for base in self.bases if mark else ():
            try:
                found = await _ask(session, "GET", f"{base}/weight_info", LOOK_SECONDS)
            except InfrastructureError:
                continue  # gone, not come back with other weights
            if found is not None and found.get("weight_version") != mark:
                return False
        return True

    async def _each(self, work: Any) -> str:
        mark = secrets.token_hex(8)
        async with aiohttp.ClientSession(trust_env=False) as session:
            known = [await work(session, base, mark) for base in self.bases]
        return mark if all(known) else ""

    async def _load(self, session: aiohttp.ClientSession, base: str, folder: Path, mark: str) -> bool:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                order = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
                _allowed(await _ask(session, "POST", f"{base}/collective_rpc", LOAD_SECONDS, json=order), base)
                found = _allowed(await _ask(session, "POST", f"{base}/reset_prefix_cache", LOOK_SECONDS), base)
                if found.get("success", True):
                    return await _mark(session, base, mark)
                why = InfrastructureError(f"{base} keeps prefixes of older weights: it is still answering someone")
            except Unreachable as gone:
                why = gone
            if time.monotonic() > deadline:
                raise why
            await asyncio.sleep(WAIT_SECONDS)


class Unreachable(InfrastructureError):
    """Nobody answers there, at the moment."""


def _allowed(answer: dict[str, Any] | None, base: str) -> dict[str, Any]:
    if answer is None:
        raise InfrastructureError(f"{base} does not take weights: start the server with VLLM_SERVER_DEV_MODE=1")
    return answer


async def _mark(session: aiohttp.ClientSession, base: str, mark: str) -> bool:
    """Whether the server keeps marks."""
    order = {"new_version": mark}
    return await _ask(session, "POST", f"{base}/update_weight_version", LOOK_SECONDS, json=order) is not None


async def _ask(session: aiohttp.ClientSession, method: str, address: str, seconds: float, **body: Any) -> Any:
    """The server's answer, None where it knows no such address. Raises InfrastructureError."""
    try:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with session.request(method, address, timeout=timeout, **body) as answer:
            said = await answer.text()
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise InfrastructureError(f"{address} answered {answer.status} ({said[:300]})")
            return await answer.json(content_type=None) if said else {}
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise Unreachable(f"{address}: {error or type(error).__name__}") from error
