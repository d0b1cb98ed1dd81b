"""Replies of model families, and what the packages that serve and train them read of each: the table
`replies.jsonl`, which `bench.fixtures.native_replies` makes outside CI."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.dialects.families import named
from rods.dialects.native import Native
from rods.environments.base import Parameter, Tool

FOLDER = Path(__file__).parent
LINES = [
    json.loads(line) for line in (FOLDER / "replies.jsonl").read_text(encoding="utf-8").splitlines()
]
FAMILIES = sorted({line["family"] for line in LINES})


def tools(file: str) -> dict[str, Tool]:
    functions = [entry["function"] for entry in json.loads((FOLDER / file).read_text("utf-8"))]
    return {
        function["name"]: Tool(
            function["name"],
            "replies",
            function["description"],
            tuple(
                Parameter(name, schema, required=name in function["parameters"].get("required", ()))
                for name, schema in function["parameters"]["properties"].items()
            ),
        )
        for function in functions
    }


def text_of(calls: Any) -> str:
    """Equal texts are equal calls, types of values and all: 1 is not 1.0 or True."""
    return json.dumps(calls, sort_keys=True, ensure_ascii=False)


def otherwise(line: dict[str, Any]) -> list[str]:
    """The readers that do not read what was meant."""
    return [
        name for name, calls in line["read"].items() if text_of(calls) != text_of(line["calls"])
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_reply_is_read_as_it_was_meant(family: str) -> None:
    native = Native(named(family))
    wrong = []
    for line in LINES:
        if line["family"] == family:
            parsed = native.parse(line["text"], tools(line["tools"]))
            calls = [[call.name, call.arguments] for call in parsed.calls]
            answered = parsed.answer is not None and parsed.answer.strip()
            right = text_of(calls) == text_of(line["calls"])
            if (
                parsed.error
                or not right
                or answered != (line["answer"] is not None and line["answer"])
            ):
                wrong.append((line["kind"], line["text"], parsed))
    assert not wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_written_of_the_calls_of_a_reply_is_read_back(family: str) -> None:
    native = Native(named(family))
    for line in LINES:
        if line["family"] == family and line["calls"]:
            calls = tuple(Call(name, arguments) for name, arguments in line["calls"])
            back = native.parse(native.write(calls), tools(line["tools"]))
            assert text_of([[call.name, call.arguments] for call in back.calls]) == text_of(
                line["calls"]
            ), line["kind"]


def test_where_a_reader_reads_otherwise_the_table_says_why() -> None:
    assert all(bool(otherwise(line)) == bool(line["why"]) for line in LINES)


def test_no_more_than_a_few_replies_are_read_otherwise_by_all_readers() -> None:
    """Where most readers disagree with what was meant, who is right was thought over: in these."""
    against = {
        (line["family"], line["kind"])
        for line in LINES
        if line["read"] and len(otherwise(line)) > len(line["read"]) / 2
    }
    families = {family for family, _ in against}
    assert families <= LONE_READERS | {"qwen3_5", "nemotron3", "gemma4", "qwen"}, against


LONE_READERS = {"functiongemma", "phi4_mini", "mistral_v11", "minimax_m2", "kimi_k2"}


def test_the_table_is_wide() -> None:
    families = Counter(line["family"] for line in LINES)
    readers = Counter(name for line in LINES for name in line["read"])
    assert len(LINES) >= 400
    assert len(families) >= 14
    assert min(families.values()) >= 30
    assert {name.split()[0] for name in readers} == {"vllm", "transformers", "tinker-cookbook"}
    assert sum(bool(line["template"]) for line in LINES) >= 250
