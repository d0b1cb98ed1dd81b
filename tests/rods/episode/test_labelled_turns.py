"""The turns that were labelled by hand, from 002 alone (bench/fixtures/labelled_turns.json), and
002's own cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bench.fixtures.labelled_turns import LabelledEpisode, labelled
from rods.faults import LABELS
from rods.worlds.bfcl import tasks
from tests.environments import load

# What 002's Appendix E prints of the base model and of SEAL's, on BFCL's own tasks. It names no
# labels: these follow from its analyses. E.1's fourth turn is not printed.
CASES = {
    "E1-base": ("recovery_failure", "recovery_failure", "pass", "pass"),
    "E2-base": ("recovery_failure", "correct_abstention", "state_mismatch"),
    "E3-base": ("instance_mismatch", "state_mismatch"),
    "E4-base": ("pass", "missing_tool_call", "missing_tool_call"),
    "E1-seal": ("pass", "pass", "pass", "pass"),
    "E2-seal": ("pass", "correct_abstention", "pass"),
    "E3-seal": ("pass", "pass"),
    "E4-seal": ("pass", "pass", "pass"),
}


@pytest.fixture(scope="module")
def episodes(wheel_file: object) -> dict[str, list[LabelledEpisode]]:
    known = {task.provenance["id"]: task for task in tasks()}
    return {world: list(labelled(load(world), known)) for world in ("bfcl", "desk")}


@pytest.mark.parametrize("world", ["bfcl", "desk"])
def test_every_turn_has_the_label_that_it_was_given_by_hand(
    world: str, episodes: Mapping[str, Any]
) -> None:
    wrong = {
        (episode.name, turn): (by_hand, told)
        for episode in episodes[world]
        for turn, (by_hand, told) in enumerate(
            zip(episode.labels, episode.told(load(world)), strict=True)
        )
        if by_hand != told
    }
    assert not wrong


def test_there_are_turns_of_every_label(episodes: Mapping[str, Any]) -> None:
    labels = [label for some in episodes.values() for episode in some for label in episode.labels]
    assert len(labels) == 316
    assert min(labels.count(label) for label in LABELS) == 8


@pytest.mark.parametrize("case", CASES)
def test_the_papers_worked_case(case: str, episodes: Mapping[str, Any]) -> None:
    (episode,) = (one for one in episodes["bfcl"] if one.name == case)
    assert episode.told(load("bfcl")) == CASES[case]
