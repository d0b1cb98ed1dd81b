"""BFCL's single turns: prompts are the harness's, verdicts the packaged scorer's, and a run is one
as any."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.single_turns import compare, reply, truth
from rods.environments.workers.worker import Worker, WorkerSpec
from rods.episode.engine import NeedText
from rods.family.benchmarks.benchmarks import named
from rods.family.benchmarks.bfcl_single import source_text
from rods.family.benchmarks.bfcl_single.benchmark import Item, SingleTurns, right
from rods.family.benchmarks.contract import chosen
from rods.family.benchmarks.episodes import messages, request_tools
from rods.family.benchmarks.folder import Form, Settings, episodes
from rods.family.benchmarks.main import run
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.official_prompts import TARGET
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.family.benchmarks.policies import (
    by_turn,
    by_turn_with_fault,
    earned,
    nothing,
    resolved_by_nothing,
    with_fault,
)
from tests.json_server import json_server

# hints, system prompts, conversations
TOLD = ("simple_java", "simple_javascript", "live_simple", "live_irrelevance")


@pytest.fixture(scope="module")
def benchmark(bfcl: Bfcl) -> SingleTurns:
    return SingleTurns()


@pytest.mark.slow
def test_verdicts_are_the_packaged_scorer_s(benchmark: SingleTurns) -> None:
    compared = compare(12)
    assert compared.different == []
    assert compared.equal == compared.made and compared.made.total() > 250
    assert 0.4 < compared.valid.total() / compared.made.total() < 0.7 and len(compared.made) == 11


@pytest.mark.slow
def test_prompts_and_native_tools_are_the_harness_s(benchmark: SingleTurns, bfcl: Bfcl) -> None:
    worker = Worker(WorkerSpec(TARGET, seconds=120.0, memory=1 << 33, reply_bytes=1 << 28))
    try:
        official = worker.call({"wheel": str(bfcl.file), "categories": TOLD})
    finally:
        worker.close()
    prompted, native = (benchmark.maker(Settings({}, form=form)) for form in ("prompt", "native"))
    asked = [task for task in benchmark.tasks() if benchmark.kind(task) in TOLD]
    for task in [
        task for task in asked if len(benchmark.items[benchmark.identifier(task)].question) > 1
    ] + asked[::9]:
        name = benchmark.identifier(task)
        need = next(prompted.job(task).engine())
        assert isinstance(need, NeedText)
        assert [dict(message) for message in need.messages] == official[name]["first"]
        asked_natively = next(native.job(task).engine())
        assert isinstance(asked_natively, NeedText)
        assert request_tools(asked_natively.messages) == official[name]["tools"][0]
        assert messages(asked_natively.messages) == [
            dict(one) for one in benchmark.items[name].question
        ]


DOCUMENT = {
    "name": "a.f",
    "parameters": {"properties": {"x": {"type": "float"}}, "required": ["x"]},
}


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        ("[a.f(x=3)]", True),  # a whole number is a float
        ("```a.f(x=3.0)```", True),
        ("[a.f(x='3')]", False),
        ("[a.f(x=True)]", False),
        ("[a.f(x=4)]", False),
        ("[a.f()]", False),
        ("[a.f(x=3, y=1)]", False),
        ("[a_f(x=3)]", False),
        ("[a.f(x=3), a.f(x=3)]", False),
        ("the answer is 3", False),
        ("[a.f(x=__import__('os').getpid())]", False),
    ],
)
def test_a_call_is_right_by_name_arguments_types_and_values(result: str, verdict: bool) -> None:
    item = Item("simple_python", (), [DOCUMENT], [{"a.f": {"x": [3.0]}}])
    assert right(item, result, "prompt") is verdict
    assert right(item, [{"a_f": '{"x": 3}'}], "native")  # whose names have no dots
    assert not right(item, [{"a.f": '{"x": 3}'}], "native") and not right(
        item, [{"a_f": "[3]"}], "native"
    )


@pytest.mark.parametrize(
    ("language", "text", "calls"),
    [
        ("java", 'A.f(x=3L, y="a, b")', [{"A.f": {"x": "3L", "y": "a, b"}}]),
        ("java", "f(m=new HashMap<String, Integer>() {{ put(1, 2); }}, z)", None),
        ("java", "f(x=g(1)", None),
        ("java", "f(x=1, x=2)", None),
        (
            "javascript",
            "f(x=[1, 'a'], y={a: 1}, z=true)",
            [{"f": {"x": "[1, 'a']", "y": "{a: 1}", "z": "true"}}],
        ),
        ("javascript", "no call", None),
    ],
)
def test_calls_in_other_languages_are_read(language: str, text: str, calls: Any) -> None:
    found = source_text.call(language, text)
    if "HashMap" in text:
        assert found == [{"f": {"m": "new HashMap<String, Integer>()", None: "z"}}]
    else:
        assert found == calls


def test_long_texts_take_no_time(benchmark: SingleTurns) -> None:
    """A value that patterns would look at over and over stays a text."""
    text = "new HashMap<String>() {" + " " * 300_000
    assert source_text.reading("java")["java_type_converter"](text, "HashMap") == text
    assert source_text.call("java", "f(x=" + "(" * 300_000) is None


# Items in which no call is right for BFCL's comparison, and why.
UNREACHABLE = {
    "simple_java_36": "it allows numbers in a list whose entries are read as texts",
    "simple_java_65": "it allows truth values in a list whose entries are read as texts",
    "live_simple_106-63-0": "it allows no value at all for arguments that must be given",
    "live_simple_112-68-0": "it allows no value at all for arguments that must be given",
    "live_multiple_862-181-3": "it wants an argument that the document does not have",
    "live_multiple_964-207-0": "it wants an argument that the document does not have",
}
IN_PROMPTS = {
    "simple_java_1": "BFCL's parser of Java drops the entries of a map",
    "simple_java_67": "BFCL's parser of Java drops the entries of a map",
    "simple_java_68": "BFCL's parser of Java drops the entries of a map",
}


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("form", ["prompt", "native"])
def test_known_policies_get_what_is_due(benchmark: SingleTurns, form: Form) -> None:
    """Each item's first allowed calls are right, the same with an argument more are not."""
    settings = Settings({}, part="all", types=tuple(benchmark.kinds), form=form)
    maker = benchmark.maker(settings)
    never = UNREACHABLE | (IN_PROMPTS if form == "prompt" else {})
    counted = {"truth": 0, "fault": 0, "nothing": 0}
    for task in benchmark.tasks():
        name = benchmark.identifier(task)
        item = benchmark.items[name]
        job = maker.job(task)
        calls = truth(benchmark, task)
        for policy, made in (("truth", calls), ("fault", with_fault(calls)), ("nothing", [])):
            text = reply(item, job, made) if made else job.dialect.answer("I cannot do that.")
            verdict = right(item, job.dialect.step(text), form)  # type: ignore[attr-defined]
            counted[policy] += verdict
            due = policy == "truth" and name not in never
            assert verdict == (due or ("relevance" in item.category and bool(made) == bool(calls)))
    assert counted["truth"] == 3641 - len(never)


