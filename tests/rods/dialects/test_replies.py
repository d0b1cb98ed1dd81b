"""Replies of model families are read as they were meant, by the table `replies.jsonl`, which says
what vLLM, transformers and tinker-cookbook read too; `bench.fixtures.native_replies` makes it."""

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
    meant = text_of(line["calls"])
    return [name for name, calls in line["read"].items() if text_of(calls) != meant]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_reply_is_read_as_it_was_meant(family: str) -> None:
    native = Native(named(family))
    for line in (line for line in LINES if line["family"] == family):
        parsed = native.parse(line["text"], tools(line["tools"]))
        calls = [[call.name, call.arguments] for call in parsed.calls]
        assert parsed.error is None, line["text"]
        assert text_of(calls) == text_of(line["calls"]), line["text"]
        assert parsed.answer == line["answer"], line["text"]


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_that_were_meant_are_written_so_that_they_are_read_back(family: str) -> None:
    native = Native(named(family))
    for line in (line for line in LINES if line["family"] == family and line["calls"]):
        written = native.write([Call(name, arguments) for name, arguments in line["calls"]])
        parsed = native.parse(written, tools(line["tools"]))
        calls = [[call.name, call.arguments] for call in parsed.calls]
        assert text_of(calls) == text_of(line["calls"]), written


def test_where_a_reader_reads_otherwise_the_table_says_why() -> None:
    assert all(bool(otherwise(line)) == bool(line["why"]) for line in LINES)


def test_the_table_is_wide() -> None:
    families = Counter(line["family"] for line in LINES)
    readers = Counter(name for line in LINES for name in line["read"])
    assert len(LINES) >= 400
    assert len(families) >= 14
    assert min(families.values()) >= 30
    assert {name.split()[0] for name in readers} == {"vllm", "transformers", "tinker-cookbook"}
    assert sum(bool(line["template"]) for line in LINES) >= 250
