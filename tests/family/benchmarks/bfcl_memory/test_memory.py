"""BFCL's memory: prompts, memories and results are the harness's, verdicts the packaged scorer's; a
run goes on behind a kill with the memories that were left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from bench.fixtures.agentic import compare_memory
from bench.fixtures.llm_stub import Script, Stub
from rods.calls import Call
from rods.config import Endpoint
from rods.episode.engine import Trace
from rods.episode.model_thread import ModelThread
from rods.family.benchmarks.bfcl_memory.benchmark import Memories
from rods.family.benchmarks.bfcl_memory.memory import MAX_MEMORY, BM25Plus, MemoryBackend
from rods.family.benchmarks.bfcl_memory.vectors import Encoder, Index
from rods.family.benchmarks.contract import chosen, slots
from rods.family.benchmarks.episodes import play
from rods.family.benchmarks.folder import Episode, Form, Settings, episodes
from rods.family.benchmarks.main import run
from rods.llm import Client
from rods.worlds.bfcl.world import Bfcl
from tests.family.benchmarks.bfcl.official_questions import Played, alike, official as harness
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.family.benchmarks.bfcl_memory.player import answer
from tests.family.benchmarks.disturbed import goes_on_behind_kills
from tests.family.benchmarks.policies import answer_in_a_call, earned, nothing, truth

PLAYER = "tests.family.benchmarks.bfcl_memory.player:answer"
PART = ("--benchmark", "bfcl_memory", "--tasks-per-type", 4, "--model", "m")


@pytest.fixture(scope="module")
def benchmark(bfcl: Bfcl) -> Memories:
    return Memories()


@pytest.fixture(scope="module")
def stub(bfcl: Bfcl) -> Iterator[Stub]:
    with Stub(Script(answer=PLAYER)) as made:
        yield made


@pytest.mark.slow
def test_verdicts_are_the_packaged_scorer_s(bfcl: Bfcl) -> None:
    compared = compare_memory(155)
    assert compared.different == [] and compared.made.total() == 930 and len(compared.made) == 18
    assert 0.4 < compared.valid.total() / 930 < 0.7


@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize(
    ("backend", "form"),
    [("kv", "prompt"), ("rec_sum", "prompt"), ("rec_sum", "native"), ("vector", "native")],
)
def test_prompts_memories_and_results_are_the_harness_s(
    benchmark: Memories, bfcl: Bfcl, stub: Stub, backend: str, form: Form
) -> None:
    official = harness(
        bfcl.file, f"memory_{backend}", form, 3, PLAYER.partition(":")[0], scenario="notetaker"
    )
    asked: dict[str, list[Any]] = {}
    done: list[Episode] = []
    tasks = chosen(benchmark, Settings({}, part="all", types=(f"memory_{backend}",)))
    tasks = [task for task in tasks if task.provenance["id"] in official]
    maker = benchmark.maker(Settings({}, form=form))
    stub.use(Script(embeds=True))
    with ModelThread(lambda: Client([Endpoint(model="m", urls=(stub.url,))])) as maker.line:
        asyncio.run(
            play(
                partial(Played, answer, asked),
                maker,
                slots(benchmark, tasks, 1),
                8,
                done.append,
                lambda: False,
            )
        )
    assert alike(benchmark, official, asked, done) == len(official) == 8
    assert "so it was said" in str(official[f"memory_{backend}_130-notetaker-0"]["asked"])
    assert (stub.counts()["embeddings"] > 0) == (backend == "vector")


def test_a_search_ranks_as_rank_bm25_does() -> None:
    """Figures of rank_bm25 0.2.2, which `python -m bench.agentic` compares on many more where it is
    installed."""
    corpus = [
        text.split()
        for text in ("user name", "user home city", "home address of the user", "favourite tea")
    ]
    assert BM25Plus(corpus).get_scores(["user", "home"]) == GOLDEN
    with pytest.raises(ZeroDivisionError):
        BM25Plus([])


GOLDEN = [2.028087677717782, 2.8542327112802917, 2.524898167671027, 1.4271163556401458]


def test_a_search_of_vectors_finds_equal_ones_in_the_order_of_faiss() -> None:
    """Figures of faiss 1.15.1, which `python -m bench.agentic` compares on many more where it is
    installed."""
    vectors = {"a": (1, 0), "b": (0, 1), "c": (0.6, 0.8)}
    index = Index(cast(Encoder, lambda texts: np.array([vectors[text] for text in texts])))
    index.add_with_ids([*"abacbca"], range(7))
    index.remove_ids([2])
    index.add_with_ids(["a"], [2])
    found = [index.search(["a"], count)[1][0] for count in range(1, 8)]
    assert found == [[0], [6, 0], *([2, 6, 0, 5, 3, 4, 1][:count] for count in range(3, 8))]


def test_a_memory_answers_in_the_words_of_the_executor(bfcl: Bfcl) -> None:
    world = MemoryBackend("kv").reset(None)
    for call, text in (
        (
            Call("core_memory_add", {"key": "user_name", "value": "Ann"}),
            '{"status": "Key-value pair added."}',
        ),
        (
            Call("core_memory_add", {"key": "user_name", "value": "Bo"}),
            '{"error": "Key name must be unique."}',
        ),
        (
            Call("core_memory_key_search", {"query": "name"}),
            '{"ranked_results": [[0.0, "user_name"]]}',
        ),
        (
            Call("archival_memory_key_search", {"query": "x"}),
            "Error during execution: division by zero",
        ),
        (Call("core_memory_add", {"key": "a"}), "missing 1 required positional argument"),
        (Call("snapshot", {}), "Error during execution: name 'snapshot' is not defined"),
    ):
        assert text in world.call(call).text or call.name == "core_memory_key_search"
    assert world.snapshot() == {"core_memory": {"user_name": "Ann"}, "archival_memory": {}}
    again = world.fork()
    again.call(Call("core_memory_clear", {}))
    assert world.snapshot()["core_memory"] and not again.same_state(world)


def test_no_call_makes_a_memory_grow_without_bound(bfcl: Bfcl) -> None:
    world = MemoryBackend("rec_sum").reset({"memory": "a" * 9_000})
    blown = world.call(Call("memory_replace", {"old_text": "", "new_text": "b" * 9_000}))
    assert blown.error == "bounds" and len(world.snapshot()["memory"]) == 9_000 < MAX_MEMORY
    assert world.call(Call("memory_replace", {"old_text": "a", "new_text": "bb"})).error is None


def test_a_conversation_that_does_not_fit_leaves_what_it_began_with(benchmark: Memories) -> None:
    maker = benchmark.maker(Settings({}))
    task = benchmark.by_id["memory_rec_sum_prereq_1-customer-1"]
    before = Episode(
        "memory_rec_sum_prereq_0-customer-0",
        0,
        "prompt",
        {"outputs": [], "memory": {"memory": "old"}},
    )
    for end, left in (("context", "old"), ("step_limit", "oldnew"), ("finished", "oldnew")):
        job: Any = maker.job(task, before)
        assert "\nold\n" in job.task.system
        job.own.call(Call("memory_append", {"text": "new"}))
        ended = maker.episode(job, 0, Trace(job.task.id, (), end, 1))  # type: ignore[arg-type]
        assert ended.result["memory"] == {"memory": left}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["prompt", "native"])
def test_known_policies_get_what_is_due(bfcl: Bfcl, form: Form) -> None:
    benchmark = Memories()
    settings = Settings({}, part="all", types=tuple(benchmark.kinds), form=form)
    for policy, right in ((truth, 465), (answer_in_a_call, 0), (nothing, 0)):
        scores = earned(benchmark, settings, policy)["official"]
        assert len(scores) == 465 and sum(scores.values()) == right


@pytest.mark.slow
def test_a_policy_without_its_memory_knows_less(stub: Stub, tmp_path: Path) -> None:
    """The player answers out of its memory alone, so a right answer has come through the
    conversations."""
    stub.use(Script(answer=PLAYER))
    told = evaluate("run", tmp_path / "e", "--url", stub.url, *PART)
    right = told["scores"]["all"]["all"]["official"]["mean"]
    assert (
        told["complete"]
        and 0 < right < 1
        and told["scores"]["all"]["all"]["official"]["tasks"] == 8
    )
    assert told["episodes"] > 8  # with the conversations before
    checked = evaluate("check", tmp_path / "e")
    assert checked["equal"] == checked["episodes"] == 8 and checked["valid"] == round(8 * right)
    again = evaluate("run", tmp_path / "r", "--recorded", tmp_path / "e" / "bfcl_memory", *PART[:4])
    assert again["scores"] == told["scores"]


@pytest.mark.slow
def test_a_killed_evaluation_goes_on_with_the_memories_that_were_left(
    stub: Stub, tmp_path: Path
) -> None:
    before = goes_on_behind_kills(stub, PLAYER, tmp_path, ("--url", stub.url, *PART), (2, 6))
    fresh = list(episodes(tmp_path / "e"))[before:]
    assert stub.counts()["requests"] == sum(
        len(turn) for episode in fresh for turn in _outputs(episode)
    )


def _outputs(episode: Episode) -> Any:
    return episode.result["outputs"] if isinstance(episode.result, dict) else episode.result


def test_what_goes_on_from_a_lost_conversation_is_left_out(stub: Stub, tmp_path: Path) -> None:
    stub.use(Script(answer=PLAYER, faults={"400": 1.0}))
    lost = evaluate("run", tmp_path / "e", "--url", stub.url, *PART, code=5)
    assert (lost["episodes"], lost["scores"]) == (0, {})
    stub.use(Script(answer=PLAYER))
    assert evaluate("run", tmp_path / "e", "--url", stub.url, *PART)["complete"]


VECTORS = (*PART, "--types", "memory_vector")


def test_a_memory_of_vectors_needs_an_encoder(stub: Stub, tmp_path: Path) -> None:
    stub.use(Script(answer=PLAYER))
    refused = evaluate("run", tmp_path / "e", "--url", stub.url, *VECTORS, code=2)
    assert (
        "memory_vector: texts are embedded; name what does it by --encoder-url and --encoder-model"
        in refused
    )
    encoder = ("--encoder-url", stub.url, "--encoder-model", "e")
    refused = evaluate("run", tmp_path / "e", "--url", stub.url, *VECTORS, *encoder[:2], code=2)
    assert "--encoder-url and --encoder-model belong together" in refused
    assert (
        "memory_vector"
        not in evaluate("run", tmp_path / "e", "--url", stub.url, *PART)["scores"]["all"]
    )


def test_a_policy_finds_in_its_memory_of_vectors_what_it_has_written(
    stub: Stub, tmp_path: Path
) -> None:
    with Stub(
        Script(embeds=True, rules=[("truncate_prompt_tokens", ""), ("coffee", "no_room")])
    ) as encoder:
        told = ("--url", stub.url, *VECTORS, "--encoder-url", encoder.url, "--encoder-model", "e")
        stub.use(Script(answer=PLAYER))
        played = evaluate("run", tmp_path / "e", *told)
        assert (
            played["complete"]
            and 0 < played["scores"]["all"]["memory_vector"]["official"]["mean"] < 1
        )
        assert played["card"]["encoder"] == {"model": "e"} and encoder.counts()["no_room"] > 0
        calls = [
            json.loads(line)
            for line in (tmp_path / "e" / "usage.encoder.jsonl").read_text().splitlines()
        ]
        assert len(calls) == encoder.counts()["embeddings"] and all(
            call["stage"] == "encoder" for call in calls
        )
        recorded = ("--recorded", tmp_path / "e" / "bfcl_memory", *PART[:4], *VECTORS[-2:])
        again = evaluate("run", tmp_path / "r", *recorded)
        assert again["scores"] == played["scores"], "what was recorded needs no encoder"
        refused = evaluate("run", tmp_path / "e", *told[:-1], "other", code=3)
        assert "encoder is {'model': 'e'} there, {'model': 'other'} now" in refused


@pytest.mark.slow
def test_an_encoder_that_fails_is_nobody_s_failure(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Stub(Script(embeds=True)) as encoder:
        told = ("--url", stub.url, *VECTORS, "--encoder-url", encoder.url, "--encoder-model", "e")
        stub.use(Script(answer=PLAYER))
        for broken, said in (
            (Script(), "the encoder: endpoint e offers no embeddings"),
            (Script(embeds=True, faults={"400": 1.0}), "the encoder: endpoint e refused a request"),
            (Script(embeds=True, faults={"no_room": 1.0}), "the encoder: it takes no text of"),
        ):
            encoder.use(broken)
            assert run([*map(str, ("run", tmp_path / "e", *told))]) == 5
            assert said in capsys.readouterr().err
        assert evaluate("report", tmp_path / "e")["scores"] == {}
        encoder.use(Script(embeds=True))
        assert evaluate("run", tmp_path / "e", *told)["complete"]


@pytest.mark.sweep
def test_a_killed_evaluation_goes_on_with_the_vectors_that_were_left(
    stub: Stub, tmp_path: Path
) -> None:
    with Stub(Script(embeds=True)) as encoder:
        told = ("--url", stub.url, *VECTORS, "--encoder-url", encoder.url, "--encoder-model", "e")
        goes_on_behind_kills(stub, PLAYER, tmp_path, told, (2, 6))
