"""The ablations that docs/synthesis.md lists (004 Table 2, Appendix R) are one key each, and each
does what it says.

Proven by logs: each is run to its end by `rods up`, with real processes and the simulated policy.
What the ablations of the author's stages change stands in the requests that a model is sent
(tests/daemon/authors/llm/test_ablations.py).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL, SEEDS
from rods.config import Config, identity_diff, parse_config
from rods.observations import Group
from rods.rules.zones import moments
from rods.tasks import Task

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parent.parent.parent / "docs" / "synthesis.md"
ROW = re.compile(r"^\| ([^|]+) \| `([^|`]+)` \| [^|]+ \|$", re.MULTILINE)
ABLATIONS = dict(ROW.findall(PAGE.read_text().partition("## Ablations")[2]))
PAPER = {  # the rows of 004 Table 2, in the page's words
    "random seed selection",
    "binary accuracy instead of progress",
    "no coherence rewrite",
    "no narrative",
    "blind retry",
    "no retirement",
    "static pool",
}
EPOCHS = 6
MOST = 8
VALUES: dict[str, Any] = {
    "sync": "lockstep",
    "data": {"tasks": "desk-small", "train": 12, "held_out": 8},
    "policy": {"kind": "simulated", "skill": 0.6, "growth": 0.02},
    "rollouts": {"rollouts_per_task": 8},
    "training": {"batch_tasks": 4, "steps": 200, "checkpoint_steps": 20},
    "selection": {"seeds_per_step": 6, "exclusion_steps": 3},
    "pool": {"inject_fraction": 0.4, "max_generated": MOST},
    "curriculum": {"stages": [{"epochs": EPOCHS}]},
    "operation": {"poll_seconds": 0.05},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ABLATIONS)
def test_a_documented_ablation_is_one_key(name: str) -> None:
    changed = identity_diff(
        Config().identity(), parse_config(setting(name), where=str(PAGE)).identity()
    )
    assert [line.partition(":")[0] for line in changed] == [ABLATIONS[name].partition(" ")[0]]


def test_all_of_the_paper_s_are_listed() -> None:
    others = {"static data", "same functions", "variance instead of the proxy"}
    assert ABLATIONS.keys() - PAPER == others and ABLATIONS.keys() >= PAPER


def setting(name: str) -> dict[str, Any]:
    return tomllib.loads(ABLATIONS[name])


@pytest.fixture(scope="module")
def ablated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ablations")

    @cache
    def finished(name: str = "") -> Run:
        """A run with that ablation, or without any."""
        return to_the_end(
            folder / (name.replace(" ", "_") or "rods"), setting(name) if name else {}
        )

    return finished


def to_the_end(path: Path, changes: dict[str, Any]) -> Run:
    values = {
        key: dict(value) if isinstance(value, dict) else value for key, value in VALUES.items()
    }
    for section, keys in changes.items():
        values[section] = {**values.get(section, {}), **keys} if isinstance(keys, dict) else keys
    config = path.with_suffix(".toml")
    config.write_text(tomli_w.dumps(values))
    command = [sys.executable, "-m", "rods.console", "up", str(path), "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    report = verify(path)
    assert report.ok, list(report.lines())
    return Run.open(path)


def records(run: Run, log: str, kind: str) -> list[Record]:
    return [record for record in read(run.path / log) if record["kind"] == kind]


def counts(run: Run, what: str) -> list[int]:
    """One of the counts of each epoch."""
    return [record["counts"][what] for record in records(run, POOL, "epoch")]


def outside(run: Run) -> list[Record]:
    """Picks of tasks that were not at the boundary."""
    return [
        one
        for one in records(run, SEEDS, "picked")
        if not 0.2 <= one["why"].get("mean", -1) <= 0.85
    ]


def played(run: Run) -> dict[int, dict[str, Group]]:
    """The groups of each step, by task."""
    found: dict[int, dict[str, Group]] = {}
    for record in records(run, OBSERVATIONS, "group"):
        found.setdefault(record["step"], {})[record["task"]] = Group.from_json(record)
    return found


def functions(run: Run) -> list[tuple[set[str], set[str]]]:
    """What each variant calls, and what its seed calls."""
    made = [Task.from_json(record["task"]) for record in records(run, EXPANDED, "expanded")]
    known = {task.id: task for task in (*run.tasks, *made)}
    called = {name: {call.name for call in task.goal_calls} for name, task in known.items()}
    return [(called[task.id], called[task.provenance["seed"]]) for task in made]


def test_without_an_ablation_boundary_tasks_of_the_step_are_picked_and_the_pool_is_refreshed(
    ablated: Any,
) -> None:
    run = ablated()
    groups = played(run)
    assert not outside(run)
    assert all(one["task"] in groups[one["step"]] for one in records(run, SEEDS, "picked"))
    assert sum(count > 0 for count in counts(run, "injected")) >= 3 and any(counts(run, "retired"))
    assert max(counts(run, "generated")) <= MOST
    assert any(variant != seed for variant, seed in functions(run))


def test_static_data_picks_and_injects_nothing(ablated: Any) -> None:
    run = ablated("static data")
    assert not records(run, SEEDS, "picked") and not records(run, EXPANDED, "expanded")
    assert counts(run, "slots") == [12] * EPOCHS


def test_random_seeds_are_drawn_from_all_active_tasks_whatever_they_earned(ablated: Any) -> None:
    run = ablated("random seed selection")
    groups = played(run)
    picks = records(run, SEEDS, "picked")
    assert len(outside(run)) >= 3 and {one["why"]["order"] for one in picks} == {"random"}
    assert any(one["task"] not in groups[one["step"]] for one in picks)


@pytest.mark.sweep
def test_variance_ranks_the_tasks_at_the_boundary(ablated: Any) -> None:
    run = ablated("variance instead of the proxy")
    picks = records(run, SEEDS, "picked")
    assert not outside(run) and all(one["score"] == one["why"]["variance"] > 0 for one in picks)
    assert any(
        one["score"] != one["why"]["variance"] for one in records(ablated(), SEEDS, "picked")
    )


@pytest.mark.sweep
def test_binary_accuracy_finds_the_boundary(ablated: Any) -> None:
    run = ablated("binary accuracy instead of progress")
    groups = played(run)
    other = 0
    picks = records(run, SEEDS, "picked")
    for one in picks:
        group = groups[one["step"]][one["task"]]
        binary = moments(group, "binary")
        progress = moments(group, "progress")
        assert binary is not None and progress is not None
        assert (
            one["why"]["reward"] == "binary"
            and one["why"]["mean"] == binary.mean
            and 0.2 <= binary.mean <= 0.85
        )
        other += progress.mean != binary.mean
    assert other and all(
        group.reward == "progress" for step in groups.values() for group in step.values()
    )


def test_without_retirement_nothing_leaves_and_the_pool_outgrows_its_limit(ablated: Any) -> None:
    run = ablated("no retirement")
    assert not records(run, POOL, "retired") and not any(counts(run, "retests"))
    grown = counts(run, "generated")
    assert grown == sorted(grown) and grown[-1] > MOST
    assert sum(counts(run, "injected")) == grown[-1]


def test_a_static_pool_is_filled_once_and_then_frozen(ablated: Any) -> None:
    run = ablated("static pool")
    assert counts(run, "generated") == [0] + [MOST] * (EPOCHS - 1)
    assert not any(counts(run, "retired")) and not outside(run)
    assert {one["step"] for one in records(run, SEEDS, "picked")} == {3}


@pytest.mark.sweep
def test_the_same_functions_are_called_as_by_the_seed(ablated: Any) -> None:
    found = functions(ablated("same functions"))
    assert found and all(variant == seed for variant, seed in found)


def test_the_paper_s_form_runs_to_its_end_without_our_own_choices(
    tmp_path: Path, ablated: Any
) -> None:
    """The preset with the author and the policy that need no model: what it leaves out does not
    happen."""
    run = to_the_end(
        tmp_path / "paper", {"preset": "rods-paper", "pipeline": {"author": "procedural"}}
    )
    assert run.manifest["identity"]["preset"] == "rods-paper"
    assert 'preset = "rods-paper"' in (run.path / "config.toml").read_text()
    # the file wins
    assert run.config.selection.max_generation == 0 and run.config.selection.seeds_per_step == 6
    assert sum(counts(run, "injected")) > 0
    assert not [one for one in records(run, OBSERVATIONS, "group") if one["role"] == "retest"]
    generations = [
        max(one["why"]["generation"] for one in records(each, SEEDS, "picked"))
        for each in (run, ablated())
    ]
    assert generations[0] > 1 == generations[1], (
        "variants of the second generation are seeds in the paper"
    )
