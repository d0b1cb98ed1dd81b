"""The job scripts under bash. Slurm is their environment, its signal, and a `scontrol` that takes
notes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import torch

from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.heartbeat import read_heartbeat
from rods.buffers.run.runfolder import EXPANDED
from rods.config import Endpoint, addresses
from rods.console.main import run as rods
from rods.errors import EXIT_OK
from rods.llm import Client
from rods.trainer.engines.served import VllmServers
from tests.parts import ROOT
from tests.rods.llm.conftest import ask
from tests.trainer.runs import BRIEF, live_steps, write_config
from tests.trainer.test_ranks import policy, ranks_of

SCRIPTS = Path(__file__).parents[2] / "experiments" / "slurm"


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """The environment of a job: `rods-train` and `rods-daemon` of this installation, and the notes
    of `scontrol`."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, module in (("rods-train", "trainer"), ("rods-daemon", "daemon")):
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rods.{module} "$@"\n')
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/scontrol.txt"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    changes = {
        "training.steps": 300,
        "operation.steps_per_second": 60.0,
        "training.checkpoint_steps": 100,
    }
    return {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "4711",
        "RUN": str(tmp_path / "run"),
        "CONFIG": str(write_config(tmp_path / "c.toml", changes)),
    }


def start(name: str, slurm: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", SCRIPTS / name],
        env=slurm,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def until(process: subprocess.Popen[str], run: Path, name: str, states: set[str]) -> None:
    deadline = time.monotonic() + 100
    while read_heartbeat(run, name).get("state") not in states:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_warned_trainer_checkpoints_is_requeued_and_finishes(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    job = start("trainer.sbatch", slurm)
    until(job, run, "trainer", {"training"})
    assert read_heartbeat(run, "trainer")["job"] == "4711"
    job.send_signal(signal.SIGUSR1)  # to the script alone, as `--signal=B:` has it
    said, _ = job.communicate(timeout=100)
    assert job.returncode == 5 and "code 5" in said
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 4711\n"
    checkpoints = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert len(checkpoints) > 1
    again = start("trainer.sbatch", slurm)
    again.communicate(timeout=100)
    assert again.returncode == 0
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 4711\n"
    assert rods(["verify", str(run)]) == 0


@pytest.mark.slow
def test_a_warned_launcher_s_first_process_is_told_and_the_job_is_requeued(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    """The launcher would end its processes; what it says about their end is 1."""
    launcher = tmp_path / "bin" / "accelerate"
    started = 'while [ "$1" != rods.trainer ]; do shift; done\nshift'
    launcher.write_text(
        f'#!/bin/sh\ntrap "exit 9" USR1 TERM\n{started}\nrods-train "$@" &\nwait $! || exit 1\n'
    )
    launcher.chmod(0o755)
    run = tmp_path / "run"
    job = start("trainer.sbatch", {**slurm, "ACCELERATE": "fsdp2.yaml", "SLURM_GPUS_ON_NODE": "8"})
    until(job, run, "trainer", {"training"})
    job.send_signal(signal.SIGUSR1)
    said, _ = job.communicate(timeout=100)
    assert job.returncode == 1 and "code 1" in said
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 4711\n"
    assert len(list((run / "checkpoints").iterdir())) > 1


@pytest.mark.numeric
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_nodes_train_as_two_processes_of_one_would(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    """A launcher of accelerate on each, over the loopback: `srun` starts the command once a
    node."""
    program = f'exec "{sys.executable}" -m accelerate.commands.accelerate_cli "$@"'
    for name, lines in {
        "accelerate": f'echo "$@" >> "{tmp_path}/launched.txt"\n{program}',
        "srun": 'while [ "$1" != bash ]; do shift; done\n'
        'SLURM_NODEID=0 "$@" &\nSLURM_NODEID=1 "$@" &\nwait %2 && wait %1',
    }.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{lines}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    # which knows of one machine: how many there are is the job's to say
    how = tmp_path / "two.yaml"
    how.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: "
        "1\nnum_processes: 2\n"
    )
    config = write_config(tmp_path / "brief.toml", BRIEF | {"training.steps": 2})
    with socket.create_server(("127.0.0.1", 0)) as free:
        meeting = {"HOST": "127.0.0.1", "PORT": str(free.getsockname()[1])}
    job = {
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_GPUS_ON_NODE": "1",
        "ACCELERATE": str(how),
        "OMP_NUM_THREADS": "1",
    }
    process = start("trainer.sbatch", {**slurm, **job, **meeting, "CONFIG": str(config)})
    said, _ = process.communicate(timeout=800)
    assert process.returncode == 0, said[-3000:]
    launched = (tmp_path / "launched.txt").read_text().splitlines()
    assert sorted(line.partition("--machine_rank ")[2][0] for line in launched) == ["0", "1"]
    assert all("--num_machines 2" in line and "--num_processes 2" in line for line in launched)
    both = tmp_path / "run"
    one = tmp_path / "one"
    codes, said = ranks_of(one, config)
    assert codes == {EXIT_OK}, said[-3000:]
    assert live_steps(both) == live_steps(one) and len(live_steps(one)) == 2
    start_weights = policy(one, 0)
    first = policy(one, 2)
    second = policy(both, 2)
    assert any(not torch.equal(start_weights[name], first[name]) for name in first)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert verify(both).ok


@pytest.mark.slow
def test_a_warned_daemon_leaves_and_is_requeued(slurm: dict[str, str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert rods(["trainer", "new", str(run), "--config", slurm["CONFIG"]]) == 0
    job = start("daemon.sbatch", slurm)
    until(job, run, "daemon", {"idle", "no seeds", "working"})
    job.send_signal(signal.SIGUSR1)
    job.communicate(timeout=60)
    assert job.returncode == 0
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 4711\n"


@pytest.mark.needs("ray_cluster")
@pytest.mark.sweep  # tests/family/ray_cluster: a cluster without SLURM
@pytest.mark.timeout(600)
def test_a_daemon_on_three_nodes_computes_on_its_own_cluster_and_goes_on_when_requeued(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    """Nodes of Ray on the loopback, in three processes: `srun` starts the command once a node."""
    pytest.importorskip("ray")
    lines = 'while [ "$1" != "$RAY" ]; do shift; done\n"$@" & one=$!\n"$@" & two=$!\n'
    lines += "trap 'kill $one $two' TERM\nwait $one $two\nwait $one $two"
    (tmp_path / "bin" / "srun").write_text(f"#!/bin/bash\n{lines}\n")
    (tmp_path / "bin" / "srun").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    job = {
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_PER_TASK": "1",
        "HOST": "127.0.0.1",
        "PORT": port,
    }
    changes = {"training.steps": 40, "operation.compute": "ray", "operation.compute_places": 2}
    config = write_config(tmp_path / "ray.toml", changes)
    slurm = {
        **slurm,
        **job,
        "RAY": str(Path(sys.executable).with_name("ray")),
        "CONFIG": str(config),
    }
    run = tmp_path / "run"
    assert rods(["trainer", "new", str(run), "--config", str(config)]) == 0
    wrote = 0
    for steps in ("20", "0"):  # 0: to the end
        daemon = start("daemon.sbatch", slurm)
        until(daemon, run, "daemon", {"idle", "no seeds", "working"})
        limited = write_config(
            tmp_path / f"{steps}.toml", changes | {"operation.step_limit": int(steps)}
        )
        trainer = start(
            "trainer.sbatch", {**slurm, "SLURM_JOB_NUM_NODES": "1", "CONFIG": str(limited)}
        )
        trainer.communicate(timeout=100)
        deadline = time.monotonic() + 200
        while len(list(read(run / EXPANDED))) <= wrote:
            assert daemon.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        wrote = len(list(read(run / EXPANDED)))
        assert (read_heartbeat(run, "daemon") or {})["compute"]["places"] == 2
        daemon.send_signal(signal.SIGUSR1)
        daemon.communicate(timeout=100)
        assert daemon.returncode == 0
        with pytest.raises(OSError):  # the cluster has gone with its job
            socket.create_connection(("127.0.0.1", int(port)), 1.0).close()
    # the trainer's, at its limit, among them
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 4711\n" * 3
    assert rods(["verify", str(run), "--replay"]) == 0


@pytest.mark.slow
def test_bad_input_ends_the_job(slurm: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[training]\nstep = 3\n")
    job = start("trainer.sbatch", slurm)
    job.communicate(timeout=60)
    assert job.returncode == 2
    assert not (tmp_path / "scontrol.txt").exists()


VLLM = """#!{python}
# What a job sees of `vllm serve`: a server that answers after a moment, at the address of the
# command line.
import sys, time, os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")
given = dict(zip(sys.argv, sys.argv[1:]))
with open("{folder}/asked.txt", "a") as file:
    print(os.environ.get("VLLM_SERVER_DEV_MODE", "0"), *sys.argv[1:], file=file)
time.sleep(0.5)
HTTPServer((given["--host"], int(given["--port"])), Handler).serve_forever()
"""


def named(file: Path, count: int, *jobs: subprocess.Popen[str]) -> list[str]:
    """The addresses in `file`, once they are `count`."""
    deadline = time.monotonic() + 60
    while True:
        found = addresses(file.read_text()) if file.exists() else []
        if len(found) == count:
            return found
        assert time.monotonic() < deadline and all(job.poll() is None for job in jobs)
        time.sleep(0.1)


@pytest.mark.slow
def test_model_servers_write_their_addresses_where_the_run_reads_them(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    """Two jobs on one node share the file; a warned one leaves it and is requeued, a server that
    dies leaves it too."""
    program = tmp_path / "bin" / "vllm"
    file = tmp_path / "policy.url"
    program.write_text(VLLM.format(python=sys.executable, folder=tmp_path))
    program.chmod(0o755)
    environment = {
        **slurm,
        "MODEL": "/models/a b",
        "ADDRESS": str(file),
        "HOST": "127.0.0.1",
        "ROLLOUTS": "yes",
    }
    command = ["bash", str(SCRIPTS / "vllm.sbatch"), "--max-model-len", "4096"]
    first = subprocess.Popen(
        command, env={**environment, "NAME": "policy"}, stdout=subprocess.PIPE, text=True
    )
    (one,) = named(file, 1, first)
    with urllib.request.urlopen(f"{one.removesuffix('/v1')}/health", timeout=10) as answer:
        assert answer.status == 200
    second = subprocess.Popen(
        command, env={**environment, "ROLLOUTS": ""}, stdout=subprocess.PIPE, text=True
    )
    _, two = named(file, 2, first, second)
    assert one != two  # the port of the first was taken
    endpoint = Endpoint(model="policy", url_file=str(file))
    assert [f"{base}/v1" for base in VllmServers(endpoint).bases()] == [one, two]
    first.send_signal(signal.SIGUSR1)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 0 and f"{one} serves policy" in said
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 4711\n"
    assert named(file, 1, second) == [two]
    (server,) = Path(f"/proc/{second.pid}/task/{second.pid}/children").read_text().split()[:1]
    os.kill(int(server), signal.SIGKILL)
    second.communicate(timeout=60)
    assert second.returncode == 128 + signal.SIGKILL and named(file, 0) == []
    assert (tmp_path / "scontrol.txt").read_text() == "requeue 4711\n"
    rolls, writes = (tmp_path / "asked.txt").read_text().splitlines()
    assert (
        rolls.startswith("1 serve /models/a b --host 127.0.0.1")
        and "--served-model-name policy" in rolls
    )
    assert "--logprobs-mode processed_logprobs --max-model-len 4096" in rolls
    assert writes.startswith("0 serve") and "--logprobs-mode" not in writes


ANSWERING = """#!{python}
import signal, sys
sys.path.insert(0, "{root}")
from bench.fixtures.llm_stub import Script, Stub
given = dict(zip(sys.argv, sys.argv[1:]))
server = Stub(Script(latency=0.2, slots=4), port=int(given["--port"]))
signal.pause()
"""


def answered(base: str) -> int:
    with urllib.request.urlopen(f"{base.removesuffix('/v1')}/stub/counts", timeout=10) as told:
        return int(json.loads(told.read()).get("good", 0))


@pytest.mark.slow
async def test_an_array_of_model_servers_answers_one_client_and_a_part_of_it_is_requeued(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "vllm"
    file = tmp_path / "writer.url"
    program.write_text(ANSWERING.format(python=sys.executable, root=ROOT))
    program.chmod(0o755)

    def part(number: int, tries: int = 0) -> subprocess.Popen[str]:
        """Started again it has the id that it had, and another address."""
        own = {
            "SLURM_JOB_ID": str(4700 + number),
            "SLURM_ARRAY_JOB_ID": "4700",
            "SLURM_ARRAY_TASK_ID": str(number),
        }
        own |= {"SLURM_RESTART_COUNT": str(tries), "PORT": str(24_700 + number + 10 * tries)}
        more = {"MODEL": "stub", "ADDRESS": str(file), "HOST": "127.0.0.1"}
        return subprocess.Popen(
            ["bash", SCRIPTS / "vllm.sbatch"], env={**slurm, **more, **own}, text=True
        )

    parts = {number: part(number) for number in (1, 2)}
    first = named(file, 2, *parts.values())
    writer = Endpoint(model="stub", url_file=str(file), concurrency=16, retry_seconds=60.0)
    async with Client([writer]) as client:
        asked = [asyncio.create_task(client.complete(ask())) for _ in range(300)]
        while sum(task.done() for task in asked) < 30:  # noqa: ASYNC110 — nothing tells
            await asyncio.sleep(0.05)
        parts[1].send_signal(signal.SIGUSR1)
        assert await asyncio.to_thread(parts[1].wait, 60) == 0
        assert (tmp_path / "scontrol.txt").read_text() == "requeue 4701\n"
        (stays,) = named(file, 1, parts[2])
        parts[1] = part(1, tries=1)
        answers = await asyncio.wait_for(asyncio.gather(*asked), 120)
        assert all(answer.whole for answer in answers)
        now = await asyncio.to_thread(named, file, 2, *parts.values())
        assert stays in first and stays in now and set(now) != set(first)
        for base in now:
            assert await asyncio.to_thread(answered, base) > 0, f"{base} answered nothing"
    for job in parts.values():
        job.terminate()
        job.wait(60)


@pytest.mark.parametrize("name", ["trainer.sbatch", "daemon.sbatch", "vllm.sbatch"])
def test_bash_reads_a_script_and_slurm_s_own_lines_stand_before_its_first_command(
    name: str,
) -> None:
    subprocess.run(["bash", "-n", SCRIPTS / name], check=True)
    lines = (SCRIPTS / name).read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line and line[0] != "#")
    options = [number for number, line in enumerate(lines) if line.startswith("#SBATCH ")]
    assert lines[0] == "#!/bin/bash" and max(options) < first
    assert any("--signal=B:USR1@" in line for line in lines)
