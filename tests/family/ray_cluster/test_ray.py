"""The procedural author on three nodes of Ray: the same variants, whatever happens to actors and
nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.daemon.comparing import finish, lockstep_run, written
from tests.daemon.runs import Daemon, Trainer, idle, until, variants

pytestmark = pytest.mark.slow
STEPS = 12


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three nodes of one core each, on loopback."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def actors() -> Iterator[Path]:
    """The processes of the actors that make attempts."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_text().startswith("ray::_Worker"):
                yield process


def test_actors_and_a_node_that_die_lose_no_variant_and_write_none_twice(
    cluster: Any, tmp_path: Path
) -> None:
    alone = lockstep_run(tmp_path / "alone")
    with Daemon(alone.path) as daemon:
        finish(alone, daemon, STEPS)
    operation = {"compute": "ray", "compute_places": 3, "ray": {"address": cluster.address}}
    run = lockstep_run(tmp_path / "run", **operation)
    with Daemon(run.path) as daemon, Trainer(run) as trainer:
        playing = Thread(target=trainer.play, args=(STEPS,))
        playing.start()  # it waits for the daemon at every merge
        until(lambda: variants(run.path))
        killed = list(actors())
        subprocess.run(["kill", "-9", killed[0].name], check=False)
        seen = len(variants(run.path))
        until(lambda: len(variants(run.path)) > seen or idle(run.path, STEPS))
        cluster.remove_node(min(cluster.worker_nodes, key=str), allow_graceful=False)
        cluster.add_node(num_cpus=1)
        until(lambda: idle(run.path, STEPS))
        playing.join()
        assert daemon.stop()[0] == 0
    assert killed
    assert written(run.path) == written(alone.path)
    until(lambda: not list(actors()))


def test_a_machine_without_ray_notices_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from rods.config import COMPUTES; from rods.daemon.main import application\n"
        "assert COMPUTES.providers()['ray_cluster']\n"
        "import rods.family.ray_cluster.places\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert ended.stderr.endswith("pip install '.[ray]' in the clone\n"), (
        "until it is asked for, and then that is told"
    )


def test_a_cluster_that_does_not_answer_is_told_in_a_line(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    run = lockstep_run(tmp_path / "run", compute="ray", ray={"address": "127.0.0.1:1"})
    with Daemon(run.path) as daemon:
        code, told = daemon.ended()
    assert code == 2 and "no cluster of Ray at 127.0.0.1:1" in told and "Traceback" not in told
