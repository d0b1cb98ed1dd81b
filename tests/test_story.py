"""How RODS works, from a seed to a retired variant, in one process: both sides share nothing but
the run's folder.

Read it top to bottom. The trainer is played by the test, since to this story only the rewards
matter; the author is the procedural one, which needs no language model.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from rods.buffers.audit.verify import verify
from rods.buffers.daemon_log import DaemonLog
from rods.buffers.merging.merger import Epoch
from rods.buffers.run.creation import create_run
from rods.buffers.state import read_state
from rods.buffers.trainer_log import TrainerLog
from rods.config import parse_config
from rods.daemon.authors.base import Assignment, Rejection
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.pipeline import Pipeline
from rods.gates.similarity import SimilarityIndex
from rods.observations import Group, Rollout
from rods.rules.selection import TaskFacts, select, signals
from rods.tasks import Task
from rods.worlds import desk

CONFIG = {
    "training": {"batch_tasks": 12},
    "selection": {"seeds_per_step": 1},
    "policy": {"kind": "simulated"},
}


def play(trainer: TrainerLog, epoch: Epoch, resolved: dict[str, list[int]]) -> list[Group]:
    """One step over the whole epoch with two rollouts a task; a task that `resolved` does not
    name is mastered. The progress reward of a rollout is the share of the task's turns that it
    resolved."""
    groups = []
    for slot in epoch.slots:
        turns = trainer.task(slot.task_id).expected
        rollouts = [
            Rollout(done, turns, int(done == turns), 0.0, done / turns, "finished")
            for done in resolved.get(slot.task_id, [turns, turns])
        ]
        groups.append(Group(slot.task_id, 1, "identity", "progress", (0.0, 1.0), tuple(rollouts)))
    # on the disk before the weights are updated
    trainer.write_step(trainer.state.last_step + 1, epoch.number, groups)
    return groups


async def test_from_a_seed_to_a_variant_to_its_retirement(tmp_path: Path) -> None:
    # A run begins with its original tasks; held-out ones are for evaluation only.
    config = parse_config(CONFIG, where="the story")
    run = create_run(tmp_path / "run", config, desk.generate(7, 12, 4))
    seed = next(
        task for task in desk.generate(7, 12, 4) if task.type == "base" and task.split == "train"
    )

    with (
        TrainerLog(run) as trainer,
        closing(DaemonLog(run)) as daemon,
        ThreadPoolExecutor(1) as threads,
    ):
        # The trainer opens epoch 0 with all originals, and reports a step. One task is at the
        # boundary of what the policy can do: one of its two rollouts resolves every turn, the other
        # none.
        trainer.start()
        epoch = trainer.merge(0, stage=1)
        groups = play(trainer, epoch, {seed.id: [seed.expected, 0]})
        assert trainer.state.tracker.zone(seed.id) == "boundary"

        # The daemon reads the step, and picks the task as its only seed: it would teach the most.
        active = {task.id: TaskFacts(task.type) for task in run.training.values()}
        (pick,) = select(1, signals(groups, config.selection), active, {}, config)
        assert (pick.task, pick.score) == (seed.id, 1.0)  # 4 · 1/2 · (1 − 1/2)
        await daemon.picked(1, 0, [pick.as_json()])

        # An author writes a variant: a task of the same shape, with other functions in another
        # world. It is returned only if its ground truth runs in a fresh environment and it passes
        # every gate.
        held_out = SimilarityIndex()
        for task in run.held_out:
            held_out.add(task)
        failures: list[Rejection] = []
        job = Assignment(pick.id, 0, seed, seed, generation=1)
        world = run.environments.load("desk")
        author = ProceduralAuthor.of(world, threads)
        pipeline = Pipeline(config, held_out, threads)
        variant = await pipeline.write(job, author, world, lambda task: [], failures.append)
        assert isinstance(variant, Task), failures
        assert variant.type == seed.type and variant.expected == seed.expected
        await daemon.expanded(pick.id, 0, variant)
        await daemon.finished(pick.id, [variant.id], 0)

        # The variant waits in staging until the epoch ends. The merge injects it, and epoch 1
        # visits it too.
        assert len(read_state(run).staging) == 1
        epoch = trainer.merge(1, stage=1)
        assert variant.id in {slot.task_id for slot in epoch.slots}
        assert trainer.state.active[variant.id].generation == 1

        # The policy cannot solve it at all. At the next merge it retires as too hard; originals
        # never do.
        play(trainer, epoch, {variant.id: [0, 0]})
        assert trainer.state.tracker.zone(variant.id) == "too_hard"
        trainer.merge(2, stage=1)

    # Both processes are gone, and the files say all of it: who reads them finds the same state.
    state = read_state(run)
    assert state.epoch == 2 and set(state.active) == set(run.training)
    history = [one for one in state.decisions() if one.get("task") == variant.id]
    assert [(one["epoch"], one["kind"], one.get("rule")) for one in history] == [
        (1, "injected", None),
        (2, "retired", "burn_in"),
    ]
    # Every decision follows from the logs and the rules, and every injected ground truth runs
    # again.
    assert verify(run.path, replay=True).ok