def test_bfcl_gives_known_policies_what_is_due(bfcl: Bfcl) -> None:
    benchmark = named("bfcl")
    settings = Settings({}, types=tuple(benchmark.kinds), tasks_per_type=3)
    tasks = {benchmark.identifier(task): task for task in chosen(benchmark, settings)}
    got = earned(benchmark, settings, by_turn)
    assert all([*scores.values()] == [1.0] * 12 for scores in got.values())
    for policy in (by_turn_with_fault, nothing):
        got = earned(benchmark, settings, policy)
        assert got["progress"] == {name: resolved_by_nothing(tasks[name]) for name in tasks}
        assert {*got["official"].values(), *got["strict"].values()} == {0.0}


PART = (
    "--benchmark",
    "bfcl_single",
    "--types",
    "simple_python",
    "live_irrelevance",
    "--tasks-per-type",
    6,
)


def knowing(benchmark: SingleTurns, fails_after: int = -1) -> Callable[[str, Any], tuple[int, Any]]:
    """A server that makes the first allowed call; with 500 after so many requests."""
    by_question = {task.texts[0]: task for task in benchmark.tasks()}
    asked: list[str] = []

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith("/chat/completions"):
            return 404, {}
        asked.append(path)
        calls = truth(benchmark, by_question[body["messages"][-1]["content"]])
        message: dict[str, Any] = {
            "role": "assistant",
            "content": f"[{', '.join(map(str, calls))}]" if calls else "No.",
        }
        if "tools" in body and calls:
            named = [
                {"name": call.name.replace(".", "_"), "arguments": json.dumps(call.arguments)}
                for call in calls
            ]
            made = [{"id": "x", "type": "function", "function": one} for one in named]
            message = {"role": "assistant", "content": None, "tool_calls": made}
        choice = {"message": message, "finish_reason": "stop"}
        return 500 if 0 <= fails_after < len(asked) else 200, {"choices": [choice], "model": "m"}

    return answer


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("form", ["prompt", "native"])
def test_a_run_goes_on_after_a_failing_endpoint_and_is_checked(
    benchmark: SingleTurns, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ("--model", "m", *PART, "--calls", form, "--in-flight", 1, "--patience", 0.2)
    folder = tmp_path / "e"
    with json_server(knowing(benchmark, fails_after=5)) as url:
        part = evaluate("run", folder, "--url", url, *told, code=5)
    done = {episode.key for episode in episodes(folder)}
    assert (
        len(done) == 5 == part["episodes"] and part["scores"]["all"]["all"]["official"]["mean"] == 1
    )
    with json_server(knowing(benchmark)) as url:
        whole = evaluate("run", folder, "--url", url, *told)
    assert (
        whole["complete"]
        and whole["expected"] == 12
        and done < {episode.key for episode in episodes(folder)}
    )
    assert whole["scores"]["all"]["simple_python"]["official"]["mean"] == 1
    assert whole["card"]["prompts"] and "bfcl-eval 2026.3.23" in whole["card"]["data"][0]
    checked = evaluate("check", folder)
    assert (checked["equal"], checked["valid"], checked["different"]) == (12, 12, [])
    again = evaluate(
        "run", tmp_path / "r", "--recorded", folder / "bfcl_single", "--calls", form, *PART
    )
    assert again["scores"] == whole["scores"]
    assert evaluate("compare", folder, tmp_path / "r")["differences"]["official"]["mean"] == 0
    assert run(["report", str(folder)]) == 0
    assert "all items" in capsys.readouterr().out


def test_single_turns_have_no_training_dialect(bfcl: Bfcl, tmp_path: Path) -> None:
    told = ("--url", "http://127.0.0.1:9/v1", "--model", "m", *PART)
    for more, why in (
        (("--protocol", "hermes"), "played in official"),
        (("--documents", "signatures"), "documents"),
    ):
        assert why in evaluate("run", tmp_path / "e", *told, *more, code=2)
