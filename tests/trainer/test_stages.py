"""What a stage of the curriculum changes in rollouts: feedback and interface; and what it never
changes: scores."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.checkpoints import Checkpoints
from rods.buffers.run.creation import create_run
from rods.calls import Call
from rods.config import parse_config
from rods.console import api
from rods.dialects import Parsed
from rods.dialects.compact import Compact
from rods.episode.drivers import Job
from rods.evaluation.heldout import roll_out
from rods.family.benchmarks.bfcl.benchmark import BfclBenchmark
from rods.family.benchmarks.folder import Settings
from rods.family.feedback.hints import Hints
from rods.interfaces import IDENTITY, Identity
from rods.players import Players
from rods.trainer import batches, trl_start
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Sample
from rods.trainer.engines.local import LocalEngine
from rods.trainer.policy import Batch, BatchSlot
from rods.trainer.training_run import TrainingRun
from rods.worlds import bfcl, desk
from rods.worlds.sources import load_tasks
from tests.environments import ENVIRONMENTS
from tests.trainer.nano_parts import engine, saved

pytestmark = pytest.mark.slow

AIDED = {"feedback": "hints", "epochs": 1, "expand": False}
VALUES: dict[str, Any] = {
    "data": {"tasks": "desk-small", "train": 6, "held_out": 4},
    "policy": {"dialect": "compact"},
    "rollouts": {
        "rollouts_per_task": 2,
        "max_reply_tokens": 4,
        "max_context_tokens": 700,
        "max_steps": 2,
    },
    "training": {
        "batch_tasks": 6,
        "steps": 2,
        "learning_rate": 0.01,
        "optimizer": "muon",
        "kl": 0.0,
    },
    "curriculum": {"stages": [AIDED, {**AIDED, "feedback": "plain"}]},
    "operation": {"threads": 1, "trace_every": 1},
}


def test_hints_are_read_in_the_trainers_rollouts_of_their_stage_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained policy, whose every reply is short and taken for the call of a tool that does
    not exist."""
    policy = {"kind": "transformers", "model": str(saved(tmp_path / "policy"))}
    config = parse_config({**VALUES, "policy": VALUES["policy"] | policy}, where="test")
    run = create_run(tmp_path / "run", config, load_tasks(config.data, tmp_path))
    read: dict[int, list[Sample]] = {}
    traces = batches.traces
    load = Chat.load

    def brief(folder: Path, policy: Any = None) -> Chat:
        chat = load(folder, policy)
        chat.ends = frozenset(range(0, len(chat.tokenizer), 3)) | chat.ends
        return chat

    def watch(batch: Batch, samples: Sequence[Sample]) -> Any:
        read[batch.stage] = list(samples)
        return traces(batch, samples)

    monkeypatch.setattr(
        Compact, "parse", lambda self, text, tools: Parsed(calls=(Call("find_nothing"),))
    )
    monkeypatch.setattr(Chat, "load", staticmethod(brief))
    monkeypatch.setattr(batches, "traces", watch)
    with TrainingRun(run) as training:
        trl_start.train(training)
    lines = (run.path / "observations.jsonl").read_bytes().splitlines()
    recorded = {
        (one["stage"], one["interface"])
        for one in map(orjson.loads, lines)
        if one["kind"] == "group"
    }
    assert recorded == {(1, Hints(brief=True).version), (2, "identity")}
    chat = Chat.load(Checkpoints(run.path).named(training.trainer_log.live)[0].policy)
    for stage, samples in read.items():
        for sample in samples:  # the text that the policy read is that of its tokens
            shown = chat.text(
                [
                    token
                    for token, own in zip(sample.completion_ids, sample.env_mask, strict=True)
                    if not own
                ]
            )
            failures = shown.count("no tool named find_nothing")
            assert shown.count("Hint:") == (failures if stage == 1 else 0)
        assert any(
            "find_nothing" in message.content for one in samples for message in one.trace.messages
        )
    (first,) = (run.path / "traces").glob("step_00000001.*")
    assert b"Hint: like " in gzip.decompress(first.read_bytes())


