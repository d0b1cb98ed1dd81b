"""The procedural author on three nodes of Ray: the same variants, whatever happens to actors and
nodes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from rods.errors import UserError
from rods.family.ray_cluster.extension import RaySettings
from rods.gates.similarity import SimilarityIndex
from tests.daemon.comparing import finish, lockstep_run, written
from tests.daemon.runs import Daemon, Trainer, idle, make_run, until, variants

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


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_address_at_which_something_else_listens_is_told_in_seconds(
    tmp_path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = pytest.importorskip("rods.family.ray_cluster.places")
    monkeypatch.setattr(places, "REACHED", 0.5)
    run = make_run(tmp_path / "run", {"operation": {"compute": "ray"}})

    def listen() -> None:
        with listener.accept()[0] as asked:
            asked.sendall(answer)
            over.wait()

    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=listen, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        operation = run.config.operation.model_copy(update={"ray": RaySettings(address=address)})
        config = run.config.model_copy(update={"operation": operation})
        with pytest.raises(UserError, match=f"no cluster of Ray at {address}: "):
            places.places(run.path, config, SimilarityIndex())
        over.set()


def test_a_cluster_of_this_machine_alone_lets_no_stranger_in(tmp_path: Path) -> None:
    """It listens to the whole network."""
    pytest.importorskip("ray")
    run = make_run(tmp_path / "run", {"operation": {"compute": "ray", "compute_places": 1}})
    code = (
        "import sys; from pathlib import Path; from rods.buffers.run.run import Run\n"
        "from rods.gates.similarity import SimilarityIndex\n"
        "from rods.family.ray_cluster.starting import places; path = Path(sys.argv[1])\n"
        "places(path, Run.open(path).config, SimilarityIndex())\n"
        "import ray; print(ray.get_runtime_context().gcs_address, flush=True); sys.stdin.read()"
    )
    stranger = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False)"
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env["RAY_USAGE_STATS_ENABLED"] = "0"
    asking: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "env": env,
    }
    with subprocess.Popen([sys.executable, "-c", code, str(run.path)], **asking) as own:
        assert own.stdout is not None
        address = own.stdout.readline().strip()
        said = subprocess.run(
            [sys.executable, "-c", stranger, address], env=env, capture_output=True, text=True
        )
    assert own.returncode == 0 and said.returncode != 0
    assert "AuthenticationError" in said.stderr, said.stderr
