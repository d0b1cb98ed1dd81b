"""Trainers of the conformance suite whose processes are forked from one that has imported what they
need.

What every adapter shares with the stream is tried with the stream alone (`Whole`), or for all
adapters together (tests/trainer/adapters/test_one_truth.py: equal runs, lost groups); for an
adapter it is a sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, ClassVar

import orjson
import pytest

from rods.trainer.adapters.conformance import Conformance, Job, run_beside_daemon
from tests import forked


class Forked(Conformance):
    imports: tuple[str, ...]
    settings: ClassVar[Mapping[str, str]] = {}  # of the processes' environment

    def process(self, job: Job, env: Mapping[str, str], said: IO[str]) -> forked.Process:
        told = orjson.dumps(asdict(job)).decode()
        with Path(os.devnull).open() as nothing:
            files = (nothing, said, said)
            given = {**env, **self.settings}
            return forked.Process(
                "rods.trainer.adapters.conformance",
                [self.trainer, told],
                self.imports,
                files,
                env=given,
            )

    def test_a_kill_before_and_behind_a_call_changes_nothing(self, tmp_path: Path) -> None:
        """Before the second call, which observes, and behind the third, which draws."""
        with run_beside_daemon(tmp_path / "whole") as job:
            whole = self.trained(job(self.steps))
        for moment in (3, 6):
            with run_beside_daemon(tmp_path / str(moment)) as job:
                self.trained(job(self.steps, kill=moment))
                assert self.trained(job(self.steps)) == whole, f"killed at moment {moment}"

    @pytest.mark.sweep
    def test_a_kill_between_any_two_calls_changes_nothing(self, tmp_path: Path) -> None:
        super().test_a_kill_between_any_two_calls_changes_nothing(tmp_path)

    @pytest.mark.sweep
    def test_ranks_train_as_one_process_does(self, tmp_path: Path) -> None:
        super().test_ranks_train_as_one_process_does(tmp_path)

    @pytest.mark.sweep
    def test_two_runs_with_the_same_rewards_are_the_same(self, tmp_path: Path) -> None:
        super().test_two_runs_with_the_same_rewards_are_the_same(tmp_path)

    @pytest.mark.sweep
    def test_lost_groups_are_left_out(self, tmp_path: Path) -> None:
        super().test_lost_groups_are_left_out(tmp_path)


class Whole(Forked):
    """With nothing left to a sweep."""

    test_a_kill_between_any_two_calls_changes_nothing = (
        Conformance.test_a_kill_between_any_two_calls_changes_nothing
    )
    test_ranks_train_as_one_process_does = Conformance.test_ranks_train_as_one_process_does
    test_two_runs_with_the_same_rewards_are_the_same = (
        Conformance.test_two_runs_with_the_same_rewards_are_the_same
    )
    test_lost_groups_are_left_out = Conformance.test_lost_groups_are_left_out
    test_a_kill_before_and_behind_a_call_changes_nothing = None  # type: ignore[assignment]
