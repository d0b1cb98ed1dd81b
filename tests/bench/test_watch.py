"""What has become slower is looked at twice, and said; it stops nobody."""

from __future__ import annotations

import json
from pathlib import Path

from bench import watch

KEPT = {"calls": 10.0, "folding": 0.5}


def test_what_has_fallen_is_looked_at_once_more_and_the_better_look_counts() -> None:
    calls = [{"calls": 9.2}, {"calls": 9.4}]
    folding = [{"folding": 0.47}, {"folding": 0.6}]
    looks = [lambda: calls.pop(0), lambda: folding.pop(0)]
    assert watch.looked_at(KEPT, looks) == {"calls": 9.4, "folding": 0.47}
    assert not calls and len(folding) == 1
    assert watch.looked_at(KEPT, [lambda: {"calls": 9.0}]) == {"calls": 9.0}


def test_less_than_seven_percent_is_no_fall() -> None:
    assert watch.fallen(KEPT, {"calls": 9.4, "folding": 0.46}) == ["folding"]


def test_the_kept_ratios_are_those_that_are_measured_and_ci_ends_with_them() -> None:
    kept = json.loads(watch.KEPT.read_text(encoding="utf-8"))
    assert kept.keys() == {*watch.CALLS, "folding", "a step"}
    script = (Path(__file__).parents[2] / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert script[-1].endswith("-m bench.watch || true")
