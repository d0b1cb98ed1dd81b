"""What a trainer has to hold that takes part in a run by a stream (docs/trainers.md), as tests that
pytest collects:

    from rods.trainer.adapters.conformance import Conformance

    class TestMine(Conformance):
        trainer = "my_module:train"

`train(job: Job)` trains up to `job.steps` with the rewards that `job` gives in place of rollouts,
going on where it was, and raises what the stream raises. Each call runs in a process of its own, or
in `ranks` of them, which the suite kills before and behind calls of the stream. Beside each run
works the real daemon, in lockstep, so that the same rewards make the same run.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import IO, Any, ClassVar

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.run.creation import open_or_create
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, POOL
from rods.buffers.state import RunState, read_state
from rods.canonical import keyed_random
from rods.errors import EXIT_OK, UserError
from rods.functions import named_function
from rods.trainer.adapters.stream import TaskStream, open_stream

# the moment at which a process is killed: 2k − 1 before its k-th call of the stream, 2k behind it
NEVER = 0
# seconds in which the other ranks of one that is gone have to end, before they are killed
ENDS = 60.0
# what tells the records of two runs apart that went alike
CARRIED = ("seq", "id", "crc", "first", "attempt")
CONFIG = """sync = "lockstep"
data = { tasks = "desk", train = 8, held_out = 4 }
policy = { kind = "external", model = "conformance" }
rollouts = { rollouts_per_task = 4 }
training = { batch_tasks = 4, steps = 100 }
selection = { seeds_per_step = 4, exclusion_steps = 0 }
operation = { deadline_seconds = 120, poll_seconds = 0.05 }
"""


@dataclass(frozen=True)
class Job:
    """What a trainer is to do: train the run in the folder `run` up to step `steps`, with its own
    files in the folder `own`. `from_step`: take up its own state of that step, and say so to the
    stream. `lag`: its weights are so many updates behind (`policy_step`), where it can be. `kill`
    and `victim` are the suite's."""

    run: str
    own: str
    steps: int
    from_step: int | None = None
    lag: int = 0
    lost: tuple[tuple[int, int], ...] = ()  # (step, place)
    kill: int = NEVER
    victim: int = 0  # the process that is killed then; 0: the one that makes the call

    def rewards(self, step: int, place: int, task_id: str) -> list[float] | None:
        """What the four rollouts of a place's task earn, from 0 to 1; None where they got lost, and
        no group is to be reported. Raises UserError for a task in place of its id."""
        if not isinstance(task_id, str):
            raise UserError(
                f"a task is named by {task_id!r:.80}",
                where="rewards",
                remedy="give its id: drawn.task.id",
            )
        if (step, place) in self.lost:
            return None
        chance = keyed_random(0, "conformance", step, place, task_id)
        return [chance.randrange(5) / 4 for _ in range(4)]


