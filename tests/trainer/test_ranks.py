"""Several processes that train one run: what they record and learn is what one process would."""

import gzip
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
import torch
from safetensors.torch import load_file

from rods.buffers.audit.verify import verify
from rods.buffers.log.writer import LogWriter
from rods.buffers.merging.merger import recorded_slots
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.config import Operation, read_config
from rods.deadlines import HANGS, MOST_HANGING, WEIGHTS_LOADED
from rods.errors import EXIT_OK, EXIT_REQUEUE, EXIT_USER
from rods.family.feedback.settings import FEEDBACK
from rods.trainer import ranks
from rods.trainer.ranks import Ranks
from rods.worlds.sources import load_tasks
from tests import forked
from tests.daemon.runs import Daemon
from tests.family.feedback.test_verifying import approval
from tests.trainer.kills import ANY_SEED, COMMON
from tests.trainer.replayed import drift
from tests.trainer.runs import (
    BRIEF,
    IMPORTS,
    NANO,
    live_steps,
    replaying,
    train,
    train_replayed,
    write_config,
)

SMALL: dict[str, Any] = BRIEF | {"training.steps": 3}


def launch(
    run: Path, config: Path, drawn: Path, given: Path, processes: int = 2
) -> subprocess.Popen[str]:
    """`accelerate launch` of processes that draw the tokens in `given`; where there is no GPU its
    "multi_gpu" means several processes on the CPU."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += ["--num_processes", str(processes), "--num_machines", "1", "--mixed_precision", "no"]
    command += [
        "--dynamo_backend",
        "no",
        "--num_cpu_threads_per_process",
        "1",
        "--main_process_port",
        "0",
    ]
    return subprocess.Popen(
        [*command, "-m", "tests.trainer.replayed", str(run), "--config", str(config)],
        env=replaying(drawn, given),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ranks_of(
    run: Path,
    config: Path,
    processes: int = 2,
    meanwhile: Callable[[list[forked.Process]], None] = lambda _: None,
) -> tuple[set[int], str]:
    """Their exit codes, and what they said: processes with what `accelerate launch` tells them,
    without its own start and theirs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        tempfile.TemporaryFile("w+") as said,
        Path(os.devnull).open("r+b") as nothing,
        ExitStack() as stack,
    ):
        shared = {
            "WORLD_SIZE": str(processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        arguments = (str(run), "--config", str(config))
        started = []
        for rank in range(processes):
            env = {
                **os.environ,
                **shared,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "OMP_NUM_THREADS": "1",
            }
            child = forked.Process(
                "rods.trainer", arguments, IMPORTS, (nothing, said, said), env=env
            )
            started.append(stack.enter_context(child))
        meanwhile(started)
        codes = {child.wait(600) for child in started}
        said.seek(0)
        return codes, said.read()


def policy(run: Path, step: int) -> dict[str, torch.Tensor]:
    (folder,) = (run / "checkpoints").glob(f"step_{step:08d}.a*")
    weights: dict[str, torch.Tensor] = load_file(folder / "policy" / "model.safetensors")
    return weights


def messages(run: Path, step: int) -> list[list[dict[str, str]]]:
    """What each rollout of the step read and wrote."""
    (file,) = (run / "traces").glob(f"step_{step:08d}.a*")
    return [
        orjson.loads(line)["messages"] for line in gzip.decompress(file.read_bytes()).splitlines()
    ]


def versions(run: Path, step: int) -> set[str]:
    return {group["interface"] for group in live_steps(run)[step - 1][2]}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_train_as_one_would_until_they_are_stopped_and_one_goes_on(
    tmp_path: Path,
) -> None:
    """What is shown is rank 0's to say, which alone reads logs: texts of agents at the merge, and
    the labels of step 1, which change the interface of step 2."""
    stage = {
        "reward": "format",
        "expand": False,
        "feedback": "agents",
        "interface": "seal-full",
        "evolve": "all",
    }
    brief = {
        key: BRIEF[key]
        for key in ("training.learning_rate", "training.optimizer", "training.advantage_hook")
    }
    changes = NANO | brief | {"curriculum.stages": [stage], "training.steps": 6}
    config = write_config(tmp_path / "c.toml", changes)
    limited = write_config(tmp_path / "limited.toml", changes | {"operation.step_limit": 2})
    alone = tmp_path / "alone"
    both = tmp_path / "both"
    for run in (alone, both):
        parsed = read_config(config)
        create_run(run, parsed, load_tasks(parsed.data, run))
        writer = LogWriter(run / FEEDBACK)
        for tool, pattern in (
            ("move_event", "no such event"),
            ("invite_guest", "no such event"),
            ("find_event", "no such event"),
            ("transfer_money", "same account"),
            ("pay_bill", "no such bill"),
        ):
            writer.append(
                approval(
                    tool, pattern, f"What this is called may have to be looked up before {tool}."
                )
            )
        writer.close()
    given = tmp_path / "alone.drawn"
    drawn = tmp_path / "both.drawn"
    assert train_replayed(alone, limited, given).returncode == EXIT_REQUEUE
    start = policy(alone, 0)
    one = policy(alone, 1)
    process = launch(both, config, drawn, given)
    try:
        while process.poll() is None and len(live_steps(both)) < 2:
            time.sleep(0.1)
        two = policy(both, 1)
        os.kill(process.pid, signal.SIGTERM)
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    last = max(step for step, *_ in live_steps(both))
    assert 2 <= last < 6 and policy(both, last), said[-3000:]  # a checkpoint of the very last step
    # the same tasks, the same draws, in the same order
    assert live_steps(both)[0] == live_steps(alone)[0]
    moved = sum(float((one[name] - start[name]).square().sum()) for name in one)
    apart = sum(float((one[name] - two[name]).square().sum()) for name in one)
    assert moved > 0 and apart < moved / 100  # the same update, but for the order of sums
    assert drift(given, drawn) < 0.1  # what step 2 draws comes of the update
    assert "may have to be looked up before" in str(messages(both, 1))
    for step in (1, 2):
        assert messages(alone, step) == messages(both, step)
        assert versions(alone, step) == versions(both, step) and len(versions(both, step)) == 1
    assert (
        versions(both, 1) != versions(both, 2)
        and messages(both, 1)[0][0] != messages(both, 2)[0][0]
    )
    assert train(both, config).returncode == EXIT_OK
    assert [step for step, *_ in live_steps(both)] == [1, 2, 3, 4, 5, 6]
    assert verify(both).ok
    codes, said = ranks_of(both, config)
    # it is finished, and stays so
    assert codes == {EXIT_OK} and len(live_steps(both)) == 6, said[-3000:]


def test_what_the_first_process_does_alone_may_take_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(ranks, "PartialState", lambda **options: given.update(options) or Mock())
    Ranks()
    longest = max(HANGS * MOST_HANGING, WEIGHTS_LOADED, Operation().deadline_seconds)
    assert given["timeout"].total_seconds() > longest


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_variants_reach_all_processes(tmp_path: Path) -> None:
    live = {name: value for name, value in SMALL.items() if name != "curriculum.stages"} | COMMON
    changes = live | {"sync": "lockstep", "training.batch_tasks": 4, "training.steps": 5} | ANY_SEED
    config = write_config(tmp_path / "c.toml", changes)
    path = tmp_path / "run"
    with Daemon(path, "--config", str(config)):
        codes, said = ranks_of(path, config)
    assert codes == {EXIT_OK}, said[-3000:]
    assert [step for step, *_ in live_steps(path)] == [1, 2, 3, 4, 5], said[-3000:]
    run = Run.open(path)
    pool = read_state(run).pool_at(1)
    variants = {member.task_id for member in pool.generated}
    order = [slot.task_id for slot in recorded_slots(run, pool)]
    visited = [
        group["task"] for _, epoch, groups in live_steps(path) if epoch == 1 for group in groups
    ]
    assert variants and visited == order[: len(visited)]
    assert variants & set(visited)
    assert verify(path).ok


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.few(1)
@pytest.mark.parametrize("lost", [0, 1])
def test_a_process_that_is_lost_ends_the_others_and_the_same_command_goes_on(
    tmp_path: Path, lost: int
) -> None:
    """Each could be on a machine of its own: they share the folder, and what goes through
    torch.distributed."""
    config = write_config(tmp_path / "c.toml", SMALL | {"training.checkpoint_steps": 1})
    path = tmp_path / "run"

    def lose(started: list[forked.Process]) -> None:
        while not path.exists() or not list((path / "checkpoints").glob("step_00000001.*")):
            assert started[0].poll() is None
            time.sleep(0.05)
        started[lost].kill()

    codes, said = ranks_of(path, config, meanwhile=lose)
    assert -signal.SIGKILL in codes and len(codes) == 2 and EXIT_OK not in codes, said[-3000:]
    assert verify(path).ok
    codes, said = ranks_of(path, config)
    assert codes == {EXIT_OK}, said[-3000:]
    assert [step for step, *_ in live_steps(path)] == [1, 2, 3] and verify(path).ok


def test_processes_that_disagree_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks()
    ranks.agree("an order")
    monkeypatch.setattr(ranks, "gathered", lambda part: [*part, "another order"])
    with pytest.raises(RuntimeError, match="disagree about the order"):
        ranks.agree("an order")


def test_a_batch_that_does_not_split_over_the_processes_is_refused(tmp_path: Path) -> None:
    changes = SMALL | {"training.batch_tasks": 3, "rollouts.rollouts_per_task": 3}
    run = tmp_path / "run"
    codes, said = ranks_of(run, write_config(tmp_path / "c.toml", changes))
    assert codes == {EXIT_USER}
    assert "9 sequences a step do not split over 2 processes" in said
    assert not list(live_steps(run)) and Run.open(run)
