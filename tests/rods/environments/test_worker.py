"""The worker that can be killed, with functions that misbehave for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from rods.environments.workers.worker import Overrun, Worker, WorkerSpec
from rods.errors import InfrastructureError

FUNCTIONS = "tests.rods.environments.misbehaving:"


@pytest.fixture
def worker():
    made = Worker(WorkerSpec(FUNCTIONS + "do", seconds=0.5, memory=512 << 20, reply_bytes=100_000))
    made.open()
    yield made
    made.close()


def test_requests_are_answered_by_one_process(worker):
    assert worker.call({"do": "echo", "value": [1, {"a": None}]}) == [1, {"a": None}]
    pid = worker.pid
    assert worker.call({"do": "pid"}) == pid != os.getpid()


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        ({"do": "loop"}, "timeout"),
        ({"do": "power"}, "timeout"),
        ({"do": "memory"}, "too_large"),
        ({"do": "reply"}, "too_large"),
        ({"do": "stack"}, "crashed"),
        ({"do": "exit"}, "crashed"),
    ],
    ids=lambda value: str(value),
)
def test_what_runs_away_is_ended_within_a_second_and_replaced(worker, request_, kind):
    start = time.perf_counter()
    with pytest.raises(Overrun) as raised:
        worker.call(request_)
    assert time.perf_counter() - start < 20  # and not never: a crowded machine takes its time
    assert raised.value.kind == kind
    assert worker.call({"do": "echo", "value": 1}) == 1


@pytest.fixture
def counting():
    made = Worker(WorkerSpec(FUNCTIONS + "do", seconds=0.5, memory=512 << 20, cpu=True))
    made.open()
    yield made
    made.close()


def test_a_request_that_waits_for_a_processor_is_not_ended_where_its_own_time_counts(counting):
    pid = counting.pid
    stopped = threading.Timer(0.1, os.kill, (pid, signal.SIGSTOP))
    going_on = threading.Timer(1.5, os.kill, (pid, signal.SIGCONT))
    for timer in (stopped, going_on):
        timer.start()
    start = time.perf_counter()
    assert counting.call({"do": "sleep", "seconds": 0.3}) is None and counting.pid == pid
    assert time.perf_counter() - start > 1.0, "three times what it may compute"


@pytest.mark.parametrize("request_", [{"do": "loop"}, {"do": "power"}], ids=str)
def test_what_computes_for_too_long_is_ended_by_its_own_time(counting, request_):
    for _ in range(2):
        with pytest.raises(Overrun, match="of computing") as raised:
            counting.call(request_)
        assert raised.value.kind == "timeout"
    assert counting.call({"do": "echo", "value": 1}) == 1


def test_what_gives_no_answer_without_computing_is_the_machine_s_fault(counting, monkeypatch):
    monkeypatch.setattr("rods.environments.workers.child.WORKER_STALLED", 0.5)
    with pytest.raises(InfrastructureError, match="gave no answer"):
        counting.call({"do": "sleep", "seconds": 60})
    assert counting.call({"do": "echo", "value": 1}) == 1


@pytest.mark.parametrize("slowly", ["read_slowly", "write_slowly"])
def test_the_deadline_is_that_of_the_whole_request_however_steadily_it_goes_on(worker, slowly):
    size = 4_000_000
    patient = Worker(
        WorkerSpec(FUNCTIONS + "do", seconds=0.5, memory=512 << 20, reply_bytes=size + 100)
    )
    patient.call({"do": slowly})
    generation = patient.generation
    with pytest.raises(Overrun) as raised:
        patient.call({"do": "echo", "value": "x" * size})
    assert raised.value.kind == "timeout"
    assert patient.generation == generation + 1
    patient.close()


def test_a_killed_process_is_gone(worker):
    before = worker.pid
    with pytest.raises(Overrun):
        worker.call({"do": "loop"})
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert worker.pid != before


def test_exceptions_come_back_as_text_and_keep_the_process(worker):
    pid = worker.pid
    with pytest.raises(RuntimeError, match="ValueError: no such luck"):
        worker.call({"do": "raise"})
    with pytest.raises(RuntimeError, match="RecursionError"):
        worker.call({"do": "recursion"})
    assert worker.pid == pid


def test_what_a_function_prints_does_not_disturb_the_protocol(worker, capfd):
    assert worker.call({"do": "print"}) == "printed"
    assert worker.call({"do": "echo", "value": 2}) == 2


def test_secrets_of_the_environment_stay_outside(monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    worker = Worker(WorkerSpec(FUNCTIONS + "do"))
    assert "API_KEY" not in worker.call({"do": "environment"})
    worker.close()


def test_threads_wait_for_each_other(worker):
    found = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(worker.call({"do": "echo", "value": n})))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(20))


def test_a_target_that_cannot_be_imported_is_the_machinery_s_failure():
    with pytest.raises(InfrastructureError, match="did not start"):
        Worker(WorkerSpec("tests.rods.environments.misbehaving:nothing")).call({})


def test_a_fork_starts_a_process_of_its_own(worker):
    child = os.fork()
    if child == 0:
        before = worker.pid
        mine = worker.call({"do": "pid"})
        worker.close()
        os._exit(0 if mine not in (before, os.getpid()) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert worker.call({"do": "echo", "value": 3}) == 3


def test_the_process_ends_with_its_parent():
    code = (
        "from rods.environments.workers.worker import WorkerSpec, Worker; import os;"
        f"w = Worker(WorkerSpec('{FUNCTIONS}do')); print(w.call({{'do': 'pid'}}), flush=True); "
        f"os._exit(1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    for _ in range(50):
        if _state(pid) in ("gone", "Z"):
            return
        time.sleep(0.1)
    raise AssertionError("the worker outlived its parent")


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return "gone"


def test_an_interpreter_that_this_user_may_not_run_is_named(tmp_path):
    """As where it lies in root's own folder, and an ordinary user starts workers."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "python").symlink_to(sys.executable)
    told = """
        import os, sys
        from rods.environments.workers.child import Child, WorkerSpec
        from rods.errors import UserError
        sys.executable = sys.argv[1]
        if not os.getuid():
            os.setuid(65534)
        try:
            Child(WorkerSpec("tests.rods.environments.misbehaving:do"))
        except UserError as error:
            print(error)
    """
    closed.chmod(0)
    try:
        script = textwrap.dedent(told)
        done = subprocess.run(
            [sys.executable, "-c", script, str(closed / "python")],
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        closed.chmod(0o700)
    assert "this user may not run " in done.stdout and "→ install Python" in done.stdout, (
        done.stderr
    )
