import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from rods.calls import Call
from rods.config import Config, PolicySettings, RandomSeeds, Rollouts, Stage, Training
from rods.observations import Group
from rods.tasks import EnvironmentRef, Task
from rods.trainer.policy import Batch, BatchSlot
from rods.trainer.simulated import (
    VARIANT_NOISE,
    SimulatedPolicy,
    difficulty,
    estimated,
    rollout,
    turn_chance,
)


def task(number: int, root: str | None = None) -> Task:
    return Task(
        EnvironmentRef("toy", "1"),
        "base",
        (f"turn one of {number}", "turn two", "turn three"),
        ((Call("a"),), (Call("b"),), (Call("c"),)),
        ("a", "b", "c"),
        provenance={"root": root} if root else {},
    )


TASKS = [task(number) for number in range(60)]


def batch(step: int) -> Batch:
    return Batch(
        step,
        0,
        1,
        Stage(),
        tuple(BatchSlot(index, item) for index, item in enumerate(TASKS[:20])),
        "hash",
    )


def test_a_batch_is_the_same_however_often_it_is_drawn() -> None:
    config = Config(policy=PolicySettings(kind="simulated"))
    first = SimulatedPolicy(config)
    second = SimulatedPolicy(config)
    assert first.groups(batch(3)) == second.groups(batch(3))
    assert first.groups(batch(3)) != first.groups(batch(4))
    other = SimulatedPolicy(
        Config(policy=PolicySettings(kind="simulated"), random_seeds=RandomSeeds(rollouts=1))
    )
    assert other.groups(batch(3)) != first.groups(batch(3))


def test_its_advantages_are_those_of_its_rewards() -> None:
    training = Training(advantage_scale="batch")
    config = Config(policy=PolicySettings(kind="simulated", skill=0.5), training=training)
    plain = SimulatedPolicy(config).groups(batch(3))
    made = estimated(plain, config)
    assert [replace(one, rollouts=plain[at].rollouts) for at, one in enumerate(made)] == plain
    for one in made:
        found = [rollout.advantage for rollout in one.rollouts if rollout.advantage is not None]
        assert len(found) == len(one.rollouts) and abs(sum(found)) < 1e-6
        assert (len(set(found)) > 1) == (len({rollout.reward for rollout in one.rollouts}) > 1)
        assert Group.from_json(one.as_json()) == one


def test_tasks_span_hopeless_to_mastered_and_turns_follow_the_chance() -> None:
    chances = [turn_chance(item, 0.5) for item in TASKS]
    assert min(chances) < 0.05 and max(chances) > 0.95
    middle = min(TASKS, key=lambda item: abs(turn_chance(item, 0.5) - 0.5))
    chance = turn_chance(middle, 0.5)
    share = sum(rollout(middle, chance, "progress", index).resolved for index in range(2000)) / 6000
    assert abs(share - chance) < 0.03


def test_a_variant_is_about_as_hard_as_its_root() -> None:
    for number, root in enumerate(TASKS[:20]):
        variant = task(1000 + number, root.id)
        assert variant.id != root.id
        assert 0 < abs(difficulty(variant) - difficulty(root)) <= VARIANT_NOISE


def test_only_groups_that_disagree_teach() -> None:
    policy = SimulatedPolicy(
        Config(
            policy=PolicySettings(kind="simulated", growth=0.1),
            rollouts=Rollouts(rollouts_per_task=8),
        )
    )
    groups = policy.groups(batch(1))
    settled = [group for group in groups if len({item.reward for item in group.rollouts}) == 1]
    informative = [group for group in groups if group not in settled]
    assert settled and informative
    before = policy.skill
    policy.practise(settled)
    assert policy.skill == before
    policy.practise(informative)
    assert policy.skill == before + 0.1


def test_every_reward_lies_in_its_range() -> None:
    for kind in ("progress", "binary", "format", "format_codes"):
        policy = SimulatedPolicy(Config(policy=PolicySettings(kind="simulated")))
        stage = Batch(1, 0, 1, Stage(reward=kind, expand=False), batch(1).slots, "hash")
        for group in policy.groups(stage):
            low, high = group.range
            assert group.reward == kind
            assert all(
                item.reward is not None and low <= item.reward <= high for item in group.rollouts
            )
            assert Group.from_json(group.as_json()) == group


def test_its_state_is_its_skill(tmp_path: Path) -> None:
    policy = SimulatedPolicy(Config(policy=PolicySettings(kind="simulated", skill=0.123456789012)))
    policy.save(tmp_path)
    fresh = SimulatedPolicy(Config(policy=PolicySettings(kind="simulated", skill=0.9)))
    fresh.load(tmp_path)
    assert fresh.skill == 0.123456789012


def test_it_needs_no_torch() -> None:
    modules = "rods.trainer.main, rods.trainer.simulated, rods.evaluation.heldout"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
