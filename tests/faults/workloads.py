"""The fixed workloads of the sweeps: a trainer that goes on for a few epochs, a trainer that makes
its run folder and takes its first steps, a daemon that considers a few steps. And what must be true
afterwards, whatever struck.

All are the real programs in one run folder of desk-small, with a simulated policy and the
procedural author. Logs are cut every few records, so that renames and new parts come up as well.
Each has one right outcome: the trainer's because nobody writes variants meanwhile, the daemon's
because it works in lockstep.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from rods.buffers.audit.verify import verify
from rods.buffers.log.parts import segments
from rods.buffers.log.tail import read
from rods.buffers.run import runfolder
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.config import parse_config, read_config
from rods.daemon.main import main as daemon_main
from rods.errors import EXIT_REQUEUE
from rods.family.simulation.settings import DRAWN
from rods.trainer import simulated as simulated  # imported once, before the forks that need it
from rods.trainer.main import run as trainer_main
from rods.worlds.sources import load_tasks
from tests.buffers.world import retired
from tests.faults.files import Plan
from tests.faults.forge import Forge, Outcome

VALUES: dict[str, Any] = {
    "source": {"drawn": 0.25},
    "data": {"tasks": "desk-small", "train": 8, "held_out": 2},
    "policy": {"kind": "simulated", "skill": 0.5, "growth": 0.01},
    "rollouts": {"rollouts_per_task": 4},
    "training": {"batch_tasks": 4, "steps": 9, "checkpoint_steps": 3},
    "zones": {"boundary_low": 0.0, "boundary_high": 1.0},
    "selection": {
        **{
            "seeds_per_step": 3,
            "exclusion_steps": 0,
            "candidates": "pool",
            "skip_zero_variance": False,
        },
        "groups": [["base", "long_context", "miss_func", "miss_param"]],
    },
    "pool": {"inject_fraction": 0.25, "staging_epochs": 0.0, "max_generated": 3},
    "operation": {
        "poll_seconds": 0.01,
        "idle_exit_seconds": 0.02,
        "log_part_bytes": 6000,
        "trace_bytes": 0,
    },
}
LOGS = (
    runfolder.OBSERVATIONS,
    runfolder.POOL,
    DRAWN,
    runfolder.SEEDS,
    runfolder.EXPANDED,
    runfolder.REJECTED,
)
FUNCTIONS = {
    "trainer": "tests.faults.workloads:train",
    "new run": "tests.faults.workloads:begin",
    "daemon": "tests.faults.workloads:write",
}


def train(folder: Path) -> None:
    """The trainer, from where it stands to the end of the run."""
    raise SystemExit(trainer_main([str(folder)]))


def begin(folder: Path) -> None:
    """The trainer, from a configuration alone: it makes the run folder `run` in `folder`."""
    raise SystemExit(trainer_main([str(folder / "run"), "--config", str(folder / "run.toml")]))


def train_some(folder: Path, config: str) -> None:
    """The trainer, for as many steps as the file `config` says."""
    raise SystemExit(trainer_main([str(folder), "--config", config]))


def write(folder: Path) -> None:
    """The daemon, until it has nothing left to do and no trainer lives."""
    daemon_main([str(folder)])


def judge(folder: Path, acknowledged: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """What a run folder says: whether `rods verify` agrees, ids that occur twice, how many of
    the `acknowledged` lines are in no part of their log, and the outcome: live steps, pools,
    picks and variants, without what may differ (times, attempts, the order in which variants
    were written)."""
    report = verify(folder)
    run = Run.open(folder)
    state = RunState(run)
    steps = [
        [step.step, step.epoch, [group.as_json() for group in step.groups]]
        for step in state.steps()
    ]
    twice = 0
    picks = []
    variants = []
    for log in LOGS:
        ids = [record["id"] for record in read(folder / log)]
        # a pick that is run again may fail at the same place again, and says so again
        if log != runfolder.REJECTED:
            twice += len(ids) - len(set(ids))
    for record in read(folder / runfolder.SEEDS):
        if record["kind"] == "picked":
            picks.append([record["step"], record["rank"], record["task"]])
    for record in read(folder / runfolder.EXPANDED):
        variants.append([record["pick"], record["index"], record["task"]["id"]])
    active = sorted([one.task_id, one.epoch, one.since] for one in state.active.values())
    gone = sorted([task, rule, epoch] for task, (rule, epoch, _) in retired(state).items())
    outcome = [
        steps,
        active,
        gone,
        [one.step for one in state.pool.epochs],
        picks,
        sorted(variants),
    ]
    problems = [str(problem) for problem in report.problems]
    return {
        "problems": problems,
        "twice": twice,
        "lost": lost(folder, acknowledged),
        "outcome": outcome,
    }


def prepare(folder: Path, program: str) -> None:
    """A new run for `program`'s workload. The trainer's begins after five steps with variants in
    staging; the daemon's with four steps to consider, all of epoch 0, behind which a trainer in
    lockstep would wait."""
    values = {section: dict(keys) for section, keys in VALUES.items()}
    if program == "daemon":
        values["training"]["batch_tasks"] = 2
        config = parse_config({**values, "sync": "lockstep"}, where="tests.faults")
    else:
        config = parse_config(values, where="tests.faults")
    create_run(folder, config, load_tasks(config.data, folder.parent))


@dataclass
class Verdict:
    """What became of one point of a sweep."""

    lost: int = 0
    twice: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.twice or self.wrong)


class Workload:
    """One program's workload: a template to begin from, and its right outcome."""

    def __init__(self, program: str, forge: Forge, scratch: Path) -> None:
        self.program = program
        self.forge = forge
        self.scratch = scratch
        self.function = FUNCTIONS[program]
        self.template = scratch / f"{program}.template"
        self.inside = "run" if program == "new run" else "."  # where the run lies in what is struck
        self._number = 0
        self._make_template()
        self.whole = self.fresh()  # the run after the workload, without a fault
        self.calm = self.run(self.whole, journal=True)
        assert self.calm.code == 0, self.calm.errors
        self.right = forge.run("tests.faults.workloads:judge", self.whole / self.inside).returned
        assert not self.right["problems"] and not self.right["twice"], self.right

    def run(self, folder: Path, *, plan: Plan | None = None, journal: bool = False) -> Outcome:
        return self.forge.run(self.function, folder, plan=plan, journal=journal)

    def fresh(self) -> Path:
        """A copy of the template."""
        self._number += 1
        folder = self.scratch / f"{self.program}.{self._number}" / "run"
        shutil.copytree(self.template, folder)
        return folder

    def verdict(
        self, folder: Path, acknowledged: list[tuple[str, bytes]], forge: Forge | None = None
    ) -> Verdict:
        """Starts the program again without a fault, and looks. `forge`: one that sees the
        folder."""
        forge = forge or self.forge
        found = Verdict()
        again = forge.run(self.function, folder)
        folder = folder / self.inside
        if again.code != 0:
            found.wrong.append(f"the next start ends with {again.code}: {again.errors[-1500:]}")
        promised = [(log, line.decode()) for log, line in [*acknowledged, *again.acknowledged]]
        judged = forge.run("tests.faults.workloads:judge", folder, promised)
        if judged.code != 0:
            found.wrong.append(f"it cannot be judged: {judged.errors[-1500:]}")
            found.lost = int(forge.run("tests.faults.workloads:lost", folder, promised).returned)
        else:
            found.lost = judged.returned["lost"]
            found.wrong += judged.returned["problems"]
            found.twice = judged.returned["twice"]
            if judged.returned["outcome"] != self.right["outcome"]:
                found.wrong.append("the outcome is another one than without a fault")
        return found

    def _make_template(self) -> None:
        if self.program == "new run":
            self.template.mkdir()
            values = {**VALUES, "training": {**VALUES["training"], "steps": 3}}
            (self.template / "run.toml").write_text(tomli_w.dumps(values))
            return
        prepare(self.template, self.program)
        if self.program == "daemon":
            self._step(4)
            return
        for count in (3, 2):  # steps; and variants after each
            self._step(count)
            end = self.forge.run(FUNCTIONS["daemon"], self.template)
            assert end.code == 0, end.errors

    def _step(self, count: int) -> None:
        """Lets the trainer take some steps."""
        recorded = read_config(self.template / runfolder.CONFIG).model_dump(mode="json")
        recorded["operation"]["step_limit"] = count
        config = self.template.with_suffix(".toml")
        config.write_text(tomli_w.dumps(recorded))
        end = self.forge.run("tests.faults.workloads:train_some", self.template, str(config))
        assert end.code == EXIT_REQUEUE, end.errors


def lost(folder: Path, acknowledged: Sequence[tuple[str, str]]) -> int:
    """How many acknowledged lines are in no part of their log."""
    kept: dict[str, set[bytes]] = {}
    missing = 0
    for log, line in acknowledged:
        if log not in kept:
            parts = segments(folder / f"{log}.jsonl")
            kept[log] = {each for part in parts for each in part.read_bytes().splitlines()}
        missing += line.encode() not in kept[log]
    return missing
