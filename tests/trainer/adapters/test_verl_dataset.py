"""verl's own data set and its way to a user's functions take part in a run: `make verl` installs
verl in an environment of its own, and runs this there. verl's trainer itself needs GPUs; what it
asks of a data set is here, in its order, from its checkpoints."""

from __future__ import annotations

import asyncio
import itertools
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.errors import UserError
from rods.trainer.adapters.conformance import Job
from tests.buffers.world import make_run
from tests.trainer.forked_trainers import Forked
from tests.trainer.nano_parts import saved

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("adapters"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        find_spec("verl") is None, reason="needs verl in an environment of its own: make verl"
    ),
]
IMPORTS = (
    "rods.trainer.adapters.conformance",
    "rods.trainer.adapters.verl_dataset",
    "tests.trainer.adapters.test_verl_dataset",
)
USER = """
from rods.trainer.adapters.verl_dataset import RunDataset, observed

class Tasks(RunDataset):
    def row(self, task):
        prompt = [{"role": "user", "content": task.script[0]}]
        return {"prompt": prompt, "reward_model": {"ground_truth": task.id}}

@observed
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(solution_str), "own": 1}
"""


def loader(files: Path, own: Path, user: str = USER, name: str = "Tasks") -> Any:
    """What verl's trainer makes of its configuration, with a data set of the user's."""
    from omegaconf import OmegaConf
    from torch.utils.data import SequentialSampler
    from torchdata.stateful_dataloader import StatefulDataLoader
    from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class

    from rods.trainer.chat import Chat

    (own / "user.py").write_text(user)
    if not (own / "model").exists():
        saved(own / "model")
    config = OmegaConf.create(
        {
            "custom_cls": {"path": str(own / "user.py"), "name": name},
            "train_batch_size": 4,
            "shuffle": False,
            "max_prompt_length": 512,
        }
    )
    data = get_dataset_class(config)(
        data_files=str(files),
        tokenizer=Chat.load(own / "model").tokenizer,
        processor=None,
        config=config,
        max_samples=-1,
    )
    sampler = SequentialSampler(data)
    return StatefulDataLoader(
        data, batch_size=4, num_workers=0, drop_last=True, collate_fn=collate_fn, sampler=sampler
    )


def train(job: Job) -> None:
    """A step: a batch, a reward for each of its rollouts by verl's way to a user's function, a
    checkpoint."""
    import torch
    from verl.utils.import_utils import load_extern_object

    own = Path(job.own)
    batches = loader(Path(job.run), own)
    score = load_extern_object(str(own / "user.py"), "compute_score")
    states = own / "states"
    states.mkdir(exist_ok=True)
    done = (
        max((int(each.stem) for each in states.iterdir()), default=0)
        if job.from_step is None
        else job.from_step
    )
    if done:
        batches.load_state_dict(torch.load(states / f"{done}.pt", weights_only=False))
    for step, batch in enumerate(itertools.islice(batches, job.steps - done), start=done + 1):
        for extra, model in zip(batch["extra_info"], batch["reward_model"], strict=True):
            for reward in job.rewards(step, extra["rods"]["place"], model["ground_truth"]) or ():
                score(
                    data_source="rods",
                    solution_str=str(reward),
                    ground_truth=model,
                    extra_info=extra,
                )
        # verl's older trainer tells the end of an update, the one of today does not
        if step % 2 or step == job.steps:
            batches.dataset.on_batch_end(batch=batch)
        saved_now = states / f"{step}.tmp"
        torch.save(batches.state_dict(), saved_now)
        saved_now.rename(states / f"{step}.pt")


@pytest.mark.parametrize("first", [True, False])
def test_a_trainer_that_draws_ahead_of_its_rewards_is_refused(tmp_path: Path, first: bool) -> None:
    """verl's trainer sets `gen_batch_size` once the data set is made, where it draws one by one."""
    run = make_run(tmp_path / "run", training={"steps": 2}).path
    batches = loader(run, tmp_path)
    if not first:
        next(iter(batches))
    batches.dataset.config.gen_batch_size = 1
    with pytest.raises(UserError, match=r"rewards .* still to come.*trainer_mode=sync"):
        batches.dataset[0 if first else 4]
    assert RunState(Run.open(run)).last_step == 0
    if not first:
        batches.dataset.stream.close()


def test_rewards_are_awaited_and_an_epoch_more_ends_with_the_last_step_on_record(
    tmp_path: Path,
) -> None:
    """verl awaits what is an `async def`, and trains for 30 epochs where nothing else is said."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    run = make_run(tmp_path / "run", training={"steps": 2}).path
    batches = loader(run, tmp_path)
    later = tmp_path / "later.py"
    later.write_text(USER.replace("def compute_score", "async def compute_score"))
    named = {"custom_reward_function": {"path": str(later), "name": "compute_score"}}
    score = get_custom_reward_fn(OmegaConf.create({"reward": named}))
    for batch in batches:
        for extra in batch["extra_info"]:
            for reward in ("0.25", "1"):
                given = score(
                    data_source="rods", solution_str=reward, ground_truth="", extra_info=extra
                )
                assert asyncio.run(given) == {"score": float(reward), "own": 1}
        if batch["extra_info"][0]["rods"]["step"] == 1:  # what verl leaves out behind its last one
            batches.dataset.on_batch_end(batch=batch)
    with pytest.raises(UserError, match=r"its 2 steps are over.*trainer\.total_epochs=1"):
        next(iter(batches))
    steps = list(RunState(Run.open(run)).steps())
    assert [closed.step for closed in steps] == [1, 2]
    for closed in steps:
        assert [[each.reward for each in group.rollouts] for group in closed.groups] == [
            [0.25, 1.0]
        ] * 4


class TestVerl(Forked):
    imports = IMPORTS
    trainer = "tests.trainer.adapters.test_verl_dataset:train"
    late = False  # its rewards are those of the step that it is in
