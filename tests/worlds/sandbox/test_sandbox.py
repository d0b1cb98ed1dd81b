"""Confined environments: the seam as anywhere, and what happens to worlds when their process is
lost."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rods import dialects
from rods.calls import Call
from rods.config import Sandbox
from rods.environments.base import checks, reference
from rods.environments.loading import Environments
from rods.environments.workers.child import Child, WorkerSpec
from rods.environments.workers.worker import Worker
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply, Trace
from rods.episode.goals import GroundTruth
from rods.errors import InfrastructureError, Unsupported, UserError
from rods.gates.ground_truth import replay
from rods.tasks import Task
from rods.worlds.desk import fresh_tasks
from rods.worlds.sandbox import confined as module
from rods.worlds.sandbox.confined import TIERS, Offer, Tier, confined, confinement, offered, reaches
from rods.worlds.sandbox.environment import Sandboxed
from rods.worlds.sandbox.host import TARGET as HOST
from rods.worlds.sandbox.process_pool import start
from tests.environments import load
from tests.faults.hostile import FACTORY as HOSTILE
from tests.rods import toy_environment
from tests.worlds.sandbox.tiers import require_tier
from tests.worlds.small_tasks import small_worlds

TOY = "tests.rods.toy_environment:"
HANG = Call("run", {"code": "while True: pass", "given": {}})
DIE = Call("run", {"code": "import os; os._exit(1)", "given": {}})
COUNT = Call("count", {})


@pytest.fixture(autouse=True, scope="module")
def lockable() -> None:
    """Nothing here runs on a machine that cannot lock a process in."""
    require_tier("landlock")


@pytest.fixture(scope="module")
def toy() -> Iterator[Sandboxed]:
    made = confined(TOY + "environment", Sandbox(seconds=30.0))
    yield made
    made.close()


@pytest.fixture(scope="module")
def hostile() -> Iterator[Sandboxed]:
    made = confined(HOSTILE, Sandbox(seconds=1.0))
    for cell in made._cells:
        cell.worker.open()
    yield made
    made.close()


def test_it_is_the_same_environment_as_in_process(toy: Sandboxed) -> None:
    here = toy_environment.environment()
    assert (toy.name, toy.hash, toy.features, toy.tools()) == (
        here.name,
        here.hash,
        here.features,
        here.tools(),
    )
    one = toy.reset(None)
    other = here.reset(None)
    for call in (
        Call("write", {"title": "a", "body": "b"}),
        Call("titles", {}),
        Call("read", {"note_id": 101}),
        Call("read", {"note_id": 10**30}),
        Call("read", {"note_id": float("inf")}),
        Call("write", {"title": "a", "body": ["x"]}),
        Call("nothing", {}),
    ):
        assert one.call(call) == other.call(call)
    assert one.snapshot() == other.snapshot()


def test_worlds_fork_compare_and_come_back_from_snapshots(toy: Sandboxed) -> None:
    world = toy.reset(None)
    world.call(Call("count", {"name": "x"}))
    fork = world.fork()
    assert fork.same_state(world) and world.same_state(fork)
    fork.call(Call("count", {"name": "x"}))
    assert not fork.same_state(world)
    again = toy.reset(fork.snapshot())
    assert again.same_state(fork) and fork.same_state(again)  # wherever each of them lives
    assert not world.same_state(toy_environment.environment().reset(None))


def test_refusals_are_those_of_the_environment(toy: Sandboxed, hostile: Sandboxed) -> None:
    with pytest.raises(ValueError):
        hostile.reset({"count": "many"})
    plain = confined(TOY + "modest", Sandbox(workers=1, seconds=30.0))
    world = plain.reset(None)
    with pytest.raises(Unsupported):
        world.snapshot()
    plain.close()


def test_what_it_raises_anywhere_but_in_reset_is_the_machinery_s_failure() -> None:
    environment = confined(HOSTILE, Sandbox(seconds=30.0, workers=1))
    world = environment.reset(None)
    other = environment.reset(None)
    # the latter of abilities that it declares
    for raised in ("ValueError('odd')", "Unsupported('odd')"):
        code = (
            "from tests.faults import hostile\nfrom rods.errors import Unsupported\n"
            f"def odd(*_): raise {raised}\n"
            "for name in ('fork', 'snapshot', 'same_state'): setattr(hostile.World, name, odd)"
        )
        assert world.call(Call("run", {"code": code, "given": {}})).error is None
        for action in (world.fork, world.snapshot, lambda: world.same_state(other)):
            with pytest.raises(InfrastructureError, match="odd"):
                action()
    assert world.call(COUNT).value == 1
    environment.close()


def test_a_state_that_it_refuses_once_a_world_is_made_anew_is_the_machinery_s_failure() -> None:
    environment = confined(HOSTILE, Sandbox(seconds=30.0, workers=1))
    world = environment.reset({"count": 5})
    (cell,) = environment._cells
    cell.worker.discard(cell.worker.generation)
    code = (
        "from tests.faults import hostile\ndef odd(*_): raise "
        "ValueError('odd')\nhostile.Hostile.reset = odd"
    )
    environment.reset(None).call(Call("run", {"code": code, "given": {}}))
    with pytest.raises(InfrastructureError, match="odd"):
        world.call(COUNT)
    with pytest.raises(ValueError, match=r"^odd$"):
        environment.reset({"count": 5})
    environment.close()


def test_a_snapshot_may_have_any_keys() -> None:
    environment = confined(HOSTILE, Sandbox(seconds=30.0, workers=1))
    world = environment.reset(None)
    code = (
        "from tests.faults import hostile\nhostile.World.snapshot = lambda world: {'refused': ['an "
        "order']}"
    )
    world.call(Call("run", {"code": code, "given": {}}))
    assert world.snapshot() == {"refused": ["an order"]}
    environment.close()


@pytest.mark.parametrize("tier", [tier for tier in TIERS if reaches(offered().tier, tier)])
def test_what_it_prints_is_for_nobody_and_holds_nothing_up(tier: Tier) -> None:
    environment = confined(
        HOSTILE, Sandbox(lowest_tier="limits", workers=1, seconds=30.0), tier=tier
    )
    world = environment.reset(None)
    code = (
        "import os, sys\n"
        "for stream in (sys.stdout, sys.stderr): print('noise' * 100_000, file=stream, "
        "flush=True)\n"
        "for number in (1, 2): os.write(number, b'noise')"
    )
    assert world.call(Call("run", {"code": code, "given": {}})).text == "done"
    environment.close()


HONEST = """
import asyncio, ctypes, os, socket, sqlite3, threading, time
import numpy
many = numpy.random.default_rng(0).normal(size=(200, 200))
numpy.linalg.svd(many @ many)
threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
async def work(): return await asyncio.to_thread(lambda: 3)
asyncio.run(work())
sqlite3.connect(':memory:').execute('select 1')
one, other = socket.socketpair()
one.settimeout(1)
one.sendall(b'a')
other.recv(1)
ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)()
time.process_time(), time.thread_time(), os.cpu_count(), os.sched_getaffinity(0)
os.fsync(os.open(os.__file__, os.O_RDONLY))
"""


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("tier", ["landlock", "bubblewrap"])
def test_honest_code_computes_with_arrays_threads_and_sockets(tier: Tier, cores: int) -> None:
    """How much of its address space threads take must not depend on the machine."""
    require_tier(tier)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        environment = confined(HOSTILE, Sandbox(workers=1, seconds=30.0), tier=tier)
    finally:
        os.sched_setaffinity(0, before)
    told = environment.reset(None).call(Call("run", {"code": HONEST, "given": {}}))
    assert told.text == "done"
    environment.close()


def test_a_confined_process_loads_nothing_large_by_itself() -> None:
    environment = confined(HOSTILE, Sandbox(workers=1, seconds=30.0))
    code = "import sys\nassert not {'pydantic', 'numpy', 'asyncio'} & set(sys.modules)"
    told = environment.reset(None).call(Call("run", {"code": code, "given": {}}))
    assert told.text == "done"
    environment.close()


def test_what_leaves_its_group_of_processes_is_ended_all_the_same() -> None:
    """The tier `limits` does not keep it from leaving."""
    environment = confined(
        HOSTILE, Sandbox(lowest_tier="limits", workers=1, seconds=1.0), tier="limits"
    )
    world = environment.reset(None)
    pid = environment._cells[0].worker.pid
    assert pid is not None
    code = "import os, time\nos.setpgid(0, os.getpgid(os.getppid()))\ntime.sleep(600)"
    with pytest.raises(InfrastructureError, match="timeout"):
        world.call(Call("run", {"code": code, "given": {}}))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert world.call(COUNT).value == 1
    environment.close()


def test_what_it_says_can_be_written_down_and_what_it_is_told_is_told_exactly(
    hostile: Sandboxed,
) -> None:
    world = hostile.reset(None)
    given = {"many": 2**70, "half": "\ud800", "endless": float("-inf"), "nothing": None}
    told = world.call(Call("run", {"code": "got = ascii(given)", "given": given}))
    assert told.text == ascii(given)
    said = world.call(Call("run", {"code": "got = 'a\\ud800b'", "given": {}}))
    assert said.text == "a?b"


def test_ground_truths_hold_and_episodes_run_in_it() -> None:
    desk = confined("rods.worlds.desk:environment", Sandbox(seconds=30.0, workers=1))
    assert reference(desk) == reference(load("desk")) and checks(desk) == checks(load("desk"))
    assert desk.reset(None).call(Call("file_exists", {"file": "plan"})).value is False
    tasks = [
        task
        for task, _ in zip((each for each, _ in fresh_tasks(3, "sandbox")), range(3), strict=False)
    ]
    assert not any(replay(desk, task) for task in tasks)
    traces = _played(desk, tasks)
    assert [trace.end for trace in traces] == ["finished"] * 3
    assert all(
        turn.verdict is not None and turn.verdict.resolved
        for trace in traces
        for turn in trace.turns
    )
    desk.close()


def _played(environment: Sandboxed, tasks: list[Task]) -> list[Trace]:
    """Episodes of a policy that writes the ground truth."""
    dialect = dialects.load("compact")
    jobs = [Job(task, environment, dialect, GroundTruth(environment, task)) for task in tasks]
    left = [
        [[dialect.write(calls), "done"] if calls else ["done"] for calls in task.calls]
        for task in tasks
    ]

    def complete(waiting):
        return [Reply(_next(left[index])) for index, _ in waiting]

    return run_lockstep(jobs, complete)


def _next(turns: list[list[str]]) -> str:
    while not turns[0]:
        turns.pop(0)
    return turns[0].pop(0)


@pytest.mark.parametrize("misdeed", [HANG, DIE], ids=["hangs", "dies"])
def test_what_hangs_or_dies_is_replaced_and_nobody_else_notices(
    hostile: Sandboxed, misdeed: Call
) -> None:
    culprit = hostile.reset(None)
    bystander = hostile.reset(None)
    for world in (culprit, bystander):
        assert [world.call(COUNT).value for _ in range(3)] == [1, 2, 3]
    with pytest.raises(InfrastructureError):
        culprit.call(misdeed)
    fork = bystander.fork()
    assert bystander.call(COUNT).value == 4 and fork.call(COUNT).value == 4
    assert culprit.call(COUNT).value == 4  # as if the call had not been made
    for _ in range(3):  # quicker than a spare one can be ready
        with pytest.raises(InfrastructureError):
            culprit.call(DIE)
    assert bystander.call(COUNT).value == 5 and bystander.same_state(bystander.fork())


def test_a_process_killed_from_outside_is_replaced_unnoticed(hostile: Sandboxed) -> None:
    world = hostile.reset(None)
    assert world.call(COUNT).value == 1
    for cell in hostile._cells:
        assert cell.worker.pid is not None
        os.kill(cell.worker.pid, signal.SIGKILL)
        assert select.select([_child(cell.worker)._pipe], [], [], 30)[0]  # it is gone
    assert world.call(COUNT).value == 2


def test_all_processes_may_be_lost_at_once_and_then_those_that_wait(hostile: Sandboxed) -> None:
    worlds = {
        id(world._cell): world for world in (hostile.reset({"count": 100 * n}) for n in range(50))
    }
    assert len(worlds) == len(hostile._cells)
    workers = [cell.worker for cell in hostile._cells]
    before = [world.call(COUNT).value for world in worlds.values()]
    waiting = [each.result() for each in hostile._spares._waiting]
    _kill([_child(worker) for worker in workers])
    assert [world.call(COUNT).value for world in worlds.values()] == [value + 1 for value in before]
    assert {worker._child for worker in workers} == set(waiting)  # nothing had to be started
    _kill([each.result() for each in hostile._spares._waiting])
    _kill([_child(worker) for worker in workers])
    assert [world.call(COUNT).value for world in worlds.values()] == [value + 2 for value in before]


def _child(worker: Worker) -> Child:
    assert worker._child is not None
    return worker._child


def _kill(children: list[Child]) -> None:
    for child in children:
        os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()


def test_an_episode_that_loses_its_process_ends_as_infrastructure() -> None:
    environment = confined(HOSTILE, Sandbox(seconds=1.0, workers=1))
    task = Task(reference(environment), "base", ("go",), ((COUNT,),), ("run", "count"))
    dialect = dialects.load("hermes")
    job = Job(task, environment, dialect, GroundTruth(environment, task))
    (trace,) = run_lockstep([job], lambda waiting: [Reply(dialect.write([DIE])) for _ in waiting])
    assert trace.end == "infrastructure"
    environment.close()


def test_worlds_that_cannot_be_repeated_are_lost_as_infrastructure() -> None:
    environment = confined(TOY + "honestly_nondeterministic", Sandbox(workers=1, seconds=30.0))
    world = environment.reset(None)
    world.call(Call("count", {"name": "x"}))
    environment._cells[0].worker.discard(environment._cells[0].worker.generation)
    with pytest.raises(InfrastructureError, match="lost"):
        world.call(Call("total", {}))
    assert environment.reset(None).call(Call("total", {})).error is None
    environment.close()


def test_threads_share_it(toy: Sandboxed) -> None:
    found: list[int] = []

    def work(number: int) -> None:
        world = toy.reset(None)
        for _ in range(20):
            world.call(Call("count", {"name": f"c{number}"}))
        found.append(world.call(Call("total", {})).value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20] * 8


def test_what_hangs_ends_with_its_parent() -> None:
    code = (
        "import os, threading, time;"
        "from rods.config import Sandbox; from rods.worlds.sandbox.confined import confined;"
        "from rods.calls import Call;"
        f"e = confined({HOSTILE!r}, Sandbox(seconds=600.0, workers=1)); w = e.reset(None);"
        "print(e._cells[0].worker.pid, flush=True);"
        f"threading.Thread(target=w.call, args=(Call('run', {HANG.arguments!r}),), "
        f"daemon=True).start();"
        "time.sleep(0.5); os._exit(1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout, done.stderr
    pid = int(done.stdout)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        threading.Event().wait(0.1)
    raise AssertionError("the worker outlived its parent")


@pytest.mark.slow
def test_processes_that_are_ended_while_they_start_leave_nothing_behind() -> None:
    for wait in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        spec = WorkerSpec(
            HOST,
            1.0,
            512 << 20,
            1 << 20,
            [[], "load", HOSTILE],
            confinement(HOSTILE, offered().tier),
        )
        child = start(spec).result()
        group = child.process.pid
        threading.Event().wait(wait)
        child.kill()
        for _ in range(100):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                break
            threading.Event().wait(0.1)
        else:
            raise AssertionError(f"something of it lives on, ended after {wait} s")


def test_a_factory_that_does_not_work_is_told_with_its_reason() -> None:
    with pytest.raises(InfrastructureError, match="has no 'nothing'"):
        confined(TOY + "nothing", Sandbox(workers=1))
    with pytest.raises(UserError, match="no module 'nowhere'"):
        confined("nowhere.at_all:environment", Sandbox())


def test_a_process_that_cannot_be_started_is_told_with_what_bubblewrap_says() -> None:
    require_tier("bubblewrap")
    with pytest.raises(InfrastructureError, match=r"bwrap: .*/nowhere"):
        confined(TOY + "environment", Sandbox(workers=1, readable=("/nowhere",)), tier="bubblewrap")


@pytest.mark.needs("bfcl")
def test_the_configuration_says_which_environments_are_confined() -> None:
    name = TOY + "environment"
    assert not isinstance(load(name), Sandboxed)
    with Environments(Sandbox(environments=(name,), workers=1)) as environments:
        confined = environments.load(name)
        assert isinstance(confined, Sandboxed) and environments.load(name) is confined
        assert not isinstance(environments.load("desk"), Sandboxed) and not isinstance(
            load(name), Sandboxed
        )
    with pytest.raises(UserError, match="in this process only"):
        Environments(Sandbox(environments=("bfcl",))).load("bfcl")


def test_a_machine_that_can_do_too_little_is_refused_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        module,
        "offered",
        lambda: Offer("limits", {"bubblewrap": "not installed", "landlock": "old"}),
    )
    with pytest.raises(UserError, match=r"only of tier 'limits'.*not installed.*lowest_tier"):
        confined(TOY + "environment", Sandbox(workers=1))
    made = confined(TOY + "environment", Sandbox(workers=1, lowest_tier="limits"))
    assert made.reset(None).call(Call("titles", {})).error is None
    made.close()


def test_bubblewrap_is_tried_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "not installed" in offered.__wrapped__().missing["bubblewrap"]
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/false")
    assert "refused" in offered.__wrapped__().missing["bubblewrap"]


def test_a_process_that_waits_has_imported_all_that_a_generated_world_needs(tmp_path: Path) -> None:
    [name] = small_worlds(tmp_path, 1)
    source = (tmp_path / name.partition(":")[0]).read_text(encoding="utf-8")
    program = """
import sys
from rods.worlds.sandbox.host import answer
answer([[], "prepare"])
known = set(sys.modules)
answer([[], "load", *sys.argv[1:]])
print(*sorted(name for name in set(sys.modules) - known if not name.endswith(".py")))
"""
    command = [sys.executable, "-c", program, name, source]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == ""
