"""`rods doctor RUN` tries the folder's file system out, and says what cannot be seen from here."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rods.console.main import run as rods
from rods.family.trials.filesystem import check_folder
from tests.buffers.world import make_run


def answers(folder: Path) -> dict[str, tuple[bool | None, str]]:
    found = {finding.name: (finding.ok, finding.text) for finding in check_folder(folder)}
    assert list(folder.iterdir()) == []
    return found


def test_a_local_disk_is_sound(tmp_path: Path) -> None:
    found = answers(tmp_path)
    assert list(found) == ["file system", "locks", "fsync", "room"]
    assert found["locks"][0]
    assert "ms" in found["fsync"][1] and "GB free" in found["room"][1]


def test_what_is_wrong_or_only_simulated_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.family.trials.filesystem._mounted", lambda folder: "nfs4")
    ok, text = answers(tmp_path)["file system"]
    assert ok is None and "only simulated" in text

    def none(descriptor: int, mode: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    assert answers(tmp_path)["locks"][0] is None
    monkeypatch.setattr("fcntl.flock", lambda descriptor, mode: None)
    assert answers(tmp_path)["locks"][0] is False


def test_the_verb_checks_the_folder_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run")
    rods(["doctor", str(run.path)])
    said = capsys.readouterr().out
    assert "run folder" in said and "fsync:" in said
    assert rods(["doctor", str(tmp_path / "nowhere")]) == 2
