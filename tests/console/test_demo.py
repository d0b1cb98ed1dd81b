"""The configuration of `make demo`. The demo itself takes minutes and is run by hand."""

from pathlib import Path

from rods import console
from rods.config import read_config


def test_the_demo_s_own_configuration_is_sound() -> None:
    config = read_config(Path(console.__file__).with_name("demo.toml"))
    assert config.policy.kind == "nano"
    assert config.data.held_out >= 200  # the interval of the report rests on them
    assert config.training.batch_tasks <= config.data.train
