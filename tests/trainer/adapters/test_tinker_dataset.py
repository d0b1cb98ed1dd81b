"""The Tinker cookbook's own rollouts take part in a run, in its order and from its checkpoints. experiments/tinker says
which environment this wants, and trains a policy in it."""

from __future__ import annotations

import os

import pytest

from tests.trainer.forked_trainers import Forked

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("adapters"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not os.environ.get("RODS_TINKER"), reason="experiments/tinker/README.md"),
]
IMPORTS = ("rods.trainer.conformance", "tests.trainer.adapters.tinker_given")


class TestTinker(Forked):
    imports = IMPORTS
    trainer = "tests.trainer.adapters.tinker_given:train"
    late = False  # its synchronous training waits for its rollouts
