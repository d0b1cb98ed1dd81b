"""The Tinker cookbook's own rollouts take part in a run, in its order and from its checkpoints.
`make tinker` installs the cookbook in an environment of its own, and runs this there."""

from __future__ import annotations

from importlib.util import find_spec

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
