"""Recipes of docs/schedule.md, carried out."""

from __future__ import annotations

import asyncio
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.log.tail import read
from rods.family.schedule.schedule import LOG
from tests.parts import ROOT

LONGEST = 30  # lines of the user's


def block(first: str) -> str:
    """The block of Python on the page that begins so."""
    page = (ROOT / "docs/schedule.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return next(text for text in blocks if text.startswith(first))


def test_no_recipe_is_long() -> None:
    page = (ROOT / "docs/schedule.md").read_text(encoding="utf-8")
    for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        assert len([line for line in text.splitlines() if line]) <= LONGEST


def test_the_loop_trains_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(block("import random"), {})  # noqa: S102
    steps = [each["step"] for each in read(Path("schedules/mine") / LOG) if "rewards" in each]
    assert steps == [*range(1, 31)]


@pytest.mark.slow
def test_trl_trains_on_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl")
    from tests.trainer.nano_parts import saved

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    saved(tmp_path / "model")
    rows = [{"prompt": f"say {number}", "answer": "a"} for number in range(12)]
    Path("prompts.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    seen: list[str] = []

    def reward(prompts: list[str], answer: list[str], **_: object) -> list[float | None]:
        seen.extend(prompts[::4])
        return [(0.0, 1.0, 0.0, None)[index % 4] for index, _ in enumerate(answer)]

    text = block("from datasets")
    text = text.replace('"MODEL"', '"model"').replace(
        "num_generations=4",
        "num_generations=4, max_completion_length=4, use_cpu=True, report_to=[]",
    )
    exec(text, {"reward": reward})  # noqa: S102
    records = [*read(Path("schedules/trl") / LOG)]
    drawn = [name for each in records if each["kind"] == "scheduled" for name, _ in each["tasks"]]
    rewarded = [each for each in records if each["kind"] == "rewarded"]
    assert len(drawn) == len(seen) == 12
    assert len({*seen}) == len({*drawn})
    assert [[*each["rewards"].values()] for each in rewarded] == [[[0.0, 1.0, 0.0, None]] * 4] * 3


@pytest.mark.slow
@pytest.mark.needs("adapters")
@pytest.mark.skipif(find_spec("verl") is None, reason="needs verl in an environment of its own")
def test_verl_trains_on_what_is_drawn_and_goes_on_behind_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verl.utils.import_utils import load_extern_object

    from tests.trainer.adapters.test_verl_dataset import loader

    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "prompt": [{"role": "user", "content": f"say {number}"}],
            "data_source": "own",
            "reward_model": {"ground_truth": str(number)},
            "extra_info": {"number": number},
        }
        for number in range(12)
    ]
    files = tmp_path / "train.jsonl"
    files.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    user = "def your_reward(data_source, solution_str, ground_truth, extra_info=None):\n"
    user += "    return float(solution_str)\n\n" + block("from pathlib")
    seen: dict[int, list[int]] = {}
    states: list[Any] = [None]

    def train(first: int, last: int) -> None:
        batches = loader(files, tmp_path, user, "Scheduled")
        score = load_extern_object(str(tmp_path / "user.py"), "compute_score")
        if states[first]:
            batches.load_state_dict(states[first])
        del states[first + 1 :]
        for step, batch in enumerate(batches, start=first + 1):
            seen[step] = [extra["number"] for extra in batch["extra_info"]]
            for extra in batch["extra_info"]:
                for reward in (0.0, 1.0, extra["number"] / 12):
                    score("own", str(reward), "", extra)
            states.append(batches.state_dict())
            if step == last:
                break
        batches.dataset.schedule.close()

    train(0, 3)
    third = seen[3]
    train(2, 4)  # what was rewarded last is drawn again
    assert seen[3] == third
    records = [*read(Path("schedules/verl") / LOG)]
    drawn = {each["step"]: each["tasks"] for each in records if each["kind"] == "scheduled"}
    rewarded = [each for each in records if each["kind"] == "rewarded"]
    assert [each["step"] for each in rewarded] == [1, 2, 3] and len(drawn) == 4
    for each in rewarded:
        assert [*each["rewards"]] == [name for name, _ in drawn[each["step"]]]
        assert [*each["rewards"].values()] == [
            [0.0, 1.0, number / 12] for number in seen[each["step"]]
        ]


