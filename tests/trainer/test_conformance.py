"""The suite that adapters run passes for a trainer that is right, and finds each that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.trainer.conformance import Conformance
from tests.trainer.forked_trainers import Forked

pytestmark = pytest.mark.slow
IMPORTS = ("rods.trainer.conformance", "tests.trainer.stream_trainers")


class Given(Forked):
    imports = IMPORTS
    trainer = "tests.trainer.stream_trainers:train"
    ranks = 2


class TestAStreamItself(Given):
    pass


def test_a_trainer_is_started_as_a_program_of_its_own(tmp_path: Path) -> None:
    suite = Conformance()
    suite.trainer = Given.trainer  # type: ignore[misc]
    suite.test_lost_groups_are_left_out(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "test", "words"),
    [
        ("rewards_by_chance", "two_runs_with_the_same_rewards_are_the_same", "not what was drawn and earned"),
        ("mixes_up_its_groups", "two_runs_with_the_same_rewards_are_the_same", "not what was drawn and earned"),
        ("stops_too_soon", "two_runs_with_the_same_rewards_are_the_same", "a step is missing"),
        ("saves_too_soon", "a_kill_between_any_two_calls_changes_nothing", "is drawn before step"),
        ("depends_on_its_start", "a_trainer_that_lost_its_own_files_repeats_what_it_did", "not what was drawn"),
        ("counts_what_got_lost", "lost_groups_are_left_out", "not what was drawn and earned"),
        ("hides_how_late_it_is", "late_groups_say_how_old_their_weights_are", "0 updates behind"),
        ("never_goes_back", "a_trainer_that_goes_back_says_so", "told to go back to step 1"),
        ("forgets_what_its_ranks_earned", "ranks_train_as_one_process_does", "not what was drawn and earned"),
        ("goes_on_without_the_run", "a_second_owner_is_refused_and_ends", ""),
    ],
)
def test_a_trainer_that_is_wrong_is_found(wrong: str, test: str, words: str, tmp_path: Path) -> None:
    suite = Given()
    suite.trainer = f"tests.trainer.stream_trainers:{wrong}"  # type: ignore[misc]
    with pytest.raises(AssertionError) as error:
        getattr(suite, f"test_{test}")(tmp_path)
    assert words in str(error.value)
