"""Recipes of docs/schedule.md, carried out."""

from __future__ import annotations

import re
from pathlib import Path

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
