"""Supervised warm-up: demonstrations from ground truth, as text for others and as weights for a run."""

from pathlib import Path
from typing import Literal

import orjson
import pytest
import torch
from datasets import load_dataset
from safetensors.torch import load_file
from trl import data_utils

from rods.config import PolicySettings, read_config
from rods.errors import EXIT_OK, EXIT_USER
from rods.tasks import scripted
from tests.environments import ENVIRONMENTS
from tests.trainer.nano_parts import chat
from tests.trainer.runs import write_config
from trainer.chat import Chat
from trainer.demonstrations import demonstrate
from trainer.main import run
from trainer.nano import model as network
from trainer.supervised import encode
from worlds import desk
from worlds.sources import load_tasks


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """An untrained model with a tokenizer, as a folder."""
    folder, talk = tmp_path / "base", chat()
    network.fresh(talk.tokenizer, 1).save_pretrained(folder)
    talk.tokenizer.save_pretrained(folder)
    return folder


def config(folder: Path, base: Path, **changes: object) -> Path:
    values = {
        "data.tasks": "desk-small",
        "data.train": 16,
        "policy.kind": "transformers",
        "policy.model": str(base),
        "policy.dialect": "compact",
        "rollouts.max_context_tokens": 900,
    }
    return write_config(folder / "c.toml", values | changes)


@pytest.mark.parametrize("dialect", ["tags", "hermes", "compact"])
def test_demonstrations_resolve_every_turn_of_all_four_types(dialect: Literal["tags", "hermes", "compact"]) -> None:
    tasks = desk.generate(5, 16, 0)
    assert {task.type for task in tasks} == {"base", "long_context", "miss_func", "miss_param"}
    traces = demonstrate(tasks, PolicySettings(kind="simulated", dialect=dialect), ENVIRONMENTS)
    assert all(trace.binary and trace.end == "finished" for trace in traces)


def test_the_export_is_the_common_chat_format_without_held_out_tasks(tmp_path: Path, base: Path) -> None:
    file = tmp_path / "demonstrations.jsonl"
    assert run(["sft", "--config", str(config(tmp_path, base)), "--export", str(file)]) == EXIT_OK
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert len(lines) == 16 and {line["split"] for line in lines} == {"train"}
    roles = [message["role"] for message in lines[0]["messages"]]
    assert roles[:3] == ["system", "user", "assistant"] and roles[-1] == "assistant" and "tool" in roles


def test_other_tools_read_the_export_and_see_the_tokens_that_a_rollout_would(tmp_path: Path, base: Path) -> None:
    file, asked = tmp_path / "demonstrations.jsonl", config(tmp_path, base)
    assert run(["sft", "--config", str(asked), "--export", str(file)]) == EXIT_OK
    rows = load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
    said, talk = read_config(asked), Chat.load(base)
    tasks = [scripted(task, "a demonstration") for task in load_tasks(said.data, tmp_path) if task.split == "train"]
    for row, trace in zip(rows, demonstrate(tasks, said.policy, ENVIRONMENTS), strict=True):
        assert data_utils.is_conversational(row)
        shown = data_utils.apply_chat_template({"messages": row["messages"]}, talk.tokenizer)["text"]
        tokens, _ = encode(talk, trace)
        assert talk.tokens(shown)[: len(tokens)] == tokens


def test_warming_up_lowers_the_loss_and_leaves_a_folder_that_a_run_can_start_from(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "warm", config(tmp_path, base)
    arguments = ["sft", "--config", str(file), "--out", str(out), "--passes", "12", "--sequences", "4"]
    assert run([*arguments, "--learning-rate", "0.003"]) == EXIT_OK
    losses = [float(line.rpartition(" ")[2]) for line in capsys.readouterr().err.splitlines() if "loss" in line]
    assert losses[-1] < losses[0] / 2
    before, after = (load_file(folder / "model.safetensors") for folder in (base, out))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert run(["sft", "--config", str(file), "--out", str(out)]) == EXIT_USER  # never written over
    started = config(tmp_path, out, **{"training.steps": 1, "training.batch_tasks": 2, "rollouts.max_reply_tokens": 8})
    assert run([str(tmp_path / "run"), "--config", str(started)]) == EXIT_OK


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"policy.kind": "nano"}, "no base model"), ({"rollouts.max_context_tokens": 20}, "fit the context")],
)
def test_what_cannot_be_warmed_up_is_told(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], said: str
) -> None:
    file = config(tmp_path, base, **changes)
    assert run(["sft", "--config", str(file), "--out", str(tmp_path / "x")]) == EXIT_USER
    assert said in capsys.readouterr().err