@pytest.mark.slow
@pytest.mark.needs("adapters")
@pytest.mark.skipif(find_spec("tinker_cookbook") is None, reason="needs the Tinker cookbook")
def test_the_cookbook_trains_on_what_is_drawn_and_goes_on_behind_its_checkpoint(
    tmp_path: Path,
) -> None:
    from tinker_cookbook.rl.rollouts import do_group_rollout_and_filter_constant_reward as rolled

    from tests.trainer.adapters.tinker_given import Group, Sampling

    rows = tmp_path / "prompts.jsonl"
    rows.write_bytes(b"".join(orjson.dumps({"id": str(n), "number": n}) + b"\n" for n in range(12)))

    def own(row: dict[str, int]) -> Group:
        lost = row["number"] == 5
        return Group(None if lost else [0.0, 1.0, row["number"] / 12])

    names: dict[str, Any] = {"FOLDER": tmp_path / "schedule", "MyGroup": own}
    text = block("from rods.family.schedule.schedule import open_schedule\nfrom tinker")
    exec(text.replace('"prompts.jsonl"', repr(str(rows))), names)  # noqa: S102

    async def train(first: int, last: int) -> list[list[str]]:
        data = names["Scheduled"](9, 4)
        drawn = []
        for index in range(first, last):
            groups = data.get_batch(index)
            drawn.append([group.task.id for group in groups])
            waiting = [rolled(Sampling(), each, 4, 1.0, False) for each in groups[::-1]]
            await asyncio.gather(*waiting, return_exceptions=True)
        data.schedule.close()
        return drawn

    drawn = asyncio.run(train(0, 3))
    drawn[2:] = asyncio.run(train(2, 4))  # what was rewarded last is played again
    rewarded = {}
    for each in read(tmp_path / "schedule" / LOG):
        if each["kind"] == "rewarded":
            rewarded[each["step"]] = each["rewards"]
    assert [*rewarded] == [1, 2, 3, 4]
    for step, names_ in enumerate(drawn, start=1):
        kept = [name for name in names_ if name != "5"]
        assert rewarded[step] == {name: [0.0, 1.0, int(name) / 12] for name in kept}
    assert any("5" in each for each in drawn)


ENV = """
import verifiers.v1 as vf

__all__ = ["Own"]


class Own(vf.Taskset[vf.Task, vf.TasksetConfig]):
    def load(self):
        for number in range(12):
            yield vf.Task(vf.TaskData(prompt=f"say {number}", name=str(number)), self.config.task)
"""


@pytest.mark.slow
@pytest.mark.needs("adapters")
@pytest.mark.skipif(find_spec("verifiers") is None, reason="needs verifiers: make verifiers")
def test_prime_rl_s_taskset_yields_what_is_drawn_and_observes_what_the_traces_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import verifiers.v1 as vf

    from tests.trainer.adapters.test_verifiers_stream import append

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("my_env.py").write_text(ENV)
    text = block("from collections import defaultdict")
    text = text.replace("32, 8, 8", "4, 3, 2").replace("outputs/mine/run_default/", "")
    Path("my_scheduled.py").write_text(text)

    def draws() -> Any:
        # a module of its own is found by its name, as prime-rl finds it
        return iter(vf.load_taskset(vf.taskset_config_type("my_scheduled")(id="my_scheduled")))

    def rewards(task: Any) -> list[float | None]:
        return [0.0, None, int(task.data.name) / 12]

    tasks = draws()
    drawn = []
    for step in range(1, 7):
        batch = [next(tasks) for _ in range(4)]
        drawn += batch
        for place, task in enumerate(batch):
            if (step, place) != (3, 1):  # this group never comes
                path = Path(f"rollouts/step_{step}/train/all/traces.jsonl")
                append(path, task, rewards(task), step, step - 1)
        with path.open("ab") as file:
            file.write(b'{"half": ')  # a line that is being written
    tasks.close()
    assert [task.data.idx for task in drawn] == [*range(24)]
    by_step = {step: drawn[4 * step - 4 : 4 * step] for step in range(1, 7)}
    rewarded = [each for each in read(Path("schedules/prime-rl") / LOG) if "rewards" in each]
    assert [each["step"] for each in rewarded] == [1, 2, 3, 4, 5]
    for each in rewarded:
        came = by_step[each["step"]]
        came = came[:1] + came[2:] if each["step"] == 3 else came
        assert [*each["rewards"].values()] == [rewards(task) for task in came]
    again = draws()
    assert [next(again).data for _ in drawn] == [task.data for task in drawn]
    again.close()
