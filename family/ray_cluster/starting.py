"""Before Ray is imported, which reads its environment then."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from rods.config import Config
from rods.daemon.compute import Place
from rods.gates.similarity import SimilarityIndex
from rods.known_keys import remember


def places(folder: Path, config: Config, held_out: SimilarityIndex) -> Sequence[Place]:
    """Those of `rods.family.ray_cluster.places`. A cluster of this machine alone listens to the
    whole network, so it lets in only who has a token, unless RAY_AUTH_MODE says otherwise."""
    if not (config.operation.ray.address or {"RAY_ADDRESS", "RAY_AUTH_MODE"} & os.environ.keys()):
        token = secrets.token_hex(32)
        remember(token)
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    from rods.family.ray_cluster.places import places

    return places(folder, config, held_out)
