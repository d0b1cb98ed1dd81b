"""The configuration of `make demo`. The demo itself takes minutes and is run by hand."""

import re
import tomllib
from pathlib import Path

import pytest

from rods import console
from rods.canonical import without
from rods.config import parse_config, read_config

DEMO = Path(console.__file__).with_name("demo.toml")


def test_the_demo_s_own_configuration_is_sound() -> None:
    config = read_config(DEMO)
    assert config.policy.kind == "nano"
    assert config.data.held_out >= 200  # the interval of the report rests on them
    assert config.training.batch_tasks <= config.data.train


@pytest.mark.needs("triage", "admit", "schedule")
def test_what_is_switched_off_can_be_switched_on() -> None:
    switched = re.sub(r"(?m)^# (\[[\w.]+\]|\w+ = .+)$", r"\1", DEMO.read_text())
    before = read_config(DEMO)
    after = parse_config(tomllib.loads(switched), where="demo.toml")
    assert not (before.operation.triage.while_idle or before.operation.admit.folder)
    assert after.operation.triage.while_idle and after.operation.admit.folder == "theirs"
    assert (before.pool_slots, after.pool_slots) == (12, 6)
    assert without(after.identity(), "schedule") == without(before.identity(), "schedule")