class Conformance:
    """The tests. `trainer` names the function, module:function; `late`: whether it can train on
    rollouts of older weights; `ranks`: in how many processes together, told of each other as
    torchrun tells them (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), in one of the tests."""

    trainer: ClassVar[str]
    late: ClassVar[bool] = True
    ranks: ClassVar[int] = 1
    steps: ClassVar[int] = 3  # the third opens an epoch

    def process(self, job: Job, env: Mapping[str, str], output: IO[str]) -> Any:
        """Starts the trainer in a process of its own (a `subprocess.Popen`), which writes into
        `output`."""
        command = [sys.executable, "-m", __name__, self.trainer, orjson.dumps(asdict(job)).decode()]
        return subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )

    def start(self, job: Job, ranks: int = 1, victim: int = 0) -> tuple[list[int], str]:
        """Runs the trainer in so many processes, of which `job` kills the one of the rank `victim`;
        their exit codes, and what they said."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            shared = {
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free.getsockname()[1]),
            }
        started: dict[int, Any] = {}
        with tempfile.TemporaryFile("w+") as output, ExitStack() as stack:
            for rank in reversed(range(ranks)):  # the first one comes last: it kills the others
                env = (
                    {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                    if ranks > 1
                    else os.environ
                )
                own_job = replace(job, victim=started[victim].pid) if victim and not rank else job
                started[rank] = self.process(own_job, env, output)
                stack.callback(started[rank].wait)
                stack.callback(started[rank].kill)
            for rank in (victim, *range(ranks)):
                with suppress(subprocess.TimeoutExpired):  # one that hangs has no exit code
                    started[rank].wait(ENDS if job.kill and rank != victim else 600)
            output.seek(0)
            return [started[rank].returncode for rank in range(ranks)], output.read()

    def trained(self, job: Job, ranks: int = 1, victim: int = 0) -> Any:
        """What is on record once the trainer has done `job`, which is to be what was drawn and
        earned."""
        codes, output = self.start(job, ranks, victim)
        if job.kill:
            assert codes[victim] == -signal.SIGKILL, f"{job}:\n{output}"
            return None
        assert set(codes) == {EXIT_OK}, f"{job}:\n{output}"
        return recorded(job)

    def test_two_runs_with_the_same_rewards_are_the_same(self, tmp_path: Path) -> None:
        pools = []
        for name in ("one", "other"):
            with run_beside_daemon(tmp_path / name) as job:
                steps = self.trained(job(self.steps))
                pools.append(((Path(job(0).run) / POOL).read_bytes(), steps))
        assert pools[0] == pools[1]

    def test_a_kill_between_any_two_calls_changes_nothing(self, tmp_path: Path) -> None:
        with run_beside_daemon(tmp_path / "whole") as job:
            whole = self.trained(job(self.steps))
        for moment in range(2, 4 * self.steps):
            with run_beside_daemon(tmp_path / str(moment)) as job:
                self.trained(job(self.steps, kill=moment))
                assert self.trained(job(self.steps)) == whole, f"killed at moment {moment}"

    def test_ranks_train_as_one_process_does(self, tmp_path: Path) -> None:
        if self.ranks == 1:
            pytest.skip("this trainer is one process")
        with run_beside_daemon(tmp_path / "alone") as job:
            alone = self.trained(job(self.steps))
        # between two calls each of two ranks is killed once
        for moment in (NEVER, *range(2, 4 * self.steps)):
            with run_beside_daemon(tmp_path / str(moment)) as job:
                if moment:
                    self.trained(
                        job(self.steps, kill=moment),
                        self.ranks,
                        victim=(moment + 1) % 2 and self.ranks - 1,
                    )
                assert self.trained(job(self.steps), self.ranks) == alone, (
                    f"killed at moment {moment}"
                )

    def test_a_trainer_that_lost_its_own_files_repeats_what_it_did(self, tmp_path: Path) -> None:
        with run_beside_daemon(tmp_path) as job:
            whole = self.trained(job(self.steps))
            (tmp_path / "fresh").mkdir()
            assert self.trained(job(self.steps, own=str(tmp_path / "fresh"))) == whole

    def test_lost_groups_are_left_out(self, tmp_path: Path) -> None:
        with run_beside_daemon(tmp_path) as job:
            self.trained(job(self.steps, lost=((1, 0), (2, 1), (2, 3))))

    def test_late_groups_say_how_old_their_weights_are(self, tmp_path: Path) -> None:
        if not self.late:
            pytest.skip("this trainer waits for its rollouts")
        with run_beside_daemon(tmp_path) as job:
            self.trained(job(self.steps, lag=1))

    def test_a_trainer_that_goes_back_says_so(self, tmp_path: Path) -> None:
        with run_beside_daemon(tmp_path) as job:
            self.trained(job(self.steps))
            self.trained(job(self.steps, from_step=1))
            records = read_state(Run.open(Path(job(0).run))).records(OBSERVATIONS)
            back = [record["from_step"] for record in records if record["kind"] == "start"]
            assert 1 in back, (
                f"it was told to go back to step 1, and has begun behind the steps {back}"
            )

    def test_a_second_owner_is_refused_and_ends(self, tmp_path: Path) -> None:
        with run_beside_daemon(tmp_path) as job, open_stream(job(0).run):
            (code,), output = self.start(job(self.steps))
            assert code > 0 and "is being written by" in output, output


@contextmanager
def run_beside_daemon(folder: Path) -> Iterator[Callable[..., Job]]:
    """A new run in `folder`, beside which the daemon works; gives what makes jobs of it."""
    (folder / "own").mkdir(parents=True)
    (folder / "run.toml").write_text(CONFIG)
    open_or_create(folder / "run", folder / "run.toml")
    with (folder / "daemon.txt").open("wb") as errors:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "rods.daemon", str(folder / "run")], stderr=errors
        )
        try:
            folders = {"run": str(folder / "run"), "own": str(folder / "own")}
            yield lambda steps, **more: Job(**{**folders, **more}, steps=steps)
        finally:
            daemon.terminate()
            daemon.wait()


def recorded(job: Job) -> Any:
    """The pool and the groups of each step on record. Raises AssertionError where the groups are
    not what was drawn and earned, and where the logs do not agree."""
    run = Run.open(Path(job.run))
    findings = verify(run.path)
    assert findings.ok, f"`rods verify {run.path}` finds: {findings.problems}"
    steps = list(RunState(run).steps())
    assert [closed.step for closed in steps] == list(range(1, job.steps + 1)), (
        "a step is missing, or one too many"
    )
    with open_stream(run.path) as stream:
        for closed in steps:
            drawn = [(one.task.id, one.role, one.place) for one in stream.draw(closed.step)]
            rewards = [
                (task, role, job.rewards(closed.step, place, task)) for task, role, place in drawn
            ]
            wanted = [one for one in rewards if one[-1] is not None]
            groups = [
                (group.task, group.role, [each.reward for each in group.rollouts])
                for group in closed.groups
            ]
            lacking, wrong = (
                [one for one in a if one not in b] for a, b in ((wanted, groups), (groups, wanted))
            )
            what = (
                f"it lacks {lacking} and has {wrong} instead"
                if lacking or wrong
                else "another order, or one twice"
            )
            assert groups == wanted, (
                f"step {closed.step}: its groups are not what was drawn and earned: {what}"
            )
            age = closed.step - 1 - closed.record["policy_step"]
            assert age == min(job.lag, closed.step - 1), (
                f"step {closed.step}: policy_step is {age} updates behind"
            )
        pool = [{**record, **dict.fromkeys(CARRIED)} for record in stream.log.state.decisions()]
    return pool, [[group.as_json() for group in closed.groups] for closed in steps]


def main(target: str, description: str) -> None:
    """The process that trains: `target` does the job of `description`, and is killed at the moment
    that it names."""
    fields = orjson.loads(description)
    job = Job(**{**fields, "lost": tuple(map(tuple, fields["lost"]))})
    moments = count(1)

    def moment() -> None:
        if next(moments) == job.kill:
            os.kill(job.victim or os.getpid(), signal.SIGKILL)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def answered(*arguments: Any, **more: Any) -> Any:
            moment()
            answer = call(*arguments, **more)
            moment()
            return answer

        return answered

    for name in ("draw", "observe"):
        setattr(TaskStream, name, counted(getattr(TaskStream, name)))
    named_function(target, where="the conformance suite")(job)


if __name__ == "__main__":
    main(*sys.argv[1:])
