"""A configuration that extends another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.config import read_config, read_values
from rods.errors import UserError


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_what_a_file_leaves_out_is_that_of_the_file_it_extends(tmp_path: Path) -> None:
    written(
        tmp_path / "a" / "base.toml",
        'sync = "lockstep"\n[pool]\nmax_generated = 7\nburn_in = false\n'
        "[[curriculum.stages]]\nepochs = 2\n[[curriculum.stages]]\n",
    )
    written(tmp_path / "a" / "middle.toml", 'extends = "base.toml"\n[pool]\nburn_in = true\n')
    top = written(
        tmp_path / "top.toml",
        'extends = "a/middle.toml"\n[pool]\nmax_generated = 9\n[[curriculum.stages]]\n',
    )
    config = read_config(top)
    assert (config.sync, config.pool.max_generated, config.pool.burn_in) == ("lockstep", 9, True)
    assert len(config.curriculum.stages) == 1, "a list is taken whole"
    assert "extends" not in read_values(top)


def test_a_preset_is_below_what_is_extended(tmp_path: Path) -> None:
    base = 'preset = "rods-paper"\n[policy]\nmodel = "m"\n[zones]\nboundary_low = 0.3\n'
    base += '[[operation.endpoints]]\nmodel = "w"\nurls = ["http://w:1/v1"]\n'
    written(tmp_path / "base.toml", base)
    top = written(tmp_path / "top.toml", 'extends = "base.toml"\n[pool]\nstatic = true\n')
    config = read_config(top)
    assert (config.zones.boundary_low, config.pool.static) == (0.3, True)
    assert config.pipeline.author == "llm" and config.policy.model == str(tmp_path / "m")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('extends = "none.toml"', r"top.toml: extends 'none.toml': no file"),
        ('extends = "top.toml"', "files extend each other"),
        ("extends = 3", "extends 3"),
    ],
)
def test_what_cannot_be_extended_is_said(tmp_path: Path, text: str, why: str) -> None:
    top = written(tmp_path / "top.toml", text)
    with pytest.raises(UserError, match=why):
        read_config(top)
