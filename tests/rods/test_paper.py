"""Rows of docs/paper.md: with the paper's value a setting does what its row says, and with another it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from docs.generate.configuration import paper_page
from rods.config import Config, parse_config, preset
from rods.daemon.service import SeedQueue
from rods.observations import Group, Rollout
from rods.rules import retirement
from rods.rules.selection import TaskFacts, select, signals
from rods.rules.tracker import RetirementStats
from rods.rules.zones import zone_of
from rods.trainer.advantages import advantages

PAPER = parse_config({"preset": "rods-paper", "policy": {"kind": "simulated"}}, where="x")


def group(task: str, resolved: list[int]) -> Group:
    rollouts = tuple(Rollout(done, 4, int(done == 4), 0.0, done / 4, "finished") for done in resolved)
    return Group(task, 1, "identity", "progress", (0.0, 1.0), rollouts)


def picked(config: Config, groups: list[Group], last: dict[str, int] | None = None, **generation: int) -> list[str]:
    active = {one.task: TaskFacts("base", generation.get(one.task, 0)) for one in groups}
    return [pick.task for pick in select(20, signals(groups, config.selection), active, last or {}, config)]


def standing(mean: float, groups: int = 4, variance: float = 0.1) -> RetirementStats:
    entry = (1, 1, mean, mean * mean, 1)
    return RetirementStats(groups, mean, variance, zone_of(mean, PAPER.zones), entries=(entry,) * groups)


def leaves(config: Config, mean: float, groups: int = 4) -> bool:
    """Whether a variant whose groups have this mean leaves by layer 1 or 2."""
    seen = standing(mean, groups)
    return bool(retirement.burn_in("t", seen, 0, config.pool) or retirement.drift("t", seen, config.pool))


ROWS: list[tuple[str, Any, Callable[[Config], Any]]] = [
    ("zones.boundary_low", 0.3, lambda c: zone_of(0.2, c.zones) == "boundary" and zone_of(0.19, c.zones) == "too_hard"),
    ("zones.boundary_high", 0.8, lambda c: zone_of(0.85, c.zones) == "boundary"),
    ("selection.seeds_per_step", 0, lambda c: picked(c, [group("a", [0, 4])]) == ["a"]),
    # 4·r̄·(1−r̄) of 0.5 without any variance against 0.625 with much
    ("selection.order", "variance", lambda c: picked(c, [group("a", [2, 2]), group("b", [1, 4])]) == ["a", "b"]),
    ("selection.skip_zero_variance", True, lambda c: picked(c, [group("a", [2, 2])]) == ["a"]),
    ("selection.boundary", "binary", lambda c: picked(c, [group("a", [1, 3])]) == ["a"]),
    ("selection.groups", [["miss_func"]], lambda c: picked(c, [group("a", [0, 4])]) == ["a"]),
    ("selection.pass_on_quota", True, lambda c: len(picked(c, [group(f"t{i}", [0, 4]) for i in range(16)])) == 6),
    ("selection.exclusion_steps", 12, lambda c: picked(c, [group("a", [0, 4])], {"a": 7}) == []),
    ("selection.max_generation", 2, lambda c: picked(c, [group("a", [0, 4])], a=9) == ["a"]),
    ("pool.burn_in", False, lambda c: leaves(c, 0.1, 1)),
    ("pool.burn_in_below", 0.05, lambda c: leaves(c, 0.1, 1)),
    ("pool.burn_in_observations", 2, lambda c: leaves(c, 0.1, 1)),
    ("pool.drift", False, lambda c: leaves(c, 1.0)),
    ("pool.mastered_above", 1.0, lambda c: leaves(c, 0.97)),
    ("pool.too_hard_below", 0.05, lambda c: bool(retirement.drift("t", standing(0.1), c.pool))),
]


@pytest.mark.parametrize(("key", "other", "holds"), ROWS, ids=[row[0] for row in ROWS])
def test_a_setting_changes_what_its_row_says(key: str, other: Any, holds: Callable[[Config], Any]) -> None:
    section, name = key.split(".")
    assert name in preset("rods-paper")[section]
    assert holds(PAPER), "with the paper's value"
    values = getattr(PAPER, section).model_copy(update={name: other})
    assert not holds(PAPER.model_copy(update={section: values})), "the setting changes nothing"


def test_advantages_are_trl_s_and_not_to_the_digit_those_of_appendix_b_5() -> None:
    rewards = np.array([[1.0] * 4 + [0.0] * 12])
    found = advantages(rewards, PAPER.training.advantage_baseline, PAPER.training.advantage_scale)
    assert (found[0, 0], ((rewards - rewards.mean()) / rewards.std())[0, 0]) == pytest.approx((1.677, 1.732), abs=5e-4)
    assert "1.677 for 1.732" in paper_page()


def test_what_is_picked_is_served_and_nothing_is_claimed_of_what_is_not() -> None:
    assert SeedQueue(PAPER.selection.queue_steps or None).bound is None
    page = paper_page()
    assert "every seed is served" not in page and "what was picked is served" in page
    for told in (
        "pattern that is fixed",
        "root of their lineage",
        "daemon picks",
        "Appendix N",
        "wording is held",
        "five",
    ):
        assert told in page.partition("## What no key sets back")[2]
    for told in ("prompts are our own", "equation 5", "number of epochs"):
        assert told in page
