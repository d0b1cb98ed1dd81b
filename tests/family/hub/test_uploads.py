"""Uploads by the real client to a hub on loopback, from trainers in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rods.config import parse_config
from rods.errors import UserError
from tests.family.hub.stub_hub import TOKEN, Hub, stub_hub

CONFIG = """
[data]
tasks = "desk-small"
train = 8
held_out = 4
[policy]
kind = "external"
model = "lab/policy"
[training]
batch_tasks = 4
steps = {steps}
checkpoint_steps = 1
[operation.hub]
repository = "lab/policy"
uploads = "{uploads}"
"""
LOOP = """
import sys
from rods import open_training

taken = 0

def save(folder):
    for name in ("model.safetensors", "config.json", "optimizer.pt"):
        (folder / name).write_text(f"{name} after {taken}")

def load(folder):
    global taken
    taken = int((folder / "config.json").read_text().split()[-1])

def play(messages):
    return "no"

with open_training("run", play, config="own.toml", save=save, load=load) as training:
    for batch in training:
        training.record(batch, training.play(batch))
        taken += 1
        print(taken, flush=True)
"""


pytestmark = pytest.mark.slow  # each starts trainers


class Own:
    """A trainer of one's own in a folder, and what it says."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder = folder
        self.hub = hub
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
            **{
                "HF_ENDPOINT": hub.url,
                "HF_TOKEN": TOKEN,
                "HF_HUB_DISABLE_XET": "1",
                "HF_HOME": str(folder / "home"),
            },
            "HF_HUB_OFFLINE": "1",  # as the trainer of weights has it for itself
        }
        (folder / "loop.py").write_text(LOOP)

    def configure(self, uploads: str, steps: int = 3) -> None:
        (self.folder / "own.toml").write_text(CONFIG.format(uploads=uploads, steps=steps))

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "loop.py"],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def train(self) -> str:
        with self.start() as process:
            said, _ = process.communicate()
        assert process.returncode == 0 and "Traceback" not in said, said
        return said

    def status(self) -> str:
        command = [sys.executable, "-m", "rods.console", "status", "run"]
        return subprocess.run(
            command, cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout

    def files_with(self, text: str) -> list[Path]:
        """Files below the folder that hold `text`, which no log may."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return [path for path in files if text.encode() in path.read_bytes()]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    with stub_hub() as hub:
        yield Own(tmp_path, hub)


def test_the_newest_checkpoint_is_uploaded_at_the_end_without_what_only_a_resumption_needs(
    own: Own,
) -> None:
    own.configure("last")
    said = own.train()
    assert own.hub.commits == ["run, step_00000003.a1"]
    assert own.hub.files == {
        name: f"{name} after 3".encode() for name in ("model.safetensors", "config.json")
    }
    assert all(
        (repository["name"], repository["visibility"]) == ("policy", "private")
        for repository in own.hub.made
    )
    assert "uploaded" in said and "step_00000003.a1 is uploaded" in own.status()
    assert not own.files_with(TOKEN) and TOKEN not in said
    own.train()  # a start with nothing left to do
    assert len(own.hub.commits) == 1


def test_checkpoints_on_the_way_are_uploaded_but_for_those_that_find_an_upload_under_way(
    own: Own,
) -> None:
    own.configure("each", steps=6)
    own.hub.open.clear()
    with own.start() as process:
        assert process.stdout is not None
        for line in process.stdout:  # training goes on while the hub does not answer
            if line.strip() == "6":
                break
        own.hub.open.set()
        process.stdout.read()
    assert process.returncode == 0
    assert own.hub.commits[-1] == "run, step_00000006.a1" and len(own.hub.commits) < 6
    assert own.hub.files["model.safetensors"] == b"model.safetensors after 6"


def test_a_hub_that_refuses_ends_no_training_and_the_next_start_makes_up_for_it(own: Own) -> None:
    own.configure("last")
    own.hub.refuses = "/commit/"
    said = own.train()
    assert "not uploaded" in said and "nothing is granted" in said
    assert "not uploaded to lab/policy" in own.status()
    assert (
        (own.folder / "run/checkpoints/step_00000003.a1/policy/config.json")
        .read_text()
        .endswith("after 3")
    )
    assert not own.files_with(TOKEN) and TOKEN not in said + own.status()
    own.hub.refuses = "nothing"
    own.train()
    assert own.hub.commits == ["run, step_00000003.a1"] and "not uploaded" not in own.status()


def test_a_start_without_a_token_says_what_to_do_and_trains(own: Own) -> None:
    own.configure("last")
    del own.environment["HF_TOKEN"]
    said = own.train()
    assert "set HF_TOKEN" in said and "set HF_TOKEN" in own.status() and not own.hub.made


def test_a_run_whose_trainer_was_killed_while_it_uploaded_goes_on(own: Own) -> None:
    own.configure("each", steps=4)
    own.hub.open.clear()
    with own.start() as process:
        assert process.stdout is not None
        own.hub.asked.wait()
        process.kill()
    own.hub.open.set()
    own.train()
    assert (
        own.hub.files["config.json"] == b"config.json after 4"
        and "step_00000004" in own.hub.commits[-1]
    )
    assert json.loads((own.folder / "run/hub.json").read_text())["uploaded"].startswith(
        "step_00000004"
    )


def test_a_policy_without_weights_has_nothing_to_upload() -> None:
    values = tomllib.loads(CONFIG.format(uploads="last", steps=3)) | {
        "policy": {"kind": "simulated"}
    }
    with pytest.raises(UserError, match="no weights to upload"):
        parse_config(values, where="own.toml")
