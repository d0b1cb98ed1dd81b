"""ACEBench: prompts and scores are the package's; known policies get what is due; a run goes on
behind a kill, and what user or worker break over is nobody's failure. The items are made ones."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.acebench_items import kept
from bench.fixtures.acebench_player import right
from bench.fixtures.acebench_talks import compare
from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.log.tail import read
from rods.environments.workers.worker import Worker
from rods.episode.drivers import run_episode
from rods.episode.engine import NeedCalls, NeedText, Reply
from rods.errors import InfrastructureError, RefusedError, UserError
from rods.evaluation import card
from rods.family.benchmarks import suite
from rods.family.benchmarks.acebench import official, package
from rods.family.benchmarks.acebench.benchmark import AceBench
from rods.family.benchmarks.acebench.conversation import TEXT, Talk, World
from rods.family.benchmarks.benchmarks import declared_benchmarks
from rods.family.benchmarks.contract import check_data
from rods.family.benchmarks.folder import Episode, Settings, cards, episodes
from rods.family.benchmarks.guard import guarded
from rods.tasks import AnyTask
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.family.benchmarks.disturbed import (
    goes_on_behind_kills,
    leaves_out_what_an_endpoint_breaks,
)

PLAYER = "bench.fixtures.eval_policy:answer"
PART = ("--benchmark", "acebench", "--model", "acebench", "--user-model", "customer")
COUNT = 56


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
    job = maker.job(item(benchmark, name))

    async def reply(need: NeedText) -> Reply:
        return Reply(next(left, official.NOTHING))

    return maker.episode(job, 0, asyncio.run(run_episode(job, reply)))


def test_the_items_are_those_of_the_checkout(benchmark: AceBench) -> None:
    tasks = benchmark.tasks()
    assert len(tasks) == len({task.id for task in tasks}) == COUNT
    assert {benchmark.kind(task) for task in tasks} == {*benchmark.kinds} and len(
        benchmark.kinds
    ) == 17
    # a dialogue is one item
    assert len(item(benchmark, "normal_multi_turn_user_adjust_1").texts) == 3
    parallel = item(benchmark, "normal_single_turn_parallel_function_3").goal_calls
    assert [call.name for call in parallel] == ["orchard_weigh"] * 2
    assert (
        str(item(benchmark, "agent_multi_turn_0").goal_calls[1]) == "delete_message(message_id=5)"
    )
    assert len(guarded(benchmark)) == COUNT
    assert card.version(tasks[0]).startswith(
        "acebench "
    ) and "evalscope 1.14.1, items en " in card.version(tasks[0])


def test_known_policies_get_what_is_due() -> None:
    checked = evaluate("check", "acebench")
    assert checked["different"] == [] and checked["unknown"] == 2  # whose milestones cannot be read
    rows = [(row["policy"], row["due"], row["as_due"]) for row in checked["rows"]]
    assert rows == [
        ("nothing", "0", 52),
        ("nothing", "1", 2),
        ("truth", "1", 54),
        ("fault", "0", 54),
    ]


def test_every_ground_truth_but_an_agent_s_can_be_played(benchmark: AceBench) -> None:
    assert {name[-1] for name, known in benchmark._known.items() if known["truth"] is None} == {"4"}


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_prompts_and_scores_are_the_package_s(each: int) -> None:
    compared = compare(each, seed=each)
    assert compared.different == [] and compared.made.total() == COUNT * each


def test_an_agent_that_is_never_done_ends_at_the_package_s_limit(benchmark: AceBench) -> None:
    episode = played(benchmark, "agent_multi_step_0", [])
    assert episode.end == "step_limit" and len(episode.result["policy"]) == 20
    episode = played(benchmark, "agent_multi_turn_0", [official.DONE])
    assert episode.end == "step_limit"  # said to the user before the third step, it ends nothing
    episode = played(benchmark, "agent_multi_turn_0", ["[turn_on_wifi()]", official.DONE])
    assert episode.end == "finished" and episode.result["user"] == [
        item(benchmark, "agent_multi_turn_0").texts[0]
    ]


@pytest.mark.parametrize("name", ["agent_multi_turn_0", "normal_atom_bool_0"])
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
        worker = Worker(replace(benchmark.worker.order, seconds=0.02))
        patched.setattr(AceBench, "worker", worker)
        episode = played(benchmark, "agent_multi_turn_0", ["[" * TEXT])
        worker.close()
    assert (
        episode.result["over"]
        and episode.end == "step_limit"
        and not benchmark.score(episode).measures["official"]
    )


def test_a_worker_that_is_killed_is_nobody_s_failure(benchmark: AceBench) -> None:
    worker = Worker(benchmark.worker.order)
    worker.open()
    pid = worker.pid
    assert pid is not None
    talk = Talk("agent_multi_turn_0", True, [], user=["Hello."], policy=["[" * TEXT * 8])
    killing = threading.Timer(1.0, lambda: os.kill(pid, signal.SIGKILL))
    killing.start()
    with pytest.raises(InfrastructureError, match="killed"):
        World(talk, worker).results(NeedCalls(()))
    killing.join()
    worker.close()


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
    with pytest.raises(
        UserError, match=r"data_normal_single_turn_single_function.json.*checkout of ACEBench"
    ):
        package.fetch(tmp_path)
    answers = (
        cache.parent / "checkout/data_all/data_en/possible_answer/data_special_irrelevant.json"
    )
    whole = answers.read_bytes()
    answers.write_bytes(whole[: whole.rindex(b"{")])
    with pytest.raises(UserError, match="no answer to 'special_irrelevant_2'"):
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
    for episode in episodes(folder):
        if not episode.task.startswith("agent"):
            assert benchmark.score(episode).measures["official"] == right(episode.task)
    scores = {
        kind: row["official"]["mean"]
        for kind, row in told["scores"]["all"].items()
        if kind != "all"
    }
    groups = [
        100 * sum(scores[kind] for kind in part["mean"]) / len(part["mean"])
        for part in package.TOTAL
    ]
    assert [told["figures"][name] for name in ("NORMAL", "SPECIAL", "AGENT")] == pytest.approx(
        groups
    )
    weights = (0.578, 0.2676, 0.1545)
    overall = sum(weight * group for weight, group in zip(weights, groups, strict=True)) / sum(
        weights
    )
    assert told["figures"]["OVERALL"] == pytest.approx(overall)
    assert told["card"]["user"] == {"model": "customer"} and len(cards(folder)) == 1
    assert {call["stage"] for call in read(folder / "usage.user.jsonl")} == {"user"}
    assert 0 < told["scores"]["all"]["agent_multi_turn"]["official"]["mean"] < 1


def test_without_its_user_the_other_categories_are_played_and_there_is_no_overall(
    stub: Stub, tmp_path: Path
) -> None:
    stub.use(Script(answer=PLAYER))
    types = (kind for kind in package.KINDS if kind != "agent_multi_turn")
    told = evaluate("run", tmp_path / "e", "--url", stub.url, *PART[:4], "--types", *types)
    assert told["complete"] and set(told["figures"]) == {"NORMAL", "SPECIAL"}
    part = evaluate("run", tmp_path / "p", *at(stub), "--tasks-per-type", 1)
    assert part["complete"] and part["figures"] == {}


def test_the_weights_are_the_package_s(benchmark: AceBench) -> None:
    source = package.WHEEL.read(
        package.WHEEL.path(), "evalscope/benchmarks/acebench/acebench_adapter.py"
    ).decode()
    assert "{'normal': 0.578, 'special': 0.2676, 'agent': 0.1545}" in source
    total = declared_benchmarks()["acebench"]["total"]
    assert [part["weight"] for part in total["parts"]] == [0.578, 0.2676, 0.1545]
    row = {"mean": 0.5, "tasks": 3}
    rows: Any = {
        "acebench": {"kinds": {kind: {"before": row, "after": row} for kind in benchmark.kinds}}
    }
    whole = {"acebench": {**rows["acebench"], "items": dict.fromkeys(benchmark.kinds, 3)}}
    assert suite.totals(whole)["ACEBench"]["after"] == pytest.approx(0.5)


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
    goes_on_behind_kills(stub, PLAYER, tmp_path, at(stub), (2, 20))


def test_chinese_items_are_told_apart(cache: Path, tmp_path: Path) -> None:
    made = cache.parent / "checkout/data_all"
    shutil.copytree(made / "data_en", tmp_path / "data_all/data_zh")
    shutil.copy(package.WHEEL.path(), tmp_path)
    with cached(tmp_path):
        package.fetch(tmp_path, language="zh")
        benchmark = AceBench()
        asked: Any = benchmark.maker(Settings({}, part="all")).job(benchmark.tasks()[0])
        assert "items zh" in card.version(benchmark.tasks()[0]) and "格式" in str(card.shown(asked))
        assert benchmark._known["normal_atom_bool_0"]["truth"] is not None
        # its simulated APIs have other contents
        assert benchmark._known["agent_multi_turn_0"]["truth"] is None
