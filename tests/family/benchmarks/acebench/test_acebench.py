"""ACEBench: prompts and scores are the package's; known policies get what is due; a run goes on
behind a kill, and what user or worker break over is nobody's failure. The items are made ones."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.acebench_items import DONE, fault, kept, truth
from bench.fixtures.acebench_player import GO_ON
from bench.fixtures.acebench_talks import compare
from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.log.tail import read
from rods.environments.workers.worker import Worker
from rods.episode.drivers import run_episode
from rods.episode.engine import NeedCalls, NeedText, Reply
from rods.errors import InfrastructureError, RefusedError, UserError
from rods.evaluation import card
from rods.family.benchmarks import suite
from rods.family.benchmarks.acebench import package
from rods.family.benchmarks.acebench.benchmark import TEXT, AceBench, Talk, World
from rods.family.benchmarks.contract import check_data
from rods.family.benchmarks.folder import Episode, Settings, cards
from rods.family.benchmarks.guard import guarded
from rods.tasks import AnyTask
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.family.benchmarks.disturbed import (
    ends_as_its_worker_lies,
    goes_on_behind_kills,
    leaves_out_what_an_endpoint_breaks,
)
from tests.family.benchmarks.lying_worker import BROKEN, LIES

PLAYER = "bench.fixtures.eval_policy:answer"
PART = ("--benchmark", "acebench", "--model", "acebench", "--user-model", "customer")
COUNT = 10


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with kept(tmp_path_factory.mktemp("acebench")) as folder:
        yield folder


@pytest.fixture(scope="module")
def benchmark(cache: Path) -> AceBench:
    return AceBench()


@pytest.fixture(scope="module")
def stub(cache: Path) -> Iterator[Stub]:
    with Stub(Script(answer=PLAYER)) as made:
        yield made


def at(stub: Stub) -> tuple[object, ...]:
    return "--url", stub.url, "--user-url", stub.url, *PART


def item(benchmark: AceBench, name: str) -> AnyTask:
    return next(task for task in benchmark.tasks() if benchmark.identifier(task) == name)


def played(benchmark: AceBench, name: str, texts: list[str]) -> Episode:
    """The episode that these replies make of an item."""
    maker = benchmark.maker(Settings({}, part="all"))
    left = iter(texts)
    task = item(benchmark, name)
    said: list[str] = []

    def user(persona: Any, exchange: Any) -> str:
        said.append(GO_ON if said else task.texts[0])
        return said[-1]

    job = replace(maker.job(task), user=user)

    async def reply(need: NeedText) -> Reply:
        return Reply(next(left, "I cannot do that."))

    return maker.episode(job, 0, asyncio.run(run_episode(job, reply)))


def test_the_items_are_those_of_the_checkout(benchmark: AceBench) -> None:
    tasks = benchmark.tasks()
    assert len(tasks) == len({task.id for task in tasks}) == COUNT
    assert {benchmark.kind(task) for task in tasks} == {*benchmark.kinds}
    calls = [str(call) for call in item(benchmark, "agent_multi_turn_0").goal_calls]
    assert calls[1] == "delete_message(message_id=5)"
    # one of whose milestones cannot be read
    assert len(item(benchmark, "agent_multi_step_4").goal_calls) == 1
    assert len(guarded(benchmark)) == COUNT
    assert card.version(tasks[0]).startswith(
        "acebench "
    ) and "evalscope 1.14.1, items " in card.version(tasks[0])


def test_known_policies_get_what_is_due(benchmark: AceBench) -> None:
    """In one item of each category nothing has to be changed."""
    for kind in benchmark.kinds:
        for number in range(5):
            name = f"{kind}_{number}"
            scores = [
                benchmark.score(played(benchmark, name, texts)).measures["official"]
                for texts in (truth(name), fault(name), [])
            ]
            assert scores == [1, 0, number == 3]


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_prompts_and_scores_are_the_package_s(each: int) -> None:
    compared = compare(each, seed=each)
    assert compared.different == [] and compared.made.total() == COUNT * each


def test_an_agent_that_is_never_done_ends_at_the_package_s_limit(benchmark: AceBench) -> None:
    episode = played(benchmark, "agent_multi_step_0", [])
    assert episode.end == "step_limit" and len(episode.result["policy"]) == 20
    episode = played(benchmark, "agent_multi_turn_0", [DONE])
    assert episode.end == "step_limit"  # said to the user before the third step, it ends nothing
    episode = played(benchmark, "agent_multi_turn_0", ["[turn_on_wifi()]", DONE])
    assert episode.end == "finished" and episode.result["user"] == [
        item(benchmark, "agent_multi_turn_0").texts[0]
    ]


@pytest.mark.parametrize("name", ["agent_multi_turn_0", "agent_multi_step_0"])
def test_a_reply_is_read_up_to_a_bound_in_little_time(benchmark: AceBench, name: str) -> None:
    begun = time.process_time()
    episode = played(benchmark, name, ["[" * 10_000_000])
    assert (
        len(episode.result["policy"][0]) == TEXT
        and benchmark.score(episode).measures["official"] == 0
    )
    assert time.process_time() - begun < 5


def test_what_exceeds_the_worker_s_bounds_is_the_policy_s(
    benchmark: AceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        worker = Worker(replace(benchmark.worker.spec, seconds=0.02))
        patched.setattr(AceBench, "worker", worker)
        episode = played(benchmark, "agent_multi_turn_0", ["[" * TEXT])
        worker.close()
    assert (
        episode.result["over"]
        and episode.end == "step_limit"
        and not benchmark.score(episode).measures["official"]
    )


def test_a_worker_that_is_killed_is_nobody_s_failure(benchmark: AceBench) -> None:
    worker = Worker(benchmark.worker.spec)
    worker.open()
    pid = worker.pid
    assert pid is not None
    talk = Talk("agent_multi_turn_0", [], user=["Hello."], policy=["[" * TEXT * 8])
    killing = threading.Timer(1.0, lambda: os.kill(pid, signal.SIGKILL))
    killing.start()
    with pytest.raises(InfrastructureError, match="killed"):
        World(talk, worker).results(NeedCalls(()))
    killing.join()
    worker.close()


@pytest.mark.few(5, others="slow")
@pytest.mark.parametrize("how", LIES)
def test_what_a_worker_says_instead_of_an_answer_ends_that_episode_alone(
    benchmark: AceBench, lying: Worker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nonsense, and what the machine refuses, are nobody's failure; what a text overruns is the
    policy's."""
    task = item(benchmark, "agent_multi_step_0")  # which the package's own worker reads
    monkeypatch.setattr(AceBench, "worker", lying)
    made: Any = benchmark.maker(Settings({}, part="all"))
    job = made.job(task)
    job.own.item = how
    ends_as_its_worker_lies(job, "I cannot do that.", how)
    if how in BROKEN[:3]:
        result = {"policy": [], "user": [], "over": False}
        with pytest.raises(InfrastructureError):
            benchmark.score(Episode(how, 0, "prompt", result, "finished"))


