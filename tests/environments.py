"""The environments that tests share, each made once a process."""

from __future__ import annotations

from rods.environments.loading import Environments

ENVIRONMENTS = Environments()
load = ENVIRONMENTS.load
