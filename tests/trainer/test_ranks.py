"""Several processes that train one run: what they record and learn is what one process would."""

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file

from buffers.audit.verify import verify
from buffers.log.writer import LogWriter
from buffers.merging.merger import recorded_slots
from buffers.run.creation import create_run
from buffers.run.run import Run
from buffers.run.runfolder import FEEDBACK
from buffers.state import read_state
from rods.config import Operation, read_config
from rods.deadlines import HANGS, MOST_HANGING, WEIGHTS_LOADED
from rods.errors import EXIT_OK
from tests.buffers.audit.test_feedback import approval
from tests.trainer.kills import ANY_SEED, COMMON
from tests.trainer.runs import NANO, live_steps, train, write_config
from tests.trainer.test_resume import CHANGES
from trainer import ranks
from trainer.advantages import AdvantageEstimate, Array
from trainer.ranks import Ranks
from worlds.sources import load_tasks

SMALL: dict[str, Any] = CHANGES | {
    "training.steps": 3,
    "training.checkpoint_steps": 1,
    # a policy that has learnt nothing earns nothing: this says what it learns from, whatever it earned
    "training.advantage_hook": "tests.trainer.test_ranks:alternating",
}


def alternating(estimate: AdvantageEstimate) -> Array:
    signs: Array = np.resize([-1.0, 1.0], estimate.advantages.size)
    return signs.reshape(estimate.advantages.shape)


