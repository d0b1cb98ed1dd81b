"""The client against a real vLLM with a real, small model. `make llm-smoke` runs these; `make test`
does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rods.config import Endpoint
from rods.family.trials.doctor import check_endpoint
from rods.llm import Client, Request, Usage
from rods.model_json import read_exact

pytestmark = pytest.mark.timeout(600)

SCHEMA = {
    "type": "object",
    "properties": {
        "tool": {"enum": ["book_room", "send_mail", "list_files"]},
        "hour": {"type": "integer", "minimum": 8, "maximum": 18},
        "note": {"type": "string", "maxLength": 40},
    },
    "required": ["tool", "hour", "note"],
    "additionalProperties": False,
}


async def test_the_check_finds_nothing_wrong(served: Endpoint) -> None:
    findings = await check_endpoint(served)
    assert {finding.name: finding.ok for finding in findings} == {
        "reachable": True,
        "model": True,
        "context": None,  # 8,192 tokens are short
        "answer": True,
        "structured output": True,
    }, "\n".join(map(str, findings))


async def test_many_constrained_answers_at_once_all_keep_the_schema(served: Endpoint) -> None:
    used: list[Usage] = []
    async with Client([served], sink=used.append) as client:
        asked = [
            Request(
                "plan",
                [
                    {
                        "role": "user",
                        "content": f"Plan office task number {number}: pick a tool, an hour, a "
                        f"short note.",
                    }
                ],
                schema=SCHEMA,
                max_tokens=80,
                temperature=1.0,
                random_seed=number,
            )
            for number in range(32)
        ]
        found = await asyncio.gather(*map(client.complete, asked))
    whole = [read_exact(one.text) for one in found if one.whole]
    assert len(whole) >= 24, "the others were cut at max_tokens"
    assert all(one.constrained for one in found)
    for value in whole:
        assert set(value) == {"tool", "hour", "note"}
        assert value["tool"] in SCHEMA["properties"]["tool"]["enum"]  # type: ignore[index]
        assert 8 <= value["hour"] <= 18
        assert len(value["note"]) <= 40
    assert sum(one.tokens_out for one in used) > 32 * 10


async def test_a_prompt_that_does_not_fit_is_said_to_be_so(served: Endpoint) -> None:
    async with Client([served]) as client:
        found = await client.complete(
            Request("plan", [{"role": "user", "content": "word " * 9000}])
        )
    assert (found.finish, found.whole) == ("context", False)


async def test_token_ids_come_back(served: Endpoint) -> None:
    async with Client([served]) as client:
        asked = Request(
            "rollout", prompt=[1, 4093, 198], max_tokens=8, extra={"return_token_ids": True}
        )
        found = await client.complete(asked)
    assert len(found.token_ids) == found.tokens_out


async def test_cancelled_calls_stop_generating(served: Endpoint, tmp_path: Path) -> None:
    async with Client([served]) as client:
        asked = Request(
            "plan", [{"role": "user", "content": "Tell a very long story."}], max_tokens=4000
        )
        tasks = [asyncio.create_task(client.complete(asked)) for _ in range(32)]
        await asyncio.sleep(2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        quick = Request("plan", [{"role": "user", "content": "Say yes."}], max_tokens=4)
        async with asyncio.timeout(60):
            assert (await client.complete(quick)).tokens_out <= 4
