"""A policy is scored on conversations like those it was trained in, its earlier reasoning
included."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rods.errors import UserError
from rods.family.benchmarks.episodes import rendered_template
from tests.json_server import json_server


@contextmanager
def rendering(*, strips: bool, knows: bool = True, asked: list[str] | None = None) -> Iterator[str]:
    """A server with vLLM's /tokenize whose template keeps earlier reasoning, or `strips` it;
    `asked` gets the paths."""

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if asked is not None:
            asked.append(path)
        text = "".join(f"<{one['role']}>{one['content']}" for one in body["messages"])
        if strips:
            text = re.sub(r"<think>.*?</think>\s*", "", text, flags=re.DOTALL)
        found = knows and path == "/tokenize"
        return (200, {"tokens": list(text.encode())}) if found else (404, {"detail": "Not Found"})

    with json_server(answer) as url:
        yield url


def test_a_template_that_drops_reasoning_is_refused_with_a_remedy() -> None:
    with (
        rendering(strips=True) as url,
        pytest.raises(UserError, match=r"earlier reasoning.*--chat-template"),
    ):
        asyncio.run(rendered_template("policy", [url], keeps_reasoning=True))


def test_one_that_keeps_it_passes_and_so_does_a_server_that_does_not_say() -> None:
    kept: list[str] = []
    silent: list[str] = []
    with (
        rendering(strips=False, asked=kept) as one,
        rendering(strips=True, knows=False, asked=silent) as other,
    ):
        asyncio.run(rendered_template("policy", [one, other], keeps_reasoning=True))
    asyncio.run(rendered_template("policy", [one], keeps_reasoning=True))  # gone
    # with reasoning, and without where that was rendered
    assert kept == ["/tokenize"] * 2 and silent == ["/tokenize"]