@contextmanager
def cached(folder: Path) -> Iterator[None]:
    before = os.environ["RODS_CACHE"]
    os.environ["RODS_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ["RODS_CACHE"] = before


def test_what_is_not_there_is_named_with_its_remedy(cache: Path, tmp_path: Path) -> None:
    with cached(tmp_path), pytest.raises(UserError, match=r"rods data acebench FOLDER"):
        AceBench().tasks()
    (tmp_path / package.ITEMS).write_bytes((cache / package.ITEMS).read_bytes())
    package.worker.cache_clear()
    with cached(tmp_path), pytest.raises(UserError, match="rods data acebench"):
        AceBench().tasks()
    with pytest.raises(UserError, match=r"data_agent_multi_step.json.*checkout of ACEBench"):
        package.fetch(tmp_path)
    answers = cache.parent / "checkout/data_all/data_en/possible_answer/data_agent_multi_turn.json"
    whole = answers.read_bytes()
    answers.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    with pytest.raises(UserError, match="no answer to 'agent_multi_turn_4'"):
        package.fetch(cache.parent / "checkout")
    answers.write_bytes(b"{")
    with pytest.raises(UserError, match="cannot be read"):
        package.fetch(cache.parent / "checkout")
    answers.write_bytes(whole)


def test_other_items_are_refused(benchmark: AceBench) -> None:
    with pytest.raises(RefusedError, match="belongs to the data of"):
        check_data({**benchmark.data, "items": "0"}, benchmark.data, Path("e"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--calls", "native"), "leave --calls out"),
        (("--documents", "signatures"), "leave --documents out"),
        (("--types", "agent_multi_turn"), "a model plays the user; name it by --user-url"),
    ],
)
def test_what_it_cannot_be_played_with_is_refused(
    tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    told = (
        "run",
        tmp_path / "e",
        "--url",
        "http://127.0.0.1:9/v1",
        "--benchmark",
        "acebench",
        "--model",
        "m",
        *more,
    )
    assert said in evaluate(*told, code=2)


def test_local_weights_are_refused(benchmark: AceBench) -> None:
    with pytest.raises(UserError, match="each of its prompts begins anew"):
        benchmark.maker(Settings({"kind": "run"}, part="all"))


def test_policy_and_user_talk_through_their_endpoints(
    stub: Stub, tmp_path: Path, benchmark: AceBench
) -> None:
    stub.use(Script(answer=PLAYER))
    folder = tmp_path / "e"
    told = evaluate("run", folder, *at(stub))
    assert told["complete"] and told["episodes"] == COUNT and told["data"] == benchmark.data
    assert told["card"]["user"] == {"model": "customer"} and len(cards(folder)) == 1
    assert {call["stage"] for call in read(folder / "usage.user.jsonl")} == {"user"}
    assert 0 < told["scores"]["all"]["agent_multi_turn"]["official"]["mean"] < 1


def test_without_its_user_the_other_category_is_played(stub: Stub, tmp_path: Path) -> None:
    stub.use(Script(answer=PLAYER))
    told = evaluate("run", tmp_path / "e", "--url", stub.url, *PART[:4])
    assert told["complete"] and {*told["scores"]["all"]} == {"agent_multi_step", "all"}


def test_both_categories_count_alike(benchmark: AceBench) -> None:
    rows: Any = {}
    for mean, kind in enumerate(benchmark.kinds):
        row = {"mean": float(mean), "tasks": 3 + mean}
        rows[kind] = {"before": row, "after": row}
    items = {kind: row["after"]["tasks"] for kind, row in rows.items()}
    whole = {"acebench": {"kinds": rows, "items": items}}
    assert suite.totals(whole)["ACEBench Agent"]["after"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("who", "said"), [("You are a user interacting", "the user's model: "), ("ApiName", "400")]
)
def test_an_endpoint_that_fails_is_nobody_s_failure(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str], who: str, said: str
) -> None:
    broken = Script(answer=PLAYER, rules=[(who, "400")])
    told = (*at(stub), "--types", "agent_multi_turn")
    leaves_out_what_an_endpoint_breaks(stub, broken, tmp_path / "e", told, said, 5, capsys)


@pytest.mark.sweep
def test_a_killed_evaluation_goes_on_and_ends_with_the_same_table(
    stub: Stub, tmp_path: Path
) -> None:
    goes_on_behind_kills(stub, PLAYER, tmp_path, at(stub), (2, 5))
