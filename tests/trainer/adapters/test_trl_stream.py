"""TRL's own trainer takes part in a run: what any adapter has to hold, and a real policy that is killed and goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
from datasets import Dataset

from rods.buffers.audit.verify import verify
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.buffers.state import RunState, read_state
from rods.errors import UserError
from rods.trainer.conformance import CONFIG, Conformance, Job
from tests import forked
from tests.parts import ROOT
from tests.trainer.nano_parts import saved

pytestmark = [pytest.mark.slow, pytest.mark.needs("trl_stream")]
IMPORTS = (
    "rods.trainer.conformance",
    "rods.trainer.adapters.trl_stream",
    "transformers.models.llama",
    "tests.trainer.nano_parts",
)
PAGE = ROOT / "docs" / "trainers.md"
KILL = """    if columns["step"][0] == 4 and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), 9)
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def train(job: Job) -> None:
    """An existing script of TRL, but for StreamTrainer, `row`, and rewards that are given."""
    from transformers.trainer_utils import get_last_checkpoint
    from trl import GRPOConfig

    from rods.trainer.adapters.trl_stream import StreamTrainer

    own = Path(job.own)
    if not (own / "model").exists():
        saved(own / "model")

    def reward(
        completions: list[Any], task: list[str], step: list[int], place: list[int], **_: Any
    ) -> list[float | None]:
        lost: list[float | None] = [None] * 4
        told = [job.rewards(step[at], place[at], task[at]) for at in range(0, len(task), 4)]
        return [reward for group in told for reward in (group or lost)]

    trainer = StreamTrainer(
        job.run,
        lambda task: {"prompt": task.id},
        model=str(own / "model"),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str(own),
            max_steps=job.steps,
            per_device_train_batch_size=16,
            num_generations=4,
            max_completion_length=4,
            save_steps=1,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        ),
    )
    saved_at = str(own / f"checkpoint-{job.from_step}") if job.from_step else get_last_checkpoint(str(own))
    trainer.train(resume_from_checkpoint=saved_at)


class TestTrl(Conformance):
    trainer = "tests.trainer.adapters.test_trl_stream:train"
    late = False  # TRL waits for its rollouts

    def start(self, job: Job) -> subprocess.CompletedProcess[str]:
        arguments = [self.trainer, orjson.dumps(asdict(job)).decode()]
        return forked.run("rods.trainer.conformance", arguments, IMPORTS, env=ENVIRONMENT, timeout=300)


def test_the_lines_of_the_page_are_a_whole_script_that_is_killed_and_goes_on(tmp_path: Path) -> None:
    script = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    for said, meant in (
        ('"MODEL"', '"model"'),
        ("max_completion_length=64", "max_completion_length=64, use_cpu=True, report_to=[]"),
        ("    return [sum", KILL + "    return [sum"),
    ):  # fmt: skip
        assert script.count(said) == 1
        script = script.replace(said, meant)
    saved(tmp_path / "model")
    (tmp_path / "run.toml").write_text(CONFIG.replace('sync = "lockstep"', ""))
    codes = [
        subprocess.run([sys.executable, "-c", "import os\n" + script], cwd=tmp_path, env=ENVIRONMENT).returncode
        for _ in range(2)
    ]
    assert codes == [-signal.SIGKILL, 0]
    path = tmp_path / "runs" / "trl"
    state = read_state(Run.open(path))
    assert (state.last_step, state.attempt) == (6, 2) and verify(path).ok
    starts = [record["from_step"] for record in state.records(OBSERVATIONS) if record["kind"] == "start"]
    assert starts == [0, 3]
    (tasks,) = {len(step.groups) for step in RunState(state.run).steps()}
    assert tasks == 4 and all(len(each.rollouts) == 4 for step in RunState(state.run).steps() for each in step.groups)


def test_evaluation_is_no_observation_and_what_a_step_cannot_have_earned_is_told(tmp_path: Path) -> None:
    from trl import GRPOConfig

    from rods.trainer.adapters.trl_stream import StreamTrainer

    (tmp_path / "run.toml").write_text(CONFIG.replace('sync = "lockstep"', ""))
    arguments: dict[str, Any] = {
        "model": str(saved(tmp_path / "model")),
        "eval_dataset": Dataset.from_dict({"prompt": ["please find"] * 2}),
        "args": GRPOConfig(output_dir=str(tmp_path / "trl"), max_steps=1, per_device_train_batch_size=8,
                           per_device_eval_batch_size=8, num_generations=4, max_completion_length=4, use_cpu=True,
                           report_to=[], save_strategy="no", disable_tqdm=True),
    }  # fmt: skip

    def row(task: Any) -> dict[str, Any]:
        return {"prompt": task.id}

    def train(rewards: list[float | None]) -> StreamTrainer:
        def reward(completions: list[Any], **_: Any) -> list[float | None]:
            return (rewards * 8)[: len(completions)]

        trainer = StreamTrainer(tmp_path / "run", row, config=tmp_path / "run.toml", reward_funcs=reward, **arguments)
        trainer.train()
        return trainer

    with pytest.raises(UserError, match=r"a reward of 2.0 lies outside its range \[0.0, 1.0\]"):
        train([2.0])
    trainer = train([0.5, None, 0.25, 0.0])  # a rollout broke
    trainer.evaluate()
    state = RunState(Run.open(tmp_path / "run"))
    (step,) = state.steps()
    assert [[each.reward for each in group.rollouts] for group in step.groups] == [[0.5, None, 0.25, 0.0]] * 2
    assert {each.end for group in step.groups for each in group.rollouts} == {"finished", "infrastructure"}
    train([None])  # all got lost, and is on record as that
    (step,) = RunState(Run.open(tmp_path / "run")).steps()
    assert {each.end for group in step.groups for each in group.rollouts} == {"infrastructure"}
