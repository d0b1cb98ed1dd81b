"""verifiers and prime-rl take part in a run: what any adapter has to hold, with traces in
verifiers' own classes.

`make verifiers` installs verifiers in an environment of its own, and runs this there. prime-rl is
on no package index: its sampler, which counts draws and repeats them, and where it writes what, are
played by `train`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.trainer.adapters.conformance import CONFIG, Job
from tests.parts import ROOT
from tests.trainer.forked_trainers import Forked

vf: Any = pytest.importorskip(
    "verifiers.v1", reason="needs verifiers in an environment of its own: make verifiers"
)

pytestmark = [pytest.mark.slow, pytest.mark.needs("adapters")]
IMPORTS = (
    "rods.trainer.adapters.conformance",
    "rods.trainer.adapters.verifiers_stream",
    "verifiers.v1.episode",
)


def taskset(run: str | Path, traces: Path, **more: Any) -> Any:
    from rods.trainer.adapters.verifiers_stream import StreamConfig, StreamTaskset

    return StreamTaskset(
        StreamConfig(run=run, traces=traces, **{"group_size": 4, "max_off_policy_steps": 0, **more})
    )


def append(
    path: Path, task: Any, rewards: list[float | None], step: int | None = None, start: int = 0
) -> None:
    """The episodes of a group as verifiers writes them; with `step` as prime-rl has them,
    dispatched at that step."""
    from verifiers.v1.configs.agent import WireAgentConfig
    from verifiers.v1.episode import Episode, GroupInfo, PolicySpan, TrainRunInfo, TrainWorkInfo
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask

    path.parent.mkdir(parents=True, exist_ok=True)
    told = TraceTask(type="WorldTask", data=task.data, key=task.key, hash=task.hash)
    for reward in rewards:
        trace = Trace(task=told, agent=AgentInfo(config=WireAgentConfig()), ok=reward is not None)
        if reward is not None:
            trace.record_reward("progress", reward)
        episode = Episode(task=told, traces=[trace], ok=trace.ok)
        if step is not None:
            episode.group = GroupInfo(id=f"{step}-{task.data.idx}")
            work = TrainWorkInfo(step=step, policy=PolicySpan(start=start, end=start))
            episode.record_run(TrainRunInfo(id="run", work=work))
        with path.open("ab") as file:
            file.write(orjson.dumps(episode.to_record()) + b"\n")


def train(job: Job, stepwise: bool = True) -> None:
    """A trainer that draws, rolls out and takes a checkpoint as prime-rl does, one batch after the
    other."""
    own = Path(job.own)
    rollouts = Path(job.own) / "rollouts"
    saved = own / "checkpoints" / "cursor.json"
    state = json.loads(saved.read_text()) if saved.exists() else {"0": 0}
    at = max(map(int, state)) if job.from_step is None else job.from_step
    traces = rollouts if stepwise else rollouts / "traces.jsonl"
    draws = iter(taskset(job.run, traces, resume_step=at))
    list(islice(draws, state[str(at)]))  # as a sampler repeats what it counted
    for step in range(at + 1, job.steps + 1):
        for place, task in enumerate(islice(draws, 4)):
            rewards = job.rewards(step, place, task.key)
            if rewards is not None:
                path = (
                    rollouts / f"step_{step}" / "train" / "all" / "traces.jsonl"
                    if stepwise
                    else traces
                )
                late = max(0, step - 1 - job.lag) if stepwise else 0
                append(path, task, list(rewards), step if stepwise else None, late)
        if stepwise:
            made = rollouts / f"step_{step}" / "train" / "effective" / "traces.jsonl"
            made.parent.mkdir(parents=True, exist_ok=True)
            with made.open("ab") as file:
                file.write(b"{}\n")
        state[str(step)] = 4 * step
        saved.parent.mkdir(parents=True, exist_ok=True)
        saved.write_text(
            json.dumps({key: value for key, value in state.items() if int(key) <= step})
        )
    draws.close()


def train_flat(job: Job) -> None:
    train(job, stepwise=False)


class TestPrimeRl(Forked):
    imports = IMPORTS
    trainer = "tests.trainer.adapters.test_verifiers_stream:train"


class TestVerifiers(Forked):
    imports = IMPORTS
    trainer = "tests.trainer.adapters.test_verifiers_stream:train_flat"
    late = False  # these traces do not say by which weights they were made


ENDS = """
from itertools import islice
from pathlib import Path
from tests.trainer.adapters.test_verifiers_stream import append, taskset
draws = iter(taskset("run", Path("traces.jsonl"), run_config=Path("run.toml")))
for task in islice(draws, 4):
    append(Path("traces.jsonl"), task, [0.5, 1.0, None, 0.0])
"""


def test_a_program_that_ends_by_itself_has_its_last_step_on_record(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG.replace('sync = "lockstep"', ""))
    program = [sys.executable, "-c", ENDS]
    done = subprocess.run(
        program, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr.decode()
    (step,) = RunState(Run.open(tmp_path / "run")).steps()
    assert [len(group.rollouts) for group in step.groups] == [4] * 4 and verify(tmp_path / "run").ok


def test_a_trainer_that_draws_ahead_never_waits_and_counts_each_task_of_an_epoch(
    tmp_path: Path,
) -> None:
    """As prime-rl does: five groups are under way at any time, and they end in any order."""
    (tmp_path / "run.toml").write_text(CONFIG.replace('sync = "lockstep"', ""))
    rollouts = tmp_path / "rollouts"
    draws = iter(
        taskset(
            tmp_path / "run", rollouts, run_config=tmp_path / "run.toml", max_off_policy_steps=8
        )
    )
    flight = []
    step = 1
    ended = 0
    for number, task in enumerate(islice(draws, 60)):
        flight.append((task, step))
        if len(flight) == 5:
            done, dispatched = flight.pop((3 * number) % 5)
            rewards: list[float | None] = [None] * 4 if number == 17 else [0.25, 0.5, None, 1.0]
            append(
                rollouts / f"step_{step}/train/all/traces.jsonl",
                done,
                rewards,
                dispatched,
                dispatched - 1,
            )
            ended += 1
            if ended % 4 == 0:
                (rollouts / f"step_{step}/train/effective").mkdir(parents=True)
                (rollouts / f"step_{step}/train/effective/traces.jsonl").write_text("{}\n")
                step += 1
    draws.close()
    closed = list(RunState(Run.open(tmp_path / "run")).steps())
    assert verify(tmp_path / "run").ok and len(closed) > 8
    epochs: dict[int, set[str]] = {}
    for each in closed:
        epochs.setdefault(each.epoch, set()).update(group.task for group in each.groups)
        assert all(len(group.rollouts) == 4 for group in each.groups)
    last = max(epochs)
    assert last >= 3 and all(len(tasks) == 8 for epoch, tasks in epochs.items() if epoch < last)
