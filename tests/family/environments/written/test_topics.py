"""Topics are inferred from texts of tasks and kept once, by embeddings where an endpoint offers
them. Over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.config import Endpoint, Operation
from rods.family.environments.written.record import NAME, CachedQuestioner, WritingRecord
from rods.family.environments.written.writing import distinct, embed, find_topics
from rods.llm import Client
from rods.llm.records import EndpointError

ROLES = "bench.fixtures.llm_stub.writers:answer"
LIBRARY = (
    "The lending desk of a public library, where members borrow books for some weeks and may "
    "reserve others."
)
OTHER_WORDS = (
    "For some weeks members may reserve books, where others borrow: the lending desk of a public "
    "library."
)
CLINIC = "A veterinary clinic with its animals, the people who keep them, and their appointments."


def asked(stub: Stub, folder: Path, texts: list[str], *, are_tasks: bool = False) -> list[str]:
    async def ask() -> list[str]:
        endpoint = Endpoint(model="stub", urls=(stub.url,), retry_seconds=0.5).giving_up
        async with Client([endpoint]) as client:
            authors = CachedQuestioner(client, record, Operation())
            return await find_topics(authors, texts, are_tasks=are_tasks, embedder=client)

    with WritingRecord(folder) as record:
        return asyncio.run(ask())


def dropped(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    return [each for each in records if each["kind"] == "dropped"]


def test_only_texts_of_a_domain_with_a_state_become_topics_and_each_once(tmp_path: Path) -> None:
    texts = [
        "Lend me the book about clouds.",
        "Translate this into French.",
        "Lend me the book about clouds.",
    ]
    with Stub(Script(answer=ROLES)) as stub:
        found = asked(stub, tmp_path, texts, are_tasks=True)
        calls = stub.counts()["requests"]
        assert (
            asked(stub, tmp_path, texts, are_tasks=True) == found
            and stub.counts()["requests"] == calls
        )
    assert len(found) == 1 and found[0].startswith("The records of ")
    assert [each["reasons"] for each in dropped(tmp_path)[:2]] == [["not_stateful"], ["repeated"]]


def test_topics_are_compared_by_embeddings_where_the_endpoint_has_them(tmp_path: Path) -> None:
    with Stub(Script(embeds=True)) as stub:
        assert asked(stub, tmp_path, [LIBRARY, OTHER_WORDS, CLINIC]) == [LIBRARY, CLINIC]
        assert stub.counts()["embeddings"] == 1 and stub.counts()["requests"] == 0
    assert dropped(tmp_path)[0]["of"] == LIBRARY


def test_without_embeddings_equal_ones_are_dropped_and_the_endpoint_stays_well(
    tmp_path: Path,
) -> None:
    with Stub(Script(answer=ROLES)) as stub:  # answers /v1/embeddings with 404
        assert asked(stub, tmp_path, [LIBRARY, OTHER_WORDS, CLINIC, CLINIC.upper()]) == [
            LIBRARY,
            OTHER_WORDS,
            CLINIC,
        ]
        assert stub.counts()["embeddings"] == 0


def test_a_cosine_at_the_bound_is_a_repetition() -> None:
    vectors = [(1.0, 0.0), (0.6, 0.8), (0.0, 1.0)]
    assert [same for _, same in distinct(["a", "b", "c"], vectors, 0.6)] == ["", "a", ""]
    assert [same for _, same in distinct(["a", "b", "c"], vectors, 0.61)] == ["", "", "b"]


def test_embeddings_that_are_none_are_the_endpoints_failure() -> None:
    async def ask(stub: Stub) -> Any:
        endpoint = Endpoint(model="stub", urls=(stub.url,), retry_seconds=0.5).giving_up
        async with Client([endpoint]) as client:
            return await embed(client, ["a", "b"])

    with Stub(Script(embeds=True, answer="", model="stub")) as stub:
        assert len(asyncio.run(ask(stub))) == 2
    with Stub(Script(key="secret", embeds=True)) as stub, pytest.raises(EndpointError):
        asyncio.run(ask(stub))
