"""Feedback of agents from end to end: nano through TRL, a daemon beside it, an HTTP server that
plays both agents."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, POOL
from rods.buffers.state import RunState
from rods.daemon.stand_ins import model as stand_in_model
from rods.daemon.stand_ins.model import StandIn
from rods.errors import EXIT_OK, EXIT_REQUEUE
from rods.family.feedback.settings import FEEDBACK
from tests.daemon.runs import Daemon, until
from tests.family.feedback.test_correcting import completion
from tests.json_server import json_server
from tests.trainer.runs import NANO, start, train, write_config

pytestmark = pytest.mark.slow

FEEDBACK_RULES: dict[str, Any] = {
    "sync": "lockstep",
    "curriculum.stages": [{"feedback": "agents", "expand": False}],
    "feedback.rollouts": 1,
    "feedback.tasks": 1,
    "feedback.texts": 6,
    "operation.poll_seconds": 0.05,
    "operation.deadline_seconds": 600.0,
}
PATIENCE = 600.0  # seconds, on a very busy machine


class Agents:
    """The stand-in that plays generator and judge, and what it was asked: (template, tool,
    refusal)."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str, str]] = Counter()
        self.gone = False

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        if not path.endswith("/chat/completions"):
            return 200, {
                "object": "list",
                "data": [{"id": "stub", "object": "model", "max_model_len": 32_768}],
            }
        if self.gone:
            return 503, {"error": {"message": "gone", "code": 503}}
        asked = stand_in_model.read(body)
        if asked is not None:
            fields = asked.fields
            pattern = orjson.loads(fields["pattern"])["refusal"]
            self.asked[asked.template, orjson.loads(fields["tool"])["name"], pattern] += 1
        text = '{"answer": "yes"}' if asked is None else StandIn().answer(body)
        return 200, completion(text)


def closed(path: Path) -> int:
    """Steps on record, of all starts."""
    log = path / OBSERVATIONS
    return log.read_bytes().count(b'"kind":"step"') if log.exists() else 0


def messages(path: Path, step: int) -> list[str]:
    """All that rollouts of the step's latest start were shown."""
    *_, file = sorted((path / "traces").glob(f"step_{step:08d}.*"))
    traces = map(orjson.loads, gzip.decompress(file.read_bytes()).splitlines())
    return [
        one["content"]
        for trace in traces
        for one in trace["messages"]
        if one["role"] != "assistant"
    ]


def killed(path: Path, config: Path, until_then: Callable[[], Any]) -> None:
    """The trainer, killed with -9 once `until_then` is true."""
    process = start(path, config)
    try:
        until(until_then, PATIENCE)
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(1800)
def test_what_rollouts_met_is_written_about_approved_and_shown_from_the_next_epoch_on(
    tmp_path: Path,
) -> None:
    """Two steps an epoch. The daemon is killed once texts are approved, the trainer while it shows
    them."""
    agents = Agents()
    path = tmp_path / "run"
    with json_server(agents) as url:
        endpoint = {"model": "stub", "urls": [url], "retry_seconds": 2.0, "patience_seconds": 2.0}
        changes = NANO | FEEDBACK_RULES | {"training.steps": 4, "operation.endpoints": [endpoint]}
        config = write_config(tmp_path / "c.toml", changes)
        limited = write_config(tmp_path / "limited.toml", changes | {"operation.step_limit": 2})
        assert train(path, limited).returncode == EXIT_REQUEUE and closed(path) == 2

        def ended() -> list[Record]:
            found = list(read(path / FEEDBACK)) if (path / FEEDBACK).exists() else []
            return [one for one in found if one["kind"] in ("approved", "given_up")]

        with Daemon(path, "--config", str(config)) as daemon:
            until(lambda: len(ended()) == 6, PATIENCE)
            daemon.kill()
        texts = {one["failure"]: one["text"] for one in ended() if one["kind"] == "approved"}
        asked = Counter(agents.asked)
        assert texts and max(asked.values()) <= 3, "a fourth attempt is never sent"
        with Daemon(path, "--config", str(config)) as daemon:
            killed(path, config, lambda: closed(path) > 2)
            agents.gone = True  # training goes on with what was approved
            assert train(path, config).returncode == EXIT_OK
            daemon.stop()
    assert agents.asked == asked, "nothing is asked again after the kill"
    merged = [one["feedback"] for one in read(path / POOL) if one["kind"] == "epoch"]
    assert merged[0]["texts"] == 0 and {one["texts"] for one in merged[1:]} == {len(texts)}
    assert len({one["version"] for one in merged[1:]}) == 1, "killed or not, the same version"
    steps = RunState(Run.open(path)).steps()
    shown = [{record["interface"] for record in step.records} for step in steps]
    assert shown[0] == shown[1] != shown[2] == shown[3] and len(shown[0]) == len(shown[2]) == 1
    hinted = [
        sum(any(text in one for text in texts.values()) for one in messages(path, step))
        for step in range(1, 5)
    ]
    assert hinted[0] == hinted[1] == 0 and sum(hinted[2:]) > 0
    report = verify(path, replay=True)
    assert report.ok, list(report.lines())
