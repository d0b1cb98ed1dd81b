"""The configurations for large models are valid, and their plans print."""

from pathlib import Path

import pytest

from rods.config import read_config
from trainer.plan import lines, plan

FOLDER = Path(__file__).parents[2] / "experiments" / "training"
FILES = sorted(FOLDER.glob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recipe_is_valid_and_has_a_plan(file: Path, tmp_path: Path) -> None:
    config = read_config(file)
    said = "\n".join(lines(plan(tmp_path / "run", config, [], [], 8)))
    assert config.policy.kind == "transformers" and config.policy.model in said
    for server in config.operation.rollout_servers:
        assert server.urls[0] in said


def test_every_recipe_is_listed() -> None:
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert FILES and all(file.name in listed for file in FILES)
