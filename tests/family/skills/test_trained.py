"""A policy with weights that is trained: its records say what became of each function, as the
traces do."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.run.creation import create_run
from rods.config import parse_config
from rods.environments.loading import Environments
from rods.episode.engine import Trace
from rods.family.skills.skills import practised
from rods.tasks import scripted
from rods.trainer.chat import Chat
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.trainer.runs import live_steps

VALUES: dict[str, Any] = {
    "data": {"tasks": "desk-small", "train": 6, "held_out": 4},
    "policy": {"kind": "nano", "warm_start_steps": 1},
    "rollouts": {
        "rollouts_per_task": 4,
        "max_reply_tokens": 6,
        "max_context_tokens": 256,
        "max_steps": 2,
    },
    "training": {"batch_tasks": 3, "steps": 2},
    "operation": {"threads": 1, "trace_every": 1},
}


def trained(path: Path, **skills: Any) -> list[list[dict[str, Any]]]:
    """The rollouts of the live steps of a run, without advantages."""
    trl_grpo = pytest.importorskip("rods.trainer.trl_grpo")
    config = parse_config({**VALUES, "skills": skills}, where="test")
    run = create_run(path, config, load_tasks(config.data, path.parent))
    with TrainingRun(run) as training:
        trl_grpo.train(training)
    return [
        [rollout for group in groups for rollout in group["rollouts"]]
        for _, _, groups in live_steps(path)
    ]


@pytest.mark.slow
def test_records_say_what_the_traces_give_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Chat.load
    environments = Environments()

    def brief(folder: Path) -> Chat:  # every third token ends a reply, so that turns come to an end
        chat = load(folder)
        chat.ends = frozenset(range(0, len(chat.tokenizer), 3)) | chat.ends
        return chat

    monkeypatch.setenv("RODS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Chat, "load", staticmethod(brief))
    plain = trained(tmp_path / "plain")
    with_skills = trained(tmp_path / "run", enabled=True)
    config = parse_config(VALUES, where="test")
    tasks = {task.id: scripted(task, "a test") for task in load_tasks(config.data, tmp_path)}
    for step, rollouts in enumerate(with_skills, start=1):
        (file,) = (tmp_path / "run" / "traces").glob(f"step_{step:08d}.*")
        traces = [
            Trace.from_json(orjson.loads(one))
            for one in gzip.decompress(file.read_bytes()).splitlines()
        ]
        told = [rollout.pop("skills", {}) for rollout in rollouts]
        assert told == [
            practised(trace, tasks[trace.task], environments) for trace in traces
        ] and any(told)
    assert with_skills == plain
