"""Scoring a policy with weights: a tiny random model on desk tasks."""

from pathlib import Path

import pytest
import torch

from rods.config import Config, Rollouts
from rods.evaluation.heldout import roll_out
from rods.players import Players
from rods.tasks import Task
from rods.trainer.nano import model
from rods.worlds import desk
from tests.environments import ENVIRONMENTS

CONFIG = Config(
    rollouts=Rollouts(rollouts_per_task=2, max_steps=2, max_reply_tokens=12, max_context_tokens=900)
)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("policy")
    words = model.build_tokenizer(
        " ".join((*task.script, *task.tools)) for task in desk.generate(5, 60, 0)
    )
    model.fresh(words, 0).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return [task for task in desk.generate(5, 4, 6) if task.split != "train"]


def test_every_task_gets_its_rollouts_and_the_draws_repeat(policy: Path, tasks: list[Task]) -> None:
    scored = list(roll_out(CONFIG, policy, Players(ENVIRONMENTS), tasks, 3))
    assert [task.id for task, _ in scored] == [task.id for task in tasks]
    for task, rollouts in scored:
        assert len(rollouts) == 3
        assert {scored.rollout.expected for scored in rollouts} == {task.expected}
    assert list(roll_out(CONFIG, policy, Players(ENVIRONMENTS), tasks, 3)) == scored


@pytest.mark.slow
def test_a_rollout_with_a_trace_says_what_became_of_its_turns(
    policy: Path, tasks: list[Task]
) -> None:
    roomy = CONFIG.model_copy(
        update={"rollouts": CONFIG.rollouts.model_copy(update={"max_reply_tokens": 200})}
    )
    rollouts = [
        one.rollout
        for _, scored in roll_out(roomy, policy, Players(ENVIRONMENTS), tasks, 3)
        for one in scored
    ]
    labelled = [rollout for rollout in rollouts if rollout.labels]
    assert labelled and all(
        rollout.as_json()["labels"] == list(rollout.labels) for rollout in labelled
    )
    passed = {"pass", "correct_abstention"}
    assert all(sum(label in passed for label in one.labels) == one.resolved for one in labelled)