def test_validation_and_evaluation_show_everything_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        **VALUES,
        "curriculum": {"stages": [{"feedback": "hints", "interface": f"{__name__}:forbidden"}]},
    }
    config = parse_config(values, where="test")
    tasks = tuple(desk.generate(3, 4, 2, "small"))
    batch = Batch(1, 0, 1, config.curriculum.stages[0], tuple(map(BatchSlot, range(4), tasks)), "")
    assert {
        job.interface.version
        for job in Players(ENVIRONMENTS).jobs(batch.tasks, config, batch.rules, batch.interface)
    } == {f"forbidden+{Hints(brief=True).version}"}
    assert all(Players(ENVIRONMENTS).scored(task, config).interface is IDENTITY for task in tasks)
    seen: list[Job] = []
    scored = engine()
    rollouts = scored.rollouts

    def watch(jobs: Sequence[Job], **given: Any) -> list[Sample]:
        seen.extend(jobs)
        return rollouts(jobs, **given)

    monkeypatch.setattr(scored, "rollouts", watch)
    monkeypatch.setattr(LocalEngine, "load_alone", lambda *given: scored)
    assert (
        len(list(roll_out(config, tmp_path, Players(ENVIRONMENTS), tasks, 1)))
        == len(seen)
        == len(tasks)
    )
    bfcl.fetch()
    maker = BfclBenchmark().maker(Settings({}))
    seen.append(maker.job(bfcl.tasks()[0]))
    assert all(job.interface is IDENTITY for job in seen)


def forbidden() -> Identity:
    class Forbidden(Identity):
        version = "forbidden"

    return Forbidden()


def test_validation_and_rods_score_show_the_policy_of_an_evolved_stage_what_a_plain_one_s_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every token that is read and written. Nothing is learnt, so that the two runs have the same
    policy; it writes calls that bring nothing that was asked for, for which a guideline appears."""
    model = str(saved(tmp_path / "policy"))
    seen: dict[tuple[str, str], list[Any]] = {}
    name = ""
    scoring = False
    rollouts = LocalEngine.rollouts
    load = Chat.load

    def brief(folder: Path, policy: Any = None) -> Chat:
        chat = load(folder, policy)
        chat.ends = frozenset(range(0, len(chat.tokenizer), 3)) | chat.ends
        return chat

    def watch(
        self: LocalEngine,
        jobs: Sequence[Job],
        *,
        random_seed: int,
        first: int = 0,
        greedy: bool = False,
    ) -> Any:
        samples = rollouts(self, jobs, random_seed=random_seed, first=first, greedy=greedy)
        kind = "score" if scoring else "validation" if greedy else "training"
        read = [
            (one.trace.task, one.prompt_ids, one.completion_ids, one.env_mask) for one in samples
        ]
        seen.setdefault((name, kind), []).extend(read)
        return samples

    monkeypatch.setattr(
        Compact, "parse", lambda self, text, tools: Parsed(calls=(Call("list_day"),))
    )
    monkeypatch.setattr(Chat, "load", staticmethod(brief))
    monkeypatch.setattr(LocalEngine, "rollouts", watch)
    for name, stage in (("plain", {}), ("evolved", {"interface": "seal-full"})):
        values = VALUES | {
            "data": {"tasks": "desk-small", "train": 6, "held_out": 10},
            "policy": {"kind": "transformers", "model": model, "dialect": "compact"},
            "training": VALUES["training"]
            | {"advantage_hook": "tests.trainer.test_trl_grpo:nothing_learned"},
            "curriculum": {
                "stages": [{**stage, "until": "plateau", "epochs": 3, "expand": False}],
                "evolve_steps": 2,
            },
        }
        config = parse_config(values, where="test")
        run = create_run(tmp_path / name, config, load_tasks(config.data, tmp_path))
        with TrainingRun(run) as training:
            trl_start.train(training)
            shown = training.trainer_log.state.interface_inputs()["seal"]
        assert bool(shown) == (name == "evolved")
        scoring = True
        api.score(run.path)
        scoring = False
    held_out = len([task for task in run.held_out if task.split == "validation"]), len(run.held_out)
    for kind, count in (("validation", held_out[0]), ("score", 2 * held_out[1])):
        assert seen["plain", kind] == seen["evolved", kind] and len(seen["plain", kind]) == count, (
            kind
        )
    plain, evolved = (seen[name, "training"] for name in ("plain", "evolved"))
    assert all(one[1] != other[1] for one, other in zip(plain, evolved, strict=True)), (
        "the interface was shown"
    )