def launch(run: Path, config: Path, home: Path, processes: int = 2) -> subprocess.Popen[str]:
    """`accelerate launch`; where there is no GPU its "multi_gpu" means several processes on the CPU."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += ["--num_processes", str(processes), "--num_machines", "1", "--mixed_precision", "no"]
    command += ["--dynamo_backend", "no", "--num_cpu_threads_per_process", "1", "--main_process_port", "0"]
    return subprocess.Popen(
        [*command, "-m", "trainer", str(run), "--config", str(config)],
        env={**os.environ, "RODS_CACHE": str(home / "cache"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def policy(run: Path, step: int) -> dict[str, torch.Tensor]:
    (folder,) = (run / "checkpoints").glob(f"step_{step:08d}.a*")
    weights: dict[str, torch.Tensor] = load_file(folder / "policy" / "model.safetensors")
    return weights


def test_two_processes_train_as_one_would_and_one_goes_on_where_two_stopped(tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.toml", SMALL)
    limited = write_config(tmp_path / "limited.toml", SMALL | {"operation.step_limit": 2})
    alone, both = tmp_path / "alone", tmp_path / "both"
    environment = {**os.environ, "RODS_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    assert train(alone, config, env=environment).returncode == EXIT_OK
    process = launch(both, limited, tmp_path)
    said, _ = process.communicate(timeout=300)
    assert [step for step, *_ in live_steps(both)] == [1, 2], said[-3000:]
    assert live_steps(both)[0] == live_steps(alone)[0]  # the same tasks, the same draws, in the same order
    start, one, two = policy(alone, 0), policy(alone, 1), policy(both, 1)
    moved = sum(float((one[name] - start[name]).square().sum()) for name in one)
    apart = sum(float((one[name] - two[name]).square().sum()) for name in one)
    assert moved > 0 and apart < moved / 100  # the same update, but for the order of sums
    assert train(both, config, env=environment).returncode == EXIT_OK
    assert [step for step, *_ in live_steps(both)] == [1, 2, 3]
    process = launch(both, config, tmp_path)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == EXIT_OK, said[-3000:]  # it is finished, and stays so


@pytest.mark.timeout(900)
def test_two_processes_show_the_versions_and_the_bytes_that_one_shows(tmp_path: Path) -> None:
    """The labels of step 1 change what step 2 shows: to the ranks, what rank 0 read from the log."""
    stage = {"reward": "format", "expand": False, "interface": "seal-full", "evolve": "all"}
    changes = SMALL | {"curriculum.stages": [stage], "operation.trace_every": 1, "training.steps": 2}
    config = write_config(tmp_path / "c.toml", changes)
    alone, both = tmp_path / "alone", tmp_path / "both"
    environment = {**os.environ, "RODS_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    assert train(alone, config, env=environment).returncode == EXIT_OK
    process = launch(both, config, tmp_path)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == EXIT_OK, said[-3000:]
    shown = [[group["interface"] for group in groups] for _, _, groups in live_steps(both)]
    assert shown == [[group["interface"] for group in groups] for _, _, groups in live_steps(alone)]
    assert [len(set(step)) for step in shown] == [1, 1] and shown[0] != shown[1]
    prompts = []
    for run in (alone, both):
        lines = [gzip.decompress(file.read_bytes()).splitlines() for file in sorted((run / "traces").iterdir())]
        traces = [[orjson.loads(line)["messages"] for line in step] for step in lines]
        # replies of step 2 may differ where the order of sums does: the first step's all, of the second the prompts
        prompts.append([traces[0], [messages[:2] for messages in traces[1]]])
    assert prompts[0] == prompts[1] and prompts[0][0][0][0] != prompts[0][1][0][0]
    assert verify(both).ok


@pytest.mark.timeout(900)
def test_two_processes_show_the_texts_of_agents_that_one_shows(tmp_path: Path) -> None:
    """To the ranks, what rank 0 read from the logs at the merge."""
    changes = NANO | {"curriculum.stages": [{"feedback": "agents", "expand": False}], "training.steps": 1}
    config = write_config(tmp_path / "c.toml", changes)
    environment, read = {**os.environ, "OMP_NUM_THREADS": "1"}, []
    for name in ("alone", "both"):
        folder, parsed = tmp_path / name, read_config(config)
        create_run(folder, parsed, load_tasks(parsed.data, folder))
        writer = LogWriter(folder / FEEDBACK)
        for tool, pattern in (("move_event", "no such event"), ("invite_guest", "no such event"), ("pay_bill", "x")):
            writer.append(approval(tool, pattern, f"What this is called may have to be looked up before {tool}."))
        writer.close()
    assert train(tmp_path / "alone", config, env=environment).returncode == EXIT_OK
    said, _ = launch(tmp_path / "both", config, tmp_path).communicate(timeout=600)
    for name in ("alone", "both"):
        (file,) = (tmp_path / name / "traces").iterdir()
        lines = gzip.decompress(file.read_bytes()).splitlines()
        read.append([orjson.loads(line)["messages"] for line in lines])
        assert verify(tmp_path / name).ok
    assert read[0] == read[1], said[-3000:]
    assert "may have to be looked up before" in str(read[1])
    versions = [
        {group["interface"] for _, _, groups in live_steps(tmp_path / name) for group in groups}
        for name in ("alone", "both")
    ]
    assert versions[0] == versions[1] and len(versions[0]) == 1


def test_what_the_first_process_does_alone_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(ranks, "PartialState", lambda **options: given.update(options))
    Ranks()
    longest = max(HANGS * MOST_HANGING, WEIGHTS_LOADED, Operation().deadline_seconds)
    assert given["timeout"].total_seconds() > longest


@pytest.mark.timeout(900)
def test_variants_reach_all_processes_and_another_number_of_them_goes_on(tmp_path: Path) -> None:
    live = {name: value for name, value in SMALL.items() if name != "curriculum.stages"} | COMMON
    changes = live | {"sync": "lockstep", "training.batch_tasks": 4, "training.steps": 6} | ANY_SEED
    config = write_config(tmp_path / "c.toml", changes)
    limited = write_config(tmp_path / "limited.toml", changes | {"operation.step_limit": 5})
    path = tmp_path / "run"
    environment = {**os.environ, "RODS_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    daemon = subprocess.Popen(
        [sys.executable, "-m", "daemon", str(path), "--config", str(config)], stderr=subprocess.DEVNULL
    )
    try:
        said, _ = launch(path, limited, tmp_path).communicate(timeout=600)
        assert [step for step, *_ in live_steps(path)] == [1, 2, 3, 4, 5], said[-3000:]
        assert train(path, config, env=environment).returncode == EXIT_OK
    finally:
        daemon.terminate()
        daemon.wait()
    run = Run.open(path)
    pool = read_state(run).pool_at(1)
    variants = {member.task_id for member in pool.generated}
    order = [slot.task_id for slot in recorded_slots(run, pool)]
    visited = [group["task"] for _, epoch, groups in live_steps(path) if epoch == 1 for group in groups]
    assert variants and visited == order[: len(visited)]
    assert variants & set(visited[:8])  # in the steps that two processes took
    assert verify(path).ok


def test_processes_that_disagree_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks()
    ranks.agree("an order")
    monkeypatch.setattr(ranks, "gathered", lambda part: [*part, "another order"])
    with pytest.raises(RuntimeError, match="disagree about the order"):
        ranks.agree("an order")


def test_a_request_to_stop_reaches_all_processes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = launch(run, write_config(tmp_path / "c.toml", SMALL | {"training.steps": 10_000}), tmp_path)
    try:
        while process.poll() is None and not (run.exists() and len(live_steps(run)) > 1):
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGTERM)
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    last = max(step for step, *_ in live_steps(run))
    assert policy(run, last), said[-3000:]  # a checkpoint of the very last step


@pytest.mark.parametrize("tasks", [3])
def test_a_batch_that_does_not_split_over_the_processes_is_refused(tmp_path: Path, tasks: int) -> None:
    changes = SMALL | {"training.batch_tasks": tasks, "rollouts.rollouts_per_task": 3}
    run = tmp_path / "run"
    said, _ = launch(run, write_config(tmp_path / "c.toml", changes), tmp_path).communicate(timeout=300)
    assert "9 sequences a step do not split over 2 processes" in said
    assert not list(live_steps(run)) and Run.open(run)
