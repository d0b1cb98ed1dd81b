"""The Tinker cookbook's own rollouts take part in a run, in its order and from its checkpoints.
`make tinker` installs the cookbook in an environment of its own, and runs this there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.trainer.forked_trainers import Forked

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("adapters"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        find_spec("tinker_cookbook") is None, reason="needs the Tinker cookbook: make tinker"
    ),
]
IMPORTS = ("rods.trainer.adapters.conformance", "tests.trainer.adapters.tinker_given")


class TestTinker(Forked):
    imports = IMPORTS
    trainer = "tests.trainer.adapters.tinker_given:train"
    late = False  # its synchronous training waits for its rollouts


def test_what_a_limit_has_lowered_is_recorded_as_it_is_trained_on(tmp_path: Path) -> None:
    limits = pytest.importorskip("tinker_cookbook.rl.rollout_limits")  # from 0.6 on

    from tests.trainer.adapters.tinker_given import limited

    policy = limits.TerminationRewardPolicy(zero_reward_on_limit=True)
    recorded, trained = limited(tmp_path / "lowered", policy)
    assert recorded == trained == [[0.5, 0.0, 1.0, 0.0]]
    recorded, trained = limited(tmp_path / "plain", None)
    assert recorded == trained == [[0.5, 0.25, 1.0, 0.75]]
