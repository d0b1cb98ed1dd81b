"""A disk that has no room for what a policy with weights writes: one line with place, reason and
remedy, and code 2."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from rods.config import parse_config
from rods.errors import UserError
from rods.trainer.nano import warm_start
from tests.console.test_disks import in_namespace
from tests.trainer.full_disk import SIZE, WRITERS
from tests.trainer.runs import BRIEF, write_config

REMEDY = "make room or make the folder writable, then start the same command again"


@pytest.mark.slow
def test_whatever_library_writes_a_checkpoint_a_full_disk_is_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    done = in_namespace(
        f"mount -t tmpfs -o size={SIZE} none {disk} || exit 77; {sys.executable} -m "
        f"tests.trainer.full_disk {disk}"
    )
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert lines.keys() == {*WRITERS, "no room to begin"}, done.stdout + done.stderr
    for name in WRITERS:
        assert f"{disk}/checkpoints/step_" in lines[name]
        why = "the disk is full, or it fails" if name == "torch" else "No space left on device"
        assert f"cannot write a checkpoint ({why}) → {REMEDY}" in lines[name]
    assert re.search(
        r"one takes 26\d,\d{3} bytes, and \d+,\d{3} are free", lines["no room to begin"]
    )


@pytest.mark.sweep
@pytest.mark.parametrize("folder", ["checkpoints", "traces"])
def test_a_trainer_whose_disk_is_full_says_so_and_goes_on_once_there_is_room(
    tmp_path: Path, folder: str
) -> None:
    config = write_config(tmp_path / "run.toml", BRIEF | {"training.steps": 1})
    run = tmp_path / "run"
    train = f"{sys.executable} -m rods.trainer {run}; echo code $?"
    done = in_namespace(
        f"""
        {sys.executable} -m rods.console trainer new {run} --config {config}
        mkdir -p {run}/{folder}
        mount -t tmpfs -o size=64k none {run}/{folder} || exit 77
        cat /dev/zero > {run}/{folder}/rest 2>/dev/null
        {train}
        rm {run}/{folder}/rest
        mount -o remount,size=64m {run}/{folder}
        {train}
        {sys.executable} -m rods.console verify {run} || echo differs
        """,
        timeout=600,
    )
    assert [line for line in done.stdout.splitlines() if line.startswith("code ")] == [
        "code 2",
        "code 0",
    ], done.stderr
    assert "differs" not in done.stdout
    (told,) = (line for line in done.stderr.splitlines() if line.startswith("rods-train: "))
    assert (
        str(run) in told
        and ("No space left" in told or "are free" in told or "the disk is full" in told)
        and "→" in told
    )


def test_a_warm_started_policy_that_cannot_be_kept_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trained:
        def save_pretrained(self, folder: str) -> None:
            save_file({"a": torch.zeros(1)}, Path(folder) / "none" / "model.safetensors")

    class Demonstrated:
        tokenizer = Trained()

    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    monkeypatch.setattr(warm_start, "demonstrated", lambda config: (Demonstrated(), []))
    monkeypatch.setattr(warm_start, "trained", lambda *given: Trained())
    with pytest.raises(
        UserError, match=r"keep the warm-started policy \(No such file or directory\) → set RODS"
    ):
        warm_start.make(parse_config({}, where="test"), tmp_path / "kept")
    assert list(tmp_path.iterdir()) == []
