"""TRL's own trainer takes part in a run: what any adapter has to hold, and a real policy that is
killed and goes on."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from rods.buffers.audit.verify import verify
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.buffers.state import RunState, read_state
from rods.errors import UserError
from rods.trainer.adapters.conformance import CONFIG, Job
from tests.parts import ROOT
from tests.trainer.forked_trainers import Forked
from tests.trainer.nano_parts import saved

pytestmark = [pytest.mark.slow, pytest.mark.needs("adapters")]
IMPORTS = (
    "rods.trainer.adapters.conformance",
    "rods.trainer.adapters.trl_stream",
    "transformers.models.llama",
    "tests.trainer.nano_parts",
)
PAGE = ROOT / "docs" / "trainers.md"
LAUNCH = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
          "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
          "--num_cpu_threads_per_process", "1", "--main_process_port", "0")  # fmt: skip
KILL = """    mine = os.environ.get("RANK", "0") == "{rank}"
    if columns["step"][0] == 4 and mine and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), 9)
"""
OFFLINE = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def train(job: Job) -> None:
    """An existing script of TRL, but for StreamTrainer, `row`, and rewards that are given."""
    from trl import GRPOConfig

    from rods.trainer.adapters.trl_stream import StreamTrainer, last_checkpoint

    own = Path(job.own)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if not (own / "model").exists():
        # another rank was faster
        with tempfile.TemporaryDirectory(dir=own) as made, contextlib.suppress(OSError):
            saved(Path(made) / "model").rename(own / "model")

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
            per_device_train_batch_size=16 // ranks,
            num_generations=4,
            max_completion_length=4,
            save_steps=1,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        ),
    )
    saved_at = str(own / f"checkpoint-{job.from_step}") if job.from_step else last_checkpoint(own)
    trainer.train(resume_from_checkpoint=saved_at)


def test_a_checkpoint_that_was_being_written_at_a_kill_is_left_out(tmp_path: Path) -> None:
    from rods.trainer.adapters.trl_stream import last_checkpoint

    for step, state in ((9, "{}"), (10, "{}"), (11, '{"global_'), (12, None)):
        saved_at = tmp_path / f"checkpoint-{step}"
        saved_at.mkdir()
        if state is not None:
            (saved_at / "trainer_state.json").write_text(state)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path / "none") is None


@pytest.mark.timeout(1800)
class TestTrl(Forked):
    imports = IMPORTS
    settings = OFFLINE
    trainer = "tests.trainer.adapters.test_trl_stream:train"
    late = False  # TRL waits for its rollouts
    ranks = 2

    @pytest.mark.sweep
    def test_a_trainer_that_lost_its_own_files_repeats_what_it_did(self, tmp_path: Path) -> None:
        super().test_a_trainer_that_lost_its_own_files_repeats_what_it_did(tmp_path)


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.sweep)])
def test_the_lines_of_the_page_are_a_whole_script_that_is_killed_and_goes_on(
    tmp_path: Path, ranks: int
) -> None:
    """In several processes under their launcher, where it is not the first one that is killed."""
    script = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    for said, meant in (
        ('"MODEL"', '"model"'),
        ("per_device_train_batch_size=16", f"per_device_train_batch_size={16 // ranks}"),
        ("max_completion_length=64", "max_completion_length=64, use_cpu=True, report_to=[]"),
        ("    return [\n", KILL.format(rank=ranks - 1) + "    return [\n"),
    ):  # fmt: skip
        assert script.count(said) == 1
        script = script.replace(said, meant)
    saved(tmp_path / "model")
    (tmp_path / "run.toml").write_text(CONFIG.replace('sync = "lockstep"', ""))
    (tmp_path / "script.py").write_text("import os\n" + script)
    command = [sys.executable, *(LAUNCH if ranks > 1 else ()), "script.py"]
    codes = [
        subprocess.run(command, cwd=tmp_path, env={**os.environ, **OFFLINE}).returncode
        for _ in range(2)
    ]
    assert codes == [-signal.SIGKILL if ranks == 1 else 1, 0]  # the launcher ends all of them
    path = tmp_path / "runs" / "trl"
    state = read_state(Run.open(path))
    assert (state.last_step, state.attempt) == (6, 2) and verify(path).ok
    starts = [
        record["from_step"] for record in state.records(OBSERVATIONS) if record["kind"] == "start"
    ]
    assert starts == [0, 3]
    (tasks,) = {len(step.groups) for step in RunState(state.run).steps()}
    assert tasks == 4 and all(
        len(each.rollouts) == 4 for step in RunState(state.run).steps() for each in step.groups
    )


def made(folder: Path, rewards: list[float | None], **options: Any) -> Any:
    """A trainer of one update by default, whose rollouts earn `rewards`, again and again."""
    from trl import GRPOConfig

    from rods.trainer.adapters.trl_stream import StreamTrainer

    (folder / "run.toml").write_text(CONFIG.replace('sync = "lockstep"', ""))
    least = {"max_steps": 1, "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8,
             "num_generations": 4, "max_completion_length": 4, "save_strategy": "no",
             "use_cpu": True, "report_to": [], "disable_tqdm": True}  # fmt: skip

    def reward(completions: list[Any], **_: Any) -> list[float | None]:
        return (rewards * 8)[: len(completions)]

    return StreamTrainer(
        folder / "run",
        lambda task: {"prompt": task.id},
        config=folder / "run.toml",
        model=str(saved(folder / "model")),
        reward_funcs=reward,
        eval_dataset=Dataset.from_dict({"prompt": ["please find"] * 2}),
        args=GRPOConfig(output_dir=str(folder / "trl"), **{**least, **options}),
    )


def test_evaluation_is_no_observation_and_what_no_rollout_can_earn_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a reward of 2.0 lies outside its range \[0.0, 1.0\]"):
        made(tmp_path, [2.0]).train()
    with pytest.raises(UserError, match="a run has no length of its own → set max_steps"):
        made(tmp_path, [0.0], max_steps=-1)
    trainer = made(tmp_path, [0.5, None, 0.25, 0.0])  # a rollout broke
    trainer.train()
    trainer.evaluate()
    (step,) = RunState(Run.open(tmp_path / "run")).steps()
    assert [[each.reward for each in group.rollouts] for group in step.groups] == [
        [0.5, None, 0.25, 0.0]
    ] * 2
    assert {each.end for group in step.groups for each in group.rollouts} == {
        "finished",
        "infrastructure",
    }
    made(tmp_path, [None]).train()  # all got lost, and is on record as that
    (step,) = RunState(Run.open(tmp_path / "run")).steps()
    assert {each.end for group in step.groups for each in group.rollouts} == {"infrastructure"}


@pytest.mark.parametrize(
    ("options", "steps", "tasks"),
    [
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 1, "max_steps": 2}, 4, 2),
        ({"gradient_accumulation_steps": 1, "steps_per_generation": 2, "max_steps": 4}, 2, 4),
        ({"gradient_accumulation_steps": 2, "num_iterations": 2, "max_steps": 4}, 2, 4),
    ],
)
def test_each_batch_of_generations_is_a_step(
    tmp_path: Path, options: dict[str, Any], steps: int, tasks: int
) -> None:
    made(tmp_path, [0.0, 1.0], **options).train()
    closed = list(RunState(Run.open(tmp_path / "run")).steps())
    assert [(step.step, len(step.groups)) for step in closed] == [
        (number, tasks) for number in range(1, steps + 1)
    ]
    assert verify(tmp_path / "run").ok
