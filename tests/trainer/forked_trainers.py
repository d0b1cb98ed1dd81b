"""Trainers of the conformance suite whose processes are forked from one that has imported what they
need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, ClassVar

import orjson

from rods.trainer.conformance import Conformance, Job
from tests import forked


class Forked(Conformance):
    imports: ClassVar[tuple[str, ...]]
    settings: ClassVar[Mapping[str, str]] = {}  # of the processes' environment

    def process(self, job: Job, env: Mapping[str, str], said: IO[str]) -> forked.Process:
        told = orjson.dumps(asdict(job)).decode()
        with Path(os.devnull).open() as nothing:
            files = (nothing, said, said)
            given = {**env, **self.settings}
            return forked.Process(
                "rods.trainer.conformance", [self.trainer, told], self.imports, files, env=given
            )
