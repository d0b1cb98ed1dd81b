"""What a policy is shown is what BFCL's own harness shows it, for every task, in both modes."""

from typing import Any

import pytest

from rods.calls import Call
from rods.dialects import Message
from rods.dialects.remote import reply_text
from rods.environments.base import Result
from rods.environments.workers.worker import Worker, WorkerSpec
from rods.family.benchmarks.bfcl.benchmark import BfclBenchmark, EpisodeJudge
from rods.family.benchmarks.bfcl.dialects import Native, Prompted
from rods.family.benchmarks.bfcl.harness import Harness, harness
from rods.family.benchmarks.episodes import messages, request_tools
from rods.family.benchmarks.folder import Settings
from rods.tasks import RETURN_SENTENCE, Task
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.official_prompts import TARGET

TYPES = ("miss_func",)  # the documents of the others are the same, and none of them returns


@pytest.fixture(scope="module")
def words(bfcl: Bfcl) -> Harness:
    return harness(bfcl.file)


@pytest.fixture(scope="module")
def official(bfcl: Bfcl) -> dict[str, Any]:
    worker = Worker(WorkerSpec(TARGET, seconds=120.0, memory=1 << 33, reply_bytes=1 << 28))
    try:
        found: dict[str, Any] = worker.call(
            {"wheel": str(bfcl.file), "categories": [f"multi_turn_{kind}" for kind in TYPES]}
        )
        return found
    finally:
        worker.close()


@pytest.mark.slow
def test_every_prompt_is_the_harness_s_own(
    bfcl: Bfcl, words: Harness, official: dict[str, Any], tasks: list[Task]
) -> None:
    tools = bfcl.tools()
    for task in (task for task in tasks if task.type in TYPES):
        theirs = official[task.provenance["id"]]
        dialect = Prompted(words, {})
        system = dialect.system([tools[name] for name in task.tools_at(0)])
        assert [
            {"role": "system", "content": system},
            {"role": "user", "content": task.script[0]},
        ] == theirs["first"]
        for turn, names in task.later_tools.items():
            assert (
                dialect.user(RETURN_SENTENCE, [tools[name] for name in names])
                == theirs["returned"][str(turn)]
            )


def test_native_tools_are_converted_as_the_harness_does_turn_by_turn(
    bfcl: Bfcl, official: dict[str, Any], tasks: list[Task]
) -> None:
    maker = BfclBenchmark().maker(Settings({}, form="native"))
    for task in [task for task in tasks if task.type in TYPES][::4]:
        job = maker.job(task)
        first: Any = next(job.engine())
        for turn, theirs in enumerate(official[task.provenance["id"]]["tools"]):
            assert request_tools(first.messages) + maker.returned(job, turn) == theirs


def test_a_turn_may_have_twenty_steps_with_calls_and_an_answer(words: Harness) -> None:
    assert words.steps == 21


def test_results_stand_beside_the_strings_that_were_decoded(
    bfcl: Bfcl, words: Harness, tasks: list[Task]
) -> None:
    owners = EpisodeJudge(bfcl).owners(tasks[0])
    dialect = Prompted(words, owners)
    calls = dialect.parse("[cd(folder='a'), ls(x=f(y=1))]").calls
    assert dialect.observation(calls, [Result("one"), Result("two")]) == [
        Message(
            "user",
            "[{'role': 'tool', 'name': \"cd(folder='a')\", 'content': 'one'}, "
            "{'role': 'tool', 'name': 'ls(x=f(y=1))', 'content': 'two'}]",
        )
    ]


def test_signatures_are_a_line_a_tool_in_the_same_prompt(bfcl: Bfcl, words: Harness) -> None:
    tools = [bfcl.tools()[name] for name in bfcl.tools_of(["GorillaFileSystem"])]
    full = Prompted(words, {}).system(tools)
    short = Prompted(words, {}, "signatures").system(tools)
    assert full.split("[func_name1")[0] == short.split("[func_name1")[0]
    assert '"mv(source: string, destination: string)"' in short and len(short) < len(full) / 3
    native = Native(words, {}, "signatures").tools(["mv"], returned=False)
    assert native[0]["function"]["parameters"]["properties"]["source"] == {
        "type": "string",
        "description": "",
    }


def test_a_native_conversation_pairs_results_with_calls() -> None:
    said = reply_text("let me see", [("ls", "{}"), ("cd", '{"folder": "a"}')])
    found = messages(
        [
            Message("system", ""),
            Message("user", "go"),
            Message("assistant", said),
            Message("tool", "files"),
            Message("tool", "there"),
            Message("assistant", reply_text("done", [])),
        ]
    )
    assert [message["role"] for message in found] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    made = found[1]["tool_calls"]
    assert [(call["id"], call["function"]["name"]) for call in made] == [
        (found[2]["tool_call_id"], "ls"),
        (found[3]["tool_call_id"], "cd"),
    ]
    assert [found[2]["content"], found[3]["content"]] == ["files", "there"]


def test_calls_that_a_server_would_not_take_back_become_text(words: Harness) -> None:
    said = reply_text(None, [("ls", "{broken")])
    assert messages([Message("assistant", said)]) == [
        {"role": "assistant", "content": "ls {broken"}
    ]
    assert Native(words, {"ls": "GorillaFileSystem"}).parse(said).answer is not None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_results_of_calls_that_are_shown_as_text_come_from_the_user(
    words: Harness, number: str
) -> None:
    said = reply_text("so", [("ls", "{}"), ("mean", f'{{"numbers": [{number}]}}')])
    dialect = Native(words, {"ls": "GorillaFileSystem", "mean": "MathAPI"})
    calls = dialect.parse(said).calls
    assert [call.name for call in calls][:1] == ["ls"] and len(calls) == 2, "they are carried out"
    results = dialect.observation(calls, [Result("files"), Result("no such number")])
    assert [result.role for result in results] == ["tool"] * 2
    assert messages([Message("assistant", said), *results, Message("user", "go on")]) == [
        {"role": "assistant", "content": f'so\nls {{}}\nmean {{"numbers": [{number}]}}'},
        {"role": "user", "content": "files\nno such number"},
        {"role": "user", "content": "go on"},
    ]


def test_what_dialects_write_they_read(words: Harness) -> None:
    calls = (Call("cd", {"folder": "a b"}), Call("ls", {"a": True}))
    owners = {"cd": "GorillaFileSystem", "ls": "GorillaFileSystem"}
    for dialect in (Prompted(words, owners), Native(words, owners)):
        assert dialect.parse(dialect.write(calls)).calls == calls
        assert dialect.parse(dialect.answer("done")).answer == dialect.answer("done")
