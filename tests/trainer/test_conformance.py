"""The suite that adapters run passes for a trainer that is right, and finds each that is wrong."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from rods.errors import UserError
from rods.trainer.adapters.conformance import Conformance, Job
from tests.parts import ROOT
from tests.trainer.forked_trainers import Whole

pytestmark = pytest.mark.slow
IMPORTS = ("rods.trainer.adapters.conformance", "tests.trainer.stream_trainers")


class Given(Whole):
    imports = IMPORTS
    trainer = "tests.trainer.stream_trainers:train"
    ranks = 2


class TestAStreamItself(Given):
    pass


def test_the_trainer_of_the_page_is_right_as_a_program_of_its_own(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "trainers.md").read_text()
    said = re.search(r"^    def train\(job\):\n(?:(?: {8}.*)?\n)+", page, re.MULTILINE)
    assert said is not None
    file = tmp_path / "mine.py"
    suite = Conformance()
    file.write_text(
        f"from pathlib import Path\nfrom rods import open_stream\n{textwrap.dedent(said[0])}"
    )
    suite.trainer = f"{file}:train"  # type: ignore[misc]
    for number, test in enumerate(
        (
            suite.test_lost_groups_are_left_out,
            suite.test_a_trainer_that_goes_back_says_so,
            suite.test_a_trainer_that_lost_its_own_files_repeats_what_it_did,
            suite.test_late_groups_say_how_old_their_weights_are,
        )
    ):
        (own := tmp_path / str(number)).mkdir()
        test(own)


def test_a_task_in_place_of_its_id_is_told() -> None:
    with pytest.raises(UserError, match=r"give its id: drawn\.task\.id"):
        Job("run", "own", 1).rewards(1, 0, {"id": "a"})  # type: ignore[arg-type]


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("wrong", "test", "words"),
    [
        (
            "rewards_by_chance",
            "two_runs_with_the_same_rewards_are_the_same",
            "not what was drawn and earned",
        ),
        (
            "mixes_up_its_groups",
            "two_runs_with_the_same_rewards_are_the_same",
            "not what was drawn and earned",
        ),
        ("stops_too_soon", "two_runs_with_the_same_rewards_are_the_same", "a step is missing"),
        ("saves_too_soon", "a_kill_between_any_two_calls_changes_nothing", "is drawn before step"),
        (
            "depends_on_its_start",
            "a_trainer_that_lost_its_own_files_repeats_what_it_did",
            "not what was drawn",
        ),
        ("counts_what_got_lost", "lost_groups_are_left_out", "not what was drawn and earned"),
        ("hides_how_late_it_is", "late_groups_say_how_old_their_weights_are", "0 updates behind"),
        ("never_goes_back", "a_trainer_that_goes_back_says_so", "told to go back to step 1"),
        (
            "forgets_what_its_ranks_earned",
            "ranks_train_as_one_process_does",
            "not what was drawn and earned",
        ),
        ("goes_on_without_the_run", "a_second_owner_is_refused_and_ends", ""),
    ],
)
def test_a_trainer_that_is_wrong_is_found(
    wrong: str, test: str, words: str, tmp_path: Path
) -> None:
    suite = Given()
    suite.trainer = f"tests.trainer.stream_trainers:{wrong}"  # type: ignore[misc]
    with pytest.raises(AssertionError) as error:
        getattr(suite, f"test_{test}")(tmp_path)
    assert words in str(error.value)
