"""docs/environment.md: its files and commands, in an empty folder, lead to a run that holds."""

import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from rods.environments.base import Features
from tests.tutorial import PAGE, blocks, carry_out

HERE = PAGE.with_name("environment.md")
BIN = Path(sys.executable).parent


@pytest.mark.slow
def test_every_block_is_carried_out(tmp_path):
    files = re.findall(
        r"`([\w.]+)`:\n\n```(?:python|json|toml)\n(.*?)^```$",
        HERE.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert len(files) == sum(len(blocks(kind, HERE)) for kind in ("python", "json", "toml")) == 3
    for name, text in files:
        (tmp_path / name).write_text(text)
    carry_out(BIN, tmp_path, HERE)
    told = subprocess.run(
        [BIN / "rods", "status", "runs/first", "--json"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert orjson.loads(told.stdout)["step"] == 10


def test_every_feature_is_explained():
    said = set(re.findall(r"^\| `(\w+)` \|", HERE.read_text(), re.MULTILINE))
    assert said == set(Features.__dataclass_fields__)
