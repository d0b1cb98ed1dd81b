"""`/metrics` of a real daemon: what the logs hold, also after a kill."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from rods.buffers.daemon_log import outcome
from rods.daemon.metrics import _written
from tests.daemon.runs import Daemon, Trainer, idle, make_run, rejected, seeds, until, variants

SAMPLE = re.compile(r"(rods_\w+)(?:\{([^}]*)\})? (-?[0-9.e+-]+)")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def scraped(port: int) -> dict[tuple[str, str], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.read().decode().splitlines()
    kinds = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(kinds) == len(set(kinds)) == 15
    found = [SAMPLE.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(found)
    return {(one[1], one[2] or ""): float(one[3]) for one in found if one}


def on_record(path: Path) -> dict[tuple[str, str], float]:
    """The totals that the logs hold."""
    totals: Counter[tuple[str, str]] = Counter()
    totals["rods_picks_total", ""] = len(seeds(path, "picked"))
    totals["rods_variants_total", ""] = len(variants(path))
    totals.update(("rods_picks_finished_total", f'outcome="{outcome(one)}"') for one in seeds(path, "finished"))
    totals.update(("rods_rejections_total", f'stage="{one["stage"]}",error="{one["error"]}"') for one in rejected(path))
    return {key: float(value) for key, value in totals.items() if value}


def totals(found: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    return {key: value for key, value in found.items() if key[0].endswith("_total")}


@pytest.mark.slow
def test_totals_are_those_of_the_logs_and_no_restart_zeroes_one(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "run"
    run = make_run(path, {"operation": {"metrics_port": port}})
    with Trainer(run) as trainer:
        trainer.play(4)
        with Daemon(path) as daemon:
            until(lambda: idle(path, 4))
            until(lambda: scraped(port)["rods_staged_variants", ""] == len(variants(path)))  # its last look
            first = scraped(port)
            assert totals(first) == on_record(path) and first["rods_variants_total", ""] > 0
            assert (first["rods_step", ""], first["rods_considered_step", ""]) == (4, 4)
            zones = {key[1]: value for key, value in first.items() if key[0] == "rods_zone_tasks"}
            assert zones == {f'zone="{zone}"': count for zone, count in trainer.log.state.zones().items()}
            daemon.kill()
        with Daemon(path):
            again = until(lambda: _answered(port))
            assert totals(again) == totals(first)
            trainer.play(2)
            until(lambda: idle(path, 6))
            assert totals(scraped(port)) == on_record(path)


def _answered(port: int) -> dict[tuple[str, str], float] | None:
    try:
        return scraped(port)
    except OSError:
        return None


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        make_run(tmp_path / "run", {"operation": {"metrics_port": port}})
        with Daemon(tmp_path / "run") as daemon:
            code, errors = daemon.ended()
        assert code == 2
        assert f"127.0.0.1:{port}: cannot listen there" in errors and "operation.metrics_port" in errors


def test_labels_are_escaped() -> None:
    assert _written(endpoint='a"b\\c\nd') == '{endpoint="a\\"b\\\\c\\nd"}'
