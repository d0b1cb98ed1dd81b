"""What the ablations of the author's stages change, read from every body that a real HTTP server
was sent."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.llm_stub import Script, Stub
from bench.fixtures.synthesis import Ended, make_run, seeds, synthesise
from rods.daemon.stand_ins.author import STORY
from rods.prompts import load
from tests.daemon.authors.llm.marking import MARK

ROLES = "bench.fixtures.llm_stub.roles:answer"
MARKING = "tests.daemon.authors.llm.marking:answer"
CLUMSY = "tests.daemon.authors.llm.marking:clumsy"


async def written(
    path: Path, script: Script, count: int, **pipeline: Any
) -> tuple[Ended, list[str]]:
    """What became of the seeds, and all prompts that were sent: of each its messages, joined."""
    with Stub(script, bodies=path / "bodies") as stub:
        endpoint = {"model": "stub", "urls": [stub.url]}
        ended = await synthesise(
            make_run(path / "run", seeds(count), [endpoint], pipeline=pipeline)
        )
    bodies = [json.loads(line) for line in (path / "bodies").read_bytes().splitlines()]
    return ended, [
        "\n\n".join(message["content"] for message in body["messages"]) for body in bodies
    ]


def of(template: str, prompts: list[str]) -> list[str]:
    system = load(template).sections["system"].replace("{{", "{").replace("}}", "}")
    return [prompt for prompt in prompts if prompt.startswith(system)]


def turns(prompt: str) -> set[str]:
    return set(re.findall(r"^Turn (\d+)\b", prompt, re.MULTILINE))


@pytest.mark.sweep
@pytest.mark.parametrize("calls", ["batched", "per_turn"])
async def test_without_the_rewrite_each_turn_is_asked_for_by_itself_and_without_the_story(
    tmp_path: Path, calls: str
) -> None:
    ended, prompts = await written(tmp_path, Script(answer=CLUMSY), 12, rewrite=False, calls=calls)
    assert len(ended.variants) > 4 and any(len(task.script) > 1 for task in ended.variants), (
        ended.whys()
    )
    queries = [*of("query", prompts), *of("query_verification", prompts)]
    assert len(queries) > 2 * len(ended.variants) and not any(
        call["stage"] == "rewrite" for call in ended.calls
    )
    refined = of("refine_rewrite", prompts)
    assert refined, "a judge had something to mend"
    queries += refined
    assert {len(turns(prompt)) for prompt in queries} == {1}
    stories = {task.provenance["narrative"]["story"] for task in ended.variants}
    assert stories
    for prompt in queries:
        assert not any(story in prompt for story in stories) and "The story:" not in prompt
        assert "Said before:" not in prompt


@pytest.mark.sweep
async def test_without_narrative_no_prompt_asks_for_a_story_or_has_one(tmp_path: Path) -> None:
    for narrative in (True, False):
        path = tmp_path / str(narrative)
        path.mkdir()
        ended, prompts = await written(
            path, Script(answer=ROLES), 8, narrative=narrative, calls="per_turn"
        )
        assert ended.variants and all(
            bool(task.provenance["narrative"]) == narrative for task in ended.variants
        )
        asked = [prompt for prompt in prompts if "First tell the story" in prompt]
        assert bool(asked) == narrative
        told = [
            re.findall(r"^The story(?: behind it)?: (.*)", prompt, re.MULTILINE)[-1:]
            for prompt in prompts
        ]
        assert {story for one in told for story in one} <= {"(none)", *([STORY] * narrative)}


@pytest.mark.slow
@pytest.mark.needs("bfcl")
async def test_in_the_paper_s_form_queries_are_shown_the_story_before_the_rewrite(
    tmp_path: Path,
) -> None:
    ended, prompts = await written(tmp_path, Script(answer=ROLES), 8, calls="per_turn")
    assert ended.variants and any(call["stage"] == "rewrite" for call in ended.calls)
    assert all(
        "The story:" in prompt and "Said before:" in prompt for prompt in of("query", prompts)
    )


@pytest.mark.sweep
@pytest.mark.parametrize("calls", ["batched", "per_turn"])
async def test_blind_retry_shows_no_prompt_what_went_wrong_before(
    tmp_path: Path, calls: str
) -> None:
    """Marks stand in unreadable answers and in what verification and judge object to; what a world
    answered to a call that failed is looked for, too. The refinement is told what the judge holds
    against a text in either case: it has a switch of its own (`refine_cycles`)."""
    for feedback in (True, False):
        path = tmp_path / str(feedback)
        path.mkdir()
        ended, prompts = await written(
            path,
            Script(answer=MARKING),
            10,
            feedback=feedback,
            rewrite=calls == "batched",
            calls=calls,
        )
        assert len(ended.rejected) > 4
        refining = {*of("refine_classify", prompts), *of("refine_rewrite", prompts)}
        errors = {
            one["evidence"]["detail"]
            for one in ended.rejected
            if one["error"] in ("vm_exec_failed", "no_pattern")
        }
        told = [
            prompt
            for prompt in prompts
            if any(said in prompt for said in (MARK, *errors)) and prompt not in refining
        ]
        assert bool(told) == feedback, told[:1]
        again = [
            prompt
            for prompt in prompts
            if "not again" in prompt or "That answer cannot be used" in prompt
        ]
        assert bool(again) == feedback
        assert feedback or not any(call["stage"] == "patch" for call in ended.calls)


@pytest.mark.sweep
async def test_in_the_paper_s_form_models_plan_single_tools_write_the_world_and_answer_in_free_text(
    tmp_path: Path,
) -> None:
    """The preset, on environments that do have recipes; the scripted model picks tools blindly, so
    few fit."""
    with Stub(Script(answer=ROLES), bodies=tmp_path / "bodies") as stub:
        endpoint = {"model": "stub", "urls": [stub.url]}
        own: dict[str, Any] = {"preset": "rods-paper", "curriculum": {"stages": [{}]}}
        ended = await synthesise(make_run(tmp_path / "run", seeds(16), [endpoint], **own))
    bodies = [json.loads(line) for line in (tmp_path / "bodies").read_bytes().splitlines()]
    prompts = ["\n\n".join(message["content"] for message in body["messages"]) for body in bodies]
    assert len(ended.variants) > 3, ended.whys()
    assert of("initial_state", prompts) and not any("response_format" in body for body in bodies)
    for task in ended.variants:
        for turn in task.provenance["plan"]["turns"]:
            assert turn["recipes"] == turn["tools"], "a recipe of the environment's own was planned"
    failed = {record["pick"] for record in ended.rejected}
    calls = Counter(call["account"].split("#")[0] for call in ended.calls)
    at_once = [count for pick, count in calls.items() if pick not in failed]
    assert at_once and sum(at_once) <= 12 * len(at_once) and max(at_once) <= 15, at_once
