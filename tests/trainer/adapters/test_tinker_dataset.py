"""The Tinker cookbook's own rollouts take part in a run, in its order and from its checkpoints. experiments/tinker says
which environment this wants, and trains a policy in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO

import orjson
import pytest

from rods.trainer.conformance import Conformance, Job
from tests import forked

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("adapters"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not os.environ.get("RODS_TINKER"), reason="experiments/tinker/README.md"),
]
IMPORTS = ("rods.trainer.conformance", "tests.trainer.adapters.tinker_given")


class TestTinker(Conformance):
    trainer = "tests.trainer.adapters.tinker_given:train"
    late = False  # its synchronous training waits for its rollouts

    def process(self, job: Job, env: Mapping[str, str], said: IO[str]) -> forked.Process:
        told = orjson.dumps(asdict(job)).decode()
        with Path(os.devnull).open() as nothing:
            files = (nothing, said, said)
            return forked.Process("rods.trainer.conformance", [self.trainer, told], IMPORTS, files, env={**env})
