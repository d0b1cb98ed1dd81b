"""Format sensitivity: prompts are the harness's, calls are read as by BFCL's readers, and the
spread is its own."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.agentic import compare_formats, lists_of_objects
from rods.environments.workers.worker import Order, Worker
from rods.episode.engine import NeedText
from rods.family.benchmarks.bfcl_formats.benchmark import Formats
from rods.family.benchmarks.bfcl_single.formats import _list_of_objects, decoded
from rods.family.benchmarks.folder import Settings
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.official_prompts import TARGET
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.json_server import json_server


@pytest.fixture(scope="module")
def benchmark(bfcl: Bfcl) -> Formats:
    return Formats()


@pytest.mark.slow
def test_verdicts_are_the_packaged_scorer_s(bfcl: Bfcl) -> None:
    compared = compare_formats(12)
    assert compared.different == [] and compared.made.total() == 312
    assert 0.3 < compared.valid.total() / 312 < 0.7


@pytest.mark.slow
def test_prompts_are_the_harness_s(benchmark: Formats, bfcl: Bfcl) -> None:
    worker = Worker(Order(TARGET, seconds=120.0, memory=1 << 33, reply_bytes=1 << 28))
    try:
        official = worker.call({"wheel": str(bfcl.file), "categories": ["format_sensitivity"]})
    finally:
        worker.close()
    maker = benchmark.maker(Settings({}))
    tasks = benchmark.tasks()
    assert [benchmark.identifier(task) for task in tasks] == list(official) and len(tasks) == 5_200
    for task in tasks[::41]:  # every format
        need = next(maker.job(task).engine())
        assert isinstance(need, NeedText)
        assert [dict(one) for one in need.messages] == official[benchmark.identifier(task)]["first"]


def test_a_list_of_objects_is_found_where_bfcl_s_pattern_finds_it() -> None:
    pattern = re.compile(r"\[\s*{.*?}\s*(?:,\s*{.*?}\s*)*\]", re.DOTALL)
    matched = 0
    for text in lists_of_objects(20_000):
        match = pattern.search(text)
        assert _list_of_objects(text) == (match[0] if match else text), text
        matched += match is not None
    assert matched > 2_000


def test_a_list_that_is_cut_off_takes_no_time() -> None:
    """BFCL's pattern takes twice as long with each further object."""
    text = "[" + '{"function": "f", "parameters": {}}, ' * 5_000 + '{"function'
    begun = time.process_time()
    assert decoded(text, "ret_fmt=json&tool_call_tag=False") == []
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("format", "text", "calls"),
    [
        ("python&tool_call_tag=True", "So: <TOOLCALL>[f(x=1)]</TOOLCALL>", [{"f": {"x": 1}}]),
        ("python&tool_call_tag=True", "[f(x=1)]", None),
        (
            "json&tool_call_tag=False",
            '```json\n[{"function":"f","parameters":{"x":1}}]\n```',
            [{"f": {"x": 1}}],
        ),
        ("json&tool_call_tag=False", '[{"name":"f","parameters":{"x":1}}]', None),
        (
            "concise_xml&tool_call_tag=False",
            '<functions><function name="f"/></functions>',
            [{"f": {}}],
        ),
        ("concise_xml&tool_call_tag=False", "<functions><function></functions>", None),
        (
            "verbose_xml&tool_call_tag=False",
            '<functions><function name="f"><params><param name="x" value="__import__(\'os\')" '
            'type="array"/>'
            "</params></function></functions>",
            None,
        ),
    ],
)
def test_calls_are_read_and_never_evaluated(
    bfcl: Bfcl, format: str, text: str, calls: object
) -> None:
    assert decoded(text, f"ret_fmt={format}") == calls


@pytest.mark.slow
def test_known_policies_get_what_is_due(bfcl: Bfcl) -> None:
    checked = evaluate("check", "bfcl_formats", "--tasks-per-type", 9)
    due = {(row["policy"], row["due"]): row["as_due"] for row in checked["rows"]}
    assert checked["different"] == [] and checked["items"] == 26 * 9
    assert (
        due["truth", "1"] + due.get(("truth", "0"), 0)
        == due["nothing", "0"]
        == due["fault", "0"]
        == 26 * 9
    )
    assert "--calls" in evaluate("check", "bfcl_formats", "--calls", "native", code=2)


def knowing(benchmark: Formats, format: str) -> Callable[[str, Any], tuple[int, Any]]:
    """A server that makes the right calls in prompts of this format, and in words otherwise."""
    maker = benchmark.maker(Settings({}))
    right = dict[str, str]()
    for task in benchmark.tasks():
        if benchmark.kind(task) == format:
            job: Any = maker.job(task)
            right["".join(one.content for one in job.asked)] = job.dialect.write(
                benchmark.known(task, 0, "truth")
            )

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith("/chat/completions"):
            return 404, {}
        said = right.get(
            "".join(message["content"] for message in body["messages"]), "I cannot do that."
        )
        return 200, {
            "choices": [
                {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
            ]
        }

    return answer


@pytest.mark.slow
def test_a_report_says_how_far_the_formats_are_apart(benchmark: Formats, tmp_path: Path) -> None:
    part = (
        "--benchmark",
        "bfcl_formats",
        "--types",
        *benchmark.kinds[:3],
        "--tasks-per-type",
        4,
        "--model",
        "m",
    )
    with json_server(knowing(benchmark, benchmark.kinds[0])) as url:
        told = evaluate("run", tmp_path / "e", "--url", url, *part)
    assert told["figures"] == {
        "largest less smallest": 100.0,
        "standard deviation": pytest.approx(57.735, abs=1e-3),
    }
    checked = evaluate("check", tmp_path / "e")
    assert checked["equal"] == 12 and checked["valid"] == 4
    assert told["scores"]["all"][benchmark.kinds[0]]["official"]["mean"] == 1
